"""tf.contrib.layers and tf.contrib.framework: values against numpy, names of variables, collections and scopes."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

RNG = np.random.RandomState(0)
IMAGES = RNG.randn(2, 6, 6, 3).astype(np.float32)


@pytest.fixture
def layers():
    return tf.contrib.layers


def test_fully_connected(layers, run):
    x = RNG.randn(4, 3).astype(np.float32)
    y = layers.fully_connected(x, 5, weights_regularizer=layers.l2_regularizer(0.5), biases_initializer=tf.ones_initializer())
    w, out, loss = run(y, tf.losses.get_regularization_loss())
    assert set(w) == {"fully_connected/weights", "fully_connected/biases"}
    assert {v.op.name for v in tf.get_collection("model_variables")} == set(w)
    kernel = w["fully_connected/weights"]
    np.testing.assert_allclose(out, np.maximum(x @ kernel + 1, 0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(loss, 0.5 * (kernel**2).sum() / 2, rtol=1e-5)
    assert np.abs(kernel).max() <= np.sqrt(6 / 8)
    with pytest.raises(ValueError, match="num_outputs type"):
        layers.fully_connected(x, 5.0)


def test_layers_of_higher_rank_and_reuse(layers, run):
    x = tf.constant(RNG.randn(2, 3, 4), tf.float32)
    a = layers.linear(x, 2, scope="s")
    b = layers.linear(x, 2, scope="s", reuse=True)
    w, one, two = run(a, b)
    assert a.shape == (2, 3, 2) and len(w) == 2
    np.testing.assert_array_equal(one, two)


def test_argument_scopes(layers):
    framework = tf.contrib.framework
    with framework.arg_scope([layers.conv2d], padding="VALID", activation_fn=None) as scope:
        with framework.arg_scope([layers.conv2d, layers.fully_connected], biases_initializer=None):
            inner = layers.conv2d(IMAGES, 2, 3, scope="a")
        outer = layers.conv2d(IMAGES, 2, 3, padding="SAME", scope="b")
    assert inner.shape == (2, 4, 4, 2) and outer.shape == (2, 6, 6, 2)
    assert layers.conv2d(IMAGES, 2, 3, scope="c").op.type == "Relu"
    assert {v.op.name for v in tf.global_variables()} == {"a/weights", "b/weights", "b/biases", "c/weights", "c/biases"}
    with framework.arg_scope(scope):
        assert layers.conv2d(IMAGES, 2, 3, scope="d").shape == (2, 4, 4, 2)
    with pytest.raises(ValueError, match="is not decorated"), framework.arg_scope([len], x=1):
        pass

    @framework.add_arg_scope
    def f(x, scale=1.0):
        return x * scale

    with framework.arg_scope([f], scale=3.0):
        assert f(2.0) == 6.0 and f(2.0, scale=1.0) == 2.0
    assert f(2.0) == 2.0 and framework.has_arg_scope(f) and framework.arg_scoped_arguments(f) == ("scale",)


def test_convolutions(layers, run):
    a = layers.conv2d(IMAGES, 4, [3, 3], stride=2, activation_fn=None, scope="a")
    b = layers.separable_conv2d(IMAGES, 4, 3, depth_multiplier=2, activation_fn=None, scope="b")
    c = layers.conv2d_transpose(IMAGES, 4, 4, stride=2, activation_fn=None, scope="c")
    d = layers.conv2d_in_plane(IMAGES, 3, activation_fn=None, scope="d")
    e = layers.conv1d(IMAGES[:, 0], 2, 3, rate=2, activation_fn=None, scope="e")
    f = layers.conv3d(IMAGES[:, None], 2, [1, 3, 3], activation_fn=None, scope="f")
    w, va, vb, vc, vd, ve, vf = run(a, b, c, d, e, f)
    assert [x.shape for x in (va, vb, vc, vd, ve, vf)] == [
        (2, 3, 3, 4), (2, 6, 6, 4), (2, 12, 12, 4), (2, 6, 6, 3), (2, 6, 2), (2, 1, 6, 6, 2)]
    assert w["b/depthwise_weights"].shape == (3, 3, 3, 2) and w["b/pointwise_weights"].shape == (1, 1, 6, 4)
    assert w["c/weights"].shape == (4, 4, 4, 3)
    np.testing.assert_allclose(va[0, 0, 0], np.einsum("ijk,ijkl->l", IMAGES[0, :3, :3], w["a/weights"]), rtol=1e-4, atol=1e-5)
    deep = np.einsum("ijk,ijkm->km", IMAGES[0, :3, :3], w["b/depthwise_weights"]).reshape(-1)
    np.testing.assert_allclose(vb[0, 1, 1], deep @ w["b/pointwise_weights"][0, 0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(vd[0, 1, 1], np.einsum("ijk,ij->k", IMAGES[0, :3, :3], w["d/weights"][..., 0, 0]), rtol=1e-4,
                               atol=1e-5)
    np.testing.assert_allclose(vf[0, 0, 1, 1], np.einsum("ijk,ijkl->l", IMAGES[0, :3, :3], w["f/weights"][0]), rtol=1e-4,
                               atol=1e-5)
    grown = layers.conv2d_transpose(tf.placeholder(tf.float32, [None, None, None, 3]), 4, 3, stride=2, padding="VALID",
                                    scope="g")
    assert grown.shape.as_list() == [None, None, None, 4]


@pytest.mark.parametrize("rank", [2, 3, 4])
@pytest.mark.parametrize("collected", [True, False])
def test_batch_norm_trains_and_infers(layers, rank, collected):
    x = RNG.randn(*[8, 5, 4, 3][4 - rank:]).astype(np.float32) * 2 + 1
    axes = tuple(range(rank - 1))
    training = tf.placeholder(tf.bool, [])
    options = {} if collected else {"updates_collections": None}
    y = layers.batch_norm(x, decay=0.5, scale=True, is_training=training, scope="bn", **options)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        assert len(updates) == (2 if collected else 0)
        out, _ = session.run([y, updates], {training: True})
        np.testing.assert_allclose(out, (x - x.mean(axes)) / np.sqrt(x.var(axes) + 0.001), rtol=1e-3, atol=1e-4)
        mean, variance = session.run([v for v in tf.global_variables() if "moving" in v.name])
        np.testing.assert_allclose(mean, x.mean(axes) / 2, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(variance, 0.5 + 0.5 * x.var(axes, ddof=0 if rank == 3 else 1), rtol=1e-3)
        session.run([y, updates], {training: False})
        np.testing.assert_array_equal(session.run([v for v in tf.global_variables() if "moving_mean" in v.name])[0], mean)
        np.testing.assert_allclose(session.run(y, {training: False}), (x - mean) / np.sqrt(variance + 0.001), rtol=1e-3,
                                   atol=1e-4)


def test_other_normalizations(layers, run):
    x = RNG.randn(2, 4, 4, 6).astype(np.float32)
    outs = run(layers.layer_norm(x), layers.instance_norm(x), layers.group_norm(x, groups=3), layers.unit_norm(x, 3))[1:]

    def normalized(v, axes):
        return (v - v.mean(axes, keepdims=True)) / np.sqrt(v.var(axes, keepdims=True) + 1e-6)

    np.testing.assert_allclose(outs[0], normalized(x, (1, 2, 3)), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(outs[1], normalized(x, (1, 2)), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(outs[2], normalized(x.reshape(2, 4, 4, 3, 2), (1, 2, 4)).reshape(x.shape), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(outs[3], x / np.linalg.norm(x, axis=3, keepdims=True), rtol=1e-4)
    with pytest.raises(ValueError, match="not commensurate"):
        layers.group_norm(x, groups=4)


def test_pooling_and_shapes(layers, run):
    pooled, mean, flat, hot, top = run(
        layers.max_pool2d(IMAGES, [2, 2]), layers.avg_pool2d(IMAGES, 3, stride=3), layers.flatten(IMAGES),
        layers.one_hot_encoding([1, 0], 3), layers.maxout(IMAGES, 1))[1:]
    np.testing.assert_allclose(pooled, IMAGES.reshape(2, 3, 2, 3, 2, 3).max((2, 4)), rtol=1e-6)
    np.testing.assert_allclose(mean, IMAGES.reshape(2, 2, 3, 2, 3, 3).mean((2, 4)), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(flat, IMAGES.reshape(2, -1))
    np.testing.assert_array_equal(hot, [[0, 1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(top[..., 0], IMAGES.max(-1))
    assert layers.flatten(tf.placeholder(tf.float32, [None, 3, 4])).shape.as_list() == [None, 12]


def test_stack_repeat_and_named_outputs(layers):
    net = layers.repeat(IMAGES, 2, layers.conv2d, 4, 3, scope="conv", outputs_collections="ends")
    layers.stack(layers.flatten(net), layers.fully_connected, [5, 6], scope="fc")
    names = {v.op.name for v in tf.trainable_variables()}
    assert {"conv/conv_1/weights", "conv/conv_2/biases", "fc/fc_1/weights", "fc/fc_2/biases"} <= names
    ends = layers.utils.convert_collection_to_dict("ends")
    assert list(ends) == ["conv/conv_1", "conv/conv_2"]


def test_initializers_and_regularizers(layers, run):
    he = tf.get_variable("he", [400, 300], initializer=layers.variance_scaling_initializer())
    xavier = tf.get_variable("xavier", [400, 200], initializer=layers.xavier_initializer())
    w, l1, both = run(layers.l1_regularizer(2.0)(tf.constant([-1.0, 3.0])), layers.l1_l2_regularizer(1.0,
                                                                                                     2.0)(tf.constant([3.0])))
    np.testing.assert_allclose(w["he"].std(), np.sqrt(2 / 400), rtol=0.03)
    np.testing.assert_allclose([w["xavier"].min(), w["xavier"].max()], [-0.1, 0.1], rtol=0.01)
    assert (l1, both) == (8.0, 12.0) and he.shape == (400, 300) and xavier.shape == (400, 200)
    with pytest.raises(ValueError, match="cannot be an integer"):
        layers.l2_regularizer(1)


def test_dropout_and_embeddings(layers, run):
    kept = layers.dropout(tf.ones([1000]), 0.8, seed=1)
    same = layers.dropout(tf.ones([5]), is_training=False)
    rows = layers.embed_sequence([[1, 2], [2, 0]], vocab_size=3, embed_dim=4)
    once = layers.embed_sequence([[1, 2], [2, 0]], 3, 4, unique=True, scope="u")
    w, a, b, c, d = run(kept, same, rows, once)
    assert 0.7 < (a != 0).mean() < 0.9 and set(np.unique(a)) == {0, np.float32(1.25)}
    np.testing.assert_array_equal(b, np.ones(5))
    np.testing.assert_array_equal(c, w["EmbedSequence/embeddings"][[[1, 2], [2, 0]]])
    np.testing.assert_array_equal(d, w["u/embeddings"][[[1, 2], [2, 0]]])


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", tf.train.AdagradOptimizer, lambda lr: tf.train.MomentumOptimizer(lr,
                                                                                                                       0.9)])
def test_optimize_loss(layers, optimizer):
    x = tf.get_variable("x", [], initializer=tf.constant_initializer(3.0))
    step = tf.train.get_or_create_global_step()
    train = layers.optimize_loss(tf.square(x), step, 0.1, optimizer, clip_gradients=1.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(train) == 9.0
        value, steps = session.run([x, step])
    assert steps == 1 and 2.8 < value < 3.0


def test_gradient_multipliers_and_decay(layers):
    x = tf.get_variable("x", [], initializer=tf.constant_initializer(3.0))
    step = tf.train.get_or_create_global_step()
    train = layers.optimize_loss(tf.square(x), step, 0.1, "SGD", gradient_multipliers={x: 0.5},
                                 learning_rate_decay_fn=lambda lr, s: lr * 0.5)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        np.testing.assert_allclose(session.run(x), 3 - 0.1 * 0.5 * 0.5 * 6, rtol=1e-6)


def test_variables_by_name_and_values_from_checkpoints(tmp_path):
    framework = tf.contrib.framework
    with tf.variable_scope("a"):
        v = framework.model_variable("weights", [2], initializer=tf.ones_initializer())
    w = framework.variable("b/weights", [3], initializer=tf.zeros_initializer())
    assert framework.get_variables("a") == [v] and framework.get_model_variables() == [v]
    assert framework.get_variables_by_suffix("weights") == [v, w] and framework.get_variables_by_name("weights", "b") == [w]
    assert framework.get_variables_to_restore(exclude=["a"]) == [w] and framework.get_unique_variable("b/weights") is w
    assert framework.filter_variables([v, w], ["^a/"]) == [v]
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        framework.assign_from_values_fn({"b/weights": np.array([1.0, 2.0, 3.0])})(session)
        np.testing.assert_array_equal(session.run(w), [1, 2, 3])
        path = saver.save(session, str(tmp_path / "model"))
        session.run(tf.global_variables_initializer())
        framework.assign_from_checkpoint_fn(path, [v, w])(session)
        np.testing.assert_array_equal(session.run(w), [1, 2, 3])
        session.run(tf.global_variables_initializer())
        session.run(*framework.assign_from_checkpoint(path, {"b/weights": w}))
        np.testing.assert_array_equal(session.run(w), [1, 2, 3])
        other = tf.get_variable("c", [1])
        assert framework.assign_from_checkpoint_fn(path, [other], ignore_missing_vars=True) is None
        with pytest.raises(ValueError, match="missing variable"):
            framework.assign_from_checkpoint(path, [other])


def test_only_what_is_asked_for_is_loaded():
    import subprocess
    import sys
    code = ("import sys, penstock.compat.v1 as tf; tf.contrib.framework.arg_scope; "
            "assert 'penstock._src.compat.contrib.layers' not in sys.modules; tf.contrib.layers.conv2d; "
            "assert 'penstock._src.compat.contrib.layers' in sys.modules")
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
