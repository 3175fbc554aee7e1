"""Images changed at random while training: flips, rotation, zoom, translation, crops, contrast, brightness."""
from __future__ import annotations

import math
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.random_seed import initial_seed
from penstock._src.graph.scopes import init_scope
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.layers.parts import described, dims_of, when
from penstock._src.models.keras.layers.preprocessing.base import names
from penstock._src.models.keras.layers.preprocessing.images import ImageLayer, Resizing, checked_method, resized
from penstock.compat import v1 as tf

_FILL_MODES = ("reflect", "wrap", "constant", "nearest")


def _interval(factor: Any, name: str, low: float | None = None, ordered: bool = True) -> tuple:
    """The bounds that a factor represents: itself and its opposite, or a pair, in order if it has to be (`ordered`)."""
    lower, upper = (factor[0], factor[1]) if isinstance(factor, (tuple, list)) else (-factor, factor)
    if not ordered and lower > upper and upper >= -1:
        return lower, upper
    if upper < lower or low is not None and (lower < low or upper < 0):
        least = "" if low is None else f" of at least {low:g}"
        raise ValueError(f"`{name}` should be a number, or a pair of a lower and an upper bound{least}, got {factor}")
    return lower, upper


class RandomLayer(ImageLayer):
    """A layer that changes each image of a batch at random while training, and none otherwise."""

    _words: tuple = ()
    _generator: Any = None

    def __init__(self, seed: int | None = None, **kwargs: Any):
        self._rng_type = kwargs.pop("rng_type", "stateful")
        kwargs.pop("force_generator", None)
        super().__init__(**kwargs)
        self.seed = seed

    def build(self, input_shape: Any) -> None:
        """Makes the generator, a part of the layer's state; in graph mode, ops with the layer's seed draw numbers."""
        if context.eager_outside_functions():
            with init_scope():
                made = tf.random.experimental.Generator.from_seed(initial_seed() if self.seed is None else self.seed)
            self.__dict__["_generator"] = made
            self._track_trackable(made, "_random_generator")
        super().build(input_shape)

    def call(self, inputs: Any, training: Any = True) -> Any:
        """The images, changed while training."""
        images = self._images(inputs)

        def changed() -> Any:
            single = len(images.shape) == 3
            out = self._changed(tf.expand_dims(images, 0) if single else images)
            return tf.squeeze(out, 0) if single else out
        out = when(training, changed, lambda: self._unchanged(images))
        out.set_shape(self.compute_output_shape(images.shape))
        return out

    def _changed(self, images: Any) -> Any:
        raise NotImplementedError

    def _unchanged(self, images: Any) -> Any:
        return tf.identity(images)

    def _uniform(self, images: Any, bounds: tuple, n: Any = None, dtype: Any = None) -> Any:
        """A random number for each image."""
        shape = [tf.shape(images)[0]] if n is None else n
        if self._generator is not None:
            return self._generator.uniform(shape, *bounds, dtype=dtype or images.dtype)
        return tf.random_uniform(shape, *bounds, dtype or images.dtype, seed=self.seed)

    def _seed_of_op(self) -> Any:
        """A seed for an op without state."""
        if self._generator is not None:
            return self._generator.make_seeds()[:, 0]
        return tf.random_uniform([2], 0, 2 ** 31 - 1, tf.int32, seed=self.seed)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        newer = {"rng_type": self._rng_type} if context.eager_outside_functions() else {}
        return described(self, {**super().get_config(), **newer}, (*self._words, "seed"))


