"""Layers that combine several tensors: sums, products, extremes, concatenation, dot products."""
from __future__ import annotations

import functools
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.layers.parts import described
from penstock.compat import v1 as tf


def _dims(shape: Any) -> tuple | None:
    if shape is None:
        return None
    shape = tf.TensorShape(shape)
    return None if shape.rank is None else tuple(shape.as_list())


def _all_dims(shapes: Any) -> list:
    """The shapes of a list of inputs, as tuples."""
    return [_dims(s) for s in shapes]


def _broadcast(a: tuple | None, b: tuple | None) -> tuple | None:
    """The shape of an elementwise function of two tensors."""
    if a is None or b is None:
        return None
    if len(a) < len(b):
        a, b = b, a
    out = list(a[:len(a) - len(b)])
    for i, j in zip(a[len(a) - len(b):], b):
        if i is None or j is None:
            out.append(None)
        elif i != j and 1 not in (i, j):
            raise ValueError(f"Operands could not be broadcast together with shapes {a} {b}")
        else:
            out.append(j if i == 1 else i)
    return tuple(out)


def _check_masks(inputs: Any, mask: Any) -> None:
    if not isinstance(mask, (list, tuple)):
        raise ValueError("`mask` should be a list.")
    if not isinstance(inputs, (list, tuple)):
        raise ValueError("`inputs` should be a list.")
    if len(mask) != len(inputs):
        raise ValueError("The lists `inputs` and `mask` should have the same length.")


def _least() -> int:
    """The fewest inputs of a layer: 1.x refuses a list of one."""
    return 1 if context.eager_outside_functions() else 2


class _Merge(Layer):
    """An elementwise function of several tensors, which may have fewer axes than others."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.supports_masking = True

    def _merge_function(self, inputs: list) -> Any:
        raise NotImplementedError

    def build(self, input_shape: Any) -> None:
        """Checks the shapes of the inputs."""
        if not isinstance(input_shape, (list, tuple)):
            raise ValueError("A merge layer should be called on a list of inputs. Received: "
                             f"input_shape={input_shape} (not a list of shapes)")
        if len(input_shape) < _least():
            raise ValueError(f"A merge layer should be called on a list of at least {_least()} inputs. Got {len(input_shape)} "
                             "inputs.")
        shapes = _all_dims(input_shape)
        batches = {s[0] for s in shapes if s} - {None}
        if len(batches) > 1:
            raise ValueError(f"Cannot merge tensors with different batch sizes. Got tensors with shapes {shapes}")
        functools.reduce(_broadcast, [None if s is None else s[1:] for s in shapes])
        self._reshape_required = None in shapes or len({len(s) for s in shapes}) > 1
        super().build(input_shape)

    def call(self, inputs: Any) -> Any:
        """The function of the inputs."""
        if not isinstance(inputs, (list, tuple)):
            raise ValueError("A merge layer should be called on a list of inputs.")
        if not self._reshape_required:
            return self._merge_function(list(inputs))
        ranks = [K.ndim(x) for x in inputs]
        if None in ranks:
            return self._of_unknown_rank(list(inputs))
        most = max(ranks)
        wide = []
        for x, rank in zip(inputs, ranks):
            for _ in range(most - rank):
                x = tf.expand_dims(x, axis=1)
            wide.append(x)
        return self._merge_function(wide)

    def _of_unknown_rank(self, inputs: list) -> Any:
        """With the batch as the last axis, the other axes are broadcast from the right as usual."""
        moved = []
        for x in inputs:
            rank = tf.rank(x)
            moved.append(tf.transpose(x, tf.concat([tf.range(1, rank), [0]], 0)))
        y = self._merge_function(moved)
        rank = tf.rank(y)
        return tf.transpose(y, tf.concat([[rank - 1], tf.range(rank - 1)], 0))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the outputs."""
        shapes = _all_dims(input_shape)
        rest = functools.reduce(_broadcast, [None if s is None else s[1:] for s in shapes])
        batches = {s[0] for s in shapes if s} - {None}
        if rest is None:
            return tf.TensorShape(None)
        return tf.TensorShape([batches.pop() if len(batches) == 1 else None, *rest])

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """True where all masks are."""
        if mask is None:
            return None
        _check_masks(inputs, mask)
        known = [tf.cast(m, tf.bool) for m in mask if m is not None]
        return functools.reduce(tf.logical_and, known) if known else None


