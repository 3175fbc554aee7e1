"""tf.random.Generator: random numbers whose state is a variable of the generator."""
from __future__ import annotations

import enum
from typing import Any

import penstock as tf
from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import init_scope, name_scope
from penstock._src.ops.composite import dispatched
from penstock._src.ops.random.binomial import stateful_binomial
from penstock._src.ops.random.stateful_random import (
    _MASK,
    AUTO_SELECT,
    PHILOX,
    non_deterministic_ints,
    rng_read_and_skip,
    stateful_standard_normal,
    stateful_truncated_normal,
    stateful_uniform,
    stateful_uniform_full_int,
    stateful_uniform_int,
)
from penstock._src.state.auto_trackable import AutoTrackable


@export("random.Algorithm", "random.experimental.Algorithm")
class Algorithm(enum.Enum):
    """The algorithms of TensorFlow's generators; only Philox is implemented."""
    PHILOX = PHILOX
    THREEFRY = 2
    AUTO_SELECT = AUTO_SELECT


def _algorithm(alg: Any) -> int:
    if isinstance(alg, Tensor) and hasattr(alg, "numpy"):
        alg = int(alg)
    if getattr(alg, "value", alg) in (PHILOX, AUTO_SELECT, "philox", "auto_select"):
        return PHILOX
    raise ValueError(f"Argument `alg` got unsupported value {alg}: generators use the Philox algorithm (1)")


def _as_signed(value: Any) -> Any:
    """Python numbers up to 2**64 as the int64 of the same bits."""
    if isinstance(value, (list, tuple)):
        return [_as_signed(v) for v in value]
    return value - (1 << 64) if isinstance(value, int) and value >= 1 << 63 else value


@export("random.create_rng_state", "random.experimental.create_rng_state")
@dispatched
def create_rng_state(seed: Any, alg: Any) -> Tensor:
    """The state of a generator from a number, or a vector of numbers, of which the last becomes the key."""
    _algorithm(alg)
    if isinstance(seed, int):
        seed = [seed >> shift & _MASK for shift in (0, 64, 128)]
    seed = tf.reshape(tf.cast(convert(_as_signed(seed)), dtypes.int64), [-1])[:3]
    size = seed.shape.static_dims[0]
    missing = tf.maximum(3 - tf.shape(seed)[0], 0) if size is None else 3 - size
    state = tf.concat([tf.zeros([missing], dtypes.int64), seed], 0)
    state.set_shape([3])
    return state


