"""Places in random permutations: TensorFlow's numbers, permutations of any size, and what is refused."""
import numpy as np
import pytest

import penstock as tf


@pytest.mark.parametrize("top, rounds, want", [
    (5, 4, [4, 0, 5, 1, 3, 2]), (1000, 4, [58, 259, 102, 825, 695, 733]),
    (65535, 8, [50827, 17878, 60607, 31553, 2292, 51418]),
    (2 ** 40, 4, [1099470723109, 1099403598260, 1099336473095, 1099269348246, 1099202223201, 1099135098352])])
def test_recorded(top, rounds, want):
    out = tf.raw_ops.RandomIndexShuffle(index=np.arange(6), seed=np.array([3, 5, 2 ** 31 - 1]), max_index=np.int64(top),
                                        rounds=rounds)
    assert out.numpy().tolist() == want


def test_recorded_functions():
    assert tf.random.experimental.index_shuffle(tf.range(10), [5, 8], 9).numpy().tolist() == [3, 8, 0, 1, 2, 7, 6, 9, 4, 5]
    assert tf.random.experimental.stateless_shuffle(tf.range(13), [5, 8]).numpy().tolist() == \
        [3, 10, 9, 2, 6, 12, 11, 7, 0, 4, 5, 8, 1]


@pytest.mark.parametrize("size", [1, 2, 7, 300, 70000])
@pytest.mark.parametrize("dtype", [tf.int32, tf.uint64])
def test_permutations(size, dtype):
    index = tf.cast(tf.range(size), dtype)
    out = tf.random.experimental.index_shuffle(index, [1, size], tf.cast(size - 1, dtype))
    assert out.dtype == dtype and sorted(out.numpy().tolist()) == list(range(size))


def test_arguments_are_repeated():
    shuffle = tf.random.experimental.index_shuffle
    assert shuffle(2, [5, 8], 9).shape == ()
    many = shuffle(2, [[5, 8], [1, 2]], [9, 4])
    assert many.numpy().tolist() == [int(shuffle(2, [5, 8], 9)), int(shuffle(2, [1, 2], 4))]


@pytest.mark.parametrize("index, seed, top, message", [
    (-1, [1, 2, 3], 4, "must be >= 0"), (5, [1, 2, 3], 4, "max_index must be >= index"),
    ([1, 2], [1, 2, 3], [4, 5, 6], "size|equal"),
    (1, [1, 2], 4, "3")])
def test_refused(index, seed, top, message):
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=message):
        tf.raw_ops.RandomIndexShuffle(index=index, seed=seed, max_index=top)
