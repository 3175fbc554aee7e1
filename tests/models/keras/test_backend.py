"""tf.keras.backend against numpy, in graphs and eagerly."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf

K = tf.keras.backend
RNG = np.random.default_rng(0)


@pytest.fixture(params=["graph", "eager"])
def mode(request):
    if request.param == "graph":
        with tf.Graph().as_default():
            yield "graph"
    else:
        yield "eager"


ONE = {
    "max": np.max, "min": np.min, "sum": np.sum, "prod": np.prod, "mean": np.mean, "std": np.std, "var": np.var,
    "argmax": np.argmax, "argmin": np.argmin, "square": np.square, "abs": np.abs, "exp": np.exp, "round": np.round,
    "sign": np.sign, "sin": np.sin, "cos": np.cos, "flatten": np.ravel, "transpose": np.transpose, "tanh": np.tanh,
    "softplus": lambda x: np.log1p(np.exp(x)), "softsign": lambda x: x / (1 + np.abs(x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "hard_sigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "sqrt": lambda x: np.sqrt(np.maximum(x, 0)), "batch_flatten": lambda x: x.reshape(len(x), -1),
}


@pytest.mark.parametrize("name", ONE)
def test_of_one_tensor(name, mode):
    x = RNG.normal(size=(4, 3, 2)).astype("f")
    kwargs = {"axis": 1} if name in ("max", "min", "sum", "prod", "mean", "std", "var", "argmax", "argmin") else {}
    got = K.eval(getattr(K, name)(K.variable(x), **kwargs))
    np.testing.assert_allclose(got, ONE[name](x, **kwargs), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shapes, axes, spec", [
    (((5, 3, 4), (5, 4, 2)), None, "bij,bjk->bik"), (((5, 3, 4), (5, 2, 4)), 2, "bij,bkj->bik"),
    (((5, 4, 3), (5, 2, 4)), (1, 2), "bji,bkj->bik"), (((5, 4), (5, 2, 4)), (1, 2), "bj,bkj->bk"),
    (((5, 3, 4), (5, 4)), (2, 1), "bij,bj->bi"), (((5, 2, 3, 4), (5, 4, 6)), (3, 1), "bhij,bjk->bhik"),
])
def test_batch_dot(shapes, axes, spec, mode):
    x, y = (RNG.normal(size=s).astype("f") for s in shapes)
    got = K.eval(K.batch_dot(K.variable(x), K.variable(y), axes))
    np.testing.assert_allclose(got, np.einsum(spec, x, y), rtol=1e-4, atol=1e-5)


def test_dot(mode):
    x, y = RNG.normal(size=(2, 3, 4)).astype("f"), RNG.normal(size=(5, 4, 6)).astype("f")
    got = K.eval(K.dot(K.variable(x), K.variable(y)))
    np.testing.assert_allclose(got, np.einsum("abj,cjk->abck", x, y), rtol=1e-4, atol=1e-5)


def test_function_with_updates(mode):
    x, v = K.placeholder((None, 2)), K.variable([1., 2.])
    f = K.function([x], [x * v], updates=[(v, v * 10.)] if mode == "graph" else [])
    np.testing.assert_array_equal(f([np.ones((3, 2))])[0], np.ones((3, 1)) * [1., 2.])
    if mode == "graph":
        np.testing.assert_array_equal(f([np.ones((1, 2))])[0], [[10., 20.]])


def test_session_initializes_what_was_made_since():
    with tf.Graph().as_default():
        a = K.variable(1.)
        assert K.get_value(a) == 1.
        b = K.variable(2.)
        K.set_value(a, 5.)
        assert K.batch_get_value([a, b]) == [5., 2.]           # a keeps its value when b is initialized


def test_learning_phase(mode):
    y = K.in_train_phase(lambda: K.constant(1.), lambda: K.constant(2.))
    if mode == "graph":
        f = K.function([K.learning_phase()], [y])
        assert f([0])[0] == 2. and f([1])[0] == 1.
    else:
        assert y.numpy() == 2.
    with K.learning_phase_scope(1):
        assert K.learning_phase() == 1
    with pytest.raises(ValueError, match="0 or 1"):
        K.set_learning_phase(3)


def _steps(x, mask=None, zero=False):
    state, out, outs = np.zeros(x.shape[::2]), np.zeros(x.shape[::2]), []
    for t in range(x.shape[1]):
        new = np.tanh(x[:, t] + 0.5 * state)
        m = np.ones(len(x), bool) if mask is None else mask[:, t]
        out = np.where(m[:, None], new, 0 if zero else out)
        state = np.where(m[:, None], new, state)
        outs.append(out)
    return np.stack(outs, 1), state


@pytest.mark.parametrize("unroll", [False, True])
@pytest.mark.parametrize("masked, zero", [(False, False), (True, False), (True, True)])
def test_rnn(mode, unroll, masked, zero):
    x = RNG.normal(size=(3, 4, 2)).astype("f")
    mask = RNG.random((3, 4)) > 0.4 if masked else None

    def step(inputs, states):
        new = tf.tanh(inputs + 0.5 * states[0])
        return new, [new]
    last, outputs, states = K.rnn(step, K.constant(x), [tf.zeros([3, 2])], mask=None if mask is None else tf.constant(mask),
                                  unroll=unroll, zero_output_for_mask=zero)
    want, state = _steps(x, mask, zero)
    np.testing.assert_allclose(K.eval(outputs), want, atol=1e-6)
    np.testing.assert_allclose(K.eval(last), want[:, -1], atol=1e-6)
    np.testing.assert_allclose(K.eval(states[0]), state, atol=1e-6)


def test_ops_on_symbolic_tensors_are_added_to_their_graph():
    x = K.placeholder((None, 3))
    y = tf2.reduce_sum(tf2.nn.relu(x) + 1., axis=1)
    assert y.graph is K.get_graph() and tf2.executing_eagerly()
    np.testing.assert_array_equal(K.function([x], y)([-np.ones((2, 3))]), [3., 3.])


def test_uids_begin_again():
    with tf.Graph().as_default():
        assert [K.get_uid("a"), K.get_uid("a"), K.get_uid("b")] == [1, 2, 1]
        K.reset_uids()
        assert K.get_uid("a") == 1


@pytest.mark.parametrize("size, places", [(3, [[1, 1, 1], [1, 0, 1], [1, 1, 1]]),
                                          (4, [[3, 3, 3, 3], [3, 1, 1, 3], [3, 1, 1, 3], [3, 3, 3, 3]])])
def test_radial_constraint(size, places):
    w = np.arange(size * size, dtype="f").reshape(size, size, 1, 1)
    got = tf.keras.constraints.RadialConstraint()(tf2.constant(w)).numpy()[..., 0, 0]
    np.testing.assert_array_equal(got, np.diag(w[..., 0, 0])[np.array(places)])


def test_config_round_trips():
    keras = tf2.keras
    for module, name in ((keras.initializers, "HeNormal"), (keras.regularizers, "l1_l2"), (keras.constraints, "MaxNorm")):
        made = module.get(name)
        config = module.serialize(made)
        assert module.serialize(module.deserialize(config)) == config
    assert tf2.keras.initializers.serialize(tf2.keras.initializers.Zeros())["class_name"] == "Zeros"
    assert tf2.keras.activations.serialize(tf2.nn.softmax) == "softmax"
    with pytest.raises(ValueError, match="Unknown"):
        tf2.keras.activations.get("unknown")


def test_variables_are_cast_in_functions():
    """Quantizers call it on a kernel while a layer is traced."""
    kernel = tf.Variable([1, 2])
    assert tf.function(lambda: tf.keras.backend.cast_to_floatx(kernel))().numpy().tolist() == [1.0, 2.0]


def test_feeds_of_a_functional_model():
    x = tf.keras.Input((3,), name="x")
    model = tf.keras.Model(x, tf.keras.layers.Dense(2)(x))
    assert model._feed_input_names == ["x"] and model._feed_inputs[0].shape == x.shape
