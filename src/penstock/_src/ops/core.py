"""The ops that everything else builds on: constants, placeholders, identity, control."""
from __future__ import annotations

from typing import Any

import torch

from penstock._src.base import dtypes, errors, nest
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape, show
from penstock._src.graph import context
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.grouping import group as group
from penstock._src.graph.grouping import tuple_ as tuple_
from penstock._src.graph.list_types import Elements
from penstock._src.graph.node import Tensor
from penstock._src.kernels import bridge
from penstock._src.ops import rules
from penstock._src.ops.registry import op

const = op("Const", "-> output: dtype", "value: tensor, dtype: type", constant=True).no_gradient()


@const.kernel
def _const_kernel(*, value, dtype):
    return bridge.to_torch(value, dtype)


@const.shape
def _const_shape(*, value):
    return tuple(value.shape)


# In a compiled step: replaces a placeholder whose value is known (step/ir.py).
held_op = op("_Held", "-> output: dtype", "dtype: type, value: tensor", stateful=True, per_session=True).no_gradient()
held_op.kernel(lambda *, value: value)
rules.devices.anywhere.add(held_op)
rules.lists.makes[held_op] = lambda op: op.attrs["value"] if isinstance(op.attrs["value"], Elements) else None


# -- placeholders ---------------------------------------------------------------------------------------------------
placeholder_op = op("Placeholder", "-> output: dtype", "dtype: type, shape: shape = None", foldable=False).no_gradient()


@placeholder_op.shape
def _placeholder_shape(*, shape, c):
    if shape.static_dims == () and c.op.graph._producer <= 21:        # old graphs had no other notation for "unknown"
        return None
    return shape.static_dims


@placeholder_op.kernel
def _not_fed(*, dtype, shape, node):
    dims = "<unknown>" if shape.static_dims is None else ",".join("?" if d is None else str(d) for d in shape.static_dims)
    raise errors.invalid(f"You must feed a value for placeholder tensor '{node.name}' with dtype "
                         f"{dtypes.runtime_name(dtype)} and shape [{dims}]")


placeholder_v2 = op("PlaceholderV2", "-> output: dtype", "dtype: type, shape: shape", foldable=False).no_gradient()
placeholder_v2.shape(lambda *, shape: shape.static_dims)
placeholder_v2.kernel(_not_fed)

placeholder_with_default_op = op("PlaceholderWithDefault", "input: dtype -> output: dtype", "dtype: type, shape: shape",
                                 foldable=False)


@placeholder_with_default_op.shape
def _placeholder_with_default_shape(input, *, shape):
    if input is not None and not TensorShape.of(input).is_compatible_with(shape):
        raise ValueError(f"Shape of the default value {show(input)} is not compatible with {show(shape.static_dims)}")
    return shape.static_dims


placeholder_with_default_op.kernel(lambda input: input)
placeholder_with_default_op.gradient(lambda op, grad: grad)


@export(v1=["placeholder"])
def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """A tensor that must be fed.

    Args:
        dtype: Element type of the values to feed.
        shape: Static shape; sizes may be None. A fed value must fit it.
        name: Name of the operation.

    Returns:
        A tensor. Running it without a feed raises InvalidArgumentError.

    Raises:
        RuntimeError: in eager execution.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     x = tf.placeholder(tf.float32, [None, 2], name="x")
    ...     print(sess.run(2 * x, {x: [[1., 2.]]}))
    [[2. 4.]]
    """
    if context.executing_eagerly():
        raise RuntimeError("tf.placeholder() is not compatible with eager execution.")
    try:
        dtype = dtypes.as_dtype(dtype)
    except TypeError:
        raise TypeError(f"Expected DataType for argument 'dtype' not {dtype!r}.") from None
    return placeholder_op(dtype=dtype, shape=shape, name=name)


@export("placeholder_with_default", v1=["placeholder_with_default"])
def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """A tensor that takes the value of `input` unless it is fed.

    Args:
        input: Value when nothing is fed.
        shape: Static shape, which may be less exact than the shape of `input`.
        name: Name of the operation.

    Returns:
        A tensor of the type of `input`.

    >>> with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
    ...     x = tf.placeholder_with_default([1, 2], [None])
    ...     print(sess.run(x), sess.run(x, {x: [3, 4, 5]}))
    [1 2] [3 4 5]
    """
    return placeholder_with_default_op(input, shape=shape, name=name)


