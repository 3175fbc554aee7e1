"""Details in which random calls of the API differed from TensorFlow; the expected values are TensorFlow's."""
import numpy as np
import pytest

import penstock as tf

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("find, values, expected", [
    (tf.argmax, [1.0, NAN, 3.0], 2), (tf.argmax, [NAN, 3.0, NAN], 1), (tf.argmin, [1.0, NAN, 3.0], 0),
    (tf.argmin, [NAN, 2.0], 1),
    (tf.argmax, [1.0, INF, INF], 1), (tf.argmax, [-INF, NAN], 0)])
def test_positions_of_extrema_pass_over_nan(find, values, expected):
    assert int(find(tf.constant(values))) == expected
    assert int(tf.function(find)(tf.constant(values))) == expected
    assert find(tf.constant([values, values]), axis=1).numpy().tolist() == [expected] * 2


@pytest.mark.parametrize("norm", [-1.0, -INF, 0.0])
def test_clipping_by_a_norm_that_is_not_positive(norm):
    assert tf.clip_by_norm([1.0, 2.0, 3.0], norm).numpy().tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("kind", ["float32", "float64", "float16"])
def test_bessel_functions_at_their_pole_and_before_it(kind):
    x = tf.constant([-1.0, -INF], kind)
    for name in ("k0", "k1", "k0e", "k1e"):
        assert getattr(tf.math.special, f"bessel_{name}")(x).numpy().tolist() == [INF, INF]
    for name in ("y0", "y1"):
        assert getattr(tf.math.special, f"bessel_{name}")(x).numpy().tolist() == [-INF, -INF]
    assert float(tf.math.special.bessel_k0(tf.constant(0.0, kind))) == INF


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float32"])
def test_exclusive_logarithms_of_sums_begin_with_nothing(kind):
    assert float(tf.math.cumulative_logsumexp(tf.constant([1.0], kind), exclusive=True)[0]) == -INF


def test_partitions_have_the_dtype_of_what_they_are_made_from():
    assert tf.ragged.segment_ids_to_row_splits(tf.constant([1, 3])).dtype == tf.int32
    assert tf.ragged.segment_ids_to_row_splits([1, 3]).dtype == tf.int64
    assert tf.ragged.stack([tf.constant([1.0]), tf.constant([2.0, 3.0])]).row_splits.dtype == tf.int32
    assert tf.ragged.stack([tf.ragged.constant([[1]]), tf.ragged.constant([[2]])]).row_splits.dtype == tf.int64


@pytest.mark.parametrize("options", [{"shortest": True}, {"precision": 3}, {"scientific": True}])
def test_strings_are_printed_as_they_are(options):
    assert tf.strings.as_string(["a"], **options).numpy().tolist() == [b"a"]


def test_a_scalar_has_nothing_to_reverse():
    assert int(tf.reverse(3, [1])) == 3


def static_shapes(function, *specs):
    made = tf.function(function, input_signature=specs).get_concrete_function().structured_outputs
    return [t.shape.as_list() if t.shape.rank is not None else None for t in tf.nest.flatten(made)]


def test_static_shapes_in_functions():
    unknown = tf.TensorSpec(None)
    assert static_shapes(tf.image.hsv_to_rgb, tf.TensorSpec([None, 5, None])) == [[None, 5, 3]]
    assert static_shapes(lambda x: tf.nn.compute_average_loss(x, global_batch_size=2), unknown) == [[]]
    assert static_shapes(tf.nn.scale_regularization_loss, unknown) == [[]]


def test_packed_sizes_say_the_rank_of_a_shape():
    def reordered(indices, values, dims):
        shape = tf.sparse.reorder(tf.SparseTensor(indices, values, [dims[0], dims[1]])).shape
        assert shape.as_list() == [None, None]
        return tf.reshape(values, [dims[0], 1, dims[1]])
    numbers = tf.TensorSpec(None, tf.int64)
    assert static_shapes(reordered, tf.TensorSpec([6, 2], tf.int64), tf.TensorSpec([6]), numbers) == [[None, 1, None]]


def test_shapes_beyond_int32():
    many = 10 ** 10

    def search():
        return tf.searchsorted(tf.random.normal([many]), tf.ones([many]), out_type=tf.int64)
    assert static_shapes(search) == [[many]]
    np.testing.assert_array_equal(tf.searchsorted([1, 3], [2]), [1])


@pytest.mark.parametrize("adjoint", [{}, {"adjoint_a": True}, {"adjoint_b": True}, {"adjoint_a": True, "adjoint_b": True}])
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "complex64"])
def test_gradients_of_products_with_a_type_of_results(kind, adjoint):
    rng = np.random.RandomState(2)
    a, b = rng.rand(2, 1, 3, 3), rng.rand(4, 3, 3)
    wide = "complex64" if kind == "complex64" else "float32"

    def gradients(x, y, **more):
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            z = tf.matmul(x, y, **adjoint, **more)
        return z, tape.gradient(z, [x, y])
    given = [tf.cast(tf.constant(v), kind) for v in (a, b)]
    z, found = gradients(*given, output_type=wide)
    _, expected = gradients(*(tf.cast(v, wide) for v in given))
    assert z.dtype == wide and [g.dtype for g in found] == [kind, kind]
    for g, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(tf.cast(g, wide), e, rtol=1e-2 if kind == "bfloat16" else 1e-5)
    raw = {"x": given[0], "y": given[1], "Tout": wide}
    with tf.GradientTape() as tape:
        tape.watch(given)
        z = tf.raw_ops.BatchMatMulV3(**raw)
    assert [g.shape for g in tape.gradient(z, given)] == [v.shape for v in given]


