"""Sets along the last axis against Python's sets."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1

A = [[[1, 2, 2], [4, 5, 6]], [[7, 8, 9], [0, 0, 0]]]
B = [[[2, 3], [7, 7]], [[9, 8], [0, 1]]]


def as_sets(sp):
    out = np.empty(sp.dense_shape.numpy()[:-1], object)
    for at in np.ndindex(out.shape):
        out[at] = []
    for row, v in zip(sp.indices.numpy(), sp.values.numpy(), strict=True):
        assert row[-1] == len(out[tuple(row[:-1])])
        out[tuple(row[:-1])].append(v)
    return out


def sparse(x, dtype):
    x = np.array(x, dtype)
    return tf.SparseTensor(np.argwhere(np.ones_like(x)), x.reshape(-1), x.shape)


@pytest.mark.parametrize("kinds", [("dense", "dense"), ("dense", "sparse"), ("sparse", "dense"), ("sparse", "sparse")])
@pytest.mark.parametrize("name, combine", [("union", set.union), ("intersection", set.intersection),
                                           ("difference", set.difference)])
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64])
def test_against_python(name, combine, kinds, dtype):
    a, b = (sparse(x, dtype) if k == "sparse" else np.array(x, dtype) for x, k in zip((A, B), kinds, strict=True))
    out = getattr(tf.sets, name)(a, b)
    found = as_sets(out)
    sizes = []
    for at in np.ndindex(2, 2):
        want = sorted(combine(set(A[at[0]][at[1]]), set(B[at[0]][at[1]])))
        assert found[at] == want
        sizes.append(len(want))
    assert out.dense_shape.numpy().tolist() == [2, 2, max(sizes)]
    assert tf.sets.size(out).numpy().reshape(-1).tolist() == sizes


def test_difference_the_other_way():
    out = tf.sets.difference([[1, 2]], [[2, 3]], aminusb=False)
    assert out.values.numpy().tolist() == [3]


def test_strings_are_in_byte_order():
    out = tf.sets.union([["b", "a\x00", "a"]], [["", "c"]])
    assert out.values.numpy().tolist() == [b"", b"a", b"a\x00", b"b", b"c"]


def test_unsorted_indices_are_refused_unless_told():
    sp = tf.SparseTensor([[1, 0], [0, 0]], [5, 6], [2, 1])
    with pytest.raises(tf.errors.InvalidArgumentError, match="out of order"):
        tf.sets.size(sp)
    assert tf.sets.size(sp, validate_indices=False).numpy().tolist() == [1, 1]


def test_what_is_refused():
    with pytest.raises(TypeError, match="invalid dtype"):
        tf.sets.union([[1.0]], [[2.0]])
    with pytest.raises(TypeError, match="Types don't match"):
        tf.sets.union([[1]], [["a"]])
    with pytest.raises(TypeError, match="Expected `SparseTensor`"):
        tf.sets.size([[1]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="out of bounds"):
        tf.sets.size(tf.SparseTensor([[5, 0]], [1], [2, 2]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid set_operation"):
        tf1.raw_ops.DenseToDenseSetOperation(set1=[[1]], set2=[[1]], set_operation="xor")
    with tf1.Graph().as_default(), pytest.raises(ValueError, match="input shapes"):
        tf1.sets.set_union([[1], [2]], [[1]])
