"""Loss scales, and optimizers whose losses are scaled."""
import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1

Scaled = tf.keras.mixed_precision.LossScaleOptimizer


def test_fixed_scales_change_no_step():
    v, w = tf.Variable([1.0, 2.0]), tf.Variable([1.0, 2.0])
    Scaled(tf.keras.optimizers.SGD(0.1), dynamic=False, initial_scale=128).minimize(lambda: tf.reduce_sum(v * v), [v])
    tf.keras.optimizers.SGD(0.1).minimize(lambda: tf.reduce_sum(w * w), [w])
    np.testing.assert_allclose(v.numpy(), w.numpy(), rtol=1e-6)


def test_tiny_gradients_survive_half_precision():
    v = tf.Variable(np.array(1.0, "float16"))
    tiny = tf.constant(1e-4, "float16")
    tf.keras.optimizers.SGD(1e4).minimize(lambda: tf.cast(tf.cast(v * tiny, "float32") * 1e-4, "float16"), [v])
    assert v.numpy() == 1.0                                   # 1e-8 is zero in half precision
    w = tf.Variable(1.0)
    opt = Scaled(tf.keras.optimizers.SGD(1e4), dynamic=False, initial_scale=2.0 ** 15)

    def loss():
        return tf.cast(tf.cast(tf.cast(w, "float16") * tiny, "float32") * 1e-4, "float16")
    with tf.GradientTape() as tape:
        scaled = opt.get_scaled_loss(loss())
    opt.apply_gradients(zip(opt.get_unscaled_gradients(tape.gradient(scaled, [w])), [w], strict=True))
    assert 0.9998 < w.numpy() < 1.0


@pytest.mark.parametrize("traced", [False, True])
def test_bad_steps_are_left_out(traced):
    v = tf.Variable(1.0)
    factor = tf.Variable(1.0)
    opt = Scaled(tf.keras.optimizers.SGD(0.1), initial_scale=4, dynamic_growth_steps=2)

    def step():
        opt.minimize(lambda: v * factor, [v])
    step = tf.function(step) if traced else step
    step()
    step()
    assert opt.loss_scale.numpy() == 8 and int(opt.iterations) == 2
    factor.assign(np.inf)
    step()
    assert opt.loss_scale.numpy() == 4 and int(opt.iterations) == 3         # as in TensorFlow: schedules go on
    np.testing.assert_allclose(v.numpy(), 0.8, rtol=1e-6)
    factor.assign(1.0)
    step()
    np.testing.assert_allclose(v.numpy(), 0.7, rtol=1e-6)


def test_models_train_with_it():
    x = np.random.RandomState(0).rand(32, 4).astype("f")
    m = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,))])
    m.compile(Scaled(tf.keras.optimizers.Adam(0.1)), "mse")
    h = m.fit(x, x.sum(1, keepdims=True), epochs=30, verbose=0)
    assert h.history["loss"][-1] < h.history["loss"][0] / 5 and int(m.optimizer.iterations) == 30


def test_optimizers_of_tf_train():
    with tf.Graph().as_default(), tf1.Session() as session:
        v, factor = tf1.Variable(1.0, use_resource=True), tf1.placeholder("float32", [])
        scale = tf1.train.experimental.DynamicLossScale(8, increment_period=1)
        opt = tf1.train.experimental.MixedPrecisionLossScaleOptimizer(tf1.train.GradientDescentOptimizer(0.1), scale)
        train = opt.minimize(v * factor)
        session.run(tf1.global_variables_initializer())
        session.run(train, {factor: 1.0})
        session.run(train, {factor: np.inf})
        np.testing.assert_allclose(session.run([v, scale()]), [0.9, 8.0], rtol=1e-6)


def test_configurations_and_hyperparameters():
    opt = Scaled(tf.keras.optimizers.SGD(0.5, momentum=0.9), initial_scale=16)
    assert float(opt.lr) == 0.5
    opt.learning_rate = 0.25
    assert float(opt.inner_optimizer.learning_rate) == 0.25
    again = tf.keras.optimizers.deserialize(tf.keras.optimizers.serialize(opt))
    assert again.initial_scale == 16 and type(again) is Scaled and again.get_config() == opt.get_config()
    old = tf.keras.mixed_precision.experimental.LossScaleOptimizer(tf.keras.optimizers.SGD(), "dynamic")
    assert isinstance(old.loss_scale, tf.train.experimental.DynamicLossScale)
    with pytest.raises(ValueError, match="at least 1"):
        tf.train.experimental.FixedLossScale(0.5)
    with pytest.raises(ValueError, match="initial_scale"):
        Scaled(tf.keras.optimizers.SGD(), dynamic=False)


def test_checkpoints_keep_the_slots_of_the_optimizer_inside(tmp_path):
    """The slots are saved once, with the optimizer around."""
    def made():
        return tf.Variable([1.0, 2.0]), Scaled(tf.keras.optimizers.Adam(0.1))
    v, opt = made()
    opt.minimize(lambda: tf.reduce_sum(v * v), [v])
    path = tf.train.Checkpoint(v=v, opt=opt).write(str(tmp_path / "c"))
    w, other = made()
    tf.train.Checkpoint(v=w, opt=other).restore(path)
    for var, optimizer in ((v, opt), (w, other)):
        optimizer.minimize(lambda var=var: tf.reduce_sum(var * var), [var])
    np.testing.assert_allclose(v.numpy(), w.numpy(), rtol=1e-6)
    assert v.numpy()[0] < 0.82


