"""tf.experimental.numpy against NumPy: values, and the types that promotion gives."""
import warnings

import numpy as np
import pytest

import penstock as tf

tnp = tf.experimental.numpy
A = np.arange(-6, 6).reshape(3, 4)
F = (A / 4 + 0.1).astype(np.float32)
U = np.array([3, 5, 8], np.uint8)
C = F[0] + 1j * F[1]
B = np.array([True, False, True])

# Written once, evaluated with NumPy's module and with ours.
EXPRESSIONS = """
np.add(A, 1.5) | np.add(U, 2) | np.add(F, 1) | np.add(F, A) | np.subtract(U, np.int8(4)) | np.multiply(B, 3)
np.divide(A, 4) | np.true_divide(A, A + 9) | np.floor_divide(A, 4) | np.mod(A, 5) | np.remainder(F, 2) | np.power(F, 2)
np.float_power(A, 2) | np.maximum(A, 0.5) | np.minimum(B, True) | np.arctan2(A, F) | np.hypot(A, 2) | np.logaddexp(F, A)
np.logaddexp2(F, 1) | np.heaviside(F, 1) | np.gcd(A, 4) | np.lcm(A, 6) | np.bitwise_and(A, 6) | np.bitwise_or(B, False)
np.bitwise_xor(U, 3) | np.equal(A, 2) | np.not_equal(F, A) | np.greater(A, 0.5) | np.less_equal(U, 5)
np.logical_and(A, 1) | np.logical_xor(B, 0) | np.abs(A) | np.absolute(C) | np.fabs(A) | np.negative(F) | np.square(A)
np.conj(C) | np.exp(A) | np.expm1(F) | np.log(A + 9) | np.log1p(A + 9) | np.log2(A + 9) | np.log10(A + 9)
np.sqrt(A + 9) | np.cbrt(A) | np.sin(A) | np.cos(F) | np.tan(F) | np.arctan(A) | np.sinh(F) | np.arcsinh(A) | np.tanh(A)
np.deg2rad(A) | np.rad2deg(F) | np.floor(F) | np.ceil(F) | np.fix(F) | np.sinc(F) | np.reciprocal(F) | np.sign(A)
np.signbit(F) | np.isfinite(F) | np.isnan(F) | np.isinf(A) | np.real(C) | np.imag(C) | np.imag(F) | np.angle(C)
np.iscomplex(C) | np.isreal(C) | np.around(F, 1) | np.round(F, 2) | np.clip(A, -2, 3) | np.exp2(A) | np.logical_not(A)
np.sum(A) | np.sum(U) | np.sum(F, axis=1) | np.sum(B) | np.prod(U) | np.mean(A) | np.mean(F, axis=0, keepdims=True)
np.var(A) | np.var(F, axis=1, ddof=1) | np.std(F) | np.max(A, axis=0) | np.amin(F) | np.any(A) | np.all(A, axis=1)
np.ptp(A, axis=0) | np.nansum([1, np.nan, 2]) | np.nanmean([1, np.nan, 2]) | np.nanprod([1, np.nan, 2])
np.count_nonzero(A, axis=0) | np.argmax(F) | np.argmin(A, axis=1) | np.cumsum(A) | np.cumprod(F, axis=1) | np.diff(A)
np.diff(F, n=2, axis=0) | np.average(F, axis=0) | np.average(A, axis=1, weights=[1, 2, 3, 4]) | np.reshape(A, (4, 3))
np.reshape(A, (4, 3), order="F") | np.ravel(F) | np.expand_dims(A, 1) | np.squeeze(A[None]) | np.transpose(A)
np.moveaxis(A[None], 0, -1) | np.swapaxes(A[None], 0, 2) | np.flip(A) | np.flip(A, 1) | np.flipud(A) | np.fliplr(A)
np.rot90(A) | np.rot90(A, 3) | np.rot90(A, 2) | np.roll(A, 2) | np.roll(A, 1, axis=1) | np.broadcast_to(U, (2, 3))
np.atleast_1d(3) | np.atleast_2d(U) | np.atleast_3d(A) | np.tile(U, 2) | np.tile(A, (2, 1)) | np.tile(U, (2, 2))
np.repeat(U, 2) | np.repeat(A, [1, 2, 0], axis=0) | np.pad(A, 1, mode="constant")
np.pad(A, ((1, 0), (0, 2)), mode="reflect") | np.tril(A) | np.triu(A, 1) | np.diagonal(A, 1) | np.trace(A)
np.diag(U, 1) | np.diag(A, -1) | np.diagflat(A[:1]) | np.concatenate([A, F]) | np.concatenate([A, U], axis=None)
np.stack([U, U], axis=1) | np.hstack([U, U]) | np.vstack([U, B]) | np.dstack([A, F]) | np.append(U, [1.5])
np.sort(A, axis=0) | np.sort(F, axis=None) | np.where(A > 0, A, 0.5) | np.take(A, [0, 5]) | np.take(A, [1], axis=1)
np.take_along_axis(A, np.argsort(-A, 1), axis=1) | np.select([A < -2, A > 2], [A, A * 2], 0)
np.compress([False, True], A, axis=0) | np.matmul(A, F.T) | np.matmul(A, A[0]) | np.dot(A, A.T) | np.inner(A, A)
np.outer(U, A) | np.vdot(C, C) | np.kron(A, U) | np.tensordot(A, A, 2) | np.einsum("ij,kj->ik", A, F)
np.cross(A[:, :3], F[:, :3]) | np.polyval(U, F) | np.linspace(0, 1, 5) | np.linspace(A[0], 3, 4, axis=1)
np.linspace(0, 1, 5, endpoint=False) | np.logspace(0, 2, 3) | np.geomspace(1, 100, 3) | np.arange(5)
np.arange(1, 2, 0.25) | np.arange(3, dtype=np.float32) | np.eye(3, 4, 1) | np.identity(2) | np.tri(3, 4)
np.vander(A[0]) | np.vander(A[0], 2, increasing=True) | np.zeros((2, 3)) | np.ones(3, np.int8) | np.full((2, 2), 7)
np.full_like(F, 2) | np.zeros_like(U) | np.ones_like(A, np.float32) | np.array([1, 2.5]) | np.array([1, 2])
np.array(U, ndmin=2) | np.asarray([True]) | np.isclose(F, F + 1e-9) | np.allclose(A, A) | np.array_equal(A, A)
np.argsort(F, axis=0) | np.array_equal(A, U) | np.nextafter(F, 1)
"""
CASES = [e.strip() for line in EXPRESSIONS.strip().splitlines() for e in line.split("|")]


