"""ReduceOp: how the values of several replicas become one."""
from __future__ import annotations

import enum
from typing import Any

from penstock._src.base.api import export
from penstock._src.state.variables.policy import VariableAggregation


@export("distribute.ReduceOp")
class ReduceOp(enum.Enum):
    """How the values of replicas are combined.

    >>> strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica, axis=None)
    """

    SUM = "SUM"
    MEAN = "MEAN"

    @staticmethod
    def from_variable_aggregation(aggregation: Any) -> ReduceOp:
        """The reduction that a variable's aggregation requests; ValueError if it requests none."""
        for mode, op in ((VariableAggregation.SUM, ReduceOp.SUM), (VariableAggregation.MEAN, ReduceOp.MEAN)):
            if aggregation == mode:
                return op
        raise ValueError(f"Could not convert from `tf.VariableAggregation` {aggregation} to `tf.distribute.ReduceOp` type")

    @classmethod
    def of(cls, op: Any) -> ReduceOp:
        """A ReduceOp from one, or from its name in any case ("sum", "MEAN")."""
        if isinstance(op, cls):
            return op
        try:
            return cls(str(op).upper())
        except ValueError:
            raise ValueError(f"reduce_op must be one of {[o.value for o in cls]}, not {op!r}.") from None
