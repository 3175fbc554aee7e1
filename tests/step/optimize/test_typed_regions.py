"""Regions of integers, booleans and positions: random loops return the same with and without them."""
from __future__ import annotations

import numpy as np
import pytest

import penstock as tf
from penstock._src.kernels import regions
from penstock._src.step.optimize import regions as regions_pass

pytestmark = pytest.mark.skipif(not regions.available(), reason="needs compiled kernels and sgemm of torch's library")
FLOATS, INTEGERS = ("float32", "float64"), ("int32", "int64")
SHAPES = [(), (1,), (5,), (3, 5), (3, 1), (1, 5), (2, 3, 5), (2, 1, 1)]
EXTREMES = {"float32": [0.0, -0.0, np.nan, np.inf, -np.inf, 1e30, -2.5, 1e-40],
            "float64": [0.0, -0.0, np.nan, np.inf, -np.inf, 1e200, -2.5, 1e-310],
            "int32": [0, -1, 1, 2**31 - 1, -2**31, 7], "int64": [0, -1, 1, 2**63 - 1, -2**63, 2**40, -3]}


def _values(r, dtype, dims):
    if dtype == "bool":
        return r.rand(*dims) > 0.5
    plain = r.randint(-9, 9, dims)
    odd = np.array(EXTREMES[dtype], dtype)[r.randint(0, len(EXTREMES[dtype]), dims)]
    return np.where(r.rand(*dims) < 0.3, odd, plain.astype(dtype)).astype(dtype)


