"""The gradient checker: Jacobians by the gradients of the ops, and by differences.

A Jacobian has a row per element of the input and a column per element of the output in the v1 functions, and is transposed in
the v2 one. A complex element counts twice: its real and its imaginary part.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.eager.tape import GradientTape
from penstock._src.graph import context
from penstock._src.graph.context import get_default_session
from penstock._src.graph.convert import convert_to_tensor
from penstock._src.graph.gradients import gradients
from penstock._src.graph.indexed_slices import IndexedSlices, IndexedSlicesValue
from penstock._src.ops.registry import get
from penstock._src.session.session import Session

Jacobians = tuple[np.ndarray, np.ndarray]
Forward = Callable[[np.ndarray], np.ndarray]                    # x -> y
Backward = Callable[[np.ndarray, np.ndarray], np.ndarray]       # x, dy -> dx


# -- the v1 functions -----------------------------------------------------------------------------------------------------
@export(v1=["test.compute_gradient"])
def compute_gradient(x: Any, x_shape: Any, y: Any, y_shape: Any, x_init_value: Any = None, delta: float = 1e-3,
                     init_targets: Any = None, extra_feed_dict: dict | None = None) -> Jacobians | list[Jacobians]:
    """The Jacobian dy/dx by gradients and by differences, in the default session; a list of pairs for a list of inputs.

    >>> with tf.Session():
    ...     by_gradients, by_differences = tf.test.compute_gradient(x, [2], y, [2])
    """
    feeds = dict(extra_feed_dict or {})
    for target in init_targets if isinstance(init_targets, (list, tuple)) else [init_targets]:
        if target is not None:
            _session().run(target, feed_dict=feeds)
    if not isinstance(x, (list, tuple)):
        return _graph_jacobians(x, y, y_shape, _start(x, x_shape, x_init_value), delta, feeds)
    starts = [_start(*a) for a in zip(x, x_shape, x_init_value or [None] * len(x))]
    if x_init_value is not None:        # while one input varies, the others keep their values
        feeds.update(zip(x, starts))
    return [_graph_jacobians(xi, y, y_shape, start, delta, feeds) for xi, start in zip(x, starts)]


@export(v1=["test.compute_gradient_error"])
def compute_gradient_error(x: Any, x_shape: Any, y: Any, y_shape: Any, x_init_value: Any = None, delta: float = 1e-3,
                           init_targets: Any = None, extra_feed_dict: dict | None = None) -> float:
    """The largest difference between the two Jacobians of `compute_gradient`.

    >>> with tf.Session(): assert tf.test.compute_gradient_error(x, [2, 3], y, [2]) < 1e-4
    """
    pairs = compute_gradient(x, x_shape, y, y_shape, x_init_value, delta, init_targets, extra_feed_dict)
    return max((float(np.abs(a - b).max()) for a, b in (pairs if isinstance(pairs, list) else [pairs]) if a.size), default=0.0)


def _session() -> Session:
    session = get_default_session()
    if session is None:
        raise ValueError("The gradient checker needs a default session: call it in a `with tf.Session():` block.")
    return session


def _start(x: Any, shape: Any, value: Any) -> np.ndarray:
    """The point at which the Jacobian is taken: `value`, or a random one."""
    if value is None:
        value = np.random.random_sample(shape)
        if x.dtype.is_complex:
            value = value + 1j * np.random.random_sample(shape)
    value = np.asarray(value, dtype=x.dtype.base_dtype.as_numpy_dtype)
    if list(value.shape) != list(shape):
        raise ValueError(f"x_init_value has shape {list(value.shape)}, but x_shape is {list(shape)}")
    return value


def _graph_jacobians(x: Any, y: Any, y_shape: Any, start: np.ndarray, delta: float, feeds: dict) -> Jacobians:
    session = _session()
    with y.graph.as_default():
        y_type = y.dtype.base_dtype
        dy = get("Identity")(convert_to_tensor(np.ones(y_shape, y_type.as_numpy_dtype)))
        (dx,) = gradients(y, [x], grad_ys=[dy])
    if dx is None:
        raise ValueError(f"There is no gradient of {y.name} with respect to {x.name}.")
    return _jacobians(lambda value: session.run(y, {**feeds, x: value}),
                      lambda value, seed: _dense(session.run(dx, {**feeds, x: value, dy: seed}), value.shape),
                      start, np.empty(y_shape, y_type.as_numpy_dtype), delta)


# -- the v2 function ------------------------------------------------------------------------------------------------------
@export(v2=["test.compute_gradient"])
def compute_gradient_v2(f: Callable, x: Sequence[Any], delta: float | None = None) -> tuple[tuple, tuple]:
    """The Jacobians of `f(*x)` with respect to each of `x`, by gradients and by differences.

    >>> by_gradients, by_differences = tf.test.compute_gradient(tf.square, [tf.constant([1., 2.])])
    """
    if not isinstance(x, (list, tuple)):
        raise ValueError(f"`x` must be a list or tuple of values convertible to a Tensor (arguments to `f`), not a {type(x)}")
    starts = [np.array(_value(convert_to_tensor(a))) for a in x]
    checker = _EagerFunction(f) if context.executing_eagerly() else _GraphFunction(f, starts)
    y = checker.forward(starts)
    def by(i: int) -> Jacobians:
        def replaced(value: np.ndarray) -> list[np.ndarray]:
            return [*starts[:i], value, *starts[i + 1:]]
        return _jacobians(lambda value: checker.forward(replaced(value)),
                          lambda value, dy: checker.backward(replaced(value), dy, i),
                          starts[i], y, 1.0 / 1024 if delta is None else delta)
    pairs = [by(i) for i in range(len(starts))]
    return tuple(a.T for a, _ in pairs), tuple(b.T for _, b in pairs)


class _EagerFunction:
    """A function and its gradients, executed at once."""

    def __init__(self, f: Callable):
        self.f = f

    def forward(self, xs: list[np.ndarray]) -> np.ndarray:
        return self.f(*map(convert_to_tensor, xs)).numpy()

    def backward(self, xs: list[np.ndarray], dy: np.ndarray, i: int) -> np.ndarray:
        inputs = [convert_to_tensor(x) for x in xs]
        with GradientTape() as tape:
            tape.watch(inputs[i])
            y = self.f(*inputs)
        dx = tape.gradient(y, inputs[i], output_gradients=convert_to_tensor(dy))
        return _dense(dx, xs[i].shape, xs[i].dtype)


class _GraphFunction:
    """A function and its gradients, as parts of the default graph."""

    def __init__(self, f: Callable, starts: list[np.ndarray]):
        self.session = get_default_session() or Session()
        self.inputs = [get("Placeholder")(dtype=x.dtype, shape=x.shape) for x in starts]
        self.y = f(*self.inputs)
        self.dy = get("Placeholder")(dtype=self.y.dtype, shape=self.y.shape)
        self.dx = gradients(self.y, self.inputs, grad_ys=[self.dy])

    def forward(self, xs: list[np.ndarray]) -> np.ndarray:
        return self.session.run(self.y, dict(zip(self.inputs, xs)))

    def backward(self, xs: list[np.ndarray], dy: np.ndarray, i: int) -> np.ndarray:
        dx = self.dx[i]
        if dx is not None:
            dx = self.session.run(dx, {**dict(zip(self.inputs, xs)), self.dy: dy})
        return _dense(dx, xs[i].shape, xs[i].dtype)


# -- what both have in common ---------------------------------------------------------------------------------------------
def _jacobians(forward: Forward, backward: Backward, x: np.ndarray, y: np.ndarray, delta: float) -> Jacobians:
    """The Jacobian at `x` by a backward step per element of the output, and by two forward steps per element of the input."""
    rows, columns, dtype = _parts(x).size, _parts(y).size, _parts(x).dtype
    by_gradients, by_differences = np.zeros((rows, columns), dtype), np.zeros((rows, columns), dtype)
    seed = np.zeros(y.shape, y.dtype)
    for column in range(columns):
        _parts(seed)[column] = 1
        by_gradients[:, column] = _parts(backward(x, seed))
        _parts(seed)[column] = 0
    if not columns:
        _check_empty(backward(x, seed), x)
    for row in range(rows):
        outputs = []
        for step in (delta, -delta):
            moved = x.copy()
            _parts(moved)[row] += np.asarray(step, dtype)
            outputs.append(_exact(_parts(np.ascontiguousarray(forward(moved)))))
        by_differences[row] = (outputs[0] - outputs[1]) / (2 * delta)
    return by_gradients, by_differences


def _parts(a: np.ndarray) -> np.ndarray:
    """The elements as a view of real numbers."""
    flat = a.reshape(-1)
    return flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat


def _exact(a: np.ndarray) -> np.ndarray:
    """Converts 16-bit floats to 32 bits: differences would have no significant digits."""
    return a.astype(np.float32) if a.dtype.itemsize == 2 else a


def _check_empty(dx: np.ndarray, x: np.ndarray) -> None:
    if dx.shape != x.shape:
        raise ValueError(f"Empty gradient has wrong shape: expected {x.shape}, got {dx.shape}")
    if np.any(dx):
        raise ValueError("The gradient of an empty output is not zero")


def _value(tensor: Any) -> np.ndarray:
    if context.executing_eagerly():
        return tensor.numpy()
    return (get_default_session() or Session(graph=tensor.graph)).run(tensor)


def _dense(dx: Any, shape: tuple, dtype: Any = None) -> np.ndarray:
    """A gradient as an array: zeros for None, and slices of the same row are summed."""
    if dx is None:
        return np.zeros(shape, dtype)
    if isinstance(dx, (IndexedSlices, IndexedSlicesValue)):
        values, indices = (t.numpy() if hasattr(t, "numpy") else t for t in (dx.values, dx.indices))
        dense = np.zeros(shape, values.dtype)
        np.add.at(dense, indices, values)
        return dense
    return np.ascontiguousarray(dx.numpy() if hasattr(dx, "numpy") else dx)
