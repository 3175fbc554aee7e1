"""Splits that lead out of their values: refused before anything of their size is allocated."""
import pytest

import penstock as tf

R = tf.raw_ops
BAD = [[0, 10 ** 12], [5, 2, -1], [-3, 1], [0, 2, 1], []]


@pytest.mark.parametrize("splits", BAD, ids=str)
def test_a_gather_checks_splits(splits):
    with pytest.raises(tf.errors.InvalidArgumentError):
        R.RaggedGather(params_nested_splits=[tf.constant(splits, tf.int64)], params_dense_values=tf.ones(2),
                       indices=tf.constant([0], tf.int64), OUTPUT_RAGGED_RANK=1)


@pytest.mark.parametrize("splits", BAD, ids=str)
def test_a_variant_checks_splits(splits):
    with pytest.raises(tf.errors.InvalidArgumentError):
        R.RaggedTensorToVariant(rt_nested_splits=[tf.constant(splits, tf.int64)], rt_dense_values=tf.ones(2),
                                batched_input=True)


def test_inner_splits_are_checked_against_the_next():
    outer, inner = tf.constant([0, 3], tf.int64), tf.constant([0, 1, 2], tf.int64)
    with pytest.raises(tf.errors.InvalidArgumentError):
        R.RaggedGather(params_nested_splits=[outer, inner], params_dense_values=tf.ones(2), indices=tf.constant([0]),
                       OUTPUT_RAGGED_RANK=2)
