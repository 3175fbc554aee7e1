"""Behaviours of TensorFlow 2.21 that programs rely on, with the values it gives."""
import numpy as np
import pytest

import penstock as tf


def test_a_range_counts_in_its_own_type():
    assert tf.range(0.1, 1.1, 0.1).shape == [10]
    assert tf.function(lambda: tf.range(0.1, 1.1, 0.1))().shape == [10]
    assert tf.range(tf.constant(0.1, tf.float64), 1.1, 0.1).shape == [11]        # the others were float32 before
    assert tf.range(0., 1., 0.25).numpy().tolist() == [0, 0.25, 0.5, 0.75]


def test_eye_of_booleans():
    assert tf.eye(2, 3, dtype=tf.bool).numpy().tolist() == [[True, False, False], [False, True, False]]


def test_indexed_slices_with_a_plain_shape_are_tensors():
    assert tf.is_tensor(tf.IndexedSlices(tf.constant([1.]), tf.constant([0]), (2,)))


def test_gather_nd_may_ignore_what_is_beyond():
    params, at = tf.constant([[1, 2], [3, 4]]), [[0, 1], [7, 0], [1, -1]]
    assert tf.gather_nd(params, at, bad_indices_policy="IGNORE").numpy().tolist() == [2, 0, 0]
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.gather_nd(params, at, bad_indices_policy="ERROR")
    rows = tf.constant([[[1], [5]], [[0], [1]]])
    assert tf.gather_nd(params, rows, batch_dims=1, bad_indices_policy="IGNORE").numpy().tolist() == [[2, 0], [3, 4]]


def test_gather_nd_of_a_variable_may_ignore_what_is_beyond():
    v = tf.Variable([1., 2.])
    with tf.GradientTape() as tape:
        out = tf.gather_nd(v, [[1], [-1], [0]], bad_indices_policy="IGNORE")
    assert out.numpy().tolist() == [2, 0, 1]
    assert tape.gradient(out, v).numpy().tolist() == [1, 1]


def test_a_scalar_is_split_into_one_row_in_v1():
    split = tf.compat.v1.strings.split
    assert split("1 2 3", result_type="RaggedTensor").to_list() == [[b"1", b"2", b"3"]]
    assert split("1 2 3").dense_shape.numpy().tolist() == [1, 3]
    assert tf.strings.split("1 2 3").numpy().tolist() == [b"1", b"2", b"3"]


def test_types_of_numbers():
    assert [d.name for d in (tf.float32, tf.int8, tf.bool, tf.string, tf.qint8, tf.complex64, tf.resource) if d.is_numeric] == \
        ["float32", "int8", "qint8", "complex64"]


def test_a_generator_is_saved_with_what_owns_it(tmp_path):
    g = tf.random.Generator.from_seed(7)
    path = tf.train.Checkpoint(g=g).write(str(tmp_path / "c"))
    first = g.normal([3]).numpy()
    again = tf.random.Generator.from_seed(8)
    tf.train.Checkpoint(g=again).read(path).assert_consumed()
    np.testing.assert_array_equal(again.normal([3]).numpy(), first)


def test_dropout_by_seed():
    x = tf.ones([100])
    out = tf.nn.experimental.stateless_dropout(x, rate=0.5, seed=[1, 2]).numpy()
    np.testing.assert_array_equal(out, tf.nn.experimental.stateless_dropout(x, rate=0.5, seed=[1, 2]).numpy())
    drawn = tf.random.stateless_uniform([100], [1, 2]).numpy()
    np.testing.assert_array_equal(out, np.where(drawn >= 0.5, 2.0, 0.0))
    kept = tf.nn.experimental.general_dropout(x, 0.25, lambda shape, dtype: tf.zeros(shape, dtype))
    assert not kept.numpy().any()


def test_determinism_may_be_switched_off():
    tf.config.experimental.enable_op_determinism()
    assert tf.config.experimental.is_op_determinism_enabled()
    tf.config.experimental.disable_op_determinism()
    assert not tf.config.experimental.is_op_determinism_enabled()
    assert tf.random.uniform([2]).shape == [2]


def test_signatures_of_traces():
    @tf.function
    def f(x, y=2, *, z=None):
        return {"a": x + 1.}, y
    f(tf.constant(1.))
    assert f.pretty_printed_concrete_signatures() == (
        "Input Parameters:\n  x (POSITIONAL_OR_KEYWORD): TensorSpec(shape=(), dtype=tf.float32, name=None)\n"
        "  y (POSITIONAL_OR_KEYWORD): Literal[2]\n  z (KEYWORD_ONLY): Literal[None]\nOutput Type:\n"
        "  Tuple[Dict[['a', TensorSpec(shape=(), dtype=tf.float32, name=None)]], "
        "TensorSpec(shape=(), dtype=tf.int32, name=None)]\nCaptures:\n  None")
    assert list(f.function_type.parameters) == ["x", "y", "z"]


