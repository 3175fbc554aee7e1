"""Random numbers of functions of elements, drawn for many calls at once, beside calls that draw for themselves."""
import numpy as np
import pytest

import penstock as tf
from penstock._src.ops.data import dataset_draws


def crop_and_jitter(x):
    x = tf.image.random_flip_left_right(tf.image.random_crop(tf.cast(x, tf.float32), [3, 2, 3]))
    return tf.image.random_brightness(x, 0.3) * tf.random.normal([], seed=4)


def sized_by_a_draw(x):
    side = tf.random.uniform([], 1, 4, tf.int32)
    part = tf.image.random_crop(x, tf.stack([side, side, 3]))
    return tf.reduce_sum(part), tf.range(side), tf.random.uniform([2], dtype=tf.float64)


def divided(x):
    a, b = tf.random.uniform([3], 5, 90, tf.int64), tf.random.uniform([3], 1, 4, tf.int64)
    return a // b, a % b, tf.cast(a, tf.float32) / tf.cast(b, tf.float32)


def branching(x):
    if tf.random.uniform([]) < 0.5:
        x = -x
    return x, tf.random.shuffle(tf.range(5)), tf.random.uniform([40]), tf.random.truncated_normal([2])


@pytest.fixture
def planned(monkeypatch):
    """Which functions had numbers drawn ahead."""
    found, draw = [], dataset_draws.DrawPlan.draw

    def watched(self, ctx, captured, many):
        rows = draw(self, ctx, captured, many)
        found.append((len(self.drawn), many))
        return rows
    monkeypatch.setattr(dataset_draws.DrawPlan, "draw", watched)
    return found


def results(function, many, epochs=2):
    tf.random.set_seed(3)
    x = np.arange(many * 5 * 4 * 3, dtype="int32").reshape(many, 5, 4, 3) % 251
    dataset = tf.data.Dataset.from_tensor_slices(x).map(function)
    return [[np.asarray(t) for t in tf.nest.flatten(e)] for _ in range(epochs) for e in dataset]


@pytest.mark.parametrize("function, draws", [(crop_and_jitter, 4), (sized_by_a_draw, 3), (divided, 2)])
@pytest.mark.parametrize("many", [1, 30, 150])
def test_numbers_are_those_of_single_calls(function, draws, many, planned, monkeypatch):
    found = results(function, many)
    assert planned and planned[-1][0] == draws if many > 1 else not planned
    monkeypatch.setattr(dataset_draws, "_FEWEST_DRAWS", 1000)
    for a, b in zip(found, results(function, many), strict=True):
        for x, y in zip(a, b, strict=True):
            assert x.dtype == y.dtype and x.shape == y.shape
            np.testing.assert_array_equal(x, y)


def test_ops_that_are_not_drawn_ahead_keep_their_numbers(monkeypatch):
    found = results(branching, 20)
    monkeypatch.setattr(dataset_draws, "_FEWEST_DRAWS", 1000)
    for a, b in zip(found, results(branching, 20), strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


def test_captured_bounds_and_unseeded_numbers(planned):
    low, high = tf.constant(10), tf.constant(13)

    def function(i):
        return tf.random.uniform([], low, high, tf.int32), tf.random.uniform([2]), tf.random.normal([])
    dataset = tf.data.Dataset.range(200).map(function, num_parallel_calls=2)
    a, b, c = zip(*((int(a), b.numpy(), float(c)) for a, b, c in dataset), strict=True)
    assert planned and set(a) == {10, 11, 12} and len(set(c)) == 200
    assert len(np.unique(b)) > 350 and np.min(b) >= 0 and np.max(b) < 1


def test_a_failing_check_names_its_op():
    def function(i):
        n = tf.random.uniform([], 0, 100, tf.int32, seed=1) + tf.random.uniform([], 0, 2, tf.int32, seed=2)
        with tf.control_dependencies([tf.debugging.assert_less(n, 60, message="too many")]):
            return tf.identity(n)
    seen, failed = [], 0
    iterator = iter(tf.data.Dataset.range(80).map(function))
    while True:
        try:
            seen.append(int(next(iterator)))
        except tf.errors.InvalidArgumentError as e:
            assert "too many" in str(e)
            failed += 1
        except StopIteration:
            break
    assert len(seen) + failed == 80 and failed and max(seen) < 60