class _Program:
    """Random ops on values of all types; every choice is drawn from `seed`, so that it is the same each time."""

    def __init__(self, seed):
        self.seed = seed

    def start(self):
        r = np.random.RandomState(self.seed)
        return [_values(r, dtype, SHAPES[r.randint(len(SHAPES))])
                for dtype in ("float32", "int32", "int64", "bool", "float64", "float32", "int32", "int64", "float64")]

    def body(self, values):
        self.r = np.random.RandomState(self.seed + 1)
        pool = list(values)
        for _ in range(self.r.randint(10, 22)):
            made = self._op(pool)
            if made is not None and all(d < 40 for d in made.shape):
                pool.append(made)
        return pool[len(values):]

    def _pick(self, pool, dtypes):
        found = [t for t in pool if t.dtype.name in dtypes]
        return found[self.r.randint(len(found))]

    def _pair(self, pool, dtypes):
        a = self._pick(pool, dtypes)
        same = [t for t in pool if t.dtype == a.dtype and _broadcast(a.shape, t.shape)]
        return a, same[self.r.randint(len(same))]

    def _op(self, pool):
        return getattr(self, "_" + KINDS[self.r.randint(len(KINDS))])(pool)

    def _arithmetic(self, pool):
        a, b = self._pair(pool, (*FLOATS, *INTEGERS))
        return [tf.add, tf.subtract, tf.multiply, tf.maximum, tf.minimum, tf.math.squared_difference][self.r.randint(6)](a, b)

    def _single(self, pool):
        a = self._pick(pool, INTEGERS)
        return [tf.negative, tf.abs, tf.square, tf.sign][self.r.randint(4)](a)

    def _comparison(self, pool):
        a, b = self._pair(pool, (*FLOATS, *INTEGERS, "bool"))
        if a.dtype == tf.bool:
            return [tf.logical_and, tf.logical_or, tf.equal, tf.not_equal][self.r.randint(4)](a, b)
        return [tf.less, tf.less_equal, tf.greater, tf.greater_equal, tf.equal, tf.not_equal][self.r.randint(6)](a, b)

    def _negation(self, pool):
        return tf.logical_not(self._pick(pool, ("bool",)))

    def _division(self, pool):
        a, b = self._pair(pool, INTEGERS)
        b = tf.where(tf.equal(b, 0), tf.constant(-1, b.dtype), b)
        return [tf.math.floordiv, tf.math.floormod, tf.truncatediv, tf.truncatemod][self.r.randint(4)](a, b)

    def _cast(self, pool):
        a = self._pick(pool, (*FLOATS, *INTEGERS, "bool"))
        if a.dtype.is_floating:                            # what an integer cannot hold is not defined
            a = tf.clip_by_value(tf.where(tf.equal(a, a), a, tf.zeros_like(a)), -1e6, 1e6)
        return tf.cast(a, [tf.float32, tf.float64, tf.int32, tf.int64, tf.bool][self.r.randint(5)])

    def _choice(self, pool):
        a, b = self._pair(pool, (*FLOATS, *INTEGERS))
        fitting = [t for t in pool if t.dtype == tf.bool and _broadcast(t.shape, tf.broadcast_static_shape(a.shape, b.shape))]
        return tf.where(fitting[self.r.randint(len(fitting))], a, b) if fitting else None

    def _axis(self, t):
        return self.r.randint(-len(t.shape), len(t.shape))

    def _reduction(self, pool):
        a = self._pick(pool, (*INTEGERS, "bool", *FLOATS))
        axis, keep = None if not a.shape.rank or self.r.rand() < 0.2 else self._axis(a), bool(self.r.randint(2))
        if a.dtype == tf.bool:
            return [tf.reduce_all, tf.reduce_any][self.r.randint(2)](a, axis, keep)
        kinds = [tf.reduce_max, tf.reduce_min] if a.dtype.is_floating else [
            tf.reduce_sum, tf.reduce_max, tf.reduce_min, tf.reduce_prod]
        return kinds[self.r.randint(len(kinds))](a, axis, keep)

    def _position(self, pool):
        a = self._pick(pool, (*FLOATS, *INTEGERS))
        if not a.shape.rank:
            return None
        return [tf.argmax, tf.argmin][self.r.randint(2)](a, self._axis(a), [tf.int32, tf.int64][self.r.randint(2)])

    def _top(self, pool):
        a = self._pick(pool, (*FLOATS, *INTEGERS))
        if not a.shape.rank:
            return None
        return tf.math.top_k(a, self.r.randint(1, a.shape[-1] + 1))[self.r.randint(2)]

    def _gather(self, pool):
        a, places = self._pick(pool, (*FLOATS, *INTEGERS, "bool")), self._pick(pool, INTEGERS)
        if not a.shape.rank or places.shape.rank > 1:
            return None
        axis = self._axis(a)
        return tf.gather(a, tf.math.floormod(places, tf.constant(a.shape[axis], places.dtype)), axis=axis)

    def _batched(self, pool):
        a = self._pick(pool, (*FLOATS, *INTEGERS))
        if a.shape.rank < 2:
            return None
        return tf.gather(a, tf.argmax(a, -1) // 2, axis=a.shape.rank - 1, batch_dims=a.shape.rank - 1)

    def _hot(self, pool):
        places = self._pick(pool, INTEGERS)
        value = self._pick(pool, (*FLOATS, *INTEGERS))
        on = tf.reshape(value, [-1])[0]
        return tf.one_hot(places, 4, on, tf.zeros_like(on), axis=self.r.randint(-1, places.shape.rank + 1))

    def _segments(self, pool):
        a = self._pick(pool, INTEGERS)
        if not a.shape.rank:
            return None
        places = tf.math.floormod(tf.cast(a, tf.int64), 5) - 1
        return tf.math.unsorted_segment_sum(a, places, 4)

    def _finite(self, pool):
        return [tf.math.is_finite, tf.math.is_nan, tf.math.is_inf][self.r.randint(3)](self._pick(pool, FLOATS))

    def _running(self, pool):
        a = self._pick(pool, INTEGERS)
        if not a.shape.rank:
            return None
        return tf.cumsum(a, self._axis(a), bool(self.r.randint(2)), bool(self.r.randint(2)))

    def _movement(self, pool):
        a = self._pick(pool, (*FLOATS, *INTEGERS, "bool"))
        kind = self.r.randint(4)
        if kind == 0:
            return tf.transpose(a)
        if kind == 1:
            return tf.reshape(a, [-1])
        if kind == 2 and a.shape.rank:
            return tf.concat([a, a[::-1]], 0)
        return tf.stack([a, a], 0) if a.shape.rank < 3 else a[1:, ..., :1]


KINDS = [name[1:] for name in vars(_Program) if name.startswith("_") and not name.startswith("__")
         and name not in ("_op", "_pick", "_pair", "_axis")]


def _broadcast(a, b):
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b), strict=False))


