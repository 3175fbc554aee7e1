"""Learning-rate decays, moving averages and the global step against their formulas."""
import math

import numpy as np
import pytest

import penstock
import penstock.compat.v1 as tf
from penstock._src.graph import context
from penstock._src.training.train.moving_averages import assign_moving_average, weighted_moving_average
from penstock._src.training.train.schedules import ExponentialDecay


def restarts(step, first, t_mul, m_mul, alpha):
    length, height = float(first), 1.
    while step >= length:
        step, length, height = step - length, length * t_mul, height * m_mul
    return (1 - alpha) * 0.5 * height * (1 + math.cos(math.pi * step / length)) + alpha


DECAYS = {
    "exponential": (lambda s: tf.train.exponential_decay(0.5, s, 10, 0.9), lambda s: 0.5 * 0.9 ** (s / 10)),
    "staircase": (lambda s: tf.train.exponential_decay(0.5, s, 10, 0.9, staircase=True), lambda s: 0.5 * 0.9 ** (s // 10)),
    "natural": (lambda s: tf.train.natural_exp_decay(0.5, s, 10, 0.9), lambda s: 0.5 * math.exp(-0.9 * s / 10)),
    "inverse": (lambda s: tf.train.inverse_time_decay(0.5, s, 10, 0.9), lambda s: 0.5 / (1 + 0.9 * s / 10)),
    "piecewise": (lambda s: tf.train.piecewise_constant(s, [3, 20], [1., 0.5, 0.1]),
                  lambda s: 1. if s <= 3 else 0.5 if s <= 20 else 0.1),
    "polynomial": (lambda s: tf.train.polynomial_decay(0.5, s, 20, 0.1, 2.),
                   lambda s: 0.4 * (1 - min(s, 20) / 20) ** 2 + 0.1),
    "cycle": (lambda s: tf.train.polynomial_decay(0.5, s, 10, 0.1, cycle=True),
              lambda s: 0.4 * (1 - s / (10 * max(1, math.ceil(s / 10)))) + 0.1),
    "cosine": (lambda s: tf.train.cosine_decay(0.5, s, 20, 0.1),
               lambda s: 0.5 * (0.9 * 0.5 * (1 + math.cos(math.pi * min(s, 20) / 20)) + 0.1)),
    "restarts": (lambda s: tf.train.cosine_decay_restarts(0.5, s, 7, 2., 0.8, 0.1),
                 lambda s: 0.5 * restarts(s, 7, 2., 0.8, 0.1)),
    "even restarts": (lambda s: tf.train.cosine_decay_restarts(0.5, s, 7, 1.), lambda s: 0.5 * restarts(s, 7, 1., 1., 0.)),
    "linear cosine": (lambda s: tf.train.linear_cosine_decay(0.5, s, 20, 2., 0.1, 0.01),
                      lambda s: 0.5 * ((0.1 + 1 - min(s, 20) / 20) * 0.5
                                       * (1 + math.cos(4 * math.pi * min(s, 20) / 20)) + 0.01)),
}
STEPS = (0, 1, 3, 4, 9, 10, 12, 20, 33)


@pytest.mark.parametrize("name", DECAYS)
def test_decays(name):
    make, formula = DECAYS[name]
    with tf.Graph().as_default(), tf.Session() as sess:
        step = tf.placeholder(tf.int32, [])
        rate = make(step)
        found = [sess.run(rate, {step: s}) for s in STEPS]
    np.testing.assert_allclose(found, [formula(s) for s in STEPS], rtol=2e-5, atol=1e-6)
    with context.enter(None):
        step = penstock.Variable(0)
        rate = make(step)
        for s in STEPS:
            step.assign(s)
            np.testing.assert_allclose(rate().numpy(), formula(s), rtol=2e-5, atol=1e-6)


def test_noise_decays():
    with tf.Graph().as_default(), tf.Session() as sess:
        step = tf.placeholder(tf.int32, [])
        rate = tf.train.noisy_linear_cosine_decay(1., step, 1000)
        early, late = (np.std([sess.run(rate, {step: s}) for _ in range(200)]) for s in (0, 500))
    assert early > 2 * late > 0


def test_decays_say_what_is_wrong():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="global_step is required"):
            tf.train.exponential_decay(0.1, None, 10, 0.9)
        with pytest.raises(ValueError, match="1 less than"):
            tf.train.piecewise_constant(3, [1, 2], [1.])
        with pytest.raises(ValueError, match="same dtype as x"):
            tf.train.piecewise_constant(3, [1., 2.], [1., 2., 3.])
        with pytest.raises(ValueError, match="all with the same dtype"):
            tf.train.piecewise_constant(3, [1], [1., 2])


def test_schedules_have_configurations():
    made = ExponentialDecay(0.1, 10, 0.9, True, "x")
    assert vars(ExponentialDecay.from_config(made.get_config())) == vars(made)


# -- moving averages --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("use_resource", [False, True])
def test_averages_of_variables(use_resource):
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable([10., 20.], use_resource=use_resource, name="v")
        ema = tf.train.ExponentialMovingAverage(0.75)
        assert ema.average_name(v) == "v/ExponentialMovingAverage"
        move = ema.apply([v])
        average = ema.average(v)
        assert average.name == "v/ExponentialMovingAverage:0" and tf.moving_average_variables() == [v]
        sess.run(tf.global_variables_initializer())
        sess.run(v.assign([2., 4.]).op)
        sess.run(move)
        np.testing.assert_allclose(sess.run(average.value()), [8, 16], rtol=1e-6)
        assert ema.variables_to_restore() == {"v/ExponentialMovingAverage": v}


def test_averages_of_tensors_are_debiased():
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [])
        ema = tf.train.ExponentialMovingAverage(0.5, zero_debias=True)
        move = ema.apply([x + 0.])
        average = next(iter(ema._averages.values()))
        sess.run(tf.global_variables_initializer())
        for value, want in ((4., 4.), (8., (4 * .25 + 8 * .5) / .75)):
            sess.run(move, {x: value})
            np.testing.assert_allclose(sess.run(average.value()), want, rtol=1e-6)