@export("keras.layers.Add")
class Add(_Merge):
    """The sum of the inputs.

    Inputs are a list of tensors whose shapes broadcast.

    Args:
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> float(tf.keras.layers.Add()([tf.constant([[1.]]), tf.constant([[2.]])])[0, 0])
    3.0
    """

    def _merge_function(self, inputs: list) -> Any:
        return functools.reduce(tf.add, inputs)


@export("keras.layers.Subtract")
class Subtract(_Merge):
    """The difference of two inputs.

    Inputs are a list of two tensors of one shape.

    Args:
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> float(tf.keras.layers.Subtract()([tf.constant([[1.]]), tf.constant([[2.]])])[0, 0])
    -1.0
    """

    def build(self, input_shape: Any) -> None:
        """Checks the shapes of the inputs."""
        super().build(input_shape)
        if len(input_shape) != 2:
            raise ValueError("A `Subtract` layer should be called on exactly 2 inputs")

    def _merge_function(self, inputs: list) -> Any:
        if len(inputs) != 2:
            raise ValueError("A `Subtract` layer should be called on exactly 2 inputs")
        return inputs[0] - inputs[1]


@export("keras.layers.Multiply")
class Multiply(_Merge):
    """The product of the inputs.

    Inputs are a list of tensors whose shapes broadcast.

    Args:
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> float(tf.keras.layers.Multiply()([tf.constant([[3.]]), tf.constant([[2.]])])[0, 0])
    6.0
    """

    def _merge_function(self, inputs: list) -> Any:
        return functools.reduce(tf.multiply, inputs)


@export("keras.layers.Average")
class Average(_Merge):
    """The mean of the inputs.

    Inputs are a list of tensors whose shapes broadcast.

    Args:
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> float(tf.keras.layers.Average()([tf.constant([[1.]]), tf.constant([[2.]])])[0, 0])
    1.5
    """

    def _merge_function(self, inputs: list) -> Any:
        return functools.reduce(tf.add, inputs) / len(inputs)


@export("keras.layers.Maximum")
class Maximum(_Merge):
    """The largest of the inputs.

    Inputs are a list of tensors whose shapes broadcast.

    Args:
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> float(tf.keras.layers.Maximum()([tf.constant([[1.]]), tf.constant([[2.]])])[0, 0])
    2.0
    """

    def _merge_function(self, inputs: list) -> Any:
        return functools.reduce(tf.maximum, inputs)


@export("keras.layers.Minimum")
class Minimum(_Merge):
    """The smallest of the inputs.

    Inputs are a list of tensors whose shapes broadcast.

    Args:
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> float(tf.keras.layers.Minimum()([tf.constant([[1.]]), tf.constant([[2.]])])[0, 0])
    1.0
    """

    def _merge_function(self, inputs: list) -> Any:
        return functools.reduce(tf.minimum, inputs)


