"""Random numbers inside of regions: those of the same streams as outside, and the same errors."""
from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import torch

import penstock as tf
from penstock._src.kernels import philox, regions
from penstock._src.step.optimize import regions as regions_pass

v1 = tf.compat.v1
pytestmark = pytest.mark.skipif(not regions.available(), reason="needs compiled kernels and sgemm of torch's library")
TOP = (1 << 64) - 1
CASES = [(philox.uniform, torch.float32, ()), (philox.normal, torch.float32, ()), (philox.uniform_int, torch.int32, (-5, 9)),
         (philox.uniform_int, torch.int32, (-(1 << 31), (1 << 31) - 1)), (philox.uniform_int, torch.int64, (0, 8)),
         (philox.uniform_int, torch.int64, (-(1 << 62), 1 << 62)),
         (philox.uniform_int, torch.int64, (-(1 << 63), (1 << 63) - 1))]


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("dims", [[], [1], [3], [4], [2, 5], [16]], ids=str)
@pytest.mark.parametrize("start", [(7, 11), (TOP, 3)], ids=["usual", "carry"])
def test_draws_are_those_of_the_stream(case, dims, start):
    draw, dtype, bounds = CASES[case]
    few = philox.Few(draw, dims, dtype, bounds)
    stream, other = philox.Stream(*start), philox.Stream(*start)
    if start[0] == TOP:                                  # the counter's lower half ends within the stretch
        for s in (stream, other):
            s.reserve(TOP)
    build = regions.Builder()
    region = build.finish([build.drawn(few, lambda ctx: stream)])
    for _ in range(3):
        here = other.reserve(few.reserved)
        expected = draw(here, few.count, dtype, "cpu", *bounds).reshape(dims)
        torch.testing.assert_close(region.draw([], ctx=None)[0], expected, rtol=1e-5 if draw is philox.normal else 0.0,
                                   atol=1e-6 if draw is philox.normal else 0.0)
        assert stream.here() == other.here()
        assert torch.equal(few.before(stream.place()), expected)


def test_a_stream_is_shared_with_kernels_outside():
    few = philox.Few(philox.uniform, [3], torch.float32)
    stream, alone = philox.Stream(1, 2), philox.Stream(1, 2)
    build = regions.Builder()
    region = build.finish([build.drawn(few, lambda ctx: stream)])
    found = [stream.few(few), stream.few(few), stream.few(few), *region.draw([], ctx=None), stream.few(few), stream.few(few),
             *region.draw([], ctx=None), philox.uniform(stream.reserve(few.reserved), 3, torch.float32), stream.few(few)]
    for one in found:
        assert torch.equal(one, alone.few(few))


OTHERS = {"many": (philox.uniform, 17, torch.float32), "none": (philox.uniform, 0, torch.float32),
          "double": (philox.normal, 2, torch.float64), "truncated": (philox.truncated_normal, 2, torch.float32)}


@pytest.mark.parametrize("case", OTHERS)
def test_other_draws_stay_outside(case):
    draw, count, dtype = OTHERS[case]
    with pytest.raises(regions.Unfit):
        regions.Builder().drawn(philox.Few(draw, [count], dtype), lambda ctx: philox.Stream(1, 2))


def _made(run):
    """What `run` returns, and the regions that were made meanwhile."""
    made = []
    keep = regions_pass._made
    with mock.patch.object(regions_pass, "_made", lambda *a: made.append(keep(*a)) or made[-1]):
        value = run()
    return value, [m[0] for m in made if m is not None and m[0].opdef.random]


def _walk(i, x, seen):
    noise = tf.random.normal([4], seed=1)
    turn = tf.random.uniform([], 0, 4, tf.int64, seed=2)
    flip = tf.random.uniform([], seed=3) < 0.5
    x = tf.where(flip, x, x + 0.1 * noise) + tf.one_hot(turn, 4) * tf.gather(x, turn)
    return i + 1, x, seen + turn


def _functional():
    @tf.function
    def walk(n):
        return tf.while_loop(lambda i, *_: i < n, _walk, [0, tf.ones([4]), tf.constant(0, tf.int64)])[1:]
    return [[v.numpy() for v in walk(tf.constant(n))] for n in (6, 3)]


