"""Layers on several inputs, on sparse and ragged ones, and on shapes that do not fit. The values are those of tf_keras."""
import numpy as np
import pytest

import penstock as tf

K = tf.keras
L = K.layers


class Two(L.Layer):
    def __init__(self):
        super().__init__()
        self.a, self.b = L.Dense(2), L.Dense(3)

    def call(self, inputs):
        return self.a(inputs[0]), self.b(inputs[1])

    def compute_output_shape(self, input_shape):
        return self.a.compute_output_shape(input_shape[0]), self.b.compute_output_shape(input_shape[1])


@pytest.mark.parametrize("batch", [None, 4])
def test_several_inputs_and_outputs_at_each_step(batch):
    inner = Two()
    inputs = [K.Input((5, 6), batch_size=batch), K.Input((5, 7), batch_size=batch)]
    outputs = L.TimeDistributed(inner)(inputs)
    assert [o.shape.as_list() for o in outputs] == [[batch, 5, 2], [batch, 5, 3]]
    x = [np.random.RandomState(i).rand(4, 5, n).astype("f") for i, n in enumerate((6, 7))]
    a, b = K.Model(inputs, outputs)(x)
    for t in range(5):
        one, two = inner([x[0][:, t], x[1][:, t]])
        assert np.allclose(a[:, t], one, atol=1e-6) and np.allclose(b[:, t], two, atol=1e-6)


def test_a_model_of_layers_without_output_shapes_at_each_step():
    """The result of each step has the shape; layers of users seldom say it."""
    class Summed(K.layers.Layer):
        def call(self, x):
            return tf.reduce_sum(x * x, 1)
    words = K.Input([5, 3])
    outputs = L.TimeDistributed(K.Model(words, Summed()(words)))(inputs := K.Input([4, 5, 3]))
    assert outputs.shape.as_list() == [None, 4, 3]
    x = np.random.RandomState(0).rand(2, 4, 5, 3).astype("f")
    np.testing.assert_allclose(K.Model(inputs, outputs)(x), (x * x).sum(2), rtol=1e-5)


def test_hash_of_sparse_and_ragged_inputs():
    words = ["omar", "stringer", "marlo", "wire", "skywalker"]
    indices = [[0, 0], [1, 0], [1, 1], [2, 0], [2, 1]]
    found = L.Hashing(2)(tf.SparseTensor(indices, words, [3, 2]))
    assert found.values.numpy().tolist() == [0, 0, 1, 0, 0] and found.indices.numpy().tolist() == indices
    found = L.Hashing(3, salt=[133, 137])(tf.SparseTensor(indices, [0, 1, 2, 3, 4], [3, 2]))
    assert found.values.numpy().tolist() == [1, 1, 2, 0, 1]
    assert L.Hashing(2)(tf.ragged.constant([words[:4], [words[2]]])).to_list() == [[0, 0, 1, 0], [1]]


def test_intervals_of_sparse_and_ragged_inputs():
    layer = L.Discretization([-0.5, 0.5, 1.5])
    assert layer(tf.ragged.constant([[-1, 1, 3, 0], [0, 3, 1]])).to_list() == [[0, 2, 3, 1], [1, 3, 2]]
    assert layer(tf.SparseTensor([[0, 1], [1, 0]], [-1., 3.], [2, 2])).values.numpy().tolist() == [0, 3]
    counts = L.Discretization([0.5], output_mode="count")(tf.ragged.constant([[0., 1., 1.], [2.]]))
    assert counts.numpy().tolist() == [[1, 2], [0, 1]]


def test_categories_in_the_dtype_of_the_layer():
    assert L.Hashing(3, dtype="int32")(tf.constant([["a"]])).dtype == tf.int32
    assert L.Discretization([0.], output_mode="one_hot", dtype="float64")(tf.constant([[1.]])).dtype == tf.float64


def test_a_crossing_of_floats_is_refused():
    with pytest.raises(ValueError, match="should have an integer or string"):
        L.HashedCrossing(10)((tf.constant([1.]), tf.constant([1.])))


def test_an_einsum_whose_shapes_do_not_fit():
    with pytest.raises(ValueError, match="do not match at shared dimension 'b'"):
        L.EinsumDense("abc,cd->abd", output_shape=(10, 96))(K.Input((32, 64)))
    with pytest.raises(ValueError, match="Dimension 'd' was specified in the output 'cd'"):
        L.EinsumDense("ab,bc->cd", output_shape=64)(K.Input((32,)))


def test_a_lambda_may_not_create_variables():
    dense = L.Dense(1)
    with pytest.raises(ValueError, match="Lambda layer bad creates variables"):
        L.Lambda(lambda x: dense(x), name="bad")(tf.ones([2, 3]))


def test_a_lambda_warns_once_of_a_variable_that_it_reads():
    v = tf.Variable(2.)
    layer = L.Lambda(lambda x: x * v, name="reads")
    with pytest.warns(UserWarning, match="Lambda layer reads reads variables"):
        layer(tf.ones([1]))
    assert layer(tf.ones([1])).numpy().tolist() == [2.]             # a second warning would be an error


def test_transposed_volumes_ignore_dilation():
    assert L.Conv3DTranspose(2, 3, dilation_rate=2)(tf.ones([1, 5, 7, 6, 3])).shape.as_list() == [1, 7, 9, 8, 2]