def test_products_of_integers_have_no_gradient():
    a = tf.ones([2, 2], tf.int8)
    with tf.GradientTape() as tape:
        tape.watch(a)
        z = tf.cast(tf.raw_ops.BatchMatMulV3(x=a, y=a, Tout=tf.int32), tf.float32)
    assert tape.gradient(z, a) is None


def test_gradients_of_fake_quantization_have_the_shapes_of_both():
    def backward(gradients, inputs):
        return tf.raw_ops.FakeQuantWithMinMaxVarsGradient(gradients=gradients, inputs=inputs, min=-1.0, max=1.0)
    assert static_shapes(backward, tf.TensorSpec(None), tf.TensorSpec([7])) == [[7], [], []]
    assert static_shapes(backward, tf.TensorSpec([None, 2]), tf.TensorSpec([3, None])) == [[3, 2], [], []]


def test_variables_are_iterated_over_by_rows():
    v = tf.Variable([1.0, 2.0])
    first, second = v
    assert [float(x) for x in v] == [float(first), float(second)] == [1.0, 2.0]
    assert float(sum(v)) == 3.0 and float(max(v)) == 2.0 and 1.0 in v and 5.0 not in v
    with pytest.raises(TypeError, match="scalar"):
        iter(tf.Variable(1.0))
    with pytest.raises(TypeError, match="not iterable"), tf.Graph().as_default():
        list(tf.compat.v1.get_variable("v", [2], use_resource=True))


@pytest.mark.parametrize("way", [lambda f: f, tf.function])
def test_booleans_are_multiplied(way):
    a, b = tf.constant([True, False, True]), tf.constant([True, True, False])
    assert way(lambda: a * b)().numpy().tolist() == [True, False, False]
    assert way(lambda: tf.Variable(a, trainable=False) * b if tf.executing_eagerly() else a * b)().dtype == tf.bool


def test_rows_behind_the_last_one():
    ragged = tf.ragged.constant([[1], [2, 3]])
    for key in (2, (2, slice(1)), tf.constant(5)):
        with pytest.raises(IndexError, match="out of bounds"):
            ragged[key]
    assert [row.numpy().tolist() for row in ragged] == [[1], [2, 3]]


def test_shifts_along_no_axis():
    x = tf.constant([[1, 2], [3, 4]])
    for shift in (tf.signal.fftshift, tf.signal.ifftshift):
        np.testing.assert_array_equal(shift(x, axes=[]), x)
        np.testing.assert_array_equal(shift(x, axes=[0, 1]), np.roll(x, (1, 1), (0, 1)))


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_digamma_has_no_value_at_its_poles(kind):
    x = tf.constant([0.0, -0.0, -2.0, 1.0], kind)
    assert np.isnan(tf.math.digamma(x)).tolist() == [True, True, True, False]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.math.lgamma(x)
    assert np.isnan(tape.gradient(y, x)).tolist() == [True, True, True, False]


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "complex64"])
def test_gradients_of_running_products_with_zeros(kind):
    x = tf.constant([2.0, 0.0, 3.0], kind)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.math.cumprod(x)
    assert tf.cast(tf.math.real(tape.gradient(y, x)), "float32").numpy().tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("size", [2 ** 31, 2_500_000_000, 2 ** 32 - 1, 10 ** 10])
def test_sizes_beyond_int32_do_not_wrap(size):
    for way in (lambda f: f(), lambda f: tf.function(f)()):
        assert way(lambda: tf.reshape(tf.zeros([0]), [size, 0])).shape == [size, 0]
        assert way(lambda: tf.fill([0, size], 1)).shape == [0, size]
        assert way(lambda: tf.broadcast_to(tf.zeros([1, 0]), [size, 0])).shape == [size, 0]
    assert int(tf.constant([0xFFFFFFFF], tf.int32)[0]) == -1             # a dtype that is asked for takes the bits
    assert int(tf.bitwise.bitwise_and(tf.constant([5]), 0xFFFFFFFF)[0]) == 5


def test_names_of_dispatched_calls_are_scopes():
    class Masked(tf.experimental.ExtensionType):
        values: tf.Tensor

    @tf.experimental.dispatch_for_unary_elementwise_apis(Masked)
    def handler(api, x):
        return Masked(api(x.values))
    try:
        with tf.Graph().as_default():
            assert tf.negative(Masked([1, 2]), name="negated").values.name.startswith("negated/Neg")
    finally:
        tf.experimental.unregister_dispatch_for(handler)