def _dataflow():
    with tf.Graph().as_default():
        v1.disable_control_flow_v2()             # the next test has the modes of before
        n = v1.placeholder(tf.int32, [])
        fetches = v1.while_loop(lambda i, *_: i < n, _walk, [0, tf.ones([4]), tf.constant(0, tf.int64)])[1:]
        with v1.Session() as session:
            return [session.run(fetches, {n: steps}) for steps in (6, 3)]


@pytest.mark.parametrize("run", [_functional, _dataflow])
def test_loops_draw_the_same_inside_and_outside(run):
    found, made = _made(run)
    assert made
    with mock.patch.object(regions, "available", lambda: False):
        expected, none = _made(run)
    assert not none
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a[0], b[0], rtol=1e-4, atol=1e-5)
        assert a[1] == b[1]


def _failing():
    @tf.function
    def play(n):
        def body(i, x):
            at = tf.random.uniform([], 3, 9, tf.int32, seed=4)
            return i + 1, x + tf.gather(x, at) * tf.random.uniform([], seed=5)
        return tf.while_loop(lambda i, _: i < n, body, [0, tf.ones([3])])[1]
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        play(tf.constant(2))
    return str(caught.value).split("\n", 1)[0]


def test_a_failing_op_reads_what_was_drawn():
    found, made = _made(_failing)
    assert made
    with mock.patch.object(regions, "available", lambda: False):
        assert found == _made(_failing)[0]


def test_draws_without_seeds_differ():
    @tf.function
    def walk(n):
        def body(i, x, sums):
            x = x + tf.raw_ops.RandomUniform(shape=[2], dtype=tf.float32, seed=0, seed2=0)
            return i + 1, x, sums + tf.reduce_sum(x)
        return tf.while_loop(lambda i, *_: i < n, body, [0, tf.zeros([2]), 0.0])[1]
    values, made = _made(lambda: [walk(tf.constant(4)).numpy() for _ in range(3)])
    assert made
    assert len({v for pair in values for v in pair.tolist()}) == 6
    assert all(0 < v < 4 for pair in values for v in pair)


SEEDED = [(philox.uniform, torch.float32, ()), (philox.normal, torch.float32, ()), (philox.uniform_int, torch.int32, (-5, 9)),
          (philox.uniform_int, torch.int64, (-(1 << 62), 1 << 62)), (philox.full_int, torch.int32, ()),
          (philox.full_int, torch.int64, ())]


@pytest.mark.parametrize("case", range(len(SEEDED)))
@pytest.mark.parametrize("dims", [[], [3], [2, 5], [33]], ids=str)
@pytest.mark.parametrize("seed", [(1, 2), (-7, 1 << 40)], ids=str)
def test_draws_of_a_seed_are_those_of_stateless_ops(case, dims, seed):
    draw, dtype, bounds = SEEDED[case]
    few = philox.Few(draw, dims, dtype, bounds)
    build = regions.Builder()
    wide = max(map(abs, seed)) >> 31
    region = build.finish([build.drawn_of_seed(few, build.value((2,), regions.INT64 if wide else regions.INT32))])
    given = torch.tensor(seed, dtype=torch.int64 if wide else torch.int32)
    expected = draw(philox.Philox.scrambled(*seed), few.count, dtype, "cpu", *bounds).reshape(dims)
    tolerance = {"rtol": 1e-5, "atol": 1e-6} if draw is philox.normal else {"rtol": 0.0, "atol": 0.0}
    torch.testing.assert_close(region.run([given])[0], expected, **tolerance)


def test_seeds_of_iterations_are_drawn_from_in_a_region(monkeypatch):
    def chain(seed):
        def body(t, x):
            now = tf.random.experimental.stateless_fold_in(seed, t)
            move = x + tf.random.stateless_normal([8, 3], now)
            place = tf.random.stateless_uniform([8, 1], now + 1, maxval=3, dtype=tf.int32)
            return t + 1, tf.where(tf.random.stateless_uniform([8, 1], now) < 0.5, move, x) + tf.cast(place, tf.float32)
        return tf.while_loop(lambda t, x: t < 20, body, [0, tf.zeros([8, 3])])[1]
    seen = []
    run = regions.Region.run
    monkeypatch.setattr(regions.Region, "run", lambda self, *args: seen.append(self.ops) or run(self, *args))
    found = tf.function(chain)(tf.constant([3, 4]))
    assert len(seen) >= 20 and max(seen) > 8
    np.testing.assert_allclose(found, chain(tf.constant([3, 4])), rtol=1e-5, atol=1e-5)
