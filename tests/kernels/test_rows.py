"""Rows of different lengths in C: what the same ops give without it, and lists of numpy."""
from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import torch

import penstock as tf
from penstock._src.base import errors
from penstock._src.kernels import rows
from penstock._src.kernels.host_threads import compiled

pytestmark = pytest.mark.skipif(compiled("_rows") is None, reason="needs compiled kernels")


def without(call, *args, **keywords):
    """The result, or the type of error and its message, of a call where the kernels are not compiled."""
    with mock.patch.object(rows, "_kernels", lambda: None):
        return outcome(call, *args, **keywords)


def outcome(call, *args, **keywords):
    try:
        return [np.asarray(t).tolist() for t in tf.nest.flatten(call(*args, **keywords))]
    except errors.OpError as e:
        return type(e), e.message


def ragged(r, levels, dtype):
    """Nested row splits and the number of values."""
    splits, count = [], r.randint(1, 5)
    for _ in range(levels):
        lengths = r.randint(0, 4, count)
        splits.append(np.concatenate([[0], np.cumsum(lengths)]).astype(dtype))
        count = lengths.sum()
    return splits, count


@pytest.mark.parametrize("seed", range(40))
def test_to_tensor(seed):
    r = np.random.RandomState(seed)
    splits, count = ragged(r, 1 + seed % 3, (np.int32, np.int64)[seed % 2])
    kinds = ["ROW_SPLITS"] * len(splits)
    if seed % 4 == 0:                                   # the same partitions as the row of each value
        kinds = ["FIRST_DIM_SIZE"] + ["VALUE_ROWIDS"] * len(splits)
        splits = [np.array(len(splits[0]) - 1, splits[0].dtype)] + [
            np.repeat(np.arange(len(s) - 1, dtype=s.dtype), np.diff(s)) for s in splits]
    inner = [(), (2,), (0,), (3, 1)][seed % 4]
    values = r.randint(0, 100, (count, *inner)).astype((np.float32, np.float64, np.int8, bool, np.int64)[seed % 5])
    if seed % 6 == 5:
        values = values.astype(str).astype(bytes).astype(object)
    wanted = [-1 if r.rand() < 0.6 else r.randint(0, 5) for _ in range(len(kinds) + (kinds[0] == "ROW_SPLITS"))] + list(inner)
    arguments = {"shape": np.array(wanted, np.int64), "values": values, "row_partition_tensors": splits,
                 "default_value": tf.constant(b"x" if values.dtype == object else 7, tf.constant(values).dtype)
                 if values.dtype != bool else True, "row_partition_types": kinds}
    expected = without(tf.raw_ops.RaggedTensorToTensor, **arguments)
    assert outcome(tf.raw_ops.RaggedTensorToTensor, **arguments) == expected


@pytest.mark.parametrize("bad", [[1, 2], [0, 2, 1], [0, 3], [0, 1 << 40], [-1, 2], []])
def test_bad_splits_raise_the_same_errors(bad):
    splits = np.array(bad, np.int64)
    for call in (lambda: tf.raw_ops.RaggedTensorToTensor(
                     shape=[-1, -1], values=[1, 2], default_value=0, row_partition_tensors=[splits],
                     row_partition_types=["ROW_SPLITS"]),
                 lambda: tf.raw_ops.RaggedGather(params_nested_splits=[splits], params_dense_values=[1, 2], indices=[0],
                                                 OUTPUT_RAGGED_RANK=1),
                 lambda: tf.raw_ops.RaggedTensorToSparse(rt_nested_splits=[splits], rt_dense_values=[1, 2])):
        assert outcome(call) == without(call)
    assert isinstance(outcome(call), tuple)


@pytest.mark.parametrize("seed", range(20))
def test_gather_and_sparse_form(seed):
    r = np.random.RandomState(seed)
    (splits,), count = ragged(r, 1, (np.int32, np.int64)[seed % 2])
    values, n = r.rand(count), len(splits) - 1
    picked = r.randint(0, n, [(4,), (2, 3), (0,), (1, 1)][seed % 4])
    call = lambda: tf.raw_ops.RaggedGather(params_nested_splits=[splits], params_dense_values=values, indices=picked,  # noqa: E731
                                           OUTPUT_RAGGED_RANK=picked.ndim)
    assert outcome(call) == without(call)
    listed = [values[splits[i]:splits[i + 1]].tolist() for i in picked.reshape(-1)]
    np.testing.assert_array_equal(call().output_dense_values, sum(listed, []))
    call = lambda: tf.raw_ops.RaggedTensorToSparse(rt_nested_splits=[splits], rt_dense_values=values)      # noqa: E731
    assert outcome(call) == without(call)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint32, np.float16])