def test_the_number_of_updates_limits_the_decay():
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable(10., use_resource=True)
        ema = tf.train.ExponentialMovingAverage(0.9, num_updates=1)
        move = ema.apply([v])
        sess.run(tf.global_variables_initializer())
        sess.run(v.assign(0.).op)
        sess.run(move)
        np.testing.assert_allclose(sess.run(ema.average(v).value()), 10 * 2 / 11, rtol=1e-6)
        with pytest.raises(TypeError, match="half, float, or double"):
            ema.apply([tf.Variable(1)])


def test_eager_averages():
    with tf.Graph().as_default(), context.enter(None):
        v = penstock.Variable(10.)
        ema = penstock.train.ExponentialMovingAverage(0.5)
        ema.apply([v])
        v.assign(0.)
        ema.apply([v])
        assert ema.average(v).numpy() == 5.
        with pytest.raises(TypeError, match="non-Variable"):
            ema.apply([penstock.constant(1.)])


def test_single_updates():
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable(0., use_resource=False, name="v")
        plain = assign_moving_average(v, 8., 0.25, zero_debias=False)
        mean = weighted_moving_average(tf.constant(6.), 0.5, tf.constant(2.))
        sess.run(tf.global_variables_initializer())
        assert sess.run(plain) == 6. and sess.run(mean) == 6.


# -- the global step --------------------------------------------------------------------------------------------------
def test_global_step():
    with tf.Graph().as_default():
        assert tf.train.get_global_step() is None
        with tf.name_scope("elsewhere"):
            step = tf.train.create_global_step()
        assert step.name == "global_step:0" and step.dtype.base_dtype == tf.int64
        assert tf.train.get_or_create_global_step() is step and step not in tf.trainable_variables()
        with pytest.raises(ValueError, match="already exists"):
            tf.train.create_global_step()
    with tf.Graph().as_default():
        tf.Variable(1., name="global_step", use_resource=False)
        with pytest.raises(TypeError, match="does not have integer type"):
            tf.train.get_global_step()
    with tf.Graph().as_default(), pytest.raises(TypeError, match="not scalar"):
        tf.train.assert_global_step(tf.constant([1, 2]))


def test_averages_of_eager_variables_have_names():
    v = penstock.Variable(4.0, name="averaged")
    averages = penstock.train.ExponentialMovingAverage(0.5)
    assert averages.average_name(v) == "averaged/ExponentialMovingAverage"
    averages.apply([v])
    v.assign(0.0)
    averages.apply([v])
    assert averages.average_name(v) == "averaged/ExponentialMovingAverage"
    assert averages.variables_to_restore([v])["averaged/ExponentialMovingAverage"] is v
    np.testing.assert_allclose(averages.average(v).numpy(), 2.0, rtol=1e-6, atol=1e-6)
