"""tf.contrib.integrate: solutions of ordinary differential equations at given times, as loops of the graph."""
from __future__ import annotations

from typing import Any, NamedTuple

from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf

# The method of Dormand and Prince: times and weights of the stages, and the error of the fifth order by the fourth.
_TIMES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
_STAGES = ((1 / 5,), (3 / 40, 9 / 40), (44 / 45, -56 / 15, 32 / 9), (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
           (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
           (35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84))
_ERROR = (35 / 384 - 1951 / 21600, 0, 500 / 1113 - 22642 / 50085, 125 / 192 - 451 / 720, -2187 / 6784 + 12231 / 42400,
          11 / 84 - 649 / 6300, -1 / 60)
_MIDDLE = (6025192743 / 30085553152 / 2, 0, 51252292925 / 65400821598 / 2, -2691868925 / 45128329728 / 2,
           187940372067 / 1594534317056 / 2, -1776094331 / 19743644256 / 2, 11237099 / 235043384 / 2)
_OPTIONS = {"first_step": 1.0, "safety": 0.9, "ifactor": 10.0, "dfactor": 0.2, "max_num_steps": 1000}


class _State(NamedTuple):
    """The value and slope at `after`, the length of the next step, and the last step, from `before`, as a polynomial."""

    y: Tensor
    slope: Tensor
    before: Tensor
    after: Tensor
    step: Tensor
    polynomial: list


def _export(function: Any) -> Any:
    return export(v1=[f"contrib.integrate.{function.__name__}"])(function)


def _mixed(scale: Tensor, weights: Any, terms: list) -> Tensor:
    """The weighted sum of the slopes of stages, times a step."""
    scale = tf.cast(scale, terms[0].dtype)
    return tf.add_n([scale * w * k for w, k in zip(weights, terms, strict=False) if w])


def _checked(y0: Any, t: Any) -> tuple[Tensor, Tensor]:
    y0 = tf.convert_to_tensor(y0, name="y0")
    t = tf.convert_to_tensor(t, preferred_dtype=tf.float64, name="t")
    if not (y0.dtype.is_floating or y0.dtype.is_complex):
        raise TypeError(f"y0 must be of floating point or complex numbers, not {y0.dtype.name}.")
    if not t.dtype.is_floating:
        raise TypeError(f"t must be of floating point numbers, not {t.dtype.name}.")
    if t.shape.rank not in (None, 1):
        raise ValueError(f"t must be a vector of times, but its shape is {t.shape}.")
    return y0, t


@_export
def odeint(func: Any, y0: Any, t: Any, rtol: float = 1e-6, atol: float = 1e-12, method: str | None = None, options: Any = None,
           full_output: bool = False, name: str | None = None) -> Any:
    """The solution of dy/dt = func(y, t) at the times `t`, which increase; `y0` is its value at the first one.

    Steps are as long as the tolerances permit (method `dopri5`). With `full_output`, also returns a dictionary of the number of
    evaluations, the ends of steps and their errors.

    >>> tf.contrib.integrate.odeint(lambda y, t: -y, 1.0, tf.linspace(0.0, 1.0, 3))
    """
    if method is not None and method != "dopri5":
        raise ValueError(f"There is no method {method!r}; the only one is 'dopri5'.")
    if options is not None and method is None:
        raise ValueError("options are those of a method: give method='dopri5'.")
    unknown = set(options or ()) - set(_OPTIONS)
    if unknown:
        raise ValueError(f"dopri5 has no options {sorted(unknown)}; it has {sorted(_OPTIONS)}.")
    with tf.name_scope(name, "odeint", [y0, t]):
        y0, t = _checked(y0, t)
        solution, info = _adaptive(func, y0, t, rtol, atol, {**_OPTIONS, **(options or {})})
        return (solution, info) if full_output else solution


def _adaptive(func: Any, y0: Tensor, t: Tensor, rtol: float, atol: float, options: dict) -> tuple[Tensor, dict]:
    count = tf.shape(t)[0]
    with tf.control_dependencies([tf.debugging.assert_less(t[:-1], t[1:], message="t must increase.")]):
        t = tf.identity(t)

    def more(i: Tensor, *_: Any) -> Tensor:
        return i < count

    def until(i: Tensor, solution: Any, state: _State, history: Any) -> tuple:
        _, state, history = tf.while_loop(
            lambda n, s, _: t[i] > s.after, lambda n, s, h: _attempt(func, n, s, h, rtol, atol, options),
            (tf.constant(0), state, history))
        return i + 1, solution.write(i, _between(state, t[i])), state, history

    def array(dtype: Any) -> Any:
        return tf.TensorArray(dtype, 0, dynamic_size=True, element_shape=[])

    solution = tf.TensorArray(y0.dtype, count, element_shape=y0.shape).write(0, y0)
    first = _State(y0, func(y0, t[0]), t[0], t[0], tf.cast(options["first_step"], t.dtype), [y0] * 5)
    history = (tf.constant(0), array(t.dtype), array(t.dtype))
    _, solution, _, (tries, ends, errors) = tf.while_loop(more, until, (tf.constant(1), solution, first, history))
    found = solution.stack()
    found.set_shape(t.shape[:1].concatenate(y0.shape))
    return found, {"num_func_evals": 6 * tries + 1, "integrate_points": ends.stack(), "error_ratio": errors.stack()}


def _attempt(func: Any, n: Tensor, state: _State, history: tuple, rtol: float, atol: float, options: dict) -> tuple:
    """Tries one step; the state changes if its error is small enough, the length of the next step in any case."""
    start, dt = state.after, state.step
    checks = [tf.Assert(n < options["max_num_steps"], ["max_num_steps exceeded"]),
              tf.Assert(start + dt > start, ["underflow in dt", dt])]
    with tf.control_dependencies(checks):
        slopes, end = [tf.identity(state.slope)], state.y
    for at, weights in zip(_TIMES, _STAGES, strict=True):
        end = state.y + _mixed(dt, weights, slopes)
        slopes.append(func(end, start + at * dt))
    error = tf.abs(_mixed(dt, _ERROR, slopes))
    allowed = atol + rtol * tf.maximum(tf.abs(state.y), tf.abs(end))
    ratio = tf.cast(tf.sqrt(tf.reduce_mean(tf.square(error / allowed))), dt.dtype)
    accepted = ratio <= 1
    shrink = tf.clip_by_value(ratio ** 0.2 / options["safety"], 1 / options["ifactor"], 1 / options["dfactor"])
    shrink = tf.where(ratio > 0, shrink, tf.ones_like(shrink) / options["ifactor"])
    middle = state.y + _mixed(dt, _MIDDLE, slopes)
    new = _State(end, slopes[-1], start, start + dt, dt / shrink, _fit(state.y, end, middle, slopes[0], slopes[-1], dt))
    kept = state._replace(step=dt / shrink)
    state = tf.cond(accepted, lambda: new, lambda: kept)
    tries, ends, errors = history
    ends = ends.write(tries, tf.where(accepted, start + dt, start))
    return n + 1, _State(*state), (tries + 1, ends, errors.write(tries, ratio))


def _fit(y0: Tensor, y1: Tensor, middle: Tensor, slope0: Tensor, slope1: Tensor, dt: Tensor) -> list:
    """The polynomial of degree 4 with these values at both ends and in the middle, and these slopes at the ends."""
    dt = tf.cast(dt, y0.dtype)
    return [2 * dt * (slope1 - slope0) - 8 * (y1 + y0) + 16 * middle,
            dt * (5 * slope0 - 3 * slope1) + 18 * y0 + 14 * y1 - 32 * middle,
            dt * (slope1 - 4 * slope0) - 11 * y0 - 5 * y1 + 16 * middle, dt * slope0, y0]


def _between(state: _State, t: Tensor) -> Tensor:
    x = tf.cast((t - state.before) / (state.after - state.before), state.y.dtype)
    value = state.polynomial[0]
    for coefficient in state.polynomial[1:]:
        value = value * x + coefficient
    return value


def _middle(func: Any, y: Tensor, t: Tensor, dt: Tensor) -> Tensor:
    half = tf.cast(dt / 2, y.dtype)
    return tf.cast(dt, y.dtype) * func(y + half * func(y, t), t + dt / 2)


def _classic(func: Any, y: Tensor, t: Tensor, dt: Tensor) -> Tensor:
    """Runge and Kutta's method, with the weights 1/8, 3/8, 3/8, 1/8."""
    step = tf.cast(dt, y.dtype)
    k1 = func(y, t)
    k2 = func(y + step * k1 / 3, t + dt / 3)
    k3 = func(y + step * (k2 - k1 / 3), t + dt * 2 / 3)
    k4 = func(y + step * (k1 - k2 + k3), t + dt)
    return step * (k1 + 3 * k2 + 3 * k3 + k4) / 8


_FIXED = {"euler": lambda func, y, t, dt: tf.cast(dt, y.dtype) * func(y, t), "midpoint": _middle, "rk4": _classic}


@_export
def odeint_fixed(func: Any, y0: Any, t: Any, dt: Any = None, method: str = "rk4", name: str | None = None) -> Tensor:
    """The solution of dy/dt = func(y, t) at the times `t`, in steps from one to the next, or of length `dt`.

    >>> tf.contrib.integrate.odeint_fixed(lambda y, t: -y, 1.0, tf.linspace(0.0, 1.0, 11))
    """
    if method not in _FIXED:
        raise ValueError(f"There is no method {method!r}; there are {sorted(_FIXED)}.")
    with tf.name_scope(name, "odeint_fixed", [y0, t, dt]):
        y0, t = _checked(y0, t)
        lengths = t[1:] - t[:-1]
        steps = lengths if dt is None else tf.broadcast_to(tf.cast(dt, t.dtype), tf.shape(lengths))

        def interval(y: Tensor, given: tuple) -> Tensor:
            start, end, step = given

            def advance(at: Tensor, value: Tensor) -> tuple:
                length = tf.minimum(step, end - at)
                return at + length, value + _FIXED[method](func, value, at, length)
            return tf.while_loop(lambda at, value: at < end, advance, (start, y))[1]
        rest = tf.scan(interval, (t[:-1], t[1:], steps), y0)
        return tf.concat([y0[tf.newaxis], rest], 0)
