"""Variables, placeholders and their values."""
from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from penstock._src.base import dtypes, nest
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import init_scope
from penstock._src.models.keras.backend.config import floatx
from penstock._src.models.keras.backend.state import get_graph, get_session, in_keras_graph, track_variable
from penstock._src.state.variables.variable import Variable as _Variable
from penstock._src.training.train.moving_averages import assign_moving_average
from penstock._src.training.train.schedules import LearningRateSchedule
from penstock.compat import v1 as tf


def is_variable(x: Any) -> bool:
    """Whether `x` is a variable."""
    return isinstance(x, _Variable)


def is_symbolic(x: Any) -> bool:
    """Whether `x` is a tensor of a graph."""
    return isinstance(x, Tensor) and not hasattr(x, "_value")


@export("keras.backend.variable")
def variable(value: Any, dtype: Any = None, name: str | None = None, constraint: Any = None) -> Any:
    """A variable with a first value (a SparseTensor, for a matrix of scipy.sparse).

    >>> v = tf.keras.backend.variable([[1., 2.]], name="v")
    """
    dtype = floatx() if dtype is None else dtype
    if hasattr(value, "tocoo"):
        coo = value.tocoo()
        return tf.SparseTensor(np.stack([coo.row, coo.col], 1).astype(np.int64), coo.data, coo.shape)
    made = tf.Variable(value, dtype=dtypes.as_dtype(dtype), name=name, constraint=constraint, use_resource=True)
    track_variable(made)
    return made


@export("keras.backend.constant")
def constant(value: Any, dtype: Any = None, shape: Any = None, name: str | None = None) -> Any:
    """A constant, of the default type of floats unless said otherwise."""
    return tf.constant(value, dtype=floatx() if dtype is None else dtype, shape=shape, name=name)


@export("keras.backend.is_keras_tensor")
def is_keras_tensor(x: Any) -> bool:
    """Whether a tensor was created by a layer of Keras (or is an Input)."""
    if not (isinstance(x, (Tensor, tf.SparseTensor, tf.RaggedTensor)) or is_variable(x)):
        raise ValueError(f"Unexpectedly found an instance of type `{type(x)}`. Expected a symbolic tensor instance.")
    return hasattr(x, "_keras_history")


@export("keras.backend.placeholder")
def placeholder(shape: Any = None, ndim: int | None = None, dtype: Any = None, sparse: bool = False,
                name: str | None = None, ragged: bool = False) -> Any:
    """A tensor that is fed, dense, sparse or ragged.

    >>> x = tf.keras.backend.placeholder(shape=(None, 4))
    """
    if sparse and ragged:
        raise ValueError("A placeholder is sparse or ragged, not both.")
    dtype = floatx() if dtype is None else dtype
    if not shape and ndim:
        shape = (None,) * ndim
    with get_graph().as_default():
        if sparse:
            return tf.sparse_placeholder(dtype, shape=shape, name=name)
        if ragged:
            inner = next((i for i, d in enumerate(shape[1:], 1) if d is not None), len(shape))
            return tf.ragged.placeholder(dtype, inner - 1, shape[inner:], name=name)
        return tf.placeholder(dtype, shape=shape, name=name)


@export("keras.backend.is_placeholder")
def is_placeholder(x: Any) -> bool:
    """Whether `x` is a placeholder."""
    if hasattr(x, "_type_spec"):
        return any(is_placeholder(part) for part in nest.flatten(x, expand_composites=True))
    return is_symbolic(x) and x.op.type == "Placeholder"


def _filled(make: Any, shape: Any, dtype: Any, name: str | None) -> Any:
    dtype = floatx() if dtype is None else dtype
    with init_scope():
        value = make(shape, dtypes.as_dtype(dtype), name=name)
        dims = value.shape.as_list() if value.shape.rank is not None else [None]
        return value if None in dims else variable(value, dtype=dtype, name=name)


