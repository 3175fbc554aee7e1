"""tf.tpu.experimental.embedding: what describes tables, the features that look rows up in them, and how they are trained.

The descriptions need no TPU: `tpu_lookup.py` reads them to look rows up on other devices.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import penstock as tf
from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape


class SlotMaker:
    """What adds variables to a table: `_slots` gives their names, each with the initial value of its elements."""

    slot_variable_creation_fn: Callable | None = None

    def _slots(self) -> dict[str, Any]:
        return {}

    def _slot_names(self) -> list[str]:
        return list(self._slots())

    def _slot_initializers(self) -> list:
        return [v if callable(v) else tf.constant_initializer(v) for v in self._slots().values()]

    def _create_slots(self, table: Any, variable_creator: Callable) -> dict[str, Any]:
        names, initializers = self._slot_names(), self._slot_initializers()
        if self.slot_variable_creation_fn is not None:
            return self.slot_variable_creation_fn(table, names, initializers)
        return {name: variable_creator(name, initializer) for name, initializer in zip(names, initializers, strict=True)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).items()))


class Optimizer(SlotMaker):
    """The settings that all optimizers of tables have."""

    def __init__(self, learning_rate: Any, use_gradient_accumulation: bool, clip_weight_min: float | None,
                 clip_weight_max: float | None, weight_decay_factor: float | None,
                 multiply_weight_decay_factor_by_learning_rate: bool | None, clipvalue: Any = None,
                 slot_variable_creation_fn: Callable | None = None, low_dimensional_packing_status: bool = False):
        if slot_variable_creation_fn is not None and not callable(slot_variable_creation_fn):
            raise ValueError(f"slot_variable_creation_fn is not callable: {slot_variable_creation_fn!r}.")
        if not use_gradient_accumulation and clipvalue is not None:
            raise ValueError(f"clipvalue={clipvalue} needs use_gradient_accumulation=True: only summed gradients are clipped.")
        self.slot_variable_creation_fn = slot_variable_creation_fn
        self.learning_rate, self.use_gradient_accumulation = learning_rate, use_gradient_accumulation
        self.clip_weight_min, self.clip_weight_max = clip_weight_min, clip_weight_max
        limits = clipvalue if isinstance(clipvalue, tuple) else (None, None) if clipvalue is None else (-clipvalue, clipvalue)
        self.clip_gradient_min, self.clip_gradient_max = limits
        self.weight_decay_factor = weight_decay_factor
        self.multiply_weight_decay_factor_by_learning_rate = multiply_weight_decay_factor_by_learning_rate
        self.low_dimensional_packing_status = low_dimensional_packing_status


def _positive(name: str, value: float) -> float:
    if value <= 0:
        raise ValueError(f"{name} has to be positive, got {value}.")
    return value


def _below_one(name: str, value: float) -> float:
    if not 0 <= value < 1:
        raise ValueError(f"{name} has to be in [0, 1), got {value}.")
    return value


@export("tpu.experimental.embedding.SGD")
class SGD(Optimizer):
    """Gradient descent."""

    def __init__(self, learning_rate: Any = 0.01, use_gradient_accumulation: bool = True, clip_weight_min: float | None = None,
                 clip_weight_max: float | None = None, weight_decay_factor: float | None = None,
                 multiply_weight_decay_factor_by_learning_rate: bool | None = None, clipvalue: Any = None,
                 low_dimensional_packing_status: bool = False):
        super().__init__(learning_rate, use_gradient_accumulation, clip_weight_min, clip_weight_max, weight_decay_factor,
                         multiply_weight_decay_factor_by_learning_rate, clipvalue, None, low_dimensional_packing_status)


@export("tpu.experimental.embedding.Adagrad")
class Adagrad(Optimizer):
    """Adagrad."""

    def __init__(self, learning_rate: Any = 0.001, initial_accumulator_value: float = 0.1,
                 use_gradient_accumulation: bool = True, clip_weight_min: float | None = None,
                 clip_weight_max: float | None = None, weight_decay_factor: float | None = None,
                 multiply_weight_decay_factor_by_learning_rate: bool | None = None,
                 slot_variable_creation_fn: Callable | None = None, clipvalue: Any = None,
                 low_dimensional_packing_status: bool = False):
        super().__init__(learning_rate, use_gradient_accumulation, clip_weight_min, clip_weight_max, weight_decay_factor,
                         multiply_weight_decay_factor_by_learning_rate, clipvalue, slot_variable_creation_fn,
                         low_dimensional_packing_status)
        self.initial_accumulator_value = _positive("initial_accumulator_value", initial_accumulator_value)

    def _slots(self) -> dict[str, Any]:
        return {"accumulators": self.initial_accumulator_value}


@export("tpu.experimental.embedding.AdagradMomentum")
class AdagradMomentum(Optimizer):
    """Adagrad with momentum."""

    def __init__(self, learning_rate: Any = 0.001, momentum: float = 0.0, use_nesterov: bool = False, exponent: float = 2,
                 beta2: float = 1, epsilon: float = 1e-10, use_gradient_accumulation: bool = True,
                 clip_weight_min: float | None = None, clip_weight_max: float | None = None,
                 weight_decay_factor: float | None = None, multiply_weight_decay_factor_by_learning_rate: bool | None = None,
                 slot_variable_creation_fn: Callable | None = None, clipvalue: Any = None,
                 low_dimensional_packing_status: bool = False):
        super().__init__(learning_rate, use_gradient_accumulation, clip_weight_min, clip_weight_max, weight_decay_factor,
                         multiply_weight_decay_factor_by_learning_rate, clipvalue, slot_variable_creation_fn,
                         low_dimensional_packing_status)
        self.momentum, self.use_nesterov, self.beta2 = momentum, use_nesterov, beta2
        self.exponent, self.epsilon = _positive("exponent", exponent), _positive("epsilon", epsilon)

    def _slots(self) -> dict[str, Any]:
        return {"accumulators": 0.0, "momenta": 0.0}


@export("tpu.experimental.embedding.FTRL")
class FTRL(Optimizer):
    """Follow the regularized leader."""

    def __init__(self, learning_rate: Any = 0.001, learning_rate_power: float = -0.5, l1_regularization_strength: float = 0.0,
                 l2_regularization_strength: float = 0.0, beta: float = 0.0, initial_accumulator_value: float = 0.1,
                 use_gradient_accumulation: bool = True, clip_weight_min: float | None = None,
                 clip_weight_max: float | None = None, weight_decay_factor: float | None = None,
                 multiply_weight_decay_factor_by_learning_rate: bool | None = None,
                 slot_variable_creation_fn: Callable | None = None, clipvalue: Any = None,
                 multiply_linear_by_learning_rate: bool = False, allow_zero_accumulator: bool = False,
                 low_dimensional_packing_status: bool = False):
        super().__init__(learning_rate, use_gradient_accumulation, clip_weight_min, clip_weight_max, weight_decay_factor,
                         multiply_weight_decay_factor_by_learning_rate, clipvalue, slot_variable_creation_fn,
                         low_dimensional_packing_status)
        self.initial_accumulator_value = _positive("initial_accumulator_value", initial_accumulator_value)
        self.learning_rate_power, self.beta = learning_rate_power, beta
        self.l1_regularization_strength = l1_regularization_strength
        self.l2_regularization_strength = l2_regularization_strength
        self.multiply_linear_by_learning_rate = multiply_linear_by_learning_rate
        self.allow_zero_accumulator = allow_zero_accumulator

    def _slots(self) -> dict[str, Any]:
        return {"accumulators": self.initial_accumulator_value, "linears": 0.0}


@export("tpu.experimental.embedding.Adam")
class Adam(Optimizer):
    """Adam."""

    def __init__(self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-07,
                 lazy_adam: bool = True, sum_inside_sqrt: bool = True, use_gradient_accumulation: bool = True,
                 clip_weight_min: float | None = None, clip_weight_max: float | None = None,
                 weight_decay_factor: float | None = None, multiply_weight_decay_factor_by_learning_rate: bool | None = None,
                 slot_variable_creation_fn: Callable | None = None, clipvalue: Any = None,
                 low_dimensional_packing_status: bool = False):
        super().__init__(learning_rate, use_gradient_accumulation, clip_weight_min, clip_weight_max, weight_decay_factor,
                         multiply_weight_decay_factor_by_learning_rate, clipvalue, slot_variable_creation_fn,
                         low_dimensional_packing_status)
        if not use_gradient_accumulation and not lazy_adam:
            raise ValueError("lazy_adam=False needs use_gradient_accumulation=True.")
        self.beta_1, self.beta_2 = _below_one("beta_1", beta_1), _below_one("beta_2", beta_2)
        self.epsilon, self.lazy_adam, self.sum_inside_sqrt = _positive("epsilon", epsilon), lazy_adam, sum_inside_sqrt

    def _slots(self) -> dict[str, Any]:
        return {"momenta": 0.0, "velocities": 0.0}


@export("tpu.experimental.embedding.QuantizationConfig")
class QuantizationConfig:
    """Values are rounded to one of `num_buckets` between `lower` and `upper`."""

    def __init__(self, num_buckets: int, lower: float, upper: float):
        if num_buckets < 2:
            raise ValueError(f"Simulated quantization needs two buckets or more, got num_buckets={num_buckets}.")
        self.num_buckets, self.lower, self.upper = num_buckets, lower, upper

    def __repr__(self) -> str:
        return f"QuantizationConfig(num_buckets={self.num_buckets!r}, lower={self.lower!r}, upper={self.upper!r})"


@export("tpu.experimental.embedding.TableConfig")
class TableConfig:
    """A table: `vocabulary_size` rows of `dim` numbers; `combiner` ("mean", "sum", "sqrtn") joins the rows of one example."""

    def __init__(self, vocabulary_size: int, dim: int, initializer: Callable | None = None, optimizer: Any = None,
                 combiner: str = "mean", name: str | None = None, quantization_config: Any = None, layout: Any = None,
                 dtype: Any = dtypes.float32):
        if not isinstance(vocabulary_size, int) or vocabulary_size < 1:
            raise ValueError(f"A table needs a positive integer as vocabulary_size, got {vocabulary_size!r}.")
        if not isinstance(dim, int) or dim < 1:
            raise ValueError(f"A table needs a positive integer as dim, got {dim!r}.")
        if initializer is not None and not callable(initializer):
            raise ValueError(f"initializer is not callable: {initializer!r}.")
        if combiner not in ("mean", "sum", "sqrtn"):
            raise ValueError(f"Unknown combiner {combiner!r}; known are mean, sum and sqrtn.")
        self._default = initializer is None
        self.initializer = initializer or tf.initializers.TruncatedNormal(mean=0.0, stddev=1 / math.sqrt(dim))
        self.vocabulary_size, self.dim, self.optimizer, self.combiner = vocabulary_size, dim, optimizer, combiner
        self.name, self.quantization_config, self.layout, self.dtype = name, quantization_config, layout, dtypes.as_dtype(dtype)

    def __repr__(self) -> str:
        return (f"TableConfig(vocabulary_size={self.vocabulary_size!r}, dim={self.dim!r}, "
                f"initializer={None if self._default else self.initializer!r}, optimizer={self.optimizer!r}, "
                f"combiner={self.combiner!r}, name={self.name!r}, quantization_config={self.quantization_config!r})")


@export("tpu.experimental.embedding.FeatureConfig")
class FeatureConfig:
    """A feature whose values are rows of a table.

    Args:
        table: TableConfig.
        max_sequence_length: If positive, the rows of an example stay a sequence of this length; they are not joined.
        validate_weights_and_indices: Whether invalid ids and weights are passed over.
        output_shape: Shape of the result, without the last dimension.
        name: Name of the feature.
    """

    def __init__(self, table: TableConfig, max_sequence_length: int = 0, validate_weights_and_indices: bool = True,
                 output_shape: Any = None, name: str | None = None):
        if not isinstance(table, TableConfig):
            raise ValueError(f"The table of a feature is a TableConfig, got {type(table).__name__}.")
        if not isinstance(max_sequence_length, int) or max_sequence_length < 0:
            raise ValueError(f"max_sequence_length is an integer of at least 0, got {max_sequence_length!r}.")
        if not isinstance(validate_weights_and_indices, bool):
            raise ValueError(f"validate_weights_and_indices is a boolean, got {validate_weights_and_indices!r}.")
        self.table, self.max_sequence_length, self.name = table, max_sequence_length, name
        self.output_shape = TensorShape(output_shape)
        self.validate_weights_and_indices = validate_weights_and_indices

    def __repr__(self) -> str:
        return (f"FeatureConfig(table={self.table!r}, max_sequence_length={self.max_sequence_length!r}, "
                f"validate_weights_and_indices={self.validate_weights_and_indices!r}, output_shape={self.output_shape!r}, "
                f"name={self.name!r})")


@export("tpu.experimental.embedding.RowIdInitializer")
class RowIdInitializer:
    """Each row is filled with its number, counted from `offset`."""

    def __init__(self, offset: int = 0):
        self.offset = offset

    def __call__(self, shape: Any, dtype: Any) -> Any:
        """The initial value of a table."""
        rows = tf.range(self.offset, self.offset + shape[0], dtype=dtype)
        return rows[:, None] * tf.ones(shape, dtype)
