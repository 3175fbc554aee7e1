"""Ragged tensors against plain Python lists."""
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.graph import context

ROWS = st.lists(st.lists(st.integers(-50, 50), max_size=5), min_size=1, max_size=6)


@pytest.fixture(autouse=True)
def _eager():
    with context.enter(None):
        yield


def make(rows):
    return tf.ragged.constant(rows, dtype=tf.int64, ragged_rank=1)


@given(ROWS)
@settings(max_examples=40, deadline=None)
def test_lists_there_and_back(rows):
    with context.enter(None):
        assert make(rows).to_list() == rows


@given(ROWS)
@settings(max_examples=40, deadline=None)
def test_all_factories_agree(rows):
    with context.enter(None):
        flat = np.array([x for r in rows for x in r], np.int64)
        lengths = np.array([len(r) for r in rows], np.int64)
        limits = lengths.cumsum()
        ids = np.repeat(np.arange(len(rows)), lengths)
        made = [tf.RaggedTensor.from_row_lengths(flat, lengths), tf.RaggedTensor.from_row_limits(flat, limits),
                tf.RaggedTensor.from_row_starts(flat, limits - lengths),
                tf.RaggedTensor.from_row_splits(flat, np.concatenate([[0], limits])),
                tf.RaggedTensor.from_value_rowids(flat, ids, nrows=len(rows))]
        assert all(m.to_list() == rows for m in made)


@given(ROWS, st.integers(0, 4))
@settings(max_examples=40, deadline=None)
def test_slices_are_pythons(rows, k):
    with context.enter(None):
        rt = make(rows)
        assert rt[k:].to_list() == rows[k:]
        assert rt[:k].to_list() == rows[:k]
        assert rt[:, k:].to_list() == [r[k:] for r in rows]
        assert rt[:, :k].to_list() == [r[:k] for r in rows]
        assert rt[::2].to_list() == rows[::2]
        assert rt[0].numpy().tolist() == rows[0]


@given(ROWS)
@settings(max_examples=40, deadline=None)
def test_reductions(rows):
    with context.enter(None):
        rt = make(rows)
        assert tf.reduce_sum(rt, axis=1).numpy().tolist() == [sum(r) for r in rows]
        width = max(map(len, rows))
        assert tf.reduce_sum(rt, axis=0).numpy().tolist() == [sum(r[i] for r in rows if len(r) > i) for i in range(width)]
        assert int(tf.reduce_sum(rt)) == sum(map(sum, rows))


@given(ROWS, ROWS)
@settings(max_examples=40, deadline=None)
def test_concat_and_stack(a, b):
    with context.enter(None):
        assert tf.concat([make(a), make(b)], axis=0).to_list() == a + b
        n = min(len(a), len(b))
        a, b = a[:n], b[:n]
        assert tf.concat([make(a), make(b)], axis=1).to_list() == [x + y for x, y in zip(a, b, strict=True)]
        assert tf.ragged.stack([make(a), make(b)], axis=0).to_list() == [a, b]


def test_dense_and_sparse():
    rt = make([[1, 2], [], [3, 4, 5]])
    assert rt.to_tensor(-1).numpy().tolist() == [[1, 2, -1], [-1, -1, -1], [3, 4, 5]]
    assert tf.RaggedTensor.from_tensor(rt.to_tensor(), padding=0).to_list() == rt.to_list()
    sparse = rt.to_sparse()
    assert sparse.indices.numpy().tolist() == [[0, 0], [0, 1], [2, 0], [2, 1], [2, 2]]
    assert tf.RaggedTensor.from_sparse(sparse).to_list() == rt.to_list()


def test_operators_and_elementwise_functions():
    rt = make([[1, 2], [], [3]])
    assert (rt + 1).to_list() == [[2, 3], [], [4]]
    assert (10 - rt * rt).to_list() == [[9, 6], [], [1]]
    assert tf.cast(rt, tf.float32).dtype == tf.float32
    assert (rt + tf.constant([[10], [20], [30]], tf.int64)).to_list() == [[11, 12], [], [33]]
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        rt + make([[1], [2], [3]])


def test_gather_tile_mask_where():
    rt = make([[1, 2], [], [3]])
    assert tf.gather(rt, [2, 0]).to_list() == [[3], [1, 2]]
    assert tf.tile(rt, [1, 2]).to_list() == [[1, 2, 1, 2], [], [3, 3]]
    assert tf.ragged.boolean_mask(rt, tf.ragged.constant([[True, False], [], [True]])).to_list() == [[1], [], [3]]
    assert tf.expand_dims(rt, 0).to_list() == [[[1, 2], [], [3]]]


