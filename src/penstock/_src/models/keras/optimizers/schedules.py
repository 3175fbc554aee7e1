"""Learning-rate schedules under Keras' names, and their configurations; the formulas are in `training/train/schedules.py`."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.scopes import name_scope
from penstock._src.models.keras.utils.generic_utils import deserialize_keras_object
from penstock._src.models.keras.utils.object_config import serialized
from penstock._src.ops.registry import get
from penstock._src.training.train import schedules as formulas
from penstock._src.training.train.optimizer import cast
from penstock._src.training.train.schedules import LearningRateSchedule


class CosineDecay(formulas.CosineDecay):
    """From the initial rate along half a cosine wave; with warm-up, first along a line up to `warmup_target`.

    Args:
        initial_learning_rate: The rate of step 0.
        decay_steps: The steps from the top of the wave to its end, after the warm-up.
        alpha: The rate at the end, as a fraction of the one at the top.
        name: Name of the operations.
        warmup_target: The rate at the end of the warm-up; None for no warm-up.
        warmup_steps: The length of the warm-up.

    >>> rate = tf.keras.optimizers.schedules.CosineDecay(1.0, decay_steps=100)
    >>> round(float(rate(50)), 3)
    0.5
    """

    def __init__(self, initial_learning_rate: Any, decay_steps: Any, alpha: Any = 0.0, name: str | None = None,
                 warmup_target: Any = None, warmup_steps: Any = 0):
        super().__init__(initial_learning_rate, decay_steps, alpha, name)
        self.warmup_target, self.warmup_steps = warmup_target, warmup_steps

    def __call__(self, step: Any) -> Any:
        if self.warmup_target is None:
            return super().__call__(step)
        with name_scope(self.name or self.label or type(self).__name__):
            first = convert(self.initial_learning_rate, name="initial_learning_rate")
            dtype = first.dtype.base_dtype
            step, top, steps = cast(step, dtype), cast(self.warmup_target, dtype), cast(self.warmup_steps, dtype)
            done = step / steps
            up = (top - first) * done + first
            return get("SelectV2")(get("Less")(step, steps), up, self._rate(step - steps, top))


SCHEDULES: tuple[type[LearningRateSchedule], ...] = (
    formulas.ExponentialDecay, formulas.PiecewiseConstantDecay, formulas.PolynomialDecay, formulas.InverseTimeDecay,
    CosineDecay, formulas.CosineDecayRestarts, formulas.LinearCosineDecay, formulas.NoisyLinearCosineDecay)

_CURRENT: tuple[type[LearningRateSchedule], ...] = (LearningRateSchedule, *SCHEDULES[:6])
for _schedule in _CURRENT:
    export.value(_schedule, f"keras.optimizers.schedules.{_schedule.__name__}",
                 v2=[f"optimizers.schedules.{_schedule.__name__}"])
for _schedule in SCHEDULES[4:]:
    export.value(_schedule, f"keras.experimental.{_schedule.__name__}")


@export("keras.optimizers.schedules.serialize", v2=["optimizers.schedules.serialize"])
def serialize(learning_rate_schedule: Any, use_legacy_format: bool = False) -> dict[str, Any]:
    """The configuration of a schedule.

    >>> tf.keras.optimizers.schedules.serialize(schedule)
    """
    return serialized(learning_rate_schedule, use_legacy_format)


@export("keras.optimizers.schedules.deserialize", v2=["optimizers.schedules.deserialize"])
def deserialize(config: dict[str, Any], custom_objects: Any = None, use_legacy_format: bool = False) -> Any:
    """The schedule of a configuration."""
    return deserialize_keras_object(config, module_objects={s.__name__: s for s in SCHEDULES}, custom_objects=custom_objects,
                                    printable_module_name="decay")
