"""Masks along axes that only the run knows, positions of 16 bits, and checks of sparse shapes."""
import numpy as np
import pytest

import penstock as tf


def test_a_mask_along_an_axis_that_is_a_tensor():
    x, mask = np.array([[1, 2, 3], [4, 5, 6]]), [True, False, True]

    @tf.function
    def masked(axis):
        return tf.boolean_mask(x, mask, axis=axis)
    for axis in (1, -1):
        assert masked(tf.constant(axis)).numpy().tolist() == [[1, 3], [4, 6]]
        assert tf.boolean_mask(x, mask, axis=tf.constant(axis)).numpy().tolist() == [[1, 3], [4, 6]]
    with tf.Graph().as_default():
        assert tf.boolean_mask(x, mask, axis=tf.constant(1)).shape.as_list() == [2, None]


def test_positions_of_16_bits():
    x = tf.constant([1., 2., 3., 4.])
    i = np.array([2, 0], np.int16)

    def gathered(at):
        return tf.raw_ops.GatherV2(params=x, indices=at, axis=0)
    assert gathered(i).numpy().tolist() == [3, 1]
    assert [tf.function(gathered)(i).numpy().tolist() for _ in range(3)] == [[3, 1]] * 3
    spread = tf.raw_ops.ScatterNd(indices=i[:, None], updates=[5., 7.], shape=np.array([4], np.int16))
    assert spread.numpy().tolist() == [7, 0, 5, 0]
    with tf.GradientTape() as tape:
        tape.watch(x)
        part = tf.raw_ops.StridedSlice(input=x, begin=i[1:], end=i[:1], strides=np.array([1], np.int16))
    assert part.numpy().tolist() == [1, 2]
    assert tape.gradient(part, x).numpy().tolist() == [1, 1, 0, 0]
    with pytest.raises((TypeError, tf.errors.InvalidArgumentError), match="int16, int32, int64"):
        tf.compat.v1.wrap_function(lambda: tf.gather([0, 1, 2], 0.5), [])


def test_an_axis_beyond_the_rank_is_named_by_ranks():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="Shape must be at least rank 2 but is rank 1"):
        tf.gather([0, 1, 2], 0, axis=1)


def test_shapes_of_sparse_tensors_are_checked():
    s = tf.sparse.from_dense([[1., 0.], [0., 2.], [3., 0.]])
    tf.debugging.assert_rank(s, 2)
    tf.debugging.assert_shapes([(s, ("N", 2)), (tf.zeros([3]), ("N",))])
    with pytest.raises(ValueError, match="must have rank 1"):
        tf.debugging.assert_rank(s, 1)
    with pytest.raises(ValueError, match="must have size 5"):
        tf.debugging.assert_shapes([(s, (5, 2))])

    @tf.function(input_signature=[tf.SparseTensorSpec([None, None], tf.float32)])
    def checked(x):
        with tf.control_dependencies([tf.compat.v1.debugging.assert_shapes([(x, (3, None))])]):
            return tf.sparse.to_dense(x)
    assert checked(s).shape == (3, 2)
    with pytest.raises(tf.errors.InvalidArgumentError):
        checked(tf.sparse.from_dense([[1., 2.]]))


def test_distances_need_sequences_in_rows():
    flat = tf.SparseTensor(np.zeros([1, 1], np.int64), ["a"], [1])
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="rank at least 2, but hypothesis_shape rank is: 1"):
        tf.edit_distance(flat, flat)


def test_errors_of_masks_and_positions():
    with pytest.raises(ValueError, match="`maxlen` must be scalar"):
        tf.sequence_mask([1, 2], [3, 4])
    with pytest.raises(tf.errors.InvalidArgumentError, match="dims cannot contain a dim of zero"):
        tf.unravel_index([2], [3, 0])
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=r"\[110,53\]"):
        tf.function(lambda x: tf.broadcast_to(x, [110, 53]))(tf.constant([1, 2, 3]))


def test_a_scalar_is_no_shape():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="must be rank 1 but is rank 0.*scalar 6 .rank-0"):
        tf.reshape([1, 2, 3, 4, 5, 6], 6)


def test_axes_of_any_integer_type():
    for dtype in (tf.uint8, tf.uint16, tf.int8, tf.int64):
        assert tf.argmax([[1, 5], [7, 2]], axis=tf.constant(1, dtype)).numpy().tolist() == [1, 0]
        assert tf.function(lambda a: tf.argmin([[1, 5], [7, 2]], axis=a))(tf.constant(0, dtype)).numpy().tolist() == [0, 1]
    with pytest.raises(TypeError, match="axis must be an integer"):
        tf.argmax([1, 2], axis=tf.constant(0.0))


def test_sums_of_anything_iterable():
    assert tf.add_n(i for i in (1, 2)).numpy() == 3
    assert tf.add_n({"a": 1, "b": 2}.values()).numpy() == 3
    for wrong in ("ab", {"a": 1}, 3, iter(())):
        with pytest.raises(ValueError, match="must be an iterable"):
            tf.add_n(wrong)


