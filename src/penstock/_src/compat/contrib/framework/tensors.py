"""Small functions on tensors and graphs, and names that have since moved to tf itself."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from penstock._src.base import nest
from penstock._src.base.api import export, resolve
from penstock._src.compat.contrib import same
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf

same("nest", "contrib.framework.nest")
export.value(nest.is_nested, v1=["contrib.framework.nest.is_nested"])
for _ours, _theirs in {
    "is_numeric_tensor": "debugging.is_numeric_tensor", "argsort": "argsort", "sort": "sort",
    "is_strictly_increasing": "is_strictly_increasing", "is_non_decreasing": "is_non_decreasing", "py_func": "py_func",
    "assert_scalar": "assert_scalar", "assert_same_float_dtype": "debugging.assert_same_float_dtype",
    "convert_to_tensor_or_sparse_tensor": "convert_to_tensor_or_sparse_tensor", "TensorSpec": "TensorSpec",
}.items():
    export.value(resolve("v1", _theirs), v1=[f"contrib.framework.{_ours}"])


@export(v1=["contrib.framework.deprecated"])
def deprecated(date: Any, instructions: str, warn_once: bool = True) -> Callable:
    """Decorates a deprecated function, without effect."""
    return lambda function: function


@export(v1=["contrib.framework.deprecated_args", "contrib.framework.deprecated_arg_values"])
def deprecated_args(date: Any, instructions: str, *names: Any, **values: Any) -> Callable:
    """Decorates a function with deprecated arguments, without effect."""
    return lambda function: function


@export(v1=["contrib.framework.assert_scalar_int"])
def assert_scalar_int(tensor: Any, name: str | None = None) -> Tensor:
    """The tensor, if it is one integer."""
    with tf.name_scope(name, "assert_scalar_int", [tensor]):
        tensor = tf.convert_to_tensor(tensor)
        if not tensor.dtype.base_dtype.is_integer:
            raise ValueError(f"Expected integer type for {tensor.name}, received type: {tensor.dtype}.")
        if tensor.shape.ndims != 0:
            raise ValueError(f"Expected scalar shape for {tensor.name}, received shape: {tensor.shape}.")
        return tensor


@export(v1=["contrib.framework.reduce_sum_n"])
def reduce_sum_n(tensors: Any, name: str | None = None) -> Tensor:
    """The sum of all elements of all tensors."""
    if not tensors:
        raise ValueError("No tensors provided.")
    with tf.name_scope(name, "reduce_sum_n", tensors) as scope:
        sums = [tf.reduce_sum(t) for t in tensors]
        return sums[0] if len(sums) == 1 else tf.add_n(sums, name=scope)


def _expected(shape: Any, tensor: Tensor) -> tf.TensorShape:
    """A shape that was given as numbers, checked."""
    if isinstance(shape, tf.TensorShape):
        return shape
    array = np.asarray(shape)
    if array.ndim > 1:
        raise ValueError(f"Invalid rank {array.ndim} for shape {shape} expected of tensor {tensor.name}.")
    sizes = array.reshape([-1]).tolist()
    if not all(s is None or isinstance(s, (int, np.integer, tf.Dimension)) for s in sizes):
        raise ValueError(f"Invalid dtype {array.dtype} for shape {shape} expected of tensor {tensor.name}.")
    return tf.TensorShape(sizes)


@export(v1=["contrib.framework.with_shape"])
def with_shape(expected_shape: Any, tensor: Tensor) -> Tensor:
    """The tensor, checked to have the shape: in the step if the shape is not known before. One element becomes a scalar."""
    if isinstance(tensor, tf.SparseTensor):
        raise ValueError("SparseTensor not supported.")
    tensor = tf.convert_to_tensor(tensor)
    if tf.is_tensor(expected_shape):
        if expected_shape.dtype.base_dtype != tf.int32:
            raise ValueError(f"Invalid dtype {expected_shape.dtype} for shape {expected_shape} expected of tensor "
                             f"{tensor.name}.")
        return _checked_in_step(expected_shape, tensor)
    expected = _expected(expected_shape, tensor)
    if expected.ndims == 0 and (not tensor.shape.is_fully_defined() or tensor.shape.as_list() == [1]):
        return tf.reshape(tensor, [])
    if not tensor.shape.is_fully_defined():
        checked = _checked_in_step([-1 if s is None else s for s in expected.as_list()], tensor)
        checked.set_shape(expected)
        return checked
    if not tensor.shape.is_compatible_with(expected):
        raise ValueError(f"Invalid shape for tensor {tensor.name}, expected {expected_shape}, got {tensor.shape}.")
    return tensor


def _checked_in_step(expected: Any, tensor: Tensor) -> Tensor:
    """The tensor, after an assertion on its shape; sizes of -1 may be any."""
    actual, expected = tf.shape(tensor), tf.convert_to_tensor(expected)
    right = tf.cond(tf.equal(tf.size(actual), tf.size(expected)),
                    lambda: tf.reduce_all(tf.logical_or(expected < 0, tf.equal(expected, actual))), lambda: tf.constant(False))
    message = f"Wrong shape for {tensor.name} [expected] [actual]."
    with tf.control_dependencies([tf.Assert(right, [message, expected, actual])]):
        return tf.identity(tensor)


@export(v1=["contrib.framework.with_same_shape"])
def with_same_shape(expected_tensor: Tensor, tensor: Tensor) -> Tensor:
    """The tensor, checked to have the shape of another."""
    expected = expected_tensor.shape
    return with_shape(expected if expected.is_fully_defined() else tf.shape(expected_tensor), tensor)


@export(v1=["contrib.framework.get_graph_from_inputs"])
def get_graph_from_inputs(op_input_list: Any, graph: Any = None) -> Any:
    """The graph of the inputs."""
    found = {id(x.graph): x.graph for x in op_input_list if hasattr(x, "graph")}
    if graph is not None:
        found[id(graph)] = graph
    if len(found) > 1:
        raise ValueError("the inputs are not from the same graph")
    return next(iter(found.values()), None) or tf.get_default_graph()


@export(v1=["contrib.framework.get_placeholders"])
def get_placeholders(graph: Any) -> list:
    """All placeholders of a graph."""
    return [op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"]


@export(v1=["contrib.framework.get_name_scope"])
def get_name_scope() -> str:
    """The name scope in which operations are made now."""
    return tf.get_default_graph().get_name_scope()


@export(v1=["contrib.framework.prepend_name_scope"])
def prepend_name_scope(name: str, import_scope: str | None) -> str:
    """The name as it is inside of a scope."""
    if not import_scope:
        return name
    if name.startswith("loc:@"):
        return f"loc:@{import_scope.rstrip('/')}/{name[5:]}"
    return f"^{import_scope.rstrip('/')}/{name[1:]}" if name.startswith("^") else f"{import_scope.rstrip('/')}/{name}"


@export(v1=["contrib.framework.strip_name_scope"])
def strip_name_scope(name: str, export_scope: str | None) -> str:
    """The name without the scope in front."""
    if not export_scope:
        return name
    scope = export_scope.rstrip("/") + "/"
    for mark in ("loc:@", "^", ""):
        if name.startswith(mark + scope):
            return mark + name[len(mark + scope):]
    return name


@export(v1=["contrib.framework.smart_constant_value"])
def smart_constant_value(pred: Any) -> bool | None:
    """The value of a condition, if it is known now."""
    if isinstance(pred, bool):
        return pred
    if pred in (0, 1) and not tf.is_tensor(pred):
        return bool(pred)
    if tf.is_tensor(pred):
        value = tf.get_static_value(pred)
        return None if value is None else bool(value)
    raise TypeError(f"`pred` must be a Tensor, or a Python bool, or 1 or 0. Found instead: {type(pred)}")


@export(v1=["contrib.framework.smart_cond"])
def smart_cond(pred: Any, true_fn: Callable | None = None, false_fn: Callable | None = None, name: str | None = None) -> Any:
    """One of two functions, chosen now where the condition is known, else in the step."""
    for what, function in (("true_fn", true_fn), ("false_fn", false_fn)):
        if not callable(function):
            raise TypeError(f"`{what}` must be callable.")
    known = smart_constant_value(pred)
    if known is None:
        return tf.cond(pred, true_fn, false_fn, name=name)
    return true_fn() if known else false_fn()


@export(v1=["contrib.framework.smart_case"])
def smart_case(pred_fn_pairs: Any, default: Callable | None = None, exclusive: bool = False, name: str = "smart_case") -> Any:
    """The function of the first condition that holds, chosen now where all are known."""
    pairs = list(pred_fn_pairs.items() if isinstance(pred_fn_pairs, dict) else pred_fn_pairs)
    known = [smart_constant_value(p) for p, _ in pairs]
    if None in known:
        return tf.case(pred_fn_pairs, default=default, exclusive=exclusive, name=name)
    return next((f for (_, f), holds in zip(pairs, known, strict=True) if holds), default)()


@export(v1=["contrib.framework.zero_initializer"])
def zero_initializer(ref: Any, use_locking: bool = True, name: str = "zero_initializer") -> Any:
    """An op that sets a variable to zero, without a graph constant of its size."""
    return tf.assign(ref, tf.zeros(ref.shape, ref.dtype.base_dtype), use_locking=use_locking, name=name)