def test_layers_and_strategies():
    i = tf.keras.Input((4,), sparse=True)
    model = tf.keras.Model(i, tf.keras.layers.Dense(2)(i))
    assert model(tf.sparse.from_dense(np.eye(4, dtype=np.float32))).shape == [4, 2]
    assert tf.distribute.MirroredStrategy([]).num_replicas_in_sync == tf.distribute.MirroredStrategy().num_replicas_in_sync


def test_transforms_over_any_axes():
    x = np.arange(24.).reshape(2, 3, 4)
    np.testing.assert_allclose(tf.signal.fftnd(tf.constant(x, tf.complex64), axes=[0, 2]).numpy(), np.fft.fftn(x, axes=(0, 2)),
                               atol=1e-3)
    np.testing.assert_allclose(tf.signal.rfftnd(tf.constant(x), [2, 6], [0, 1]).numpy(), np.fft.rfftn(x, [2, 6], (0, 1)),
                               atol=1e-12)
    back = tf.signal.irfftnd(tf.signal.rfftnd(tf.constant(x)), fft_length=[2, 3, 4], axes=[0, 1, 2])
    np.testing.assert_allclose(back.numpy(), x, atol=1e-9)
    np.testing.assert_allclose(tf.signal.ifftnd(tf.constant(x, tf.complex128)).numpy(), np.fft.ifftn(x), atol=1e-12)


def test_approximate_top_k_is_exact():
    values, indices = tf.math.approx_max_k([[3., 1., 2.], [4., 9., 5.]], 2)
    assert values.numpy().tolist() == [[3, 2], [9, 5]] and indices.numpy().tolist() == [[0, 2], [1, 2]]
    assert tf.nn.approx_min_k([[3., 1., 2.], [4., 9., 5.]], 1, reduction_dimension=0).values.numpy().tolist() == [[3, 1, 2]]


def test_memory_is_shared_by_dlpack():
    import torch
    theirs = torch.arange(4)
    x = tf.experimental.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(theirs))
    assert x.dtype == tf.int64 and x.numpy().tolist() == [0, 1, 2, 3]
    back = torch.utils.dlpack.from_dlpack(tf.experimental.dlpack.to_dlpack(x))
    assert back.data_ptr() == theirs.data_ptr()


def test_where_a_program_stands():
    seen = []
    tf.function(lambda x: seen.append((tf.inside_function(), tf.is_symbolic_tensor(x))))(tf.constant(1))
    assert seen == [(True, True)] and not tf.inside_function() and not tf.is_symbolic_tensor(tf.constant(1))


def test_tables_that_are_not_shared():
    init = tf.lookup.KeyValueTensorInitializer(["a"], tf.constant([1], tf.int64))
    for table in (tf.lookup.StaticHashTable(init, -1, experimental_is_anonymous=True),
                  tf.lookup.StaticVocabularyTable(init, 1, experimental_is_anonymous=True)):
        assert table.lookup(tf.constant(["a"])).numpy().tolist() == [1]
    first, second = (tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1, experimental_is_anonymous=True)
                     for _ in range(2))
    first.insert(["a"], [5])
    assert second.lookup(tf.constant(["a"])).numpy().tolist() == [-1]


def test_an_operator_keeps_its_parameters():
    class Own(tf.linalg.LinearOperator):
        def __init__(self, matrix):
            super().__init__(matrix.dtype, is_square=True, parameters={"matrix": matrix})
            self._matrix = matrix

        def _shape(self):
            return self._matrix.shape

        def _shape_tensor(self):
            return tf.shape(self._matrix)

        def _matmul(self, x, adjoint=False, adjoint_arg=False):
            return tf.matmul(self._matrix, x, adjoint_a=adjoint, adjoint_b=adjoint_arg)
    matrix = tf.eye(2) * 3
    assert Own(matrix).parameters["matrix"] is matrix
    assert Own(matrix).matvec([1., 2.]).numpy().tolist() == [3, 6]


def test_gather_by_small_integers():
    params = tf.constant([[1., 2.], [3., 4.], [5., 6.]])
    for at in (tf.constant([2, 0, 2], tf.int16), np.array([2, 0, 2], np.int16)):
        with tf.GradientTape() as tape:
            tape.watch(params)
            out = tf.gather(params, at)
        assert out.numpy().tolist() == [[5, 6], [1, 2], [5, 6]]
        assert tf.convert_to_tensor(tape.gradient(out, params)).numpy().tolist() == [[1, 1], [0, 0], [2, 2]]