# -- places -------------------------------------------------------------------------------------------------------------
class _Moving(RandomLayer):
    """A layer that resamples the elements of an image."""

    def _read_filling(self, fill_mode: str, interpolation: str, fill_value: float) -> None:
        if fill_mode not in _FILL_MODES:
            raise NotImplementedError(f"Unknown `fill_mode` {fill_mode}. Only {_FILL_MODES} are supported.")
        if interpolation not in ("nearest", "bilinear"):
            raise NotImplementedError(f"Unknown `interpolation` {interpolation}. Only `nearest` and `bilinear` are supported.")
        self.fill_mode, self.interpolation, self.fill_value = fill_mode, interpolation, fill_value

    def _looked_up(self, images: Any, matrix: Any) -> Any:
        """Images whose element (x, y) is that at matrix · (x, y, 1); the matrix is [batch, 2, 3]."""
        _, high, wide, _ = K.mixed_shape(images)
        dtype = images.dtype
        ys, xs = tf.meshgrid(tf.cast(tf.range(high), dtype), tf.cast(tf.range(wide), dtype), indexing="ij")
        places = tf.stack([tf.reshape(xs, [-1]), tf.reshape(ys, [-1]), tf.ones_like(tf.reshape(xs, [-1]))])
        found = tf.matmul(matrix, tf.tile(tf.expand_dims(places, 0), [tf.shape(images)[0], 1, 1]))
        x, y = found[:, 0], found[:, 1]
        if self.interpolation == "nearest":
            return self._at(images, tf.round(x), tf.round(y))
        left, top = tf.floor(x), tf.floor(y)
        right, down = tf.expand_dims(x - left, -1), tf.expand_dims(y - top, -1)
        shape = tf.shape(images)

        def part(dx: int, dy: int) -> Any:
            return tf.reshape(self._at(images, left + dx, top + dy), [shape[0], -1, shape[3]])
        upper = part(0, 0) * (1 - right) + part(1, 0) * right
        lower = part(0, 1) * (1 - right) + part(1, 1) * right
        return tf.reshape(upper * (1 - down) + lower * down, shape)

    def _at(self, images: Any, x: Any, y: Any) -> Any:
        """The elements at whole places; those outside are filled."""
        shape = tf.shape(images)
        high, wide = shape[1], shape[2]
        columns, rows = self._inside(x, wide), self._inside(y, high)
        flat = tf.reshape(images, [shape[0], high * wide, shape[3]])
        values = tf.gather(flat, tf.cast(rows, tf.int32) * wide + tf.cast(columns, tf.int32), batch_dims=1)
        if self.fill_mode == "constant":
            seen = tf.logical_and(tf.logical_and(x >= 0, x <= tf.cast(wide - 1, x.dtype)),
                                  tf.logical_and(y >= 0, y <= tf.cast(high - 1, y.dtype)))
            values = tf.where_v2(tf.expand_dims(seen, -1), values, tf.cast(self.fill_value, values.dtype))
        return tf.reshape(values, shape)

    def _inside(self, place: Any, size: Any) -> Any:
        """A place within an axis of a size."""
        n = tf.cast(size, place.dtype)
        if self.fill_mode == "reflect":
            turn = tf.math.floormod(place, 2 * n)
            place = tf.minimum(turn, 2 * n - 1 - turn)
        elif self.fill_mode == "wrap":
            place = tf.math.floormod(place, n)
        return tf.clip_by_value(place, tf.zeros_like(n), n - 1)

    def _matrix(self, *elements: Any) -> Any:
        """A matrix [batch, 2, 3] from its six elements, each [batch]."""
        return tf.reshape(tf.stack(elements, axis=1), [-1, 2, 3])


@export(*names("RandomRotation"))
class RandomRotation(_Moving):
    """Rotates images by a random part of a full turn.

    It is active while training only.

    Args:
        factor: Largest rotation as a part of a full turn, or (lower, upper).
        fill_mode: What fills the outside: `"reflect"`, `"wrap"`, `"constant"` or `"nearest"`.
        interpolation: `"nearest"` or `"bilinear"`.
        seed: Seed of the random numbers; nondeterministic by default.
        fill_value: The value for `fill_mode="constant"`.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.

    >>> tf.keras.layers.RandomRotation(0.1)
    """

    _words = ("factor", "fill_mode", "fill_value", "interpolation")

    def __init__(self, factor: Any, fill_mode: str = "reflect", interpolation: str = "bilinear", seed: int | None = None,
                 fill_value: float = 0.0, **kwargs: Any):
        super().__init__(seed, **kwargs)
        self.factor, self._bounds = factor, _interval(factor, "factor")
        self._read_filling(fill_mode, interpolation, fill_value)

    def _changed(self, images: Any) -> Any:
        angle = self._uniform(images, tuple(b * 2. * math.pi for b in self._bounds))
        sizes = tf.cast(tf.shape(images), images.dtype)
        high, wide = sizes[1], sizes[2]
        cos, sin = tf.cos(angle), tf.sin(angle)
        dx = ((wide - 1) - (cos * (wide - 1) - sin * (high - 1))) / 2.
        dy = ((high - 1) - (sin * (wide - 1) + cos * (high - 1))) / 2.
        return self._looked_up(images, self._matrix(cos, -sin, dx, sin, cos, dy))