def test_the_update_of_a_dynamic_scale_is_a_tensor_in_graphs():
    with tf1.Graph().as_default(), tf1.Session() as sess:
        scale = tf1.train.experimental.DynamicLossScale(initial_loss_scale=8., increment_period=2)
        grad = tf1.placeholder(tf1.float32, [])
        update, good = scale.update([grad, None])
        update = tf1.identity(update)
        sess.run(tf1.global_variables_initializer())
        seen = [sess.run([update, good], {grad: g})[1:] + [sess.run(scale())] for g in (1., 1., float("nan"))]
    assert seen == [[True, 8.], [True, 16.], [False, 8.]]
    with tf1.Graph().as_default():
        assert tf1.train.experimental.DynamicLossScale().update([None])[1].dtype == tf1.bool


def test_gradients_may_be_numbers_across_replicas():
    with tf.distribute.OneDeviceStrategy("cpu:0").scope():
        scale = tf1.train.experimental.DynamicLossScale(initial_loss_scale=8., increment_period=1)
        assert not scale.update([float("inf")])[1].numpy() and scale().numpy() == 4.
        assert scale.update([1.])[1].numpy() and scale().numpy() == 8.


def test_graph_rewrite_gives_optimizers_a_loss_scale():
    enable, options = tf1.train.experimental.enable_mixed_precision_graph_rewrite, tf1.config.optimizer.get_experimental_options
    try:
        for made in (tf1.train.GradientDescentOptimizer(1.), tf1.keras.optimizers.SGD(1.)):
            opt = enable(made, 128.)
            assert float(opt._loss_scale()) == 128. and options()["auto_mixed_precision"]
            with pytest.raises(ValueError, match="must not already be"):
                enable(opt)
        with tf1.Graph().as_default(), tf1.Session() as sess:
            v = tf1.get_variable("v", (), initializer=tf1.ones_initializer())
            step = enable(tf1.train.GradientDescentOptimizer(0.5)).minimize(v * v)
            sess.run(tf1.global_variables_initializer())
            sess.run(step)
            assert sess.run(v) == 0.
        with pytest.raises(ValueError, match="must be an instance"):
            tf1.mixed_precision.enable_mixed_precision_graph_rewrite(3)
    finally:
        tf1.train.experimental.disable_mixed_precision_graph_rewrite()
    assert not options()["auto_mixed_precision"]


@pytest.mark.parametrize("aggregate", [True, False])
def test_replicas_may_have_added_up_their_gradients(aggregate):
    strategy = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
    with strategy.scope():
        v = tf.Variable([1.0, 2.0])
        optimizer = Scaled(tf.keras.optimizers.SGD(0.5), dynamic=False, initial_scale=2)
    strategy.run(lambda: optimizer.apply_gradients([(tf.constant([1.0, -1.0]), v)],
                                                   experimental_aggregate_gradients=aggregate))
    for copy in strategy.experimental_local_results(v):
        np.testing.assert_allclose(copy.numpy(), [0.0, 3.0] if aggregate else [0.5, 2.5], rtol=1e-6)


@pytest.mark.parametrize("policy, wrapped", [("mixed_float16", True), ("mixed_bfloat16", False), ("float32", False)])
def test_models_of_half_precision_scale_their_losses(policy, wrapped):
    tf.keras.mixed_precision.set_global_policy(policy)
    try:
        models = [tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,), dtype="float32")]) for _ in range(2)]
        for model in models:
            model.compile(tf.keras.optimizers.SGD(0.1, clipnorm=1.0), "mse")
            assert isinstance(model.optimizer, Scaled) is wrapped
        models[0].compile(Scaled(tf.keras.optimizers.SGD(0.1)), "mse")
        assert not isinstance(models[0].optimizer.inner_optimizer, Scaled)
        models[0].fit(np.full((4, 2), 1e38, "float32"), np.zeros(4), verbose=0)          # infinite gradients
        if wrapped:
            assert models[0].optimizer.loss_scale.numpy() == 2 ** 14 and int(models[0].optimizer.iterations) == 1
            assert models[1].optimizer.loss_scale.numpy() == 2 ** 15
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")


def test_good_steps_are_counted():
    opt = Scaled(tf.keras.optimizers.SGD(0.1), initial_scale=4.0, dynamic_growth_steps=2)
    v, seen = tf.Variable([1.0]), []
    for factor in (2.0, 2.0, 2.0, np.inf, 2.0):
        with tf.GradientTape() as tape:
            loss = opt.get_scaled_loss(v * factor)
        opt.apply_gradients(zip(opt.get_unscaled_gradients(tape.gradient(loss, [v])), [v]))
        seen.append((float(opt.loss_scale), int(opt.dynamic_counter)))
    assert seen == [(4.0, 1), (8.0, 0), (8.0, 1), (4.0, 0), (4.0, 1)]
    assert Scaled(tf.keras.optimizers.SGD(), dynamic=False, initial_scale=2.0).dynamic_counter is None


def test_batch_normalization_of_half_precision_computes_in_single_precision():
    """The gradient of beta is a sum over the batch; in 16 bits, a scaled one is infinite."""
    layer = tf.keras.layers.BatchNormalization(dtype="mixed_float16")
    x = tf.constant(np.arange(8.0).reshape(4, 2), tf.float16)
    with tf.GradientTape() as tape:
        y = layer(x, training=True)
        loss = tf.reduce_sum(tf.cast(y, tf.float32)) * 30000.0
    assert y.dtype == tf.float16
    gradients = tape.gradient(loss, [layer.gamma, layer.beta])
    np.testing.assert_array_equal(gradients[1], [120000.0, 120000.0])
    assert np.isfinite(gradients[0]).all()