def _run(seed):
    """What one iteration of a loop makes of the values, with shapes that are known."""
    program = _Program(seed)
    start = [tf.constant(v) for v in program.start()]

    @tf.function
    def f(n, *start):
        made = program.body(start)                           # whatever comes out: it says which variables the loop has
        results = [tf.zeros_like(t) for t in made]
        for i in tf.range(n):
            results = program.body(_changing(start, i))
        return results
    return [t.numpy() for t in f(tf.constant(1), *start)]


def _changing(start, i):
    """The values, as what depends on the iteration."""
    return [tf.logical_and(t, i < 5) if t.dtype == tf.bool else tf.where(i < 5, t, tf.zeros_like(t)) for t in start]


@pytest.mark.parametrize("seed", range(40))
def test_random_loops_give_the_same(monkeypatch, seed):
    found = _run(seed)
    monkeypatch.setattr(regions, "available", lambda: False)
    for a, b in zip(found, _run(seed), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol={np.dtype("float32"): 1e-6, np.dtype("float64"): 1e-14}.get(a.dtype, 0))


def test_most_random_loops_have_regions(monkeypatch):
    made = []
    keep = regions_pass._made
    monkeypatch.setattr(regions_pass, "_made", lambda *args: made.append(keep(*args)) or made[-1])
    for seed in range(5):
        _run(seed)
    assert sum(m is not None for m in made) >= 5


def _loop(body, *start):
    """The values after two iterations."""
    @tf.function
    def f(*values):
        for _ in tf.range(2):
            values = body(*values)
        return values
    return f(*(tf.constant(v) for v in start))


def test_what_does_not_fit_leaves_the_rest(monkeypatch):
    made = []
    keep = regions_pass._made
    monkeypatch.setattr(regions_pass, "_made", lambda *args: made.append(keep(*args)) or made[-1])
    x = np.arange(30, dtype=np.int32).reshape(1, 30)

    def body(t, other):
        wide = tf.tile(t, [1000, 1]) + other                 # more integers than a region takes
        return (t * 2 - 1) % 7, tf.reduce_max(wide, 0, keepdims=True) // 3 - 1 + other
    found = _loop(body, x, x)
    assert sum(m is not None for m in made) == 2
    t, other = x, x
    for _ in range(2):
        t, other = (t * 2 - 1) % 7, (t + other) // 3 - 1 + other
    np.testing.assert_array_equal(found[0], t)
    np.testing.assert_array_equal(found[1], other)