@pytest.mark.parametrize("f, dtypes", [
    (lambda x: tf.signal.fft(x), "complex64 complex128"), (lambda x: tf.image.rgb_to_hsv(x), "float32 float64"),
    (lambda x: tf.nn.max_pool2d(x, 1, 1, "VALID"), "float16 float64 uint8 int64"),
    (lambda x: tf.math.nextafter(x, x), "float32 float64"), (lambda x: tf.math.invert_permutation(x), "int32 int64"),
])
def test_arrays_keep_their_dtype_in_graphs(f, dtypes):
    for dtype in dtypes.split():
        array = np.arange(3).astype(dtype)
        array = array if "perm" in f.__code__.co_names[-1] else array.reshape(1, 1, 1, 3)
        assert tf.function(lambda a=array: f(a))().dtype.name == dtype


def test_a_tensor_of_a_resource_is_shown():
    handle = tf.Variable(1.).handle
    assert f"{handle}" in str(handle) and "type=\"tensorflow::Var\"" in f"{handle}"
    assert repr(handle).startswith("<tf.Tensor: shape=(), dtype=resource, value=<ResourceHandle(")


def _ragged_gradient(f, rows):
    x = tf.ragged.constant(rows)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x).to_list()


@pytest.mark.parametrize("signature", [None, tf.RaggedTensorSpec([None], tf.float32, ragged_rank=0), tf.float32])
@pytest.mark.parametrize("run", [lambda f: f, tf.function])
def test_gradients_of_map_fn_over_ragged_rows(signature, run):
    def f(x):
        return tf.map_fn(lambda r: tf.reduce_sum(r * r) if signature is tf.float32 else r * r, x, fn_output_signature=signature)
    assert run(lambda: _as_tensor(f, [[1., 2.], [], [3.]]))().numpy().tolist() == [2, 4, 6]


def _as_tensor(f, rows):
    x = tf.ragged.constant(rows)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x).flat_values


def test_gradients_of_map_fn_over_nested_ragged_rows():
    gradient = _ragged_gradient(lambda x: tf.map_fn(lambda r: r * r, x), [[[1.], [2., 4.]], [], [[3.]]])
    assert gradient == [[[2], [4, 8]], [], [[6]]]


def test_the_gradient_of_ragged_rows_as_variants():
    rows = tf.raw_ops.RaggedTensorToVariant(rt_nested_splits=[tf.constant([0, 1, 3], tf.int64)], rt_dense_values=[1., 2., 3.],
                                            batched_input=True)
    gradient = tf.raw_ops.RaggedTensorToVariantGradient(encoded_ragged_grad=rows, row_splits=tf.constant([0, 1, 3], tf.int64),
                                                        dense_values_shape=[3], Tvalues=tf.float32)
    assert gradient.numpy().tolist() == [1, 2, 3]


@pytest.mark.parametrize("run", [lambda f: f, tf.function])
def test_output_gradients_may_be_ragged(run):
    def f():
        x = tf.constant([3., 2.])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.ragged.stack([x, x[:1]])
        return tape.gradient(y, x, output_gradients=tf.ragged.constant([[1., 1.], [5.]]))
    assert run(f)().numpy().tolist() == [6, 1]


@pytest.mark.parametrize("data, repeats, axis", [(3, 4, 0), ([3], 4, 0), (3, [4], 0), (3, 4, None),
                                                 ([[1, 2], [3, 4]], [1, 2], 1)])
def test_repeat_of_an_unknown_rank(data, repeats, axis):
    @tf.function(input_signature=[tf.TensorSpec(None, tf.int32)] * 2)
    def f(data, repeats):
        return tf.repeat(data, repeats, axis=axis)
    assert f(tf.constant(data), tf.constant(repeats)).numpy().tolist() == np.repeat(data, repeats, axis).tolist()


def test_vectorized_map_may_return_sparse_tensors():
    out = tf.vectorized_map(lambda i: tf.SparseTensor([[0]], tf.reshape(i, [1]), [3]), tf.constant([1, 2]), warn=False)
    assert tf.sparse.to_dense(out).numpy().tolist() == [[1, 0, 0], [2, 0, 0]]


def test_orders_of_ragged_tensors():
    rows = tf.ragged.constant([[1., 2.], [3.]])
    assert tf.math.is_non_decreasing(rows) and not tf.math.is_strictly_increasing(tf.ragged.constant([[1., 2.], [2.]]))