@export(*names("RandomTranslation"))
class RandomTranslation(_Moving):
    """Moves images up or down and sideways by a random part of their size.

    It is active while training only.

    Args:
        height_factor: Largest shift as a part of the height, or (lower, upper).
        width_factor: The same for the width.
        fill_mode: What fills the outside: `"reflect"`, `"wrap"`, `"constant"` or `"nearest"`.
        interpolation: `"nearest"` or `"bilinear"`.
        seed: Seed of the random numbers; nondeterministic by default.
        fill_value: The value for `fill_mode="constant"`.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    _words = ("height_factor", "width_factor", "fill_mode", "fill_value", "interpolation")

    def __init__(self, height_factor: Any, width_factor: Any, fill_mode: str = "reflect", interpolation: str = "bilinear",
                 seed: int | None = None, fill_value: float = 0.0, **kwargs: Any):
        super().__init__(seed, **kwargs)
        self.height_factor, self.width_factor = height_factor, width_factor
        self._high, self._wide = _interval(height_factor, "height_factor"), _interval(width_factor, "width_factor")
        self._read_filling(fill_mode, interpolation, fill_value)

    def _changed(self, images: Any) -> Any:
        sizes = tf.cast(tf.shape(images), images.dtype)
        dy, dx = self._uniform(images, self._high) * sizes[1], self._uniform(images, self._wide) * sizes[2]
        one, zero = tf.ones_like(dx), tf.zeros_like(dx)
        return self._looked_up(images, self._matrix(one, zero, -dx, zero, one, -dy))


@export(*names("RandomZoom"))
class RandomZoom(_Moving):
    """Makes images smaller (positive factors) or larger (negative ones) around their middle.

    It is active while training only.

    Args:
        height_factor: Largest change as a part of the height, or (lower, upper).
        width_factor: The same for the width, by default that of the height.
        fill_mode: What fills the outside: `"reflect"`, `"wrap"`, `"constant"` or `"nearest"`.
        interpolation: `"nearest"` or `"bilinear"`.
        seed: Seed of the random numbers; nondeterministic by default.
        fill_value: The value for `fill_mode="constant"`.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    _words = ("height_factor", "width_factor", "fill_mode", "fill_value", "interpolation")

    def __init__(self, height_factor: Any, width_factor: Any = None, fill_mode: str = "reflect",
                 interpolation: str = "bilinear",
                 seed: int | None = None, fill_value: float = 0.0, **kwargs: Any):
        super().__init__(seed, **kwargs)
        self.height_factor, self.width_factor = height_factor, width_factor
        self._high = _interval(height_factor, "height_factor", -1., ordered=False)
        self._wide = None if width_factor is None else _interval(width_factor, "width_factor", -1., ordered=False)
        self._read_filling(fill_mode, interpolation, fill_value)

    def _changed(self, images: Any) -> Any:
        sizes = tf.cast(tf.shape(images), images.dtype)
        zy = self._uniform(images, tuple(1. + b for b in self._high))
        zx = zy if self._wide is None else self._uniform(images, tuple(1. + b for b in self._wide))
        dx, dy = (sizes[2] - 1) / 2. * (1. - zx), (sizes[1] - 1) / 2. * (1. - zy)
        zero = tf.zeros_like(zx)
        return self._looked_up(images, self._matrix(zx, zero, dx, zero, zy, dy))


@export(*names("RandomFlip"))
class RandomFlip(RandomLayer):
    """Flips images at random: 'horizontal', 'vertical' or 'horizontal_and_vertical'.

    It is active while training only.

    Args:
        mode: Which axes to flip.
        seed: Seed of the random numbers; nondeterministic by default.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    _words = ("mode",)

    def __init__(self, mode: str = "horizontal_and_vertical", seed: int | None = None, **kwargs: Any):
        super().__init__(seed, **kwargs)
        if mode not in ("horizontal", "vertical", "horizontal_and_vertical"):
            raise ValueError(f"RandomFlip layer {self.name} received an unknown mode argument {mode}")
        self.mode = mode

    def _changed(self, images: Any) -> Any:
        for word, flip in (("horizontal", tf.image.stateless_random_flip_left_right),
                           ("vertical", tf.image.stateless_random_flip_up_down)):
            if word in self.mode:
                images = flip(images, self._seed_of_op())
        return images


@export(*names("RandomCrop"))
class RandomCrop(RandomLayer):
    """A random part of images of a given size; when predicting, the largest part with this aspect ratio, resized.

    Args:
        height: Height of the part.
        width: Width of the part.
        seed: A number that makes the choices reproducible.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.RandomCrop(2, 3, seed=1)(tf.ones([1, 8, 8, 3]), training=True).shape
    TensorShape([1, 2, 3, 3])
    """

    _words = ("height", "width")

    def __init__(self, height: int, width: int, seed: int | None = None, **kwargs: Any):
        super().__init__(seed, **kwargs)
        self.height, self.width = height, width

    def _changed(self, images: Any) -> Any:
        sizes = tf.shape(images)
        draw = self._uniform(images, (0, tf.int32.max), [2], tf.int32)
        corner = draw % tf.maximum(tf.stack([sizes[1] - self.height + 1, sizes[2] - self.width + 1]), 1)
        fits = tf.logical_and(sizes[1] >= self.height, sizes[2] >= self.width)
        return tf.cond(fits, lambda: images[:, corner[0]:corner[0] + self.height, corner[1]:corner[1] + self.width, :],
                       lambda: self._unchanged(images))

    def _unchanged(self, images: Any) -> Any:
        return Resizing(self.height, self.width, crop_to_aspect_ratio=True, dtype=self.dtype).call(images)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The inputs' shape with the new size."""
        dims = dims_of(input_shape)
        return tf.TensorShape([*dims[:-3], self.height, self.width, dims[-1]])


