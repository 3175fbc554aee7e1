"""A fake quantization with its range in two variables, `min` and `max`: the range of the last step, or its moving average."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.training.train import moving_averages
from penstock.compat import v1 as tf


def last_value(inputs: Any, name: str, **options: Any) -> Any:
    """Quantizes to the range that the values have in this step, as weights are."""
    return _quantized(inputs, name, lambda variable, value, which: tf.assign(variable, value, name=f"Assign{which}Last"),
                      **options)


def moving_average(inputs: Any, name: str, ema_decay: float = 0.999, **options: Any) -> Any:
    """Quantizes to a moving average of the ranges of steps, as activations are."""
    def follow(variable: Any, value: Any, which: str) -> Any:
        return moving_averages.assign_moving_average(variable, value, ema_decay, name=f"Assign{which}Ema")
    return _quantized(inputs, name, follow, **options)


def _quantized(inputs: Any, name: str, follow: Callable, is_training: bool, per_channel: bool = False, init_min: float = -6.0,
               init_max: float = 6.0, num_bits: int = 8, narrow_range: bool = False, symmetric: bool = False,
               collection: str = tf.GraphKeys.GLOBAL_VARIABLES) -> Any:
    rank = inputs.shape.ndims
    if per_channel and rank not in (1, 2, 4):
        raise ValueError(f"Expected 1D, 2D or 4D input, was: {inputs.shape} in scope: {name}")
    with tf.variable_scope(None, default_name=name, values=[inputs]) as scope:
        scope.set_partitioner(None)
        ends = [_end(which, value, [inputs.shape[-1]] if per_channel else [], collection)
                for which, value in (("min", init_min), ("max", init_max))]
        if is_training:
            low, high = _range(inputs, list(range(rank - 1)) if per_channel else None, num_bits, narrow_range, symmetric)
            ends = [follow(ends[0], low, "Min"), follow(ends[1], high, "Max")]
        quantize = tf.quantization.fake_quant_with_min_max_vars_per_channel if per_channel else \
            tf.quantization.fake_quant_with_min_max_vars
        return quantize(inputs, *ends, num_bits=num_bits, narrow_range=narrow_range)


def _end(name: str, value: float, shape: list, collection: str) -> Any:
    return tf.get_variable(name, shape, initializer=tf.constant_initializer(value), trainable=False,
                           collections=[collection, tf.GraphKeys.MODEL_VARIABLES])


def _range(inputs: Any, axes: list[int] | None, bits: int, narrow: bool, symmetric: bool) -> tuple[Any, Any]:
    """The range of values, which has zero in it; symmetric around zero if requested."""
    low, high = tf.reduce_min(inputs, axes, name="BatchMin"), tf.reduce_max(inputs, axes, name="BatchMax")
    if not symmetric:
        return tf.minimum(low, 0.0), tf.maximum(high, 0.0)
    ratio = -1.0 if narrow else -((1 << bits) - 2) / (1 << bits)
    return tf.minimum(low, high / ratio), tf.maximum(high, low * ratio)
