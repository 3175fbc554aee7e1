"""Gradients of reductions of picked rows as the rows that were picked; `tf.sparse.cross` with a separator; slices as text."""
from __future__ import annotations

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1


@pytest.mark.parametrize("name", ["segment_sum", "segment_mean", "segment_sqrt_n"])
@pytest.mark.parametrize("count", [{}, {"num_segments": 4}])
def test_both_forms_of_the_gradient_are_equal(name, count):
    data = tf.constant(np.random.RandomState(0).randn(6, 2))
    found = []
    for sparse in (False, True):
        with tf.GradientTape() as tape:
            tape.watch(data)
            loss = tf.reduce_sum(getattr(tf.sparse, name)(data, [5, 1, 1], [0, 0, 1], sparse_gradient=sparse, **count) ** 2)
        found.append(tape.gradient(loss, data))
    assert isinstance(found[1], tf.IndexedSlices) and found[1].indices.numpy().tolist() == [1, 5]
    np.testing.assert_allclose(tf.convert_to_tensor(found[1]), found[0], rtol=1e-6)


def test_crosses_with_a_separator():
    words = tf.sparse.from_dense([["a", "b"], ["c", ""]])
    numbers = tf.constant([[1], [2]])
    found = tf.sparse.cross([words, numbers], separator="&")
    assert tf.sparse.to_dense(found).numpy().tolist() == [[b"a&1", b"b&1"], [b"c&2", b""]]
    with pytest.raises(TypeError, match="list"):
        tf.sparse.cross(words, separator="&")


def test_slices_of_variables_as_text():
    kind = tf1.Variable.SaveSliceInfo
    spec = kind("v", [2, 3, 4], [0, 2, 0], [1, 1, 3]).spec
    assert spec == "2 3 4 0,1:2,1:0,3" and kind.from_spec(spec).spec == spec
    for bad, message in (("0", "space-separated"), ("a b", "full_shape"), ("0 0:0", "pairs"), ("0 a,0", "var_offset"),
                         ("0 0,a", "var_shape")):
        with pytest.raises(ValueError, match=message):
            kind.from_spec(bad)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("low", [0, -1])
def test_the_gradient_of_unsorted_segments_gathers_once(known, low):
    """Rows of the gradient, with zeros where an id is negative, are one op, also where shapes are open."""
    r = np.random.RandomState(0)
    data, ids, weights = r.rand(6, 3).astype("f"), r.randint(low, 4, 6), r.rand(4, 3).astype("f")
    ids[0] = low

    @tf.function(input_signature=[tf.TensorSpec([6 if known else None, 3]), tf.TensorSpec([6 if known else None], tf.int64)])
    def gradient(x, i):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.math.unsorted_segment_sum(x, i, 4) * weights)
        return tape.gradient(loss, x)

    expected = np.where(ids[:, None] >= 0, weights[np.maximum(ids, 0)], 0)
    np.testing.assert_array_equal(gradient(data, ids), expected)
    text = gradient.explain(data, ids)
    assert "GatherKept" in text and "SelectV2(" not in text