class _Stretching(RandomLayer):
    """A layer that stretches a side of all images of a batch by one random factor."""

    _words = ("factor", "interpolation")
    _side = 0

    def __init__(self, factor: Any, interpolation: str = "bilinear", seed: int | None = None, **kwargs: Any):
        super().__init__(seed, **kwargs)
        self.factor, self.interpolation = factor, checked_method(interpolation)
        self._bounds = _interval(factor, "factor", -1.)

    def _changed(self, images: Any) -> Any:
        draw = self._uniform(images, tuple(1. + b for b in self._bounds), [], tf.float32)
        sides = tf.shape(images)[1:3]
        stretched = tf.cast(tf.cast(sides[self._side], tf.float32) * draw, tf.int32)
        size = [stretched, sides[1]] if self._side == 0 else [sides[0], stretched]
        return resized(images, tf.stack(size), self.interpolation)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The inputs' shape, whose stretched side is not known."""
        dims = dims_of(input_shape)
        return tf.TensorShape([None if i == len(dims) - 3 + self._side else d for i, d in enumerate(dims)])


@export(*names("RandomHeight"))
class RandomHeight(_Stretching):
    """Makes images higher or lower by a random part of their height.

    Args:
        factor: The largest change as a fraction of the height, or a pair of the least and the largest.
        interpolation: `"bilinear"`, `"nearest"`, `"bicubic"`, `"area"`, `"lanczos3"`, `"lanczos5"`, `"gaussian"` or
            `"mitchellcubic"`.
        seed: A number that makes the choices reproducible.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.RandomHeight(0.5)(tf.ones([1, 8, 8, 3]), training=False).shape
    TensorShape([1, 8, 8, 3])
    """


@export(*names("RandomWidth"))
class RandomWidth(_Stretching):
    """Makes images wider or narrower by a random part of their width.

    Args:
        factor: The largest change as a fraction of the width, or a pair of the least and the largest.
        interpolation: `"bilinear"`, `"nearest"`, `"bicubic"`, `"area"`, `"lanczos3"`, `"lanczos5"`, `"gaussian"` or
            `"mitchellcubic"`.
        seed: A number that makes the choices reproducible.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.RandomWidth(0.5)(tf.ones([1, 8, 8, 3]), training=False).shape
    TensorShape([1, 8, 8, 3])
    """

    _side = 1


# -- colours ------------------------------------------------------------------------------------------------------------
@export(*names("RandomContrast"))
class RandomContrast(RandomLayer):
    """Moves elements away from the mean of their channel, or towards it, by a random factor.

    It is active while training only.

    Args:
        factor: Largest relative change, or (lower, upper).
        seed: Seed of the random numbers; nondeterministic by default.
        **kwargs: `name`, `dtype`, `trainable`, `input_shape` and other arguments of `Layer`.
    """

    _words = ("factor",)

    def __init__(self, factor: Any, seed: int | None = None, **kwargs: Any):
        super().__init__(seed, **kwargs)
        self.factor = factor
        self._lower, self._upper = factor if isinstance(factor, (tuple, list)) else (factor, factor)
        if self._lower < 0. or self._upper < 0. or self._lower > 1.:
            raise ValueError(f"`factor` argument cannot have negative values or values greater than 1."
                             f"Received: factor={factor}")

    def _changed(self, images: Any) -> Any:
        images = tf.image.stateless_random_contrast(images, 1. - self._lower, 1. + self._upper, self._seed_of_op())
        return tf.clip_by_value(images, 0., 255.)


@export(*names("RandomBrightness"))
class RandomBrightness(RandomLayer):
    """Adds a random part of the range of values to each image.

    Args:
        factor: The largest change as a fraction of the range, or a pair of the least and the largest.
        value_range: The smallest and the largest value of images.
        seed: A number that makes the choices reproducible.
        **kwargs: Passed to the base class: `name`, `dtype`, `trainable`, `input_shape`.

    >>> tf.keras.layers.RandomBrightness(0.2)(tf.ones([1, 2, 2, 3]), training=False).shape
    TensorShape([1, 2, 2, 3])
    """

    _words = ("factor", "value_range")

    def __init__(self, factor: Any, value_range: Any = (0, 255), seed: int | None = None, **kwargs: Any):
        super().__init__(seed, **kwargs)
        self.value_range = tuple(value_range)
        self._bounds = _interval(factor, "factor", -1.)
        self.factor = list(self._bounds)

    def _changed(self, images: Any) -> Any:
        low, high = self.value_range
        more = tf.reshape(self._uniform(images, self._bounds), [-1, 1, 1, 1]) * (high - low)
        return tf.clip_by_value(images + more, float(low), float(high))