# -- identity and control ---------------------------------------------------------------------------------------------
identity_op = op("Identity", "input: T -> output: T", "T: type")
identity_op.shape(lambda input: input)
rules.lists.elements[identity_op] = lambda op, i: op.inputs[0]
identity_op.kernel(lambda input: input)
identity_op.gradient(lambda op, grad: grad)
identity_op.value(lambda op, values: values(0) if op.inputs[0].dtype.is_integer else None)


@export("identity")
def identity(input: Any, name: str | None = None) -> Any:
    """A tensor with the same value; in graphs, a node that can carry control dependencies.

    Args:
        input: Tensor or composite tensor.
        name: Name of the operation.

    Returns:
        A tensor of the type and shape of `input`.

    >>> with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
    ...     v = tf.Variable(0)
    ...     with tf.control_dependencies([v.assign_add(1)]):
    ...         x = tf.identity(v)      # reading x runs the update first
    ...     sess.run(v.initializer)
    ...     print(sess.run(x))
    1
    """
    spec = getattr(input, "_type_spec", None)
    if spec is not None and not isinstance(input, Tensor) and hasattr(spec, "_to_components"):
        return nest.map_structure(identity, input, expand_composites=True)
    if context.executing_eagerly() and not isinstance(input, Tensor):
        input = convert(input)
    out = identity_op(input, name=name)
    if hasattr(input, "_handle_data"):
        out._handle_data = input._handle_data
    return out


ref_identity = op("RefIdentity", "input: Ref(T) -> output: Ref(T)", "T: type", foldable=False)
ref_identity.shape(lambda input: input)
ref_identity.kernel(lambda input: input)
ref_identity.gradient(lambda op, grad: grad)

identity_n = op("IdentityN", "input: T -> output: T", "T: list(type) >= 1", export_as="identity_n")
identity_n.shape(lambda input: list(input))
identity_n.kernel(lambda input: list(input))
identity_n.gradient(lambda op, *grads: list(grads))

snapshot = op("Snapshot", "input: T -> output: T", "T: type")
snapshot.shape(lambda input: input)
snapshot.kernel(lambda input: input)
snapshot.gradient(lambda op, grad: grad)

stop_gradient_op = op("StopGradient", "input: T -> output: T", "T: type", export_as="stop_gradient", doc="""\
Returns `input` and treats it as a constant in gradients.

Args:
    input: Tensor.
    name: Name of the operation.

Returns:
    A tensor with the value of `input`.

>>> x = tf.constant(3.)
>>> with tf.GradientTape() as tape:
...     tape.watch(x)
...     y = x * tf.stop_gradient(x)
>>> tape.gradient(y, x).numpy()         # x, not 2x
np.float32(3.0)
""").no_gradient()
stop_gradient_op.shape(lambda input: input)
stop_gradient_op.kernel(lambda input: input)

prevent_gradient = op("PreventGradient", "input: T -> output: T", "T: type, message: string = ''")
rules.batching.elementwise.update((identity_op, identity_n, snapshot, stop_gradient_op, prevent_gradient))
prevent_gradient.shape(lambda input: input)
prevent_gradient.kernel(lambda input: input)


@prevent_gradient.gradient
def _prevent_gradient_gradient(op, grad):
    raise LookupError(f"Gradient explicitly disabled. Reason: {op.get_attr('message').decode()!r}")


for _op in (identity_op, identity_n, snapshot, stop_gradient_op, prevent_gradient):
    rules.algebra.forwards[_op] = lambda attrs: True

no_op_def = op("NoOp", "->", foldable=False, inert=True, export_as="no_op raw_ops.NoOp", doc="""\
An op that computes nothing. Control dependencies give it a use.

Args:
    name: Name of the operation.

Returns:
    An op; None in eager execution.

>>> with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
...     a, b = tf.Variable(1), tf.Variable(2)
...     with tf.control_dependencies([a.initializer, b.initializer]):
...         done = tf.no_op()
...     sess.run(done)
...     print(sess.run([a, b]))
[np.int32(1), np.int32(2)]
""").no_gradient()
no_op_def.kernel(lambda: None)


def static(tensor: Any) -> Any:
    """The value of a tensor known at build time as a numpy array, or None."""
    return constant_value(tensor)


def torch_dtype(dtype: Any) -> torch.dtype:
    """The torch dtype of a numeric TF dtype."""
    t = dtypes.as_dtype(dtype).torch
    if t is None:
        raise errors.invalid(f"{dtypes.as_dtype(dtype).name} is not a numeric type")
    return t