@export("keras.backend.zeros")
def zeros(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A variable full of zeros (a tensor, if the shape is not known)."""
    return _filled(tf.zeros, shape, dtype, name)


@export("keras.backend.ones")
def ones(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A variable full of ones (a tensor, if the shape is not known)."""
    return _filled(tf.ones, shape, dtype, name)


@export("keras.backend.eye")
def eye(size: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A variable that is an identity matrix."""
    dtype = floatx() if dtype is None else dtype
    return variable(tf.eye(size, dtype=dtypes.as_dtype(dtype)), dtype, name)


def _drawn(initializer: Any, shape: Any, low: Any, high: Any, dtype: Any, name: str | None, seed: Any) -> Any:
    dtype = floatx() if dtype is None else dtype
    seed = np.random.randint(10 ** 9) if seed is None else seed
    return variable(initializer(low, high, dtype=dtypes.as_dtype(dtype), seed=seed)(shape), dtype=dtype, name=name)


@export("keras.backend.random_uniform_variable")
def random_uniform_variable(shape: Any, low: Any, high: Any, dtype: Any = None, name: str | None = None,
                            seed: int | None = None) -> Any:
    """A variable with uniform values from [low, high)."""
    return _drawn(tf.random_uniform_initializer, shape, low, high, dtype, name, seed)


@export("keras.backend.random_normal_variable")
def random_normal_variable(shape: Any, mean: Any, scale: Any, dtype: Any = None, name: str | None = None,
                           seed: int | None = None) -> Any:
    """A variable with normally distributed values."""
    return _drawn(tf.random_normal_initializer, shape, mean, scale, dtype, name, seed)


@export("keras.backend.count_params")
def count_params(x: Any) -> int:
    """The number of elements of a variable or tensor with a known shape."""
    return int(np.prod(x.shape.as_list()))


# -- values -------------------------------------------------------------------------------------------------------------
@export("keras.backend.get_value")
def get_value(x: Any) -> Any:
    """The value of a variable or tensor, as an array."""
    if isinstance(x, LearningRateSchedule) and hasattr(x, "read_value"):        # the rate of an optimizer, see CurrentRate
        x = x.read_value()
    if not (isinstance(x, Tensor) or is_variable(x)):
        return x
    if hasattr(x, "_value") or not is_symbolic(x) and _lives_eagerly(x):
        return x.numpy()
    if context.eager_outside_functions():
        from penstock._src.models.keras.backend.function import function
        return function([], x)([])
    return x.eval(session=get_session((x,)))


def _lives_eagerly(v: Any) -> bool:
    """Whether a variable holds its own value, outside of sessions."""
    return hasattr(getattr(v, "handle", None), "_value")


@export("keras.backend.eval")
def eval(x: Any) -> Any:
    """The value of a variable or tensor, dense, as an array."""
    return get_value(tf.sparse_tensor_to_dense(x) if isinstance(x, tf.SparseTensor) else x)


@export("keras.backend.batch_get_value")
def batch_get_value(tensors: Any) -> list:
    """The values of many variables, in one step."""
    if not tensors:
        return []
    if context.executing_eagerly() or all(is_variable(t) and _lives_eagerly(t) for t in tensors):
        return [x.numpy() for x in tensors]
    if context.current_graph().building_function:
        raise RuntimeError("Values are not available while a function is traced.")
    return get_session(tensors).run(tensors)


@export("keras.backend.set_value")
def set_value(x: Any, value: Any) -> None:
    """Assigns a value to a variable.

    Args:
        x: Variable.
        value: Array of its shape.

    Returns:
        None.

    >>> v = tf.keras.backend.variable([1., 2.])
    >>> tf.keras.backend.set_value(v, [3., 4.])
    >>> tf.keras.backend.get_value(v)
    array([3., 4.], dtype=float32)
    """
    batch_set_value([(x, value)])


@export("keras.backend.batch_set_value")
def batch_set_value(tuples: Any) -> None:
    """Assigns values to many variables in one step: pairs of variable and array."""
    pairs = [(x, dtypes.exact_cast(np.asarray(value), x.dtype.base_dtype.as_numpy_dtype)) for x, value in tuples]
    if not pairs:
        return
    if context.eager_outside_functions():
        traced = context.current_graph().building_function and not in_keras_graph()
        with contextlib.nullcontext() if traced else init_scope():      # a function assigns whenever it runs
            for x, value in pairs:
                x.assign(value)
        return
    with get_graph().as_default():
        assigns, feeds = [], {}
        for x, value in pairs:
            hole, assign = _assignment(x, value.ndim)
            assigns.append(assign)
            feeds[hole] = value
        get_session().run(assigns, feed_dict=feeds)


def _assignment(x: Any, rank: int) -> tuple:
    """A placeholder and the op that assigns it to a variable, made once for each."""
    found = getattr(x, "_keras_assignment", None)
    if found is None:
        hole = tf.placeholder(x.dtype.base_dtype, shape=[None] * rank)
        found = x._keras_assignment = hole, x.assign(hole).op
    return found


@export("keras.backend.update")
def update(x: Any, new_x: Any) -> Any:
    """Assigns a new value to a variable."""
    return tf.assign(x, new_x)


@export("keras.backend.update_add")
def update_add(x: Any, increment: Any) -> Any:
    """Adds to a variable."""
    return tf.assign_add(x, increment)


@export("keras.backend.update_sub")
def update_sub(x: Any, decrement: Any) -> Any:
    """Subtracts from a variable."""
    return tf.assign_sub(x, decrement)


@export("keras.backend.moving_average_update")
def moving_average_update(x: Any, value: Any, momentum: Any) -> Any:
    """Moves a variable towards a value: x = momentum * x + (1 - momentum) * value."""
    return assign_moving_average(x, value, momentum, zero_debias=not context.process.resource_variables)
