"""Optimizers: the same steps for both kinds of variables, graph and eager, dense and sparse; slots; wrong arguments.

What one step computes is checked with the samples of the update ops (tests/registry/samples/training.py).
"""
import numpy as np
import pytest

import penstock
import penstock.compat.v1 as tf
from penstock._src.graph import context
from penstock._src.ops.registry import get

OPTIMIZERS = {
    "GradientDescent": (lambda: tf.train.GradientDescentOptimizer(0.1), []),
    "Momentum": (lambda: tf.train.MomentumOptimizer(0.05, 0.9), ["momentum"]),
    "Nesterov": (lambda: tf.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True), ["momentum"]),
    "Adam": (lambda: tf.train.AdamOptimizer(0.1), ["m", "v"]),
    "Adagrad": (lambda: tf.train.AdagradOptimizer(0.5), ["accumulator"]),
    "Adadelta": (lambda: tf.train.AdadeltaOptimizer(10., 0.9, 1e-3), ["accum", "accum_update"]),
    "RMSProp": (lambda: tf.train.RMSPropOptimizer(0.05, momentum=0.5), ["momentum", "rms"]),
    "Centered": (lambda: tf.train.RMSPropOptimizer(0.05, centered=True), ["mg", "momentum", "rms"]),
    "Ftrl": (lambda: tf.train.FtrlOptimizer(0.5), ["accum", "linear"]),
    "FtrlShrinkage": (lambda: tf.train.FtrlOptimizer(0.5, l2_shrinkage_regularization_strength=0.01),
                      ["accum", "linear"]),
    "ProximalGradientDescent": (lambda: tf.train.ProximalGradientDescentOptimizer(0.1, 0.01, 0.01), []),
    "ProximalAdagrad": (lambda: tf.train.ProximalAdagradOptimizer(0.5, l1_regularization_strength=0.01),
                        ["accumulator"]),
    "AdagradDA": (lambda: tf.train.AdagradDAOptimizer(0.5, tf.train.get_or_create_global_step()),
                  ["gradient_accumulator", "gradient_squared_accumulator"]),
}
STEPS = 15
each = pytest.mark.parametrize("name", OPTIMIZERS)


def dense_and_rows(v, e):
    return tf.reduce_sum(tf.square(v - 1.)) + tf.reduce_sum(tf.square(tf.gather(e, [0, 2, 2]) - 1.))


def in_a_graph(make, use_resource, loss_of=dense_and_rows):
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable([2., -1., 0.5], use_resource=use_resource, name="v")
        e = tf.Variable(np.linspace(-2, 2, 8).reshape(4, 2).astype(np.float32), use_resource=use_resource, name="e")
        step = tf.train.get_or_create_global_step()
        opt = make()
        loss = loss_of(v, e)
        train = opt.minimize(loss, global_step=step)
        sess.run(tf.global_variables_initializer())
        losses = [sess.run([loss, train])[0] for _ in range(STEPS)]
        assert sess.run(step) == STEPS == tf.train.global_step(sess, step)
        return losses, sess.run([v.value(), e.value()]), opt


