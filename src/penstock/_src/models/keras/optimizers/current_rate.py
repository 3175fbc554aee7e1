"""The learning rate of an optimizer that has a schedule, as an attribute of the optimizer."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.graph.convert import convert, register_tensor_conversion_function
from penstock._src.ops.registry import get
from penstock._src.training.train.optimizer import cast
from penstock._src.training.train.schedules import LearningRateSchedule


class CurrentRate(LearningRateSchedule):
    """A schedule that is also the rate of the last step.

    In Keras before 2.11 `optimizer.learning_rate` is the schedule; since then it is a variable with the rate of the last step.
    This object serves both: it can be called with a step, and it can be used as a scalar.
    """

    name = "current_learning_rate:0"

    def __init__(self, schedule: LearningRateSchedule, optimizer: Any):
        self.schedule, self._optimizer = schedule, optimizer

    def __call__(self, step: Any) -> Any:
        return self.schedule(step)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("schedule", "_optimizer"):
            raise AttributeError(name)
        return getattr(self.schedule, name)

    def get_config(self) -> dict[str, Any]:
        """The configuration of the schedule."""
        return self.schedule.get_config()

    # -- the scalar ---------------------------------------------------------------------------------------------------
    def value(self) -> Any:
        """The rate of the last step, as a tensor; before the first step, that of the first."""
        last = get("Maximum")(self._optimizer.iterations - 1, 0)
        return cast(self.schedule(cast(last, dtypes.float32)), dtypes.float32)

    read_value = value
    dtype = dtypes.float32
    shape = property(lambda self: self.value().shape)

    def numpy(self) -> Any:
        """The rate of the last step, as a number of numpy."""
        return self.value().numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.numpy(), dtype)

    def __float__(self) -> float:
        return float(self.value())

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else str(self)

    def __repr__(self) -> str:
        return f"<tf.Variable '{self.name}' shape=() dtype=float32, numpy={float(self)}>"


def _forward(name: str) -> Any:
    def operator(self: CurrentRate, *args: Any) -> Any:
        return getattr(self.value(), name)(*args)
    operator.__name__ = name
    return operator


for _name in ("add", "sub", "mul", "truediv", "pow", "radd", "rsub", "rmul", "rtruediv", "neg", "lt", "le", "gt", "ge"):
    setattr(CurrentRate, f"__{_name}__", _forward(f"__{_name}__"))


def _as_tensor(value: CurrentRate, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    return convert(value.value(), dtype, name)


register_tensor_conversion_function(CurrentRate, _as_tensor)
