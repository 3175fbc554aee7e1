"""The formulas of learning rates that depend on a step.

A schedule is a callable from a step to a rate, both tensors. The v1 functions (learning_rate_decay.py) and the Keras
classes are views over these.
"""
from __future__ import annotations

import inspect
import math
from typing import Any

from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops.random.random import random_normal
from penstock._src.ops.registry import get
from penstock._src.training.train.optimizer import cast


class LearningRateSchedule:
    """A rate as a function of the step; subclasses define `_rate(step, initial)` in the type of the initial rate."""

    name: str | None
    label = ""

    def __call__(self, step: Any) -> Any:
        with name_scope(self.name or self.label or type(self).__name__):
            initial = convert(self.initial_learning_rate, name="initial_learning_rate")  # type: ignore[attr-defined]
            return self._rate(cast(step, initial.dtype.base_dtype), initial)

    def _rate(self, step: Any, initial: Any) -> Any:
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """The arguments that make the same schedule again."""
        return {n: getattr(self, n) for n in inspect.signature(type(self)).parameters}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The schedule of a configuration."""
        return cls(**config)


def _number(value: Any, like: Any) -> Any:
    return cast(value, like.dtype.base_dtype)


def _done(step: Any, decay_steps: Any, staircase: bool = False) -> Any:
    """The number of decay periods so far; rounded down for a staircase."""
    p = step / _number(decay_steps, step)
    return get("Floor")(p) if staircase else p


def _wave(fraction: Any) -> Any:
    """Half a cosine wave from 1 (at 0) down to 0 (at 1), and on."""
    return (get("Cos")(fraction * _number(math.pi, fraction)) + _number(1.0, fraction)) * _number(0.5, fraction)


class ExponentialDecay(LearningRateSchedule):
    """initial * decay_rate ** (step / decay_steps).

    Args:
        initial_learning_rate: The rate of step 0.
        decay_steps: The steps in which the rate falls by the factor `decay_rate`.
        decay_rate: That factor.
        staircase: Whether it falls at once every `decay_steps` steps.
        name: Name of the operations.

    >>> rate = tf.keras.optimizers.schedules.ExponentialDecay(0.5, decay_steps=100, decay_rate=0.5)
    >>> float(rate(200))
    0.125
    """

    def __init__(self, initial_learning_rate: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False,
                 name: str | None = None):
        self.initial_learning_rate, self.decay_steps, self.decay_rate = initial_learning_rate, decay_steps, decay_rate
        self.staircase, self.name = staircase, name

    def _rate(self, step: Any, initial: Any) -> Any:
        return initial * get("Pow")(_number(self.decay_rate, initial), _done(step, self.decay_steps, self.staircase))


class NaturalExpDecay(ExponentialDecay):
    """initial * exp(-decay_rate * step / decay_steps)."""

    label = "ExponentialTimeDecay"

    def _rate(self, step: Any, initial: Any) -> Any:
        return initial * get("Exp")(-_number(self.decay_rate, initial)
                                    * _done(step, self.decay_steps, self.staircase))


class InverseTimeDecay(ExponentialDecay):
    """initial / (1 + decay_rate * step / decay_steps).

    Args:
        initial_learning_rate: The rate of step 0.
        decay_steps: The steps after which 1 has grown by `decay_rate`.
        decay_rate: That growth.
        staircase: Whether it grows at once every `decay_steps` steps.
        name: Name of the operations.

    >>> rate = tf.keras.optimizers.schedules.InverseTimeDecay(0.5, decay_steps=100, decay_rate=1.0)
    >>> float(rate(100))
    0.25
    """

    def _rate(self, step: Any, initial: Any) -> Any:
        p = _done(step, self.decay_steps, self.staircase)
        return initial / (_number(self.decay_rate, initial) * p + _number(1, initial))


class PiecewiseConstantDecay(LearningRateSchedule):
    """values[i] for steps above boundaries[i - 1] and up to boundaries[i].

    Args:
        boundaries: Increasing steps.
        values: The rates between them, one more than boundaries.
        name: Name of the operations.

    Raises:
        ValueError: if there is not one value more than boundaries.

    >>> rate = tf.keras.optimizers.schedules.PiecewiseConstantDecay([100, 200], [1.0, 0.5, 0.25])
    >>> float(rate(150))
    0.5
    """

    label = "PiecewiseConstant"

    def __init__(self, boundaries: Any, values: Any, name: str | None = None):
        if len(boundaries) != len(values) - 1:
            raise ValueError("The length of boundaries should be 1 less than the length of values: there are "
                             f"{len(boundaries)} boundaries and {len(values)} values.")
        self.boundaries, self.values, self.name = boundaries, values, name

    def check(self, x: Any) -> None:
        """ValueError where boundaries are not of the type of `x`, or values not of one type."""
        dtype = convert(x).dtype.base_dtype
        for b in self.boundaries:
            found = convert(b).dtype.base_dtype
            if found != dtype and not (found.name == "int32" and dtype.name == "int64"):
                raise ValueError(f"Boundaries ({found}) must have the same dtype as x ({dtype}).")
        kinds = [convert(v).dtype.base_dtype for v in self.values]
        for k in kinds[1:]:
            if k != kinds[0]:
                raise ValueError(f"Values must have elements all with the same dtype ({kinds[0]} vs {k}).")

    def __call__(self, step: Any) -> Any:
        with name_scope(self.name or self.label):
            x = step if isinstance(step, Tensor) else convert(step)
            values = get("Pack")([convert(v) for v in self.values])
            if not len(self.boundaries):
                return values[0]
            limits = get("Pack")([_number(b, x) for b in self.boundaries])
            passed = get("Sum")(get("Cast")(get("Greater")(x, limits), DstT="int32"), 0)
            return get("GatherV2")(values, passed, 0)


class PolynomialDecay(LearningRateSchedule):
    """From the initial rate to the end rate along (1 - step / decay_steps) ** power, once or in cycles.

    Args:
        initial_learning_rate: The rate of step 0.
        decay_steps: The step at which the end is reached.
        end_learning_rate: The rate from there on.
        power: The exponent; 1 is a line.
        cycle: Whether to begin again, each time with a longer period, instead of staying at the end.
        name: Name of the operations.

    >>> rate = tf.keras.optimizers.schedules.PolynomialDecay(1.0, decay_steps=100, end_learning_rate=0.5)
    >>> float(rate(50))
    0.75
    """

    def __init__(self, initial_learning_rate: Any, decay_steps: Any, end_learning_rate: Any = 0.0001, power: Any = 1.0,
                 cycle: bool = False, name: str | None = None):
        self.initial_learning_rate, self.decay_steps = initial_learning_rate, decay_steps
        self.end_learning_rate, self.power, self.cycle, self.name = end_learning_rate, power, cycle, name

    def _rate(self, step: Any, initial: Any) -> Any:
        steps, end = _number(self.decay_steps, initial), _number(self.end_learning_rate, initial)
        one = _number(1, initial)
        if self.cycle:
            steps = steps * get("Maximum")(get("Ceil")(step / steps), one)
        else:
            step = get("Minimum")(step, steps)
        left = get("Pow")(one - step / steps, _number(self.power, initial))
        return (initial - end) * left + end


class CosineDecay(LearningRateSchedule):
    """From the initial rate to `alpha` times it along half a cosine wave."""

    def __init__(self, initial_learning_rate: Any, decay_steps: Any, alpha: Any = 0.0, name: str | None = None):
        self.initial_learning_rate, self.decay_steps = initial_learning_rate, decay_steps
        self.alpha, self.name = alpha, name

    def _rate(self, step: Any, initial: Any) -> Any:
        steps, alpha = _number(self.decay_steps, initial), _number(self.alpha, initial)
        return initial * (_wave(get("Minimum")(step, steps) / steps) * (_number(1, initial) - alpha) + alpha)


class CosineDecayRestarts(LearningRateSchedule):
    """CosineDecay with restarts, each period `t_mul` times as long and starting at `m_mul` times the height.

    Args:
        initial_learning_rate: The rate of step 0.
        first_decay_steps: The length of the first period.
        t_mul: The factor by which each period is longer than the one before.
        m_mul: The factor of the rate at which each period begins.
        alpha: The lowest rate, as a fraction of the initial one.
        name: Name of the operations.

    >>> rate = tf.keras.optimizers.schedules.CosineDecayRestarts(1.0, first_decay_steps=100)
    >>> float(rate(100))
    1.0
    """

    label = "SGDRDecay"

    def __init__(self, initial_learning_rate: Any, first_decay_steps: Any, t_mul: Any = 2.0, m_mul: Any = 1.0,
                 alpha: Any = 0.0, name: str | None = None):
        self.initial_learning_rate, self.first_decay_steps = initial_learning_rate, first_decay_steps
        self.t_mul, self.m_mul, self.alpha, self.name = t_mul, m_mul, alpha, name

    def _rate(self, step: Any, initial: Any) -> Any:
        alpha, one, t_mul = (_number(v, initial) for v in (self.alpha, 1, self.t_mul))
        done = step / _number(self.first_decay_steps, initial)
        even = get("Floor")(done)
        restarts = get("Floor")(get("Log")(one - done * (one - t_mul)) / get("Log")(t_mul))
        length = get("Pow")(t_mul, restarts)
        grown = (done - (one - length) / (one - t_mul)) / length
        same = get("Equal")(t_mul, one)                       # otherwise the sum of lengths is a geometric series
        restarts, left = get("SelectV2")(same, even, restarts), get("SelectV2")(same, done - even, grown)
        height = get("Pow")(_number(self.m_mul, initial), restarts)
        return initial * (_wave(left) * height * (one - alpha) + alpha)


class LinearCosineDecay(LearningRateSchedule):
    """A line that falls to zero times a cosine of `num_periods` periods, plus `beta`."""

    def __init__(self, initial_learning_rate: Any, decay_steps: Any, num_periods: Any = 0.5, alpha: Any = 0.0,
                 beta: Any = 0.001, name: str | None = None):
        self.initial_learning_rate, self.decay_steps, self.num_periods = initial_learning_rate, decay_steps, num_periods
        self.alpha, self.beta, self.name = alpha, beta, name

    def _rate(self, step: Any, initial: Any) -> Any:
        steps = _number(self.decay_steps, initial)
        step = get("Minimum")(step, steps)
        line = self._line((steps - step) / steps, step)
        wave = _wave(_number(2.0, initial) * _number(self.num_periods, initial) * (step / steps))
        return initial * ((line + _number(self.alpha, initial)) * wave + _number(self.beta, initial))

    def _line(self, line: Any, step: Any) -> Any:
        return line


class NoisyLinearCosineDecay(LinearCosineDecay):
    """LinearCosineDecay with noise on the line, of variance initial_variance / (1 + step) ** variance_decay."""

    def __init__(self, initial_learning_rate: Any, decay_steps: Any, initial_variance: Any = 1.0,
                 variance_decay: Any = 0.55, num_periods: Any = 0.5, alpha: Any = 0.0, beta: Any = 0.001,
                 name: str | None = None):
        super().__init__(initial_learning_rate, decay_steps, num_periods, alpha, beta, name)
        self.initial_variance, self.variance_decay = initial_variance, variance_decay

    def _line(self, line: Any, step: Any) -> Any:
        variance = _number(self.initial_variance, step) / get("Pow")(step + _number(1.0, step),
                                                                     _number(self.variance_decay, step))
        return line + random_normal(line.shape, stddev=get("Sqrt")(variance), dtype=step.dtype)