def test_where_of_1x_chooses_elements_that_have_further_dimensions():
    chosen = tf.ragged.constant([[True, False], [False]])
    x = tf.ragged.constant([[[1, 2], [3, 4]], [[5, 6]]], ragged_rank=1)
    where = tf.compat.v1.where
    assert where(chosen, x, -x).to_list() == [[[1, 2], [-3, -4]], [[-5, -6]]]
    assert where(chosen, make([[1, 2], [3]]), make([[4, 5], [6]])).to_list() == [[1, 5], [6]]
    assert tf.where([[True], [False]], make([[1, 2], [3]]), make([[4, 5], [6]])).to_list() == [[1, 2], [6]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="Unable to broadcast"):
        tf.where(chosen, x, -x)


def test_gradients_flow_to_the_flat_values():
    rt = tf.ragged.constant([[1.0, 2.0], [3.0]])
    with tf.GradientTape() as tape:
        tape.watch(rt.flat_values)
        y = tf.reduce_sum(rt * rt)
    assert tape.gradient(y, rt.flat_values).numpy().tolist() == [2.0, 4.0, 6.0]


@pytest.mark.parametrize("splits", [[1, 2, 3], [0, 2, 1, 3], [0, 2]])
def test_bad_splits_are_refused(splits):
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        tf.RaggedTensor.from_row_splits([1, 2, 3], splits)


def test_sessions_fetch_and_feed_ragged_tensors():
    with tf1.Graph().as_default(), tf1.Session() as sess:
        p = tf1.ragged.placeholder(tf.int64, 1)
        value = tf1.ragged.constant_value([[1], [2, 3]], dtype=np.int64)
        assert sess.run(p + 1, {p: value}).to_list() == [[2], [3, 4]]


@pytest.mark.parametrize(("axes", "expected"), [
    ((0, 1), [[[1], [2]], [], [[3, 4]]]), ((1, 2), [[[1], [2]], [[3, 4]]]), ((0, 2), [[1], [2], [3, 4]]),
    ((2, 3), [[[1, 2], []], [[3, 4]]]), ((1, 3), [[1, 2], [3, 4]]), ((0, -1), [1, 2, 3, 4]),
    ((2, 2), [[[[1], [2]], []], [[[3, 4]]]])])
def test_dimensions_are_merged(axes, expected):
    whole = tf.ragged.constant([[[[1], [2]], []], [[[3, 4]]]])
    merged = whole.merge_dims(*axes)
    assert (merged.to_list() if isinstance(merged, tf.RaggedTensor) else merged.numpy().tolist()) == expected
    assert merged.shape.rank == 4 - (axes[1] % 4 - axes[0])


@pytest.mark.parametrize(("axes", "expected"), [
    ((0, 1), np.arange(12).reshape(3, 2, 2)), ((0, 2), np.arange(12).reshape(6, 2)), ((0, 3), np.arange(12)),
    ((1, 2), [[[0, 1], [2, 3]], [[4, 5], [6, 7], [8, 9], [10, 11]]]),
    ((2, 3), [[[0, 1, 2, 3]], [[4, 5, 6, 7], [8, 9, 10, 11]]]),
    ((1, 3), [[0, 1, 2, 3], [4, 5, 6, 7, 8, 9, 10, 11]])])
def test_uniform_dimensions_are_merged(axes, expected):
    whole = tf.RaggedTensor.from_row_splits(tf.reshape(tf.range(12), [3, 2, 2]), [0, 1, 3])
    merged = whole.merge_dims(*axes)
    got = merged.to_list() if isinstance(merged, tf.RaggedTensor) else merged.numpy().tolist()
    assert got == (expected if isinstance(expected, list) else expected.tolist())


def test_axes_that_cannot_be_merged():
    whole = tf.ragged.constant([[[1, 2], [3]], []])
    with pytest.raises(ValueError, match=r"outer_axis \(2\) to be less than or equal to inner_axis \(1\)"):
        whole.merge_dims(2, 1)
    with pytest.raises(ValueError, match="inner_axis=5 out of bounds: expected -3<=inner_axis<3"):
        whole.merge_dims(0, 5)


def test_embeddings_of_ragged_ids():
    table = tf.reshape(tf.range(8.0), [4, 2])
    found = tf.nn.embedding_lookup(table, tf.ragged.constant([[3], [], [0, 1]]))
    assert found.to_list() == [[[6, 7]], [], [[0, 1], [2, 3]]]


def test_equality_compares_elements():
    x = tf.ragged.constant([[3, 1, 4], [], [1, 5]])
    assert (x == 1).to_list() == [[False, True, False], [], [True, False]]
    assert (x != x).to_list() == [[False] * 3, [], [False] * 2]
    assert (x == None) is False                                         # noqa: E711
    assert (x != None) is True                                          # noqa: E711


