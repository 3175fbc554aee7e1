"""How the losses of replicas are combined."""
from __future__ import annotations

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.strategies import active_strategy
from penstock._src.state.variables.reduce_op import ReduceOp


@export(v1=["distribute.get_loss_reduction"])
def get_loss_reduction() -> ReduceOp:
    """How the losses of replicas are combined: by their mean in an estimator, unless the last loss was a sum."""
    strategy = active_strategy()
    if strategy is None or not strategy._scale_loss_for_estimator:
        return ReduceOp.SUM
    last = getattr(context.current_graph(), "_last_loss_reduction", None)
    return ReduceOp.SUM if last in ("sum", "weighted_sum") else ReduceOp.MEAN
