"""The Levenshtein distance against a plain table."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf


def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row, old = [i], row
        for j, y in enumerate(b, 1):
            row.append(min(old[j] + 1, row[-1] + 1, old[j - 1] + (x != y)))
    return row[-1]


def sparse(words):
    indices = [[i, j] for i, w in enumerate(words) for j in range(len(w))]
    return tf.SparseTensor(np.array(indices, np.int64).reshape(-1, 2), tf.constant([c for w in words for c in w], tf.string),
                           [len(words), max(map(len, words))])


def test_against_a_table():
    rng = np.random.RandomState(4)
    words = [["".join(rng.choice(list("abc"), rng.randint(0, 7))) for _ in range(20)] for _ in range(2)]
    found = tf2.edit_distance(sparse(words[0]), sparse(words[1]), normalize=False)
    assert found.numpy().tolist() == [distance(a, b) for a, b in zip(*words, strict=True)]


def test_checks():
    with pytest.raises(TypeError, match="Hypothesis must be a SparseTensor"):
        tf2.edit_distance([1], sparse(["a"]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="outside of"):
        tf2.raw_ops.EditDistance(hypothesis_indices=[[9, 0]], hypothesis_values=[1], hypothesis_shape=[1, 2],
                                 truth_indices=[[0, 0]], truth_values=[1], truth_shape=[1, 2])


def test_sequences_may_be_longer_than_the_shape_says():
    """Programs return [1, 1, 1] as the shape of a word: only which sequence a letter belongs to counts."""
    def word(text):
        return tf.SparseTensor([[0, 0, k] for k in range(len(text))], list(text), [1, 1, 1])
    with tf.Graph().as_default(), tf.Session() as sess:
        assert sess.run(tf.edit_distance(word("bear"), word("beers"), normalize=False)).tolist() == [[2.0]]
        with pytest.raises(tf.errors.InvalidArgumentError, match="outside"):
            sess.run(tf.edit_distance(tf.SparseTensor([[0, 3, 0]], ["a"], [1, 1, 1]), word("b")))


def test_ranks_below_two():
    def distance(size):
        tf2.raw_ops.EditDistance(
            hypothesis_indices=tf2.zeros([1, size], tf2.int64), hypothesis_values=["a"],
            hypothesis_shape=tf2.ones([size], tf2.int64),
            truth_indices=tf2.zeros([1, size], tf2.int64), truth_values=["b"], truth_shape=tf2.ones([size], tf2.int64))

    for size in (0, 1):
        with pytest.raises(tf2.errors.InvalidArgumentError, match=f"rank at least 2, but hypothesis_shape rank is: {size}"):
            distance(size)
        with pytest.raises(ValueError, match=f"rank at least 2, but hypothesis_shape rank is: {size}"):
            tf2.function(distance)(size)