def test_empty_constants_are_not_given_to_a_region():
    x = np.array([3, 5, 7, 11], np.int32)
    nothing = np.zeros(0, np.int32)
    (found,) = _loop(lambda t: (tf.concat([t[:2] * 2 - 1, nothing, t[2:] // 2 + t[0]], 0) % 17 - 3,), x)
    for _ in range(2):
        x = np.concatenate([x[:2] * 2 - 1, nothing, x[2:] // 2 + x[0]]) % 17 - 3
    np.testing.assert_array_equal(found, x)


def test_large_integers_are_exact():
    x = np.array([2**62, -2**63, 2**53 + 1, 5], np.int64)
    (found,) = _loop(lambda t: (tf.maximum(t * 3 - 7, t - tf.reduce_sum(t)),), x)
    with np.errstate(over="ignore"):
        for _ in range(2):
            x = np.maximum(x * 3 - 7, x - x.sum())
    np.testing.assert_array_equal(found, x)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_the_lowest_integer_by_minus_one(kind):
    low = np.iinfo(kind).min
    x, y = np.array([low, low, 7, -7], kind), np.array([-1, 1, -2, 2], kind)
    _, q, left = _loop(lambda y, q, left: (y, (y * 0 + x) // y + 0 * q, (y * 0 + x) % y + 0 * left), y, x, x)
    np.testing.assert_array_equal(q, [low, low, -4, -4])
    np.testing.assert_array_equal(left, [0, 0, -1, 1])


def test_not_a_number_is_on_top_and_no_extremum():
    x = np.array([[1.0, np.nan, 3.0, np.nan], [4.0, 4.0, -np.inf, 4.0]], "f")

    def body(t, top, places, first, least):
        t = t + 0.0 * tf.cast(tf.reduce_sum(places), tf.float32)
        top, places = tf.math.top_k(t, 3)
        return t, top, places, tf.argmax(t, 1, tf.int32), tf.argmin(t, 1, tf.int32)
    _, top, places, first, least = _loop(body, x, x[:, :3], np.zeros((2, 3), "i"), np.zeros(2, "i"), np.zeros(2, "i"))
    np.testing.assert_array_equal(top, [[np.nan, np.nan, 3.0], [4.0, 4.0, 4.0]])
    np.testing.assert_array_equal(places, [[1, 3, 2], [0, 1, 3]])
    np.testing.assert_array_equal(first, [2, 0])
    np.testing.assert_array_equal(least, [0, 2])


def _failing(body, *start):
    with pytest.raises(tf.errors.InvalidArgumentError) as e:
        _loop(body, *start)
    return e.value


def test_errors_are_those_of_the_ops(monkeypatch):
    table, places = np.arange(12.0, dtype="f").reshape(4, 3), np.array([0, 3], "i")
    zero = np.array([3, 0], "i")

    def gathers(t, places):
        return t + tf.reduce_sum(tf.gather(t * 2.0, places * 2 - 1)), places + 1

    def divides(x, y):
        return (x + 1) // (y - 1 + 1), y

    def sums(t, places):
        return t + tf.reduce_sum(tf.math.unsorted_segment_sum(t[:2] * 2.0, places * 2, 4)), places + 1
    cases = [(gathers, table, places), (divides, zero, zero), (sums, table, places)]
    with_regions = [_failing(*case) for case in cases]
    monkeypatch.setattr(regions, "available", lambda: False)
    for a, b in zip(with_regions, [_failing(*case) for case in cases], strict=True):
        assert a.message.splitlines()[0] == b.message.splitlines()[0] and a.op.type == b.op.type


def test_functions_of_few_floats_and_inverses_are_parts_of_regions(monkeypatch):
    x = np.array(EXTREMES["float32"] + [0.5, 1.5, 2.5, -0.3, 3.0, -7.25], "f")
    base = np.linspace(0.1, 3.0, len(x)).astype("f")
    matrix = (np.random.RandomState(0).randn(2, 4, 4) + 4 * np.eye(4)).astype("f")

    def body(t, kept, sums):
        y = kept + tf.cast(t, tf.float32)
        parts = [tf.sin(y), tf.cos(y), tf.pow(base, y), tf.pow(y, 2.0), tf.math.expm1(-tf.abs(y)), tf.floor(y * 0.4),
                 tf.math.ceil(y * 0.4), tf.round(y * 0.5), tf.math.rint(y)]
        inverse = tf.linalg.inv(matrix * (1.0 + sums[-1, 0]))
        return t + 1, kept, tf.concat([tf.stack(parts), tf.reshape(inverse, [1, -1])[:, :len(x)]], 0) + 0.0 * sums

    def loop():
        return tf.while_loop(lambda t, *_: t < 3, body, [0, tf.constant(x), tf.zeros([10, len(x)])])[2]
    made = []
    keep = regions_pass._made
    monkeypatch.setattr(regions_pass, "_made", lambda *a: made.append(keep(*a)) or made[-1])
    found = tf.function(loop)()
    assert max(m[0].attrs["region"].ops for m in made if m is not None) > 6          # pointwise ones are a single op of it
    np.testing.assert_allclose(found, loop(), rtol=2e-6, atol=1e-6)


def test_a_matrix_without_an_inverse_is_an_error_in_a_region():
    @tf.function
    def loop(m):
        return tf.while_loop(lambda t, *_: t < 2, lambda t, x: (t + 1, tf.linalg.inv(x) * 0.5 + tf.sin(x)), [0, m])[1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="not invertible"):
        loop(tf.zeros([3, 3]))