@each
def test_both_kinds_of_variables_take_the_same_steps(name):
    make, slots = OPTIMIZERS[name]
    losses, values, opt = in_a_graph(make, False)
    again, others, _ = in_a_graph(make, True)
    assert losses[-1] < 0.6 * losses[0]
    assert opt.get_slot_names() == slots
    np.testing.assert_allclose(losses, again, rtol=1e-5)
    for a, b in zip(values, others, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    if name != "AdagradDA":                            # there the weights come from the gradients alone
        np.testing.assert_array_equal(values[1][[1, 3]], np.linspace(-2, 2, 8).reshape(4, 2).astype(np.float32)[[1, 3]])


@each
def test_sparse_steps_equal_dense_ones(name):
    if name == "AdagradDA":
        pytest.skip("rows without gradients keep their value only in the sparse form")
    make, _ = OPTIMIZERS[name]

    def dense(v, e):
        return tf.reduce_sum(tf.square(v - 1.)) + tf.reduce_sum(tf.square(e - 1.))

    def by_rows(v, e):
        return tf.reduce_sum(tf.square(v - 1.)) + tf.reduce_sum(tf.square(tf.gather(e, [3, 1, 0, 2]) - 1.))
    for a, b in zip(in_a_graph(make, True, dense)[1], in_a_graph(make, True, by_rows)[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@each
def test_eager_steps_equal_those_of_a_graph(name):
    make, _ = OPTIMIZERS[name]
    with tf.Graph().as_default(), context.enter(None):
        v = penstock.Variable([2., -1., 0.5], name="v")
        e = penstock.Variable(np.linspace(-2, 2, 8).reshape(4, 2).astype(np.float32), name="e")
        step = tf.train.get_or_create_global_step()
        opt = make()
        losses = []
        for _ in range(STEPS):
            losses.append(dense_and_rows(v, e).numpy())
            opt.minimize(lambda: dense_and_rows(v, e), global_step=step, var_list=[v, e])
        assert step.numpy() == STEPS
        values = [v.numpy(), e.numpy()]
    want, arrays, _ = in_a_graph(make, True)
    np.testing.assert_allclose(losses, want, rtol=1e-4)
    for a, b in zip(values, arrays, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@each
def test_half_precision(name):
    make, _ = OPTIMIZERS[name]
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable(tf.constant([2., -1.], tf.float16), use_resource=True)
        train = make().minimize(tf.reduce_sum(tf.square(v.read_value())))
        sess.run(tf.global_variables_initializer())
        before = sess.run(v.value())
        sess.run(train)
        after = sess.run(v.value())
        assert after.dtype == np.float16 and np.isfinite(after).all() and (after != before).any()


def test_callable_hyperparameters_and_decays_in_eager_mode():
    with tf.Graph().as_default(), context.enter(None):
        v, step = penstock.Variable(0.), penstock.Variable(0, trainable=False)
        opt = tf.train.GradientDescentOptimizer(tf.train.piecewise_constant(step, [0], [1., 0.1]))
        for want in (-1., -1.1):
            opt.minimize(lambda: v * 1., var_list=[v])
            np.testing.assert_allclose(v.numpy(), want, rtol=1e-6)
            step.assign_add(1)


def test_a_function_trains():
    with tf.Graph().as_default(), context.enter(None):
        v = penstock.Variable([3., 4.])
        opt = tf.train.AdamOptimizer(0.5)

        @penstock.function
        def step():
            opt.minimize(lambda: tf.reduce_sum(v * v), var_list=[v])
        for _ in range(20):
            step()
        assert np.abs(v.numpy()).max() < 1.5


def test_names_of_slots_and_of_the_train_op():
    with tf.Graph().as_default():
        v = tf.Variable([1.], name="v")
        opt = tf.train.AdamOptimizer()
        train = opt.minimize(tf.reduce_sum(v.read_value()))
        assert train.name == "Adam" and train in tf.get_collection(tf.GraphKeys.TRAIN_OP)
        assert [s.name for s in opt.variables()] == ["beta1_power:0", "beta2_power:0", "v/Adam:0", "v/Adam_1:0"]
        assert opt.get_slot(v, "m").name == "v/Adam:0" and opt.get_slot(v, "other") is None
        assert not any(s in tf.trainable_variables() for s in opt.variables())


def test_constraints():
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable([1., -3.], constraint=lambda x: tf.clip_by_value(x, -2., 0.5), use_resource=True)
        train = tf.train.GradientDescentOptimizer(1.).minimize(tf.reduce_sum(v.read_value()))
        sess.run(tf.global_variables_initializer())
        sess.run(train)
        np.testing.assert_array_equal(sess.run(v.value()), [0, -2])
        e = tf.Variable([[1.]], constraint=lambda x: x, use_resource=True)
        with pytest.raises(RuntimeError, match="constraint function on a sparse variable"):
            tf.train.GradientDescentOptimizer(1.).minimize(tf.gather(e, [0]), var_list=[e])


def test_gates():
    with tf.Graph().as_default(), tf.Session() as sess:
        v, w = tf.Variable(2., use_resource=True), tf.Variable(3., use_resource=True)
        opt = tf.train.GradientDescentOptimizer(0.)
        for gate in (opt.GATE_NONE, opt.GATE_OP, opt.GATE_GRAPH):
            pairs = opt.compute_gradients(v * w, gate_gradients=gate, var_list=[v, w])
            sess.run(tf.variables_initializer([v, w]))
            assert sess.run([g for g, _ in pairs]) == [3., 2.]
        with pytest.raises(ValueError, match="gate_gradients must be one of"):
            opt.compute_gradients(v * w, gate_gradients=7)


def test_what_cannot_be_optimized():
    with tf.Graph().as_default():
        opt = tf.train.GradientDescentOptimizer(1.)
        with pytest.raises(ValueError, match="No variables to optimize"):
            opt.minimize(tf.constant(1.))
        v = tf.Variable(1., use_resource=True)
        with pytest.raises(ValueError, match="No gradients provided for any variable"):
            opt.minimize(tf.constant(1.), var_list=[v])
        with pytest.raises(ValueError, match="No variables provided"):
            opt.apply_gradients([])
        with pytest.raises(NotImplementedError, match="Trying to update a Tensor"):
            opt.apply_gradients([(1., tf.constant(1.))])
        i = tf.Variable(1, use_resource=True)
        with pytest.raises(ValueError, match="Invalid type"):
            opt.compute_gradients(i.read_value(), [i])
        with pytest.raises(ValueError, match="optimizer name"):
            tf.train.Optimizer(False, "")
        with pytest.raises(ValueError, match="positive"):
            tf.train.AdagradOptimizer(1., initial_accumulator_value=0.)
        with pytest.raises(ValueError, match="needs to be positive or zero"):
            tf.train.FtrlOptimizer(1., l1_regularization_strength=-1.)
    with context.enter(None), pytest.raises(RuntimeError, match="should be a function"):
        opt.minimize(penstock.constant(1.))


def test_optimizers_of_users_override_four_methods():
    class Halving(tf.train.Optimizer):
        def _apply_dense(self, grad, var):
            return var.assign(var / 2.).op

        def _resource_apply_dense(self, grad, var):
            return var.assign(var / 2., read_value=False)

        def _apply_sparse(self, grad, var):
            return tf.scatter_update(var, grad.indices, grad.values).op

        def _resource_apply_sparse(self, grad, var, indices):
            return tf.scatter_update(var, indices, grad).op
    for use_resource in (False, True):
        with tf.Graph().as_default(), tf.Session() as sess:
            v = tf.Variable([8.], use_resource=use_resource)
            e = tf.Variable([[8.], [8.]], use_resource=use_resource)
            train = Halving(False, "Halving").minimize(tf.reduce_sum(v.read_value()) + tf.reduce_sum(tf.gather(e, [1, 1])))
            sess.run(tf.global_variables_initializer())
            sess.run(train)
            assert sess.run(v.value()).tolist() == [4.]
            assert sess.run(e.value()).tolist() == [[8.], [2.]]      # repeated rows were added up first


@pytest.mark.parametrize("name, slots, numbers", [("Adam", 2, (1., 1., 1., 1., 1., 1.)), ("AdaMax", 2, (1., 1., 1., 1., 1.)),
                                                  ("Ftrl", 2, None), ("Adagrad", 1, (1.,))])
def test_numbers_at_their_limits_give_no_python_error(name, slots, numbers):
    with context.enter(None):
        states = [penstock.Variable([1., 2.]) for _ in range(slots + 1)]
        grad = penstock.constant([0., 1.])
        args = [grad, 0., 0., 0., -0.5] if numbers is None else [*numbers, grad]
        get(f"ResourceApply{name}")(*(s.handle for s in states), *args)
        assert states[0].numpy().shape == (2,)


def test_the_beta_of_ftrl_adds_to_the_root_of_the_squares():
    rate, beta, power = 0.5, 2.0, 0.5
    w, n, z = np.array([1., -2.]), np.zeros(2), np.zeros(2)
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable(w, dtype=tf.float64)
        step = tf.train.FtrlOptimizer(rate, initial_accumulator_value=0.0, beta=beta).apply_gradients(
            [(tf.constant([0.3, 0.1], tf.float64), v)])
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            g = np.array([0.3, 0.1])
            z += g - ((n + g * g) ** power - n ** power) / rate * w
            n += g * g
            w = -z / ((beta + n ** power) / rate)
            sess.run(step)
        np.testing.assert_allclose(sess.run(v), w, rtol=1e-6)


def test_subclasses_read_the_tensors_of_numbers():
    """Subclasses use the names that these tensors have in TensorFlow."""
    read = []

    class Powers(tf.train.AdamOptimizer):
        def _finish(self, update_ops, name_scope):
            read.extend([self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t])
            return super()._finish(update_ops, name_scope)

    class Plain(tf.train.MomentumOptimizer):
        def _finish(self, update_ops, name_scope):
            read.extend([self._learning_rate_tensor, self._momentum_tensor])
            return super()._finish(update_ops, name_scope)
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable([1.0, 2.0])
        Powers(0.5, 0.25, 0.75, 0.125).minimize(v * v)
        Plain(2.0, 0.5).minimize(v * v)
        np.testing.assert_array_equal(sess.run(read), [0.5, 0.25, 0.75, 0.125, 2.0, 0.5])