@export("keras.layers.Concatenate")
class Concatenate(_Merge):
    """The inputs concatenated along `axis`.

    Args:
        axis: Axis to join along.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.Concatenate()([tf.zeros([1, 2]), tf.ones([1, 3])]).shape
    TensorShape([1, 5])
    """

    def __init__(self, axis: int = -1, **kwargs: Any):
        super().__init__(**kwargs)
        self.axis = axis
        self._reshape_required = False

    def build(self, input_shape: Any) -> None:
        """Checks the shapes of the inputs."""
        if not isinstance(input_shape, (list, tuple)) or len(input_shape) < _least():
            raise ValueError(f"A `Concatenate` layer should be called on a list of at least {_least()} inputs. Received: "
                             f"input_shape={input_shape}")
        shapes = _all_dims(input_shape)
        if any(s is None for s in shapes):
            return Layer.build(self, input_shape)
        rests = []
        for s in shapes:
            if not -len(s) <= self.axis < len(s):
                raise IndexError(f"A `Concatenate` layer has no axis {self.axis} in inputs of shape {tuple(s)}.")
            rest = list(s)
            del rest[self.axis]
            rests.append(rest)
        same = len({len(r) for r in rests}) == 1 and all(len({d for d in ds if d is not None}) <= 1 for ds in zip(*rests))
        if not same:
            raise ValueError("A `Concatenate` layer requires inputs with matching shapes except for the concatenation axis. "
                             f"Received: input_shape={shapes}")
        return Layer.build(self, input_shape)

    def _merge_function(self, inputs: list) -> Any:
        return K.concatenate(inputs, axis=self.axis)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the outputs."""
        if not isinstance(input_shape, (list, tuple)):
            raise ValueError("A `Concatenate` layer should be called on a list of inputs.")
        shapes = _all_dims(input_shape)
        lengths = [s[self.axis] for s in shapes]
        out = list(shapes[0])
        out[self.axis] = None if None in lengths else sum(lengths)
        return tf.TensorShape(out)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The masks, concatenated; inputs without a mask count as true."""
        if mask is None:
            return None
        _check_masks(inputs, mask)
        if all(m is None for m in mask):
            return None
        masks = []
        for x, m in zip(inputs, mask):
            everywhere = tf.ones_like(x, dtype=tf.bool)
            if m is not None and K.ndim(m) < K.ndim(x):
                m = tf.logical_and(tf.expand_dims(tf.cast(m, tf.bool), -1), everywhere)
            masks.append(everywhere if m is None else tf.cast(m, tf.bool))
        return tf.reduce_all(tf.concat(masks, self.axis), axis=-1)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), ("axis",))


@export("keras.layers.Dot")
class Dot(_Merge):
    """The product of two inputs over one axis of each, for each element of the batch; of unit vectors, if `normalize`.

    Args:
        axes: Axis of both inputs, or a pair of axes.
        normalize: Whether to normalize along the axes first: cosine similarity.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> tf.keras.layers.Dot(axes=1, normalize=True)([x, y])       # the cosine
    """

    def __init__(self, axes: Any, normalize: bool = False, **kwargs: Any):
        super().__init__(**kwargs)
        if not isinstance(axes, int):
            if not isinstance(axes, (list, tuple)):
                raise TypeError("Invalid type for `axes` - should be a list or an int.")
            if len(axes) != 2:
                raise ValueError("`axes` must have two elements.")
            if not isinstance(axes[0], int) or not isinstance(axes[1], int):
                raise ValueError('Invalid format for `axes` - list elements should be "int".')
        self.axes, self.normalize = axes, normalize
        self._reshape_required = False

    def _axes(self, rank: int, other: int) -> list:
        a, b = (self.axes, self.axes) if isinstance(self.axes, int) else self.axes
        return [a % rank if a < 0 else a, b % other if b < 0 else b]

    def build(self, input_shape: Any) -> None:
        """Checks the shapes of the inputs."""
        if not isinstance(input_shape, (list, tuple)) or len(input_shape) != 2:
            raise ValueError("A `Dot` layer should be called on a list of 2 inputs.")
        a, b = _all_dims(input_shape)
        if a is not None and b is not None:
            i, j = self._axes(len(a), len(b))
            if a[i] != b[j]:
                raise ValueError(f"Incompatible input shapes: axis values {a[i]} (at axis {i}) != {b[j]} (at axis {j}). "
                                 f"Full input shapes: {a}, {b}")
        Layer.build(self, input_shape)

    def _merge_function(self, inputs: list) -> Any:
        if len(inputs) != 2:
            raise ValueError("A `Dot` layer should be called on exactly 2 inputs")
        x, y = inputs
        axes = self._axes(K.ndim(x), K.ndim(y))
        if self.normalize:
            x, y = (tf.nn.l2_normalize(t, axis=a) for t, a in zip((x, y), axes))
        return K.batch_dot(x, y, axes)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the outputs."""
        if not isinstance(input_shape, (list, tuple)) or len(input_shape) != 2:
            raise ValueError("A `Dot` layer should be called on a list of 2 inputs.")
        a, b = (list(s) for s in _all_dims(input_shape))
        i, j = self._axes(len(a), len(b))
        a.pop(i)
        b.pop(j)
        out = a + b[1:]
        return tf.TensorShape(out if len(out) > 1 else [*out, 1])

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Returns None: there is no mask."""
        return None

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), ("axes", "normalize"))