def test_a_norm_for_each_column_clips():
    (clipped,), norm = tf.clip_by_global_norm([tf.ones([2, 3])], tf.constant([1., 2., 3.]))
    np.testing.assert_allclose(clipped.numpy(), [[0.40824828, 0.81649655, 1.]] * 2, rtol=1e-6)
    np.testing.assert_allclose(norm.numpy(), np.sqrt(6), rtol=1e-6)


def test_rows_may_have_no_result():
    assert tf.vectorized_map(lambda x: None, tf.ones([2])) is None
    found = tf.vectorized_map(lambda x: (x, None), tf.ones([2]))
    assert found[0].numpy().tolist() == [1, 1] and found[1] is None


def test_isotonic_regression_of_a_number_and_of_an_unknown_rank():
    assert [x.numpy().tolist() for x in tf.nn.isotonic_regression(tf.constant(3.))] == [3, 0]
    traced = tf.function(tf.nn.isotonic_regression, input_signature=[tf.TensorSpec(None)])
    assert [x.numpy().tolist() for x in traced(tf.constant([1., 3., 2.]))] == [[2, 2, 2], [0, 0, 1]]


def test_a_width_lets_the_precision_cut_strings():
    words = tf.constant(["nan", "abcdef"])
    assert tf.strings.as_string(words, precision=2, width=1).numpy().tolist() == [b"na", b"ab"]
    assert tf.strings.as_string(words, precision=2).numpy().tolist() == [b"nan", b"abcdef"]


def test_complex_numbers_have_no_order():
    for reduce in (tf.reduce_max, tf.reduce_min):
        with pytest.raises(tf.errors.InvalidArgumentError, match="allowed values"):
            reduce(tf.constant([1j]))
        with pytest.raises(TypeError, match="allowed values"):
            tf.function(reduce)(tf.constant([1j]))


def test_sparse_feeds_without_the_shape_that_a_placeholder_has():
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        sp = v1.sparse_placeholder(tf.float32, [7, 9])
        found = session.run([sp.values, sp.dense_shape], {sp: ([[3, 2], [4, 5]], [1., 2.])})
        assert [x.tolist() for x in found] == [[1, 2], [7, 9]]
        with pytest.raises(ValueError, match="Cannot feed"):
            session.run(sp.values, {v1.sparse_placeholder(tf.float32): ([[3, 2], [4, 5]], [1., 2.])})


def test_conditionals_know_the_shape_of_sparse_results():
    def sparse(columns):
        return lambda: tf.SparseTensor([[0, 0]], [1], [3, columns])

    found = []

    @tf.function
    def conditionals(which):
        found.extend([tf.cond(which, sparse(4), sparse(n)).shape.as_list() for n in (4, 5)])
    with tf.Graph().as_default():
        which = tf.compat.v1.placeholder(tf.bool)
        assert tf.cond(which, sparse(4), sparse(4)).shape == [3, 4]
    conditionals(tf.constant(True))
    assert found == [[3, 4], [3, None]]


def test_ranges_that_are_too_long():
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="9223372036854775807"):
        tf.range(-1e38, 1.)


def test_a_window_that_misses_samples_has_an_inverse():
    window = tf.signal.inverse_stft_window_fn(128)(64, tf.float32).numpy()
    assert window[0] == 0 and np.isfinite(window).all()


def test_cumulative_sums_of_ragged_tensors():
    """Recorded of TensorFlow."""
    rows = tf.ragged.constant([[1, 2], [], [3, 4, 5]])
    assert tf.cumsum(rows, 1).to_list() == [[1, 3], [], [3, 7, 12]]
    assert tf.cumsum(rows, 1, exclusive=True, reverse=True).to_list() == [[2, 0], [], [9, 5, 0]]
    assert tf.cumsum(rows).to_list() == [[1, 2], [], [4, 6, 5]]
    inner = tf.RaggedTensor.from_row_splits([[0, 1], [2, 3], [4, 5]], [0, 2, 2, 3])
    assert tf.cumsum(inner, 2).to_list() == [[[0, 1], [2, 5]], [], [[4, 9]]]


@pytest.mark.parametrize("name", ["bessel_j0", "bessel_y1", "bessel_k0e", "dawsn", "expint", "fresnel_sin", "spence"])
def test_special_functions_of_ragged_tensors(name):
    function = getattr(tf.math.special, name)
    found = function(tf.ragged.constant([[0.5, 0.25], [0.75]]))
    assert found.row_lengths().numpy().tolist() == [2, 1]
    np.testing.assert_array_equal(found.flat_values, function(tf.constant([0.5, 0.25, 0.75])))