@pytest.mark.parametrize("expression", CASES)
def test_as_numpy(expression):
    scope = dict(A=A, F=F, U=U, C=C, B=B)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = np.asarray(eval(expression, {**scope, "np": np}))
    given = {k: tf.constant(v) for k, v in scope.items()}

    class Module:
        def __getattr__(self, name):
            return getattr(np if name in ("int8", "float32", "nan") else tnp, name)
    got = eval(expression, {**(given if ".T" not in expression else scope), "np": Module()})
    np.testing.assert_allclose(got.numpy(), expected, rtol=2e-5, atol=1e-6)
    assert got.dtype.as_numpy_dtype == expected.dtype


def test_several_results():
    for ours, theirs in ((tnp.nonzero(A > 2), np.nonzero(A > 2)), (tnp.split(A, [1], axis=1), np.split(A, [1], axis=1)),
                         (tnp.hsplit(A, 2), np.hsplit(A, 2)), (tnp.vsplit(A, 3), np.vsplit(A, 3)),
                         (tnp.meshgrid(U, A[0]), np.meshgrid(U, A[0])), (tnp.ix_(U, B), np.ix_(U, B)),
                         (tnp.broadcast_arrays(A, U[0]), np.broadcast_arrays(A, U[0])), (tnp.divmod(A, 3), np.divmod(A, 3)),
                         (tnp.diag_indices(3), np.diag_indices(3))):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a.numpy(), b)


@pytest.mark.parametrize("kinds", [("int32", 1.0), ("float32", 1), ("float32", "int64"), ("int8", "uint8"), ("bool", "int8"),
                                   ("float16", 2.5), ("complex64", "float64"), ("uint8", 300.0)])
def test_promotion_is_numpys(kinds):
    ours = [getattr(tf, k) if isinstance(k, str) else k for k in kinds]
    theirs = [np.dtype(k) if isinstance(k, str) else k for k in kinds]
    assert tnp.result_type(*ours) == np.result_type(*theirs)


def test_inside_functions_and_gradients():
    @tf.function
    def f(x):
        return tnp.sum(tnp.where(x > 1, tnp.square(x), tnp.exp(x)))
    x = tf.constant([0., 2.])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), [1., 4.], rtol=1e-6)


