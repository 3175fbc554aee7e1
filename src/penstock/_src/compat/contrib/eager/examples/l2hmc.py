"""Hamiltonian Monte Carlo whose moves are learned (L2HMC, https://arxiv.org/abs/1711.09268)."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from penstock.compat import v1 as tf


def _dense(units: int, factor: float = 1.0) -> Any:
    return tf.keras.layers.Dense(units, kernel_initializer=tf.contrib.layers.variance_scaling_initializer(
        factor=2.0 * factor, mode="FAN_IN", uniform=False), bias_initializer=tf.constant_initializer(0.0))


class GenericNet(tf.keras.Model):
    """The learned functions: scale, translation and transformation of a move, from momentum, position and time."""

    def __init__(self, x_dim: int, factor: float, n_hidden: int = 10):
        super().__init__()
        self.of_inputs = [_dense(n_hidden, f / 3.0) for f in (1.0, factor, 1.0)]
        self.h_layer = _dense(n_hidden)
        self.scale_layer, self.translation_layer, self.transformation_layer = (_dense(x_dim, 0.001) for _ in range(3))
        self.coeff_scale = tf.Variable(tf.zeros([1, x_dim]), name="coeff_scale", use_resource=True)
        self.coeff_transformation = tf.Variable(tf.zeros([1, x_dim]), name="coeff_transformation", use_resource=True)

    def call(self, inputs: Any) -> tuple[Any, Any, Any]:
        h = tf.nn.relu(self.h_layer(tf.nn.relu(tf.add_n([layer(x) + tf.zeros_like(inputs[0][:, :1])
                                                         for layer, x in zip(self.of_inputs, inputs)]))))
        return (tf.tanh(self.scale_layer(h)) * tf.exp(self.coeff_scale), self.translation_layer(h),
                tf.tanh(self.transformation_layer(h)) * tf.exp(self.coeff_transformation))


class Dynamics(tf.keras.Model):
    """A sampler of the density whose negative logarithm is `minus_loglikelihood_fn`, up to a constant.

    >>> dynamics = Dynamics(2, energy, n_steps=10, eps=0.1)
    >>> proposed, momentum, probability, samples = dynamics.apply_transition(samples)
    """

    def __init__(self, x_dim: int, minus_loglikelihood_fn: Callable, n_steps: int = 25, eps: float = 0.1, np_seed: int = 1):
        super().__init__()
        self.x_dim, self.potential, self.n_steps = x_dim, minus_loglikelihood_fn, n_steps
        random = np.random.RandomState(np_seed)
        angles = 2 * np.pi * np.arange(n_steps) / n_steps
        self._times = np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
        self._masks = np.zeros([n_steps, x_dim], np.float32)          # which half of the coordinates moves first
        for mask in self._masks:
            mask[random.permutation(x_dim)[:x_dim // 2]] = 1.0
        self.position_fn, self.momentum_fn = GenericNet(x_dim, factor=2.0), GenericNet(x_dim, factor=1.0)
        self.eps = tf.Variable(eps, name="eps", dtype=tf.float32, use_resource=True)

    def apply_transition(self, position: Any) -> tuple[Any, Any, Any, Any]:
        """One move of each sample, forward or backward in time: what was proposed, its momentum, how likely it is accepted,
        and the sample after that was decided."""
        ahead, back = self.transition_kernel(position, True), self.transition_kernel(position, False)
        forward = tf.random_uniform([tf.shape(position)[0]]) > 0.5
        proposed, momentum, probability = (tf.where(forward, a, b) for a, b in zip(ahead, back))
        accepted = probability > tf.random_uniform(tf.shape(probability))
        return proposed, momentum, probability, tf.where(accepted, proposed, position)

    def transition_kernel(self, position: Any, forward: bool = True) -> tuple[Any, Any, Any]:
        """All leapfrog steps in one direction: position, momentum, and the probability that they are accepted."""
        momentum = start = tf.random_normal(tf.shape(position))
        new, total = position, 0.0
        for i in range(self.n_steps) if forward else reversed(range(self.n_steps)):
            new, momentum, log_determinant = self._leapfrog(new, momentum, i, forward)
            total += log_determinant
        gain = self.hamiltonian(position, start) - self.hamiltonian(new, momentum) + total
        probability = tf.exp(tf.minimum(gain, 0.0))
        return new, momentum, tf.where(tf.is_finite(probability), probability, tf.zeros_like(probability))

    def _leapfrog(self, position: Any, momentum: Any, i: int, forward: bool) -> tuple[Any, Any, Any]:
        time, mask = self._times[i:i + 1], self._masks[i:i + 1]
        momentum, total = self._move_momentum(position, momentum, time, forward)
        for kept in (mask, 1.0 - mask) if forward else (1.0 - mask, mask):
            position, log_determinant = self._move_position(position, momentum, time, kept, forward)
            total += log_determinant
        momentum, log_determinant = self._move_momentum(position, momentum, time, forward)
        return position, momentum, total + log_determinant

    def _move_momentum(self, position: Any, momentum: Any, time: Any, forward: bool) -> tuple[Any, Any]:
        slope = self.grad_potential(position)
        scale, shift, warp = self.momentum_fn([position, slope, time])
        half = 0.5 * self.eps
        push = half * (tf.exp(warp * self.eps) * slope - shift)
        scale = scale * (half if forward else -half)
        moved = momentum * tf.exp(scale) - push if forward else tf.exp(scale) * (momentum + push)
        return moved, tf.reduce_sum(scale, axis=1)

    def _move_position(self, position: Any, momentum: Any, time: Any, kept: Any, forward: bool) -> tuple[Any, Any]:
        scale, shift, warp = self.position_fn([momentum, kept * position, time])
        push = self.eps * (tf.exp(warp * self.eps) * momentum + shift)
        scale = scale * (self.eps if forward else -self.eps)
        moved = position * tf.exp(scale) + push if forward else tf.exp(scale) * (position - push)
        return kept * position + (1.0 - kept) * moved, tf.reduce_sum((1.0 - kept) * scale, axis=1)

    def kinetic(self, v: Any) -> Any:
        """The energy of a momentum."""
        return 0.5 * tf.reduce_sum(tf.square(v), axis=1)

    def hamiltonian(self, position: Any, momentum: Any) -> Any:
        """The whole energy."""
        return self.potential(position) + self.kinetic(momentum)

    def grad_potential(self, position: Any, check_numerics: bool = True) -> Any:
        """The gradient of the potential."""
        if not tf.executing_eagerly():
            return tf.gradients(self.potential(position), position)[0]
        with tf.GradientTape() as tape:
            tape.watch(position)
            energy = self.potential(position)
        return tape.gradient(energy, position)


def get_scg_energy_fn() -> tuple[Callable, Any, Any]:
    """The energy of a normal distribution with strongly correlated coordinates, its mean and its covariance."""
    mean, covariance = tf.constant([0.0, 0.0]), tf.constant([[50.05, -49.95], [-49.95, 50.05]])
    precision = tf.matrix_inverse(covariance)

    def energy(x: Any) -> Any:
        away = x - mean
        return 0.5 * tf.reduce_sum(tf.matmul(away, precision) * away, axis=1)
    return energy, mean, covariance


def get_rw_energy_fn() -> tuple[Callable, Any, Any]:
    """The energy of a rough well: a bowl with ripples."""
    eta = 0.01

    def energy(x: Any) -> Any:
        return 0.5 * tf.reduce_sum(tf.square(x), axis=1) + eta * tf.reduce_sum(tf.cos(x / eta), axis=1)
    return energy, tf.constant([0.0, 0.0]), tf.constant([[1.0, 0.0], [0.0, 1.0]])


def compute_loss(dynamics: Any, x: Any, scale: float = 0.1, eps: float = 1e-4) -> tuple[Any, Any, Any]:
    """A loss that is small where samples jump far and are accepted; the new samples; how likely they were accepted."""
    total, outcome = 0.0, []
    for start in (x, tf.random_normal(tf.shape(x))):
        proposed, _, probability, new = dynamics.apply_transition(start)
        jump = tf.reduce_sum(tf.square(start - proposed), axis=1) * probability + eps
        total += scale / jump - jump / scale
        outcome.append((new, probability))
    return tf.reduce_mean(total, axis=0), *outcome[0]


def loss_and_grads(dynamics: Any, x: Any, loss_fn: Callable = compute_loss) -> tuple[Any, Any, Any, Any]:
    """The loss, its gradients by the sampler's variables, the new samples, and how likely they were accepted."""
    with tf.GradientTape() as tape:
        loss, new, probability = loss_fn(dynamics, x)
    return loss, tape.gradient(loss, dynamics.trainable_variables), new, probability
