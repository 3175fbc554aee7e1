"""Grouping, sampling, optionals, options, and the other transformations of tf.data.experimental."""
import threading

import numpy as np
import pytest

import penstock as tf
from penstock._src.base import errors

D = tf.data.Dataset
E = tf.data.experimental


def elements(ds):
    return [np.asarray(x.numpy()).tolist() for x in ds]


def test_group_by_window_and_reducer():
    got = elements(D.range(10).group_by_window(lambda x: x % 3, lambda key, w: w.batch(4), 2))
    assert got == [[0, 3], [1, 4], [2, 5], [6, 9], [7], [8]]
    sums = E.Reducer(lambda key: np.int64(0), lambda s, x: s + x, lambda s: s)
    assert elements(D.range(10).apply(E.group_by_reducer(lambda x: x % 3, sums))) == [18, 12, 15]
    with pytest.raises(errors.InvalidArgumentError, match="Window size must be greater than zero"):
        elements(D.range(3).group_by_window(lambda x: x, lambda k, w: w.batch(1), window_size_func=lambda k: np.int64(0)))


def test_bucket_by_sequence_length():
    ds = D.range(1, 7).map(lambda n: tf.fill([n], n))
    got = elements(ds.bucket_by_sequence_length(lambda x: tf.shape(x)[0], [3, 5], [2, 2, 2]))
    assert got == [[[1, 0], [2, 2]], [[3, 3, 3, 0], [4, 4, 4, 4]], [[5, 5, 5, 5, 5, 0], [6, 6, 6, 6, 6, 6]]]


def test_sampling_follows_the_weights():
    sources = [D.from_tensors(i).repeat() for i in range(3)]
    for weights in ([0.5, 0.2, 0.3], D.from_tensors([0.5, 0.2, 0.3]).repeat()):
        got = elements(D.sample_from_datasets(sources, weights, seed=3).take(3000))
        np.testing.assert_allclose(np.bincount(got) / 3000, [0.5, 0.2, 0.3], atol=0.04)
    assert elements(D.choose_from_datasets([D.range(2), D.range(5, 9)], D.range(2).repeat(2))) == [0, 5, 1, 6]
    with pytest.raises(errors.InvalidArgumentError, match="out of range"):
        elements(D.choose_from_datasets([D.range(2)], D.range(1, 2)))


def test_sampling_has_the_order_of_tensorflow():
    """Values of TensorFlow 2.21."""
    tf.random.set_seed(7)
    endless = [D.from_tensors(i).repeat() for i in range(2)]
    ds = D.sample_from_datasets(endless, [0.5, 0.5], seed=1).take(12)
    assert elements(ds) == elements(ds) == [0, 1, 0, 1, 0, 1, 1, 1, 1, 0, 1, 1]
    finite = [D.range(5), D.range(10, 13), D.range(20, 27)]
    assert elements(D.sample_from_datasets(finite, seed=1)) == [0, 10, 11, 20, 1, 21, 22, 23, 24, 12, 25, 26, 2, 3, 4]
    weights = D.from_tensor_slices([[0.1, 0.9], [0.9, 0.1]]).repeat()
    assert elements(D.sample_from_datasets(endless, weights, seed=1).take(12)) == [1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1]


def test_sampling_leaves_out_datasets_without_weight():
    ds = D.sample_from_datasets([D.range(2), D.range(10, 13)], [0.0, 1.0], stop_on_empty_dataset=True)
    assert elements(ds) == [10, 11, 12]
    assert elements(D.sample_from_datasets([D.range(2), D.range(3)], [0.0, 0.0])) == []


def test_rejection_resample_keeps_the_type_of_classes():
    spec = D.range(4).rejection_resample(lambda x: tf.cast(x % 2, tf.int32), [0.5, 0.5], seed=1).element_spec
    assert [s.dtype for s in spec] == [tf.int32, tf.int64]


def test_rejection_resample_reaches_the_target():
    classes = elements(D.range(4000).rejection_resample(lambda x: x % 2, [0.8, 0.2], [0.5, 0.5], seed=1).map(lambda c, x: c))
    assert abs(np.mean(classes) - 0.2) < 0.05
    classes = elements(D.range(4000).rejection_resample(lambda x: x % 2, [0.8, 0.2], seed=1).map(lambda c, x: c))
    assert abs(np.mean(classes) - 0.2) < 0.05