def test_random_numbers_follow_the_seed():
    tnp.random.seed(3)
    first = [tnp.random.rand(3), tnp.random.randn(2, 2), tnp.random.randint(1, 5, size=4), tnp.random.uniform(2, 3, size=2)]
    tnp.random.seed(3)
    again = [tnp.random.rand(3), tnp.random.randn(2, 2), tnp.random.randint(1, 5, size=4), tnp.random.uniform(2, 3, size=2)]
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert first[0].dtype == tf.float64 and first[2].dtype == tf.int64 and 2 <= float(tf.reduce_min(first[3])) < 3


def test_names_are_those_of_tensorflow():
    for name in ("float_", "string_", "newaxis", "pi", "inf", "finfo", "iinfo", "ndarray", "issubdtype"):
        assert hasattr(tnp, name), name
    assert tnp.ndarray is tf.Tensor and tnp.finfo(tf.float32).bits == 32 and tnp.iinfo(np.int8).max == 127


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
@pytest.mark.parametrize("shapes", [((4, 6), (4, 6)), ((3, 4, 5), (3, 4, 5)), ((3, 4, 5), (1, 4, 5))])
def test_take_along_axis_without_known_ranks(axis, shapes):
    take = tf.function(lambda x, at: tf.experimental.numpy.take_along_axis(x, at, axis),
                       input_signature=[tf.TensorSpec(None, tf.float32), tf.TensorSpec(None, tf.int32)])
    rng = np.random.default_rng(3)
    x = rng.standard_normal(shapes[0]).astype(np.float32)
    at = rng.integers(-x.shape[axis], x.shape[axis], shapes[1]).astype(np.int32)
    assert np.array_equal(take(x, at).numpy(), np.take_along_axis(x, at, axis))
    with pytest.raises(tf.errors.InvalidArgumentError):
        take(x, at[0])


@pytest.mark.parametrize("ours, expected", [
    (lambda: tnp.add([1.5, 2.5], tf.constant([1., 2.])), tf.float32), (lambda: tnp.multiply([2], np.int8([3])), tf.int8),
    (lambda: tnp.minimum(tf.constant([1.], tf.float16), []), tf.float16), (lambda: tnp.add([1], [2.]), tf.float64),
    (lambda: tnp.add([True], tf.constant([3], tf.uint8)), tf.uint8), (lambda: tnp.matmul([[1, 2]], tnp.ones([2, 1], tf.int32)),
                                                                     tf.int32)])
def test_numbers_in_lists_are_weak(ours, expected):
    """As in TensorFlow: a list beside an array has the type of the array."""
    assert ours().dtype == expected


def test_many_numbers_have_one_type():
    assert tnp.result_type(list(range(1000)), [0.5] * 100, tf.float32) == tf.float32


@pytest.mark.parametrize("call, shape", [
    (tnp.argmin, [2, 3]), (tnp.argmax, [4]), (tnp.flip, [2, 3]), (tnp.flipud, [2, 3]), (tnp.fliplr, [2, 3]),
    (tnp.atleast_1d, []), (tnp.atleast_1d, [3]), (tnp.atleast_2d, []), (tnp.atleast_2d, [3]), (tnp.atleast_2d, [1, 2, 3]),
    (tnp.atleast_3d, []), (tnp.atleast_3d, [3]), (tnp.atleast_3d, [2, 3]), (tnp.atleast_3d, [1, 2, 3, 1])])
def test_arrays_of_unknown_rank(call, shape):
    array = np.random.RandomState(0).rand(*shape)
    traced = tf.function(lambda x: call(x), input_signature=[tf.TensorSpec(None, tf.float64)])
    expected = getattr(np, call.__name__)(array)
    for out in (traced(array), call(array)):
        np.testing.assert_array_equal(out, expected)
        assert out.shape == np.shape(expected)


def test_objects_that_convert_themselves_take_part():
    class Weight:
        __hash__ = None                                    # as of Keras 3's variables, which compare elementwise

        def __tf_tensor__(self, dtype=None, name=None):
            return tf.constant([[1.0, 2.0]], dtype=dtype or tf.float32)

    w = Weight()
    assert tnp.matmul(w, np.float32([[1], [10]])).numpy().tolist() == [[21.0]]
    assert tnp.maximum(w, 1.5).dtype == tf.float32
    assert tnp.concatenate([w, w], 1).shape == (1, 4)
    assert tnp.result_type(w, np.float64) == np.float64


