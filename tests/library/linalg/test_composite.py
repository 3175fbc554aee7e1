"""Linear operators as composite tensors: arguments of functions, slices, gradients, SavedModels."""
import numpy as np
import pytest

import penstock as tf

L = tf.linalg
RNG = np.random.RandomState(0)


def operators():
    full = L.LinearOperatorFullMatrix(RNG.randn(2, 3, 3))
    diag = L.LinearOperatorDiag(RNG.rand(2, 3) + 1)
    return [full, diag, L.LinearOperatorLowerTriangular(RNG.randn(2, 3, 3)),
            L.LinearOperatorToeplitz(RNG.rand(3), RNG.rand(2, 3)),
            L.LinearOperatorHouseholder(RNG.rand(2, 3)), L.LinearOperatorPermutation([[0, 2, 1], [1, 2, 0]], dtype=tf.float64),
            L.LinearOperatorTridiag(RNG.rand(2, 3, 3)), L.LinearOperatorScaledIdentity(3, RNG.rand(2)),
            L.LinearOperatorIdentity(3, batch_shape=[2], dtype=tf.float64), L.LinearOperatorComposition([full, diag]),
            L.LinearOperatorKronecker([diag, full]), L.LinearOperatorBlockDiag([full, diag]), L.LinearOperatorAdjoint(full),
            L.LinearOperatorLowRankUpdate(diag, RNG.rand(2, 3, 1)), L.LinearOperatorInversion(full),
            L.LinearOperatorZeros(3, batch_shape=[2], dtype=tf.float64)]


@pytest.mark.parametrize("operator", operators(), ids=lambda o: type(o).__name__)
class TestEveryOperator:
    def test_it_is_an_argument_and_a_result_of_functions(self, operator):
        returned = tf.function(lambda o: o)(operator)
        assert type(returned) is type(operator)
        np.testing.assert_allclose(returned.to_dense(), operator.to_dense(), rtol=1e-6)

    def test_its_components_make_it_again(self, operator):
        flat = tf.nest.flatten(operator, expand_composites=True)
        again = tf.nest.pack_sequence_as(operator, flat, expand_composites=True)
        np.testing.assert_allclose(again.to_dense(), operator.to_dense(), rtol=1e-6)
        assert again._type_spec.is_compatible_with(operator)

    def test_a_slice_is_the_operator_of_a_part_of_the_batch(self, operator):
        dense = np.asarray(operator.to_dense())
        np.testing.assert_allclose(operator[1].to_dense(), dense[1], rtol=1e-6)
        np.testing.assert_allclose(operator[..., 1:].to_dense(), dense[1:], rtol=1e-6)
        np.testing.assert_allclose(operator[tf.newaxis].to_dense(), dense[None], rtol=1e-6)


def test_the_gradient_of_an_operator_is_one():
    operator = L.LinearOperatorDiag(tf.constant([1.0, 2.0]))
    with tf.GradientTape() as tape:
        tape.watch(operator)
        y = operator.matvec(tf.constant([3.0, 4.0]))
    grad = tape.gradient(y, operator)
    np.testing.assert_array_equal(grad.diag, [3.0, 4.0])


def test_a_saved_function_takes_an_operator(tmp_path):
    operator = L.LinearOperatorDiag(tf.constant([1.0, 2.0]), is_non_singular=True)

    class Model(tf.Module):
        """A function of an operator."""

        @tf.function(input_signature=[operator._type_spec])
        def solve(self, op):
            return op.solvevec(tf.constant([1.0, 1.0]))
    tf.saved_model.save(Model(), str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    np.testing.assert_array_equal(loaded.solve(operator), [1.0, 0.5])


def test_gradient_of_an_operator_without_numbers():
    with tf.Graph().as_default():
        operator = tf.linalg.LinearOperatorPermutation([1, 0], dtype=tf.complex128)
        y = operator.matmul(tf.ones([2, 1], tf.complex128))
        assert tf.gradients(y, operator, grad_ys=tf.ones_like(y)) == [None]


@pytest.mark.parametrize("operator", [
    L.LinearOperatorZeros(2), L.LinearOperatorIdentity(2),
    L.LinearOperatorComposition([L.LinearOperatorDiag([1.0, 2.0]), L.LinearOperatorIdentity(2)]),
    L.LinearOperatorBlockLowerTriangular([[L.LinearOperatorDiag([1.0])], [L.LinearOperatorFullMatrix([[2.0]]),
                                                                          L.LinearOperatorDiag([3.0])]])],
    ids=lambda o: type(o).__name__)
def test_a_saved_function_takes_an_operator_of_none_or_several_tensors(operator, tmp_path):
    class Model(tf.Module):
        """A function of a number, an operator and a vector."""

        @tf.function(input_signature=[tf.TensorSpec([]), operator._type_spec, tf.TensorSpec([2])])
        def applied(self, a, op, x):
            return a * op.matvec(x)
    model = Model()
    signature = model.applied.get_concrete_function().structured_input_signature[0]
    assert [type(s) for s in signature] == [tf.TensorSpec, type(operator._type_spec), tf.TensorSpec]
    tf.saved_model.save(model, str(tmp_path))
    loaded, x = tf.saved_model.load(str(tmp_path)), tf.constant([5.0, 7.0])
    np.testing.assert_allclose(loaded.applied(2.0, operator, x), 2 * operator.matvec(x), rtol=1e-5)
