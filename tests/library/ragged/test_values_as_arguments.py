"""Ragged tensors in public functions: values in place of tensors, squeezing, masks and positions with inner dimensions."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1

value = tf1.ragged.constant_value


def test_functions_take_ragged_values():
    rows = value([[1, 2], [], [3]])
    assert tf.add(rows, 1).to_list() == [[2, 3], [], [4]]
    assert tf.concat([rows, value([[7]])], 0).to_list() == [[1, 2], [], [3], [7]]
    assert tf.gather(params=rows, indices=[2, 0]).to_list() == [[3], [1, 2]]
    assert tf1.where(value([[True], [False, True]]), value([[1], [2, 3]]), value([[4], [5, 6]])).to_list() == [[1], [5, 3]]


@pytest.mark.parametrize(("rows", "axis", "want"), [
    ([[1]], [0], [1]), ([[1]], [0, 1], 1), ([[1], [2]], -1, [1, 2]), ([[[[12], [11]]]], [0, 1, 3], [12, 11]),
    ([[[1], [2]], [[3]]], 2, [[1, 2], [3]]), ([[[1, 2]], [[]]], 1, [[1, 2], []])])
def test_squeeze(rows, axis, want):
    out = tf.squeeze(tf.ragged.constant(rows), axis)
    assert (out.to_list() if isinstance(out, tf.RaggedTensor) else out.numpy().tolist()) == want


def test_squeeze_of_inner_dimensions():
    out = tf.squeeze(tf.ragged.constant([[[1], [2]], [[3]]], ragged_rank=1), 2)
    assert out.to_list() == [[1, 2], [3]] and out.ragged_rank == 1


def test_what_cannot_be_squeezed():
    rows = tf.ragged.constant([[1, 2], [3]])
    for axis in (0, 1):
        with pytest.raises(tf.errors.InvalidArgumentError, match="not squeezable"):
            tf.squeeze(rows, axis)
    with pytest.raises(ValueError, match="must have an axis"):
        tf.squeeze(rows)
    with pytest.raises(TypeError, match="list or tuple of integers"):
        tf.squeeze(rows, tf.constant([1]))


def test_masks_and_positions_with_inner_dimensions():
    flags = value([[[True, False], [False, True]], [], [[True, True]]], ragged_rank=1)
    rows = value([[[1, 2], [3, 4]], [], [[5, 6]]], ragged_rank=1)
    assert tf.ragged.boolean_mask(rows, flags).to_list() == [[[1], [4]], [], [[5, 6]]]
    assert tf1.ragged.where(flags).numpy().tolist() == [[0, 0, 0], [0, 1, 1], [2, 0, 0], [2, 0, 1]]


def test_batch_gather_below_ragged_batches():
    params = value([[["a", "b", "c"], ["d"]], [["e", "f"]]])
    indices = value([[[2, 0], [0, 0]], [[1, 0]]], ragged_rank=1)
    assert tf1.batch_gather(params, indices).to_list() == [[[b"c", b"a"], [b"d", b"d"]], [[b"f", b"e"]]]
    with pytest.raises(ValueError, match="batch shape from indices"):
        tf1.batch_gather([[[1, 2]]], value([[[0], [0, 0]]]))


def test_sparse_of_bad_splits_and_static_shapes():
    for splits, values, match in (([2, 3], [1, 2, 3], "First value"), ([0, 5], [1], "Final value"), ([0, 1], [1, 2], "Final")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=match):
            tf.RaggedTensor.from_row_splits(values, splits, validate=False).to_sparse()
    with tf.Graph().as_default():
        assert tf.ragged.constant([[1, 2], [3]]).to_sparse().indices.shape.as_list() == [3, 2]


@pytest.mark.parametrize("repeats", [2, [2], [1, 3]])
@pytest.mark.parametrize("axis", [0, 1])
def test_repeat_of_unknown_shapes(repeats, axis):
    data = np.arange(4).reshape(2, 2)
    with tf.Graph().as_default(), tf1.Session() as sess:
        out = tf.repeat(tf1.placeholder_with_default(data, None), tf1.placeholder_with_default(repeats, None), axis)
        np.testing.assert_array_equal(sess.run(out), np.repeat(data, repeats, axis))
    with pytest.raises(ValueError, match="axis=2 out of bounds: expected -2<=axis<2"):
        tf.repeat(data, repeats, 2)


def test_stacking_inner_dimensions_keeps_them_uniform():
    rows = tf.ragged.constant([[[1, 2], [3, 4]], [[5, 6]]], ragged_rank=1)
    assert tf.stack([rows, rows], 2).shape.as_list() == [2, None, 2, 2]
    assert tf.concat([rows, rows], 2).to_list() == [[[1, 2, 1, 2], [3, 4, 3, 4]], [[5, 6, 5, 6]]]
    assert tf.concat([rows, rows], 2).ragged_rank == 1


def test_operands_of_other_names_and_images():
    rows, given = tf.ragged.constant([[-2.0, 3.0], [-3.0]]), value([[0.0, 1.0], [1.0]], np.float32)
    assert tf.math.scalar_mul(3, rows).to_list() == [[-6.0, 9.0], [-9.0]]
    loss = tf.nn.sigmoid_cross_entropy_with_logits(labels=given, logits=rows)
    np.testing.assert_allclose(loss.flat_values, np.log1p(np.exp([-2.0, -3.0, 3.0])), rtol=1e-5)
    assert tf.__operators__.eq(rows, -rows).to_list() == [[False, False], [False]]
    assert tf.__operators__.ne(tf.constant([1, 2]), [1, 3]).numpy().tolist() == [False, True]
    for change in (lambda x: tf.image.adjust_brightness(x, 0.2), lambda x: tf.image.convert_image_dtype(x, tf.float64),
                   lambda x: tf.image.stateless_random_brightness(x, 0.2, (1, 2)), lambda x: tf.image.adjust_gamma(x, 2, 1.2)):
        np.testing.assert_array_equal(change(rows).flat_values, change(rows.flat_values))


ROWS = [[[1, 2], [3]], [[4, 5, 6], [7]], [[8], [9, 0]]]


@pytest.mark.parametrize("indices, axis, batch_dims, expected", [
    ([1, 0], 1, 0, [[r[1], r[0]] for r in ROWS]), (0, 2, 0, [[[v[0]] for v in r] for r in ROWS]),
    ([1, 0, 1], 1, 1, [ROWS[0][1], ROWS[1][0], ROWS[2][1]]),
    ([[1], [0], [1]], -2, 1, [[ROWS[0][1]], [ROWS[1][0]], [ROWS[2][1]]]),
    ([[0], [0], [0]], 2, 1, [[[v[0]] for v in r] for r in ROWS]),
    ([[[0], [0]]] * 3, 2, 2, [[[v[0]] for v in r] for r in ROWS])])
def test_gathers_along_any_axis(indices, axis, batch_dims, expected):
    indices = [indices] if axis == 2 and not batch_dims else indices
    got = tf.gather(value(ROWS), indices, axis=axis, batch_dims=batch_dims)
    assert got.to_list() == expected
    ragged = tf.gather(value(ROWS), value([[1], [0, 0]]), axis=1)
    assert ragged.to_list() == [[[r[1]], [r[0], r[0]]] for r in ROWS]


@pytest.mark.parametrize("axis, batch_dims, message", [(0, 1, "batch dimensions"), (3, 0, "axis=3 out of bounds"),
                                                       (None, 2, "batch_dims=2 out of bounds")])
def test_gathers_refuse(axis, batch_dims, message):
    with pytest.raises(ValueError, match=message):
        tf.gather(value(ROWS), [0, 0, 0], axis=axis, batch_dims=batch_dims)


@pytest.mark.parametrize("x, y, want", [
    (value([[1, 2, 3]]), [[10], [20], [30]], [[11, 12, 13], [21, 22, 23], [31, 32, 33]]),
    (value([[[1], [2]], [[3]]], ragged_rank=1), value([[10, 20]]), [[[11, 21], [12, 22]], [[13, 23]]]),
    (value([[[[1], [2]]], [[[3], [4]]]], ragged_rank=1), value([[10, 20], [30]]), [[[[11, 21], [32]]], [[[13, 23], [34]]]]),
    (value([[1, 2], [3]]), [[10], [20]], [[11, 12], [23]]), (value([[1, 2], [3, 4]]), [[10, 20]], [[11, 22], [13, 24]])])
def test_operands_are_broadcast_as_dense_ones(x, y, want):
    assert tf.add(x, y).to_list() == want and tf.add(y, x).to_list() == want
    unknown = tf.RaggedTensorSpec([None] * len(x.shape), tf.int64, x.ragged_rank)
    traced = tf.function(lambda a: tf.add(a, tf.cast(y, tf.int64)), input_signature=[unknown])
    assert traced(tf.cast(x, tf.int64)).to_list() == want


def test_rows_that_differ_are_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match="Unable to broadcast"):
        tf.add(value([[1, 2], [3]]), [[1], [2], [3]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="Unable to broadcast"):
        tf.where(value([[True, False], [True]]), value([[1, 2], [3]]), value([[1], [2, 3]]))


def test_format():
    rows = tf.ragged.constant([[1], [], [2, 3]])
    assert tf.strings.format("a {} b {}", [rows, [1, 2]]).numpy() == b"a [[1], [], [2, 3]] b [1 2]"
    assert tf.strings.format("{}", value([["x"], []])).numpy() == b"[['x'], []]"
    with pytest.raises(ValueError, match="2 placeholders"):
        tf.strings.format("{} {}", rows)


def test_split_refuses():
    for sizes, error in (([[1, 1]], TypeError), (value([[1]]), TypeError), ([1, 2], tf.errors.InvalidArgumentError)):
        with pytest.raises(error):
            tf.split(tf.ragged.constant([[1], [2, 3]]), sizes)
    assert tf.RaggedTensor.from_uniform_row_length(tf.zeros([0]), 0).shape.as_list() == [0, 0]


def test_batch_gather_of_indices_of_unknown_rank():
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r"batch_dims=-1 may only be negative if rank\(indices\)"):
        tf.gather(tf.ragged.constant([["a", "b"], ["c"]]), tf1.placeholder(tf.int32, None), batch_dims=-1)


@pytest.mark.parametrize("step", [-1, -2, np.int64(-1), 2])
@pytest.mark.parametrize("wrap", [lambda v: v, tf.constant], ids=["number", "tensor"])
def test_steps_of_slices_may_be_tensors(step, wrap):
    rows = [["a", "b"], ["c", "d", "e"], ["f"], [], ["g"]]
    rt = tf.ragged.constant(rows)

    def check(found, want):
        assert found.to_list() == [[v.encode() for v in row] for row in want]
    check(rt[:, ::wrap(step)], [row[::step] for row in rows])
    check(rt[:, 2::wrap(step)], [row[2::step] for row in rows])
    check(rt[::wrap(step), :wrap(-1):wrap(step)], [row[:-1:step] for row in rows[::step]])

    @tf.function
    def sliced(rt, step):
        return rt[:, ::step]
    check(sliced(rt, tf.constant(step)), [row[::step] for row in rows])


def test_too_many_indices_are_reported():
    rt = tf.ragged.constant([["a", "b"], ["c"]])
    with pytest.raises(IndexError, match="Too many indices for RaggedTensor"):
        rt[..., 0, 0, 0]
    with pytest.raises(TypeError, match="Only integers, slices"):
        rt[1:3:0.5]


@pytest.mark.parametrize("axis", [None, 0, 1, -1, [0, 1]])
@pytest.mark.parametrize("dtype", [tf.float16, tf.float64])
def test_log_of_sums_of_exponentials(axis, dtype):
    rows = [[1.0, 2.0], [], [300.0, 4.0, 5.0]]
    found = tf.reduce_logsumexp(tf.ragged.constant(rows, dtype), axis)
    with np.errstate(divide="ignore"):
        padded = np.array([[*row, *[-np.inf] * (3 - len(row))] for row in rows])
        want = np.logaddexp.reduce(padded, tuple(axis) if isinstance(axis, list) else axis)
    np.testing.assert_allclose(found, want, rtol=1e-3)
    with tf.GradientTape() as tape:
        x = tf.ragged.constant([[1.0, 2.0], [3.0]])
        tape.watch(x.flat_values)
        total = tf.reduce_sum(tf.reduce_logsumexp(x, 1))
    np.testing.assert_allclose(tape.gradient(total, x.flat_values), [1 / (1 + np.e), np.e / (1 + np.e), 1], rtol=1e-5)


@pytest.mark.parametrize("splits", [tf.int32, tf.int64])
def test_elements_of_datasets_keep_the_type_of_their_splits(splits):
    rows = tf.ragged.constant([[1], [2, 3], [4]], row_splits_dtype=splits)
    dataset = tf.data.Dataset.from_tensors(rows).repeat(3)
    seen = []

    @tf.function
    def firsts():
        total = 0
        for element in dataset:
            seen.append((element.row_splits.dtype, element.row_splits))
            total += tf.reduce_sum(element[1])
        return total, element.row_splits
    total, last = firsts()
    assert int(total) == 15 and {dtype for dtype, _ in seen} == {splits} and last.dtype == splits
    assert next(iter(dataset.batch(2))).row_splits.dtype == splits


def test_variants_of_other_types_are_not_read():
    variant = tf.ragged.constant([[1], [2, 3]], row_splits_dtype=tf.int32)._to_variant()
    for splits, values in ((tf.int64, tf.int32), (tf.int32, tf.string), (tf.int32, tf.int64)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="dtype: "):
            tf.raw_ops.RaggedTensorFromVariant(encoded_ragged=variant, input_ragged_rank=-1, output_ragged_rank=1,
                                               Tvalues=values, Tsplits=splits)