@pytest.mark.parametrize("shape", [(7,), (7, 3), (7, 2, 2), (7, 0)])
def test_sums(dtype, shape):
    r = np.random.RandomState(0)
    data, ids = r.randint(0, 9, shape).astype(dtype), r.randint(-1, 5, shape[:1 + (len(shape) == 3)])
    expected = np.zeros((5, *shape[ids.ndim:]), dtype)
    for at in np.ndindex(ids.shape):
        if ids[at] >= 0:
            expected[ids[at]] += data[at]
    np.testing.assert_array_equal(tf.math.unsorted_segment_sum(data, ids, 5), expected)
    call = lambda: tf.math.unsorted_segment_sum(data, ids + 2, 5)         # noqa: E731
    assert outcome(call) == without(call)


def test_sums_of_a_view():
    data = torch.arange(12.0).reshape(3, 4).T
    assert rows.sums(data, torch.tensor([0, 1, 1, 0]), 2) is None
    np.testing.assert_array_equal(tf.math.unsorted_segment_sum(tf.transpose(tf.constant(data.T.numpy())), [0, 1, 1, 0], 2),
                                  [[3, 11, 19], [3, 11, 19]])


@pytest.mark.parametrize("values", [[1, 1, 4, 9], [], [3, -1]])
def test_counts(values):
    call = lambda: tf.raw_ops.DenseBincount(input=np.array(values, np.int64), size=np.int64(5),    # noqa: E731
                                            weights=np.array([], np.float32))
    assert outcome(call) == without(call)


@pytest.mark.parametrize("known", [True, False])
def test_partitions(known):
    """Row numbers to splits and back, in eager mode and in a function that does not know their number."""
    @tf.function(input_signature=[tf.TensorSpec([5 if known else None], tf.int64)])
    def splits_of(ids):
        made = tf.RaggedTensor.from_value_rowids(ids, ids, nrows=6, validate=False)
        return made.row_splits, made.row_lengths(), tf.RaggedTensor.from_row_splits(ids, made.row_splits).value_rowids()

    splits, lengths, ids = splits_of([0, 0, 2, 2, 5])
    assert splits.numpy().tolist() == [0, 2, 2, 4, 4, 4, 5]
    assert lengths.numpy().tolist() == [2, 0, 2, 0, 0, 1]
    assert ids.numpy().tolist() == [0, 0, 2, 2, 5]
    assert tf.ragged.row_splits_to_segment_ids([2, 4, 4, 7]).numpy().tolist() == [0, 0, 2, 2, 2]


@pytest.mark.parametrize("seed", range(20))
def test_empty_rows(seed):
    r = np.random.RandomState(seed)
    n, height, depth = r.randint(0, 9), r.randint(1, 7), 1 + seed % 3
    indices = np.stack([r.randint(0, height + (seed == 7), n), *(r.randint(0, 4, n) for _ in range(depth - 1))], 1)
    values = r.randint(0, 9, n).astype((np.float32, np.int64)[seed % 2])
    if seed % 5 == 0:
        values = values.astype(str).astype(bytes).astype(object)
    call = lambda: tf.raw_ops.SparseFillEmptyRows(      # noqa: E731
        indices=indices, values=values, dense_shape=[height] + [4] * (depth - 1),
        default_value=tf.constant(b"-" if values.dtype == object else 7, tf.constant(values).dtype))
    assert outcome(call) == without(call)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("seed", range(8))
def test_distinct_numbers(seed, dtype):
    r = np.random.RandomState(seed)
    limit = np.iinfo(dtype)
    values = r.choice([limit.min, limit.max, -1, 0, 7, 1 << 20, *r.randint(-99, 99, 20)], r.randint(0, 60)).astype(dtype)
    call = lambda: tf.unique_with_counts(values)         # noqa: E731
    assert outcome(call) == without(call)
    assert [values.tolist().index(v) for v in call().y] == sorted({values.tolist().index(v) for v in values})