UNKNOWN = tf.TensorSpec(None, tf.float64)
MATRIX = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("function, given", [
    (tnp.ascontiguousarray, 2.0), (tnp.ascontiguousarray, MATRIX), (tnp.diag, MATRIX), (tnp.diag, MATRIX[0]),
    (lambda x: tnp.moveaxis(x, 0, -1), np.ones([2, 3, 4])), (lambda x: tnp.moveaxis(x, (0, 2), (1, 0)), np.ones([2, 3, 4])),
    (lambda x: tnp.swapaxes(x, 0, -1), np.ones([2, 3, 4])), (tnp.rot90, MATRIX),
    (lambda x: tnp.rot90(x, 3, (1, 2)), np.ones([2, 3, 4])),
    (lambda x: tnp.tile(x, [2, 2]), MATRIX[0]), (lambda x: tnp.tile(x, [2]), MATRIX), (tnp.trace, MATRIX),
    (tnp.vander, MATRIX[1]),
    (lambda x: tnp.diagonal(x, 1), MATRIX), (tnp.ndim, MATRIX), (lambda x: tnp.dot(x, x), MATRIX[1]),
    (lambda x: tnp.dot(x, 2.0), MATRIX),
    (lambda x: tnp.dot(x, MATRIX.T), MATRIX), (lambda x: tnp.dot(MATRIX[0], x), MATRIX.T)])
def test_functions_of_unknown_rank(function, given):
    eager = function(tf.constant(given, tf.float64))
    traced = tf.function(function, input_signature=[UNKNOWN])(tf.constant(given, tf.float64))
    np.testing.assert_array_equal(eager, traced)


@pytest.mark.parametrize("function, expected", [
    (lambda: tnp.log2(8), 3.0), (lambda: tnp.cbrt(27), 3.0), (lambda: tnp.deg2rad(180), np.pi), (lambda: tnp.log10(1000), 3.0),
    (lambda: tnp.logaddexp2(1, 1), 2.0), (lambda: tnp.sinc(0.5), np.sinc(0.5))])
def test_constants_have_the_precision_of_the_array(function, expected):
    np.testing.assert_allclose(function(), expected, rtol=1e-15)


@pytest.mark.parametrize("function, dtype", [
    (lambda: tnp.linspace(np.float32(0), np.float32(1), 3), "float32"), (lambda: tnp.linspace(0, 1, 3), "float64"),
    (lambda: tnp.logspace(np.float32(0), np.float32(1), 3), "float32"),
    (lambda: tnp.divide(np.int16(3), np.int16(2)), "float32"),
    (lambda: tnp.divide(np.int32(3), np.int32(2)), "float64"),
    (lambda: tnp.float_power(np.float32(3), np.float32(2)), "float32"),
    (lambda: tnp.cumsum(np.ones(3, np.uint8)), "int64"),
    (lambda: tnp.nanmean(np.float32([1, np.nan]), dtype=np.int64), "float64"),
    (lambda: tnp.diag_indices(2)[0], "int32")])
def test_dtypes_of_results(function, dtype):
    assert function().dtype == dtype


def test_results_that_are_no_tensors():
    assert isinstance(tnp.shape(MATRIX), tf.TensorShape) and tnp.shape(MATRIX) == (2, 3)
    assert isinstance(tnp.size(MATRIX), np.int64) and tnp.size(MATRIX) == 6
    assert tnp.result_type(np.int32(1), 2.0) is tf.float64


def test_arrays_without_dimensions():
    assert float(tnp.flipud(1.0)) == float(tnp.rot90(tnp.array(1.0), k=0)) == float(tnp.polyval(1.0, 3.0)) == 1.0
    assert tnp.random.poisson().shape == tnp.random.poisson(2.0).shape == tf.random.gamma([], 1.0).shape == []
    with pytest.raises(ValueError, match="differ"):
        tnp.moveaxis(MATRIX, (0, 1), 0)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_geometric_spaces_along_an_axis(axis):
    start, stop = np.array([1.0, -2.0]), np.array([8.0, -16.0])
    np.testing.assert_allclose(tnp.geomspace(start, stop, 4, axis=axis), np.geomspace(start, stop, 4, axis=axis),
                               rtol=1e-12)
