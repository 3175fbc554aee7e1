"""Learning rates that change with the global step.

In graph mode a decay is a tensor. In eager mode it is a function without arguments, which optimizers call at every
step. The formulas are in `schedules.py`.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.training.train import schedules


def _at(step: Any, schedule: Callable) -> Any:
    """The rate at a step: a tensor, or in eager mode a function that returns it."""
    return functools.partial(schedule, step) if context.executing_eagerly() else schedule(step)


@export(v1=["train.exponential_decay"])
def exponential_decay(learning_rate: Any, global_step: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False,
                      name: str | None = None) -> Any:
    """learning_rate * decay_rate ** (global_step / decay_steps).

    Args:
        learning_rate: Rate at step 0.
        global_step: Step counter.
        decay_steps: Number of steps after which the rate is multiplied by `decay_rate`.
        decay_rate: Factor per `decay_steps`.
        staircase: Whether the rate falls in steps instead of continuously.
        name: Name of the operation.

    Returns:
        A scalar; in eager execution a function without arguments.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     rate = tf.train.exponential_decay(0.1, global_step=100, decay_steps=100, decay_rate=0.5)
    ...     print(sess.run(rate))
    0.05
    """
    _needs_step(global_step)
    return _at(global_step, schedules.ExponentialDecay(learning_rate, decay_steps, decay_rate, staircase, name))


def _needs_step(global_step: Any) -> None:
    if global_step is None:
        raise ValueError("global_step is required for a learning rate decay.")


@export(v1=["train.piecewise_constant_decay", "train.piecewise_constant"])
def piecewise_constant(x: Any, boundaries: Any, values: Any, name: str | None = None) -> Any:
    """values[0] up to boundaries[0], values[1] up to boundaries[1], … and the last value after that.

    Args:
        x: Step counter: a scalar.
        boundaries: Ascending list of steps.
        values: Values between the boundaries: one more than `boundaries`.
        name: Name of the operation.

    Returns:
        A scalar; in eager execution a function without arguments.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     rate = tf.train.piecewise_constant(tf.constant(1500), [1000, 2000], [0.1, 0.01, 0.001])
    ...     print(sess.run(rate))
    0.01
    """
    schedule = schedules.PiecewiseConstantDecay(boundaries, values, name)
    schedule.check(x)
    return _at(x, schedule)


@export(v1=["train.polynomial_decay"])
def polynomial_decay(learning_rate: Any, global_step: Any, decay_steps: Any, end_learning_rate: Any = 0.0001,
                     power: Any = 1.0, cycle: bool = False, name: str | None = None) -> Any:
    """From learning_rate to end_learning_rate along (1 - step / decay_steps) ** power.

    Args:
        learning_rate: Rate at step 0.
        global_step: Step counter.
        decay_steps: Number of steps until the end value.
        end_learning_rate: Rate at the end.
        power: Exponent.
        cycle: Whether to start a longer decay after the end.
        name: Name of the operation.

    Returns:
        A scalar; in eager execution a function without arguments.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     rate = tf.train.polynomial_decay(0.1, global_step=50, decay_steps=100, end_learning_rate=0.0)
    ...     print(sess.run(rate))
    0.05
    """
    _needs_step(global_step)
    return _at(global_step, schedules.PolynomialDecay(learning_rate, decay_steps, end_learning_rate, power, cycle, name))


@export(v1=["train.natural_exp_decay"])
def natural_exp_decay(learning_rate: Any, global_step: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False,
                      name: str | None = None) -> Any:
    """learning_rate * exp(-decay_rate * global_step / decay_steps)."""
    _needs_step(global_step)
    return _at(global_step, schedules.NaturalExpDecay(learning_rate, decay_steps, decay_rate, staircase, name))


@export(v1=["train.inverse_time_decay"])
def inverse_time_decay(learning_rate: Any, global_step: Any, decay_steps: Any, decay_rate: Any,
                       staircase: bool = False, name: str | None = None) -> Any:
    """learning_rate / (1 + decay_rate * global_step / decay_steps)."""
    _needs_step(global_step)
    return _at(global_step, schedules.InverseTimeDecay(learning_rate, decay_steps, decay_rate, staircase, name))


@export(v1=["train.cosine_decay"])
def cosine_decay(learning_rate: Any, global_step: Any, decay_steps: Any, alpha: Any = 0.0,
                 name: str | None = None) -> Any:
    """From learning_rate to alpha * learning_rate along half a cosine wave."""
    _needs_step(global_step)
    return _at(global_step, schedules.CosineDecay(learning_rate, decay_steps, alpha, name))


@export(v1=["train.cosine_decay_restarts"])
def cosine_decay_restarts(learning_rate: Any, global_step: Any, first_decay_steps: Any, t_mul: Any = 2.0,
                          m_mul: Any = 1.0, alpha: Any = 0.0, name: str | None = None) -> Any:
    """cosine_decay with restarts, each period `t_mul` times as long and starting at `m_mul` times the height."""
    _needs_step(global_step)
    return _at(global_step, schedules.CosineDecayRestarts(learning_rate, first_decay_steps, t_mul, m_mul, alpha, name))


@export(v1=["train.linear_cosine_decay"])
def linear_cosine_decay(learning_rate: Any, global_step: Any, decay_steps: Any, num_periods: Any = 0.5,
                        alpha: Any = 0.0, beta: Any = 0.001, name: str | None = None) -> Any:
    """A line that falls to zero times a cosine of `num_periods` periods, plus `beta`."""
    _needs_step(global_step)
    return _at(global_step, schedules.LinearCosineDecay(learning_rate, decay_steps, num_periods, alpha, beta, name))


@export(v1=["train.noisy_linear_cosine_decay"])
def noisy_linear_cosine_decay(learning_rate: Any, global_step: Any, decay_steps: Any, initial_variance: Any = 1.0,
                              variance_decay: Any = 0.55, num_periods: Any = 0.5, alpha: Any = 0.0, beta: Any = 0.001,
                              name: str | None = None) -> Any:
    """linear_cosine_decay with noise on the line, of a variance that decays."""
    _needs_step(global_step)
    return _at(global_step, schedules.NoisyLinearCosineDecay(learning_rate, decay_steps, initial_variance,
                                                             variance_decay, num_periods, alpha, beta, name))