@export("random.Generator", "random.experimental.Generator")
class Generator(AutoTrackable):
    """A random number generator whose state is a variable.

    >>> g = tf.random.Generator.from_seed(1234)
    >>> g.normal([2, 3])
    """

    def __init__(self, copy_from: Generator | None = None, state: Any = None, alg: Any = None):
        if copy_from is not None:
            if state is not None or alg is not None:
                raise ValueError("Pass either copy_from, or state and alg")
            state, alg = copy_from.state.read_value(), copy_from.algorithm
        if alg is None or state is None:
            raise ValueError("Both state and alg have to be given")
        self._alg = _algorithm(alg)
        if isinstance(state, tf.Variable):
            self._state_var = state
        else:
            self._state_var = tf.Variable(tf.cast(convert(_as_signed(state)), dtypes.int64), trainable=False, name="StateVar")
        self._state_var.shape.assert_is_compatible_with([3])

    @classmethod
    def from_state(cls, state: Any, alg: Any) -> Generator:
        """A generator with the given state."""
        return cls(state=state, alg=alg)

    @classmethod
    def from_seed(cls, seed: Any, alg: Any = None) -> Generator:
        """A generator with a deterministic state from a seed."""
        return cls(state=create_rng_state(seed, alg or PHILOX), alg=alg or PHILOX)

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = None) -> Generator:
        """A generator with a nondeterministic state."""
        return cls(state=non_deterministic_ints([3], dtype=dtypes.int64), alg=alg or PHILOX)

    @classmethod
    def from_key_counter(cls, key: Any, counter: Any, alg: Any) -> Generator:
        """A generator from a key, and a counter of two numbers."""
        return cls(state=_key_counter(key, counter), alg=alg)

    state = property(lambda self: self._state_var, doc="The variable that holds the state.")
    algorithm = property(lambda self: self._alg, doc="The number of the algorithm: 1, for Philox.")
    key = property(lambda self: self._state_var[-1], doc="The key, which differs between generators that were split from one.")

    def reset(self, state: Any) -> None:
        """Sets the state."""
        self._state_var.assign(tf.cast(convert(_as_signed(state)), dtypes.int64))

    def reset_from_seed(self, seed: Any) -> None:
        """Sets the state from a seed."""
        self._state_var.assign(create_rng_state(seed, self._alg))

    def reset_from_key_counter(self, key: Any, counter: Any) -> None:
        """Sets the state from a key and a counter."""
        self._state_var.assign(_key_counter(key, counter))

    def skip(self, delta: Any) -> Tensor:
        """Continues as if `delta` numbers had been drawn; returns the state from before."""
        return rng_read_and_skip(self._state_var.handle, self._alg, tf.cast(delta, dtypes.uint64))

    def _draw(self, opdef: Any, shape: Any, dtype: Any, *bounds: Any, name: str | None = None) -> Tensor:
        shape = convert(shape, dtypes.int64 if isinstance(shape, (list, tuple)) and not shape else None, name="shape")
        return opdef(self._state_var.handle, self._alg, shape, *bounds, dtype=dtype, name=name)

    def normal(self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32,
               name: str | None = None) -> Tensor:
        """Normal random numbers."""
        return self._scaled(stateful_standard_normal, "stateful_normal", shape, mean, stddev, dtype, name)

    def truncated_normal(self, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32,
                         name: str | None = None) -> Tensor:
        """Normal random numbers within two standard deviations of the mean."""
        return self._scaled(stateful_truncated_normal, "truncated_normal", shape, mean, stddev, dtype, name)

    def _scaled(self, opdef: Any, scope: str, shape: Any, mean: Any, stddev: Any, dtype: Any, name: str | None) -> Tensor:
        with name_scope(name, scope, [shape, mean, stddev]) as name:
            mean, stddev = convert(mean, dtype, name="mean"), convert(stddev, dtype, name="stddev")
            return tf.add(self._draw(opdef, shape, dtype) * stddev, mean, name=name)

    def uniform(self, shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = dtypes.float32,
                name: str | None = None) -> Tensor:
        """Uniform random numbers in [minval, maxval); integers over their whole range if both are None."""
        dtype = dtypes.as_dtype(dtype)
        if dtype.is_integer and (minval is None) != (maxval is None):
            raise ValueError(f"For integer dtype {dtype}, minval and maxval must be both `None` or both non-`None`; got "
                             f"minval={minval} and maxval={maxval}")
        if dtype.is_integer and minval is None:
            return self.uniform_full_int(shape, dtype, name)
        with name_scope(name, "stateful_uniform", [shape, minval, maxval]) as name:
            minval = convert(minval, dtype, name="min")
            maxval = convert(1 if maxval is None else maxval, dtype, name="max")
            if dtype.is_integer:
                return self._draw(stateful_uniform_int, shape, dtype, minval, maxval, name=name)
            return tf.add(self._draw(stateful_uniform, shape, dtype) * (maxval - minval), minval, name=name)

    def uniform_full_int(self, shape: Any, dtype: Any = dtypes.uint64, name: str | None = None) -> Tensor:
        """Uniform random integers over the whole range of a type."""
        with name_scope(name, "stateful_uniform_full_int", [shape]) as name:
            return self._draw(stateful_uniform_full_int, shape, dtypes.as_dtype(dtype), name=name)

    def binomial(self, shape: Any, counts: Any, probs: Any, dtype: Any = dtypes.int32, name: str | None = None) -> Tensor:
        """Binomial random numbers; `shape` ends with the shape of counts and probs together."""
        with name_scope(name, "binomial", [shape, counts, probs]) as name:
            probs = convert(probs, preferred_dtype=dtypes.float32, name="probs")
            counts = convert(counts, probs.dtype, name="counts")
            return self._draw(stateful_binomial, shape, dtypes.as_dtype(dtype), counts, probs, name=name)

    def make_seeds(self, count: int = 1) -> Tensor:
        """[2, count] seeds for stateless random functions."""
        keys = self.uniform_full_int([count], dtypes.int64)
        return tf.stack([keys, tf.zeros_like(keys)])

    def split(self, count: int = 1) -> list[Generator]:
        """New generators, independent of each other and of this one."""
        keys = tf.unstack(self.uniform_full_int([count], dtypes.int64), num=count)
        return [Generator(state=tf.stack([0, 0, k]), alg=self._alg) for k in keys]


def _key_counter(key: Any, counter: Any) -> Tensor:
    key, counter = (tf.cast(convert(_as_signed(v)), dtypes.int64) for v in (key, counter))
    counter.shape.assert_is_compatible_with([2])
    key.shape.assert_is_compatible_with([])
    return tf.concat([counter, tf.reshape(key, [1])], 0)


class _Global:
    generator: Generator | None = None


@export("random.get_global_generator", "random.experimental.get_global_generator")
@dispatched
def get_global_generator() -> Generator:
    """The generator of the process; nondeterministic unless another one was set."""
    if _Global.generator is None:
        with init_scope():
            _Global.generator = Generator.from_non_deterministic_state()
    return _Global.generator


@export("random.set_global_generator", "random.experimental.set_global_generator")
@dispatched
def set_global_generator(generator: Generator) -> None:
    """Replaces the generator of the process."""
    _Global.generator = generator
