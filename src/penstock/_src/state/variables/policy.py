"""How copies of one variable on several devices are synchronized and aggregated."""
from __future__ import annotations

import enum
from typing import Any

from penstock._src.base.api import export


@export("VariableSynchronization")
class VariableSynchronization(enum.Enum):
    """When the copies of a distributed variable are synchronized."""

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


@export(v2=["VariableAggregation"])
class VariableAggregationV2(enum.Enum):
    """How updates of the copies of a distributed variable are aggregated."""

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, (VariableAggregation, VariableAggregationV2)) and self.value == other.value


@export(v1=["VariableAggregation"])
class VariableAggregation(enum.Enum):
    """How updates of the copies of a distributed variable are aggregated."""

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3
    ONLY_FIRST_TOWER = 3

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, (VariableAggregation, VariableAggregationV2)) and self.value == other.value


def validated(synchronization: Any, aggregation: Any, trainable: bool | None, name: str) -> tuple[Any, Any, bool]:
    """The three settings with defaults filled in; ValueError if they are invalid."""
    aggregation = VariableAggregation.NONE if aggregation is None else aggregation
    if not isinstance(aggregation, (VariableAggregation, VariableAggregationV2)):
        try:
            aggregation = VariableAggregation(aggregation)
        except ValueError:
            raise ValueError(f"Invalid variable aggregation mode: {aggregation} for variable: {name}") from None
    synchronization = VariableSynchronization.AUTO if synchronization is None else synchronization
    try:
        synchronization = VariableSynchronization(synchronization)
    except ValueError:
        raise ValueError(f"Invalid variable synchronization mode: {synchronization} for variable: {name}") from None
    if trainable is None:
        trainable = synchronization is not VariableSynchronization.ON_READ
    return synchronization, aggregation, trainable