def test_gradient_of_the_sign_of_complex_numbers():
    x = tf.constant([1 + 1j, 3 - 4j, 0], tf.complex128)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, same = tf.sign(x), tf.math.divide_no_nan(x, tf.cast(tf.abs(x), x.dtype))
    seed = tf.constant([1.0, 2 - 1j, 1.0], tf.complex128)
    np.testing.assert_allclose(tape.gradient(y, x, seed)[:2], tape.gradient(same, x, seed)[:2], rtol=1e-5)
    assert tape.gradient(y, x)[2].numpy() == 0
    assert complex(tf.Variable(1.5 + 1j)) == 1.5 + 1j


def test_errors_of_dimensions():
    with pytest.raises(IndexError):
        tf.tensordot([[1, 2]], [[3], [4]], [[0], [7]])
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="must be rank 2 but is rank 3"):
        tf.raw_ops.UpperBound(sorted_inputs=tf.zeros([2, 3]), values=tf.zeros([2, 1, 0]))
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="rank of the values must be greater"):
        tf.raw_ops.ParallelConcat(values=[1], shape=[0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="TensorProto, base64: Ym9ndXM="):
        tf.io.parse_tensor("bogus", tf.uint8)


def test_large_unsigned_integers_beside_small_ones():
    values = [2**63 + 1, 0, 2**64 - 1]
    assert tf.constant(values, tf.uint64).numpy().tolist() == values
    assert tf.ragged.constant([values[:2], values[2:]], tf.uint64).to_list() == [values[:2], values[2:]]
    with pytest.raises((TypeError, ValueError, OverflowError)):
        tf.constant([2**63 + 1, 0.5], tf.uint64)


def test_scattered_shapes_that_do_not_fit_are_named():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match=r"Dimensions \[0,2\) of indices\[shape=\[3,2,2\]\] must match dimensions \[0,2\)"):
            tf.scatter_nd(tf.zeros([3, 2, 2], tf.int32), tf.zeros([2, 2, 2]), [2, 2, 2])
        v = tf.compat.v1.get_variable("v", [2, 2, 2], use_resource=True)
        for scatter in (lambda i, u: tf.tensor_scatter_nd_add(tf.zeros([2, 2, 2]), i, u),
                        lambda i, u: tf.compat.v1.scatter_nd_update(v, i, u)):
            with pytest.raises(ValueError, match=r"Dimensions \[1,3\) of input\[shape=\[2,2,2\]\] must match"):
                scatter(tf.zeros([2, 2, 1], tf.int32), tf.zeros([2, 2]))


def test_parts_of_sparse_tensors_are_checked():
    bad = (ValueError, tf.errors.InvalidArgumentError)
    empty = tf.SparseTensor([[0, 0]], [1.0], [0, 1])
    with pytest.raises(bad, match="non-zero indices if dense shape has zero volume"):
        tf.sparse.concat(1, [empty, empty])
    huge = tf.SparseTensor([[0]], [1.0], [2**62])
    with pytest.raises(bad, match="overflowed"):
        tf.sparse.concat(0, [huge, huge])
    with pytest.raises(bad, match="Expected D2 of index to be 2"):
        tf.sparse.cross([tf.SparseTensor([[0]], ["a"], [10])])
    with pytest.raises(bad, match="separator should be a scalar"):
        tf.sparse.cross([], separator=tf.constant(["a", "b"]))


def test_lists_have_one_number_of_elements():
    for call in (lambda: tf.raw_ops.TensorListReserve(element_shape=[1], num_elements=[3], element_dtype=tf.float32),
                 lambda: tf.raw_ops.EmptyTensorList(element_shape=[1], max_num_elements=[3], element_dtype=tf.float32),
                 lambda: tf.raw_ops.TensorListScatterV2(tensor=[2.0], indices=[0], element_shape=[1], num_elements=[1])):
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be a scalar"):
            call()
        with tf.Graph().as_default(), pytest.raises(ValueError, match="Shape must be rank 0 but is rank 1"):
            call()


def test_summaries_that_are_not_recorded_need_no_step(tmp_path):
    with tf.summary.create_file_writer(str(tmp_path)).as_default():
        with tf.summary.record_if(False):
            assert not tf.summary.write("tag", 42)
        with tf.summary.record_if(tf.constant(False)):
            assert not tf.summary.scalar("tag", 42.0)
        calls = []
        with tf.summary.record_if(lambda: calls.append(1) or len(calls) == 1):
            assert tf.summary.write("tag", 42, step=0) and not tf.summary.write("tag", 42, step=0)
        assert len(calls) == 2
        with pytest.raises(ValueError, match="No step set"):
            tf.summary.write("tag", 42)


def test_sizes_that_no_integer_counts():
    bad = (ValueError, tf.errors.InvalidArgumentError)
    with pytest.raises(bad, match="Output size would overflow"):
        tf.raw_ops.ExtractVolumePatches(input=tf.ones([1, 1, 1, 1, 2]), ksizes=[1, 2000000, 2000000, 2000000, 1],
                                        strides=[1, 1, 1, 1, 1], padding="SAME")
    with pytest.raises(bad, match="Shape must be a 1D tensor"):
        tf.raw_ops.SetSize(set_indices=np.int64(1), set_values=[1, 1], set_shape=np.int64(1))