@pytest.mark.parametrize("traced", [False, True])
def test_images_of_different_sizes_are_resized_to_one(traced):
    sizes = [(2, 8), (3, 5), (6, 6)]
    images = [np.arange(h * w * 3, dtype=np.float32).reshape(h, w, 3) for h, w in sizes]
    batch = tf.ragged.stack([tf.constant(x) for x in images])

    def resize(x):
        return tf.image.resize(x, [4, 5])
    if traced:
        resize = tf.function(resize, input_signature=[tf.RaggedTensorSpec([None, None, None, 3], ragged_rank=2)])
    out = resize(batch)
    assert out.shape == (3, 4, 5, 3)
    for got, image in zip(out, images, strict=True):
        np.testing.assert_allclose(got, tf.image.resize(image, [4, 5]), rtol=1e-6)
    assert resize(batch[:0]).shape == (0, 4, 5, 3)


def test_padding_of_a_ragged_tensor_is_differentiated():
    rows, default = tf.ragged.constant([[1., 2.], [3.]]), tf.constant(7.)
    weights = tf.reshape(tf.range(1., 13.), [3, 4])
    for shape in ([3, 4], tf.constant([3, 4]), [tf.constant(3), 4]):
        with tf.GradientTape() as tape:
            tape.watch([rows, default])
            dense = rows.to_tensor(default, shape=shape)
        np.testing.assert_array_equal(dense, [[1, 2, 7, 7], [3, 7, 7, 7], [7, 7, 7, 7]])
        of_rows, of_default = tape.gradient(dense, (rows, default), output_gradients=weights)
        assert of_rows.to_list() == [[1., 2.], [5.]]
        assert float(of_default) == 78. - 1. - 2. - 5.


def test_defaults_of_ragged_tensors_fit_their_values():
    rows = tf.ragged.constant([[1., 2.], [3.]])
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="default_value.rank = 1  must be less than"):
        rows.to_tensor([1.])
    message = r"shape=\[2,3,4\] are incompatible: rt_input.rank = 2 but shape.rank = 3"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        rows.to_tensor(shape=[2, 3, 4])


@pytest.mark.parametrize("call, arguments", [
    (tf.math.softsign, {"features": 0}), (tf.math.angle, {"input": 0}), (tf.math.nextafter, {"x1": 0, "x2": 1.}),
    (tf.cast, {"x": 0, "dtype": tf.float64}), (tf.math.add, {"y": 0, "x": 1.}), (tf.nn.relu, {"features": 0})])
def test_functions_take_ragged_tensors_by_keyword(call, arguments):
    ragged = tf.ragged.constant([[1., -2.], [], [3.]])
    given = {name: value if isinstance(value, (float, tf.DType)) else ragged for name, value in arguments.items()}
    dense = {name: value.flat_values if value is ragged else value for name, value in given.items()}
    out = call(**given)
    assert out.row_splits.numpy().tolist() == ragged.row_splits.numpy().tolist()
    np.testing.assert_array_equal(out.flat_values, call(**dense))


@pytest.mark.parametrize("x, y", [([[1, 2, 3], [4], [5, 6]], [[10, 20], [30, 40], [50]]),
                                  ([[[1, 2], [3, 4]], [[5, 6]]], [[[1, 2, 0], [3, 4, 0]], [[5, 6, 0]]])])
def test_rows_that_differ_are_an_error_of_the_values(x, y):
    with pytest.raises(tf.errors.InvalidArgumentError, match="row_splits"):
        tf.ragged.constant(x) + tf.ragged.constant(y)
    with pytest.raises(ValueError, match="outer-dimension"):
        tf.ragged.map_flat_values(tf.add, tf.ragged.constant([[1, 2]]), tf.ragged.constant([[1, 2, 3]]))


@pytest.mark.parametrize("value, text", [
    ([[1, 2], [], [3]], "[[1, 2], [], [3]]"),
    ([[1, 2], [3, 4]], "[[1, 2],\n [3, 4]]"),
    ([[[1.0, 2.0], [3.0, 4.0]], []], "[[[1.0, 2.0],\n  [3.0, 4.0]], []]"),
    ([[b"x" * 30], [b"y" * 40, b"z"]], f"[[{b'x' * 30}],\n [{b'y' * 40}, b'z']]"),
    ([[], []], "[[], []]"),
])
def test_text_breaks_lines_as_numpy_does(value, text):
    assert repr(tf.ragged.constant(value)) == f"<tf.RaggedTensor {text}>"