def test_scan_take_while_unique_and_cardinality():
    ds = D.range(6).scan(np.int64(0), lambda s, x: (s + x, s + x))
    assert elements(ds) == [0, 1, 3, 6, 10, 15] and elements(ds.take_while(lambda x: x < 10)) == [0, 1, 3, 6]
    assert elements(D.from_tensor_slices(["a", "b", "a"]).unique()) == [b"a", b"b"]
    assert int(D.range(5).filter(lambda x: True).apply(E.assert_cardinality(5)).cardinality()) == 5
    for wrong in (4, 6):
        with pytest.raises(errors.FailedPreconditionError, match="was expected to contain"):
            elements(D.range(5).apply(E.assert_cardinality(wrong)))


def test_sparse_and_ragged_batches():
    ds = D.range(1, 4).map(lambda n: tf.fill([n], n))
    assert [tf.sparse.to_dense(x).numpy().tolist() for x in ds.sparse_batch(2, [4])] == [
        [[1, 0, 0, 0], [2, 2, 0, 0]], [[3, 3, 3, 0]]]
    assert [x.to_list() for x in ds.ragged_batch(2)] == [[[1], [2, 2]], [[3, 3, 3]]]
    with pytest.raises(errors.DataLossError):
        list(ds.sparse_batch(3, [2]))


def test_map_and_batch_fails_whole_batches():
    ds = D.from_tensor_slices(np.array([1., np.nan, 3., 4.], np.float32)).apply(
        E.map_and_batch(lambda x: tf.debugging.check_numerics(x, "bad"), 2))
    it = iter(ds)
    with pytest.raises(errors.InvalidArgumentError):
        next(it)
    assert next(it).numpy().tolist() == [3, 4]


def test_optionals():
    it = iter(D.range(1))
    full, empty = it.get_next_as_optional(), it.get_next_as_optional()
    assert bool(full.has_value()) and int(full.get_value()) == 0 and not bool(empty.has_value())
    with pytest.raises(errors.InvalidArgumentError, match="does not have a value"):
        empty.get_value()
    through = D.from_tensors(tf.experimental.Optional.from_value((1, "a"))).map(lambda o: o.get_value()[1])
    assert elements(through) == [b"a"]


def test_options_merge_and_are_typed():
    a, b = tf.data.Options(), tf.data.Options()
    a.deterministic, b.threading.private_threadpool_size = False, 3
    ds = D.range(3).with_options(a).map(lambda x: x).with_options(b)
    assert ds.options().deterministic is False and ds.options().threading.private_threadpool_size == 3
    with pytest.raises(TypeError):
        a.deterministic = 3
    with pytest.raises(AttributeError):
        a.nothing = 3


def test_order_is_given_up_only_when_asked():
    taken = threading.Event()

    def slow(x):
        if x == 0:
            assert taken.wait(60)
        return x
    ds = D.range(2).map(lambda x: tf.numpy_function(slow, [x], tf.int64), num_parallel_calls=2)
    options = tf.data.Options()
    options.deterministic = False
    it = iter(ds.with_options(options))
    assert next(it).numpy() == 1                             # the first element waits until this one has been taken
    taken.set()
    assert next(it).numpy() == 0
    assert elements(ds) == [0, 1]


def test_loops_over_datasets_in_functions():
    @tf.function
    def total(ds):
        out = tf.constant(0, tf.int64)
        for i, x in ds.enumerate():
            if x > 6:
                break
            out += i * x
        return out
    assert int(total(D.range(3, 20))) == sum(i * x for i, x in enumerate(range(3, 7)))

    @tf.function
    def some(it):
        out = tf.constant(0, tf.int64)
        for x in it:
            out += x
            if out > 5:
                break
        return out
    it = iter(D.range(10))
    assert int(some(it)) == 6 and int(next(it)) == 4


def test_ignoring_errors_and_single_elements():
    x = np.array([1., np.nan, 3.], np.float32)
    assert elements(D.from_tensor_slices(x).map(lambda v: tf.debugging.check_numerics(v, "")).ignore_errors()) == [1, 3]
    assert int(D.range(3, 4).get_single_element()) == 3
    for n in (0, 2):
        with pytest.raises(errors.InvalidArgumentError):
            D.range(n).get_single_element()