def test_distinct_strings():
    found = tf.unique_with_counts(["b", "a", "b", "", "a", "b"])
    assert [np.asarray(t).tolist() for t in found] == [[b"b", b"a", b""], [0, 1, 0, 2, 1, 0], [3, 2, 1]]


@pytest.mark.parametrize("ids", [[0, 0, 2], [], [1, 0], [0, -1], [0, 1 << 33]])
@pytest.mark.parametrize("name", ["Sum", "Mean", "Max", "Prod"])
def test_sorted_segments(name, ids):
    data = np.arange(2.0 * len(ids)).reshape(-1, 2)
    call = lambda: getattr(tf.raw_ops, f"Segment{name}")(data=data, segment_ids=np.array(ids, np.int64))     # noqa: E731
    assert outcome(call) == without(call)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint32])
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes(name, dtype):
    r = np.random.RandomState(0)
    data, ids = r.randint(0, 99, (9, 3)).astype(dtype), np.stack([r.randint(-1, 4, 9)] * 2, 1)[:, 0]
    if data.dtype.kind == "f":
        data[ids == ids.max(), 1], data[0, 0] = np.nan, -np.inf
    call = lambda: getattr(tf.math, f"unsorted_segment_{name}")(data, ids, 5)          # noqa: E731
    np.testing.assert_array_equal(outcome(call), without(call))
    call = lambda: getattr(tf.math, f"unsorted_segment_{name}")(data, ids, 2)          # noqa: E731
    assert outcome(call) == without(call)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_positions_in_a_box_and_their_coordinates(dtype):
    r = np.random.RandomState(0)
    for dims in ((7,), (3, 5), (2, 1, 4, 3)):
        indices = torch.from_numpy(np.stack([r.randint(0, d, 20) for d in dims], 1)).to(dtype)
        expected = np.ravel_multi_index(indices.numpy().T, dims)
        found, growing = rows.positions(indices, dims)
        assert found.tolist() == expected.tolist() and growing is bool((np.diff(expected) > 0).all())
        assert rows.apart(found, dims).tolist() == indices.tolist()
        ordered = rows.apart(torch.arange(int(np.prod(dims))), dims)
        assert rows.positions(ordered, dims)[1] is True
        for wrong in (-1, dims[-1]):
            outside = indices.clone()
            outside[11, -1] = wrong
            assert rows.positions(outside, dims) is None
    assert rows.positions(torch.zeros(0, 2, dtype=dtype), (2, 3))[0].tolist() == []
    assert rows.positions(torch.zeros(2, 3, dtype=dtype), (2, 3)) is None
    assert rows.positions(torch.zeros(1, 17, dtype=dtype), (1,) * 17) is None


def test_rows_in_the_order_of_their_labels():
    labels = torch.from_numpy(np.random.RandomState(0).randint(0, 5, 40)).int()
    order, sizes = rows.labelled(labels, 6)
    assert order.tolist() == np.argsort(labels.numpy(), kind="stable").tolist()
    assert sizes == np.bincount(labels.numpy(), minlength=6).tolist()
    assert rows.labelled(labels, 4) is None and rows.labelled(labels - 1, 6) is None


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.bool_, object])
def test_partitions_and_stitches_are_those_without(kind):
    r = np.random.RandomState(1)
    data = r.randint(0, 9, (12, 2)).astype(kind)
    if kind is object:
        data = np.array([b"%d" % i for i in range(24)], object).reshape(12, 2)
    labels, places = r.randint(0, 3, 12), [r.randint(0, 15, 5), r.randint(0, 15, (1, 7))]
    parts = [data[:5], data[5:].reshape(1, 7, 2)]
    for call in (lambda: tf.dynamic_partition(data, labels, 3), lambda: tf.dynamic_stitch(places, parts),
                 lambda: tf.dynamic_partition(data, labels, 2), lambda: tf.dynamic_stitch([[-1]], data[:1]),
                 lambda: tf.dynamic_stitch([np.zeros(0, np.int32)], [data[:0]])):
        assert outcome(call) == without(call)
    expected = {}
    for at, row in zip(np.concatenate([p.ravel() for p in places]), data, strict=True):
        expected[at] = row.tolist()
    found = tf.dynamic_stitch(places, parts).numpy()
    assert len(found) == max(expected) + 1
    assert all(row.tolist() == expected.get(i, np.zeros(2, kind).tolist() if kind is not object else [b"", b""])
               for i, row in enumerate(found))
