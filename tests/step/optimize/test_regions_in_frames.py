"""Regions in dataflow loops of v1: the same values with and without them, in programs and on the dataflow executor."""
from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.kernels import regions
from penstock._src.step.optimize import regions as regions_pass
from tests.step.optimize.test_regions import BODIES

pytestmark = pytest.mark.skipif(not regions.available(), reason="needs compiled kernels and sgemm of torch's library")


def _w(*dims, seed=0):
    return (np.random.RandomState(seed).randn(*dims) * 0.3).astype("f")


def _loop(body, steps, **more):
    """A loop of 1.x over [i, h], with gradients; what a session fetches, and its feeds."""
    x, n = tf.placeholder(tf.float32, [5, 7]), tf.placeholder(tf.int32, [])
    w = tf.constant(_w(7, 7, seed=2)) * tf.placeholder_with_default(1.0, [])

    def iteration(i, h, total):
        h = body(h, w)
        h.set_shape([5, 7])
        return i + 1, h, total + tf.reduce_sum(h * h)
    _, h, total = tf.while_loop(lambda i, *_: i < n, iteration, [0, x, 0.0], **more)
    return [total, h, *(g for g in tf.gradients(total, [x, w]) if g is not None)], {x: _w(5, 7, seed=1), n: steps}


def _run(build):
    """The values of what `build` returns, and the number of ops that became regions."""
    made = []
    keep = regions_pass._made
    with tf.Graph().as_default(), mock.patch.object(regions_pass, "_made", lambda *a: made.append(keep(*a)) or made[-1]):
        tf.set_random_seed(3)
        fetches, feeds = build()
        with tf.Session() as session:
            values = [session.run(fetches, feeds) for _ in range(2)]
    return values, sum(m[0].attrs["region"].ops for m in made if m is not None)


def _compare(build, least=2, **tolerance):
    values, joined = _run(build)
    assert joined >= least
    with mock.patch.object(regions, "available", lambda: False):
        others, none = _run(build)
    assert not none
    with mock.patch("penstock._src.step.compiler.write_structured", lambda *_: None):
        executed, _ = _run(build)
    for one in (others, executed):
        for a, b in zip(values, one, strict=True):
            for left, right in zip(a, b, strict=True):
                np.testing.assert_allclose(left, right, **(tolerance or {"rtol": 2e-4, "atol": 2e-5}))
    return values


@pytest.fixture(autouse=True)
def _dataflow():
    tf.disable_control_flow_v2()                 # the next test has the modes of before


@pytest.mark.parametrize("name", BODIES)
def test_loops_give_the_same(name):
    _compare(lambda: _loop(BODIES[name], 3))


@pytest.mark.parametrize("steps", [0, 1])
def test_loops_of_few_iterations(steps):
    _compare(lambda: _loop(BODIES["split_and_join"], steps))


def test_inner_loops_are_joined_and_no_region_waits_for_itself_through_one():
    def body(h, w):
        a, b = tf.tanh(h @ w), tf.sigmoid(tf.matmul(h, w, transpose_b=True))
        _, _, out = tf.while_loop(lambda j, *_: j < 2, lambda j, left, right: (j + 1, tf.tanh(right @ w) * left, left + 0.5),
                                  [0, a, tf.zeros_like(b)])
        return tf.tanh(out @ w) + b * 0.5          # waits for `a` by way of a back edge of the inner loop only
    _compare(lambda: _loop(body, 3))


def test_conditionals_stay():
    def body(h, w):
        return tf.cond(tf.reduce_sum(h) > 0.0, lambda: tf.tanh(h @ w) * 0.5, lambda: tf.sigmoid(h @ w) + tf.square(h))
    _compare(lambda: _loop(body, 3), least=0)


def test_loops_side_by_side_stay_apart():
    def build():
        fetches, feeds = _loop(BODIES["products"], 3)
        others, more = _loop(BODIES["masks"], 2)
        return [*fetches, *others], {**feeds, **more}
    _compare(build)


def test_random_numbers_and_integers_of_an_iteration():
    """A bandit: what is computed of random numbers alone is part of the region, and the numbers are the same."""
    def build():
        arms = tf.placeholder(tf.float32, [8])

        def body(t, values, counts, total):
            explore = tf.random_uniform([]) < 0.3
            arm = tf.where(explore, tf.random_uniform([], 0, 8, tf.int64), tf.argmax(values))
            reward = tf.gather(arms, arm) + tf.random_normal([], stddev=0.1)
            chosen = tf.one_hot(arm, 8)
            counts += chosen
            return t + 1, values + chosen * (reward - values) / tf.maximum(counts, 1.0), counts, total + reward
        found = tf.while_loop(lambda t, *_: t < 40, body, [0, tf.zeros([8]), tf.zeros([8]), 0.0])
        return found[1:], {arms: np.linspace(0, 1, 8)}
    first, second = _compare(build, least=10)
    assert not np.array_equal(first[0], second[0])


def test_counters_stay_numbers():
    def build():
        h = tf.while_loop(lambda i, h: i < 4, lambda i, h: (i + 1, tf.tanh(h * 2.0) + tf.cast(i, tf.float32)), [
            0, tf.placeholder_with_default(_w(3, 4), [3, 4])])[1]
        return [h], {}
    _compare(build, least=0)


def test_an_error_names_the_op():
    with tf.Graph().as_default():
        x = tf.placeholder_with_default(_w(3, 4), [3, 4])
        at = tf.placeholder_with_default(7, [])
        _, h = tf.while_loop(lambda i, h: i < 2, lambda i, h: (i + 1, tf.tanh(tf.gather(h, at * 1, name="taken") + h)), [0, x])
        with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="taken"):
            session.run(h)