# -- as functions -------------------------------------------------------------------------------------------------------
@export("keras.layers.add")
def add(inputs: Any, **kwargs: Any) -> Any:
    """The sum of tensors.

    Args:
        inputs: A list of tensors whose shapes broadcast.
        **kwargs: Arguments of the layer: `name`, `dtype`.

    Returns:
        A tensor of their common shape.

    >>> float(tf.keras.layers.add([tf.constant([[1.]]), tf.constant([[2.]])])[0, 0])
    3.0
    """
    return Add(**kwargs)(inputs)


@export("keras.layers.subtract")
def subtract(inputs: Any, **kwargs: Any) -> Any:
    """The difference of two tensors.

    Args:
        inputs: A list of tensors whose shapes broadcast.
        **kwargs: Arguments of the layer: `name`, `dtype`.

    Returns:
        A tensor of their common shape.

    >>> float(tf.keras.layers.subtract([tf.constant([[1.]]), tf.constant([[2.]])])[0, 0])
    -1.0
    """
    return Subtract(**kwargs)(inputs)


@export("keras.layers.multiply")
def multiply(inputs: Any, **kwargs: Any) -> Any:
    """The product of tensors.

    Args:
        inputs: A list of tensors whose shapes broadcast.
        **kwargs: Arguments of the layer: `name`, `dtype`.

    Returns:
        A tensor of their common shape.

    >>> float(tf.keras.layers.multiply([tf.constant([[3.]]), tf.constant([[2.]])])[0, 0])
    6.0
    """
    return Multiply(**kwargs)(inputs)


@export("keras.layers.average")
def average(inputs: Any, **kwargs: Any) -> Any:
    """The mean of tensors.

    Args:
        inputs: A list of tensors whose shapes broadcast.
        **kwargs: Arguments of the layer: `name`, `dtype`.

    Returns:
        A tensor of their common shape.

    >>> float(tf.keras.layers.average([tf.constant([[1.]]), tf.constant([[2.]])])[0, 0])
    1.5
    """
    return Average(**kwargs)(inputs)


@export("keras.layers.maximum")
def maximum(inputs: Any, **kwargs: Any) -> Any:
    """The largest of tensors.

    Args:
        inputs: A list of tensors whose shapes broadcast.
        **kwargs: Arguments of the layer: `name`, `dtype`.

    Returns:
        A tensor of their common shape.

    >>> float(tf.keras.layers.maximum([tf.constant([[1.]]), tf.constant([[2.]])])[0, 0])
    2.0
    """
    return Maximum(**kwargs)(inputs)


@export("keras.layers.minimum")
def minimum(inputs: Any, **kwargs: Any) -> Any:
    """The smallest of tensors.

    Args:
        inputs: A list of tensors whose shapes broadcast.
        **kwargs: Arguments of the layer: `name`, `dtype`.

    Returns:
        A tensor of their common shape.

    >>> float(tf.keras.layers.minimum([tf.constant([[1.]]), tf.constant([[2.]])])[0, 0])
    1.0
    """
    return Minimum(**kwargs)(inputs)


@export("keras.layers.concatenate")
def concatenate(inputs: Any, axis: int = -1, **kwargs: Any) -> Any:
    """Tensors concatenated along `axis`.

    Args:
        inputs: At least two tensors, whose other dimensions are equal.
        axis: The axis.
        **kwargs: Arguments of the layer `Concatenate`, such as `name`.

    Returns:
        The tensor with the elements of all of them.

    >>> tf.keras.layers.concatenate([tf.ones([2, 3]), tf.ones([2, 1])]).shape
    TensorShape([2, 4])
    """
    return Concatenate(axis=axis, **kwargs)(inputs)


@export("keras.layers.dot")
def dot(inputs: Any, axes: Any, normalize: bool = False, **kwargs: Any) -> Any:
    """The product of two tensors over one axis of each.

    Args:
        inputs: Two tensors.
        axes: The axis of both that is summed over, or a pair of axes.
        normalize: Whether to divide both by their norms along these axes first, which makes the product a cosine.
        **kwargs: Arguments of the layer `Dot`, such as `name`.

    Returns:
        The product.

    >>> tf.keras.layers.dot([tf.constant([[1.0, 2.0]]), tf.constant([[3.0, 4.0]])], axes=1).numpy()
    array([[11.]], dtype=float32)
    """
    return Dot(axes=axes, normalize=normalize, **kwargs)(inputs)
