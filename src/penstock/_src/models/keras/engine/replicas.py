"""Training steps under a distribution strategy: the batch is split, and every replica runs the model's step on its part.

The loss of a replica is weighted by its share of the rows, so that the sum of the replicas' gradients is the gradient
of the whole batch, whether the batch divides or not.
"""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.base import nest
from penstock._src.graph.node import Tensor
from penstock._src.graph.strategies import active_frame, active_strategy
from penstock._src.models.distribute.contexts import get_replica_context
from penstock._src.models.distribute.datasets import _placed, _row_count, _rows_of
from penstock._src.models.distribute.values import PerReplica, regroup
from penstock._src.models.keras.engine.layer_weights import unique
from penstock._src.models.keras.engine.steps import FunctionStep, GraphStep
from penstock._src.ops.registry import get


def current_replica() -> Any:
    """The replica that this thread works for, under a strategy that has several; or None."""
    frame = active_frame()
    return None if frame is None or frame.strategy.num_replicas_in_sync == 1 else frame.replica


def check_strategy(model: Any) -> None:
    """Raises ValueError if a model is used in the scope of a strategy other than its own."""
    found, own = active_strategy(), model._distribution_strategy
    if found is None or found is own:
        return
    variables = model.variables if model.built else []
    named = f", as was its variable '{variables[0].name}' of shape {variables[0].shape}" if variables else ""
    made = "outside of any scope" if own is None else f"under {own}"
    raise ValueError(f"Model '{model.name}' was created {made}{named}; it cannot be trained or used in the scope of {found}. "
                     "Create and compile it inside of `with strategy.scope():`.")


def share_of_rows(replica: Any) -> Any:
    """The share of the batch that a replica has: that of the step, or an equal one."""
    found = getattr(replica, "share_of_rows", None)
    return 1.0 / replica.num_replicas_in_sync if found is None else found


def check_batch_size(model: Any, batch_size: int | None) -> None:
    """Raises ValueError if a batch size is not divisible by the number of replicas."""
    strategy = model._distribution_strategy
    if strategy is None or batch_size is None:
        return
    n = len(strategy.extended.worker_devices)
    if batch_size % n:
        raise ValueError(f"The `batch_size` argument ({batch_size}) must be divisible by the number of replicas ({n}) of "
                         f"{type(strategy).__name__}, on {', '.join(strategy.extended.worker_devices)}.")


class ReplicaStep(FunctionStep):
    """A step of eager mode, taken by all replicas of a model's strategy."""

    def _wrapped(self, step: Any) -> Any:
        strategy = self._model._distribution_strategy

        def replica(flat: list, share: Any) -> Any:
            get_replica_context().share_of_rows = share
            return step(*flat)

        def all_replicas(*flat: Any) -> Any:
            parts, shares = cut(list(flat), strategy, self._mode != "predict")
            out = strategy.run(replica, args=(parts, shares))
            return joined(strategy, out) if self._mode == "predict" else first(strategy, out)
        return all_replicas

    def _prepare(self, flat: list) -> None:
        with self._model._distribution_strategy.scope():
            super()._prepare(flat)


class ReplicaGraphStep(GraphStep):
    """A step of graph mode, taken by all replicas of a model's strategy: each has the model's ops, over its own variables."""

    def _built(self, model: Any, layout: Any, holes: list, outputs: Any) -> tuple[list, list]:
        strategy = model._distribution_strategy
        with strategy.scope():
            parts, shares = cut(holes, strategy)
            results, updates = strategy.run(self._replica, args=(layout, parts, shares))
            results = joined(strategy, results) if self._mode == "predict" else first(strategy, results)
        return nest.flatten(results), [u for v in nest.flatten(updates) for u in strategy.experimental_local_results(v)]

    def _replica(self, layout: Any, flat: list, share: Any) -> tuple[list, list]:
        """The results of one replica, and the ops that it runs."""
        get_replica_context().share_of_rows = share
        model = self._model
        x, y, weights = layout.pack(flat)
        outputs = model(x, training=self._mode == "train") if model._expects_training_arg else model(x)
        if self._mode == "predict":
            return nest.flatten(outputs), list(model.get_updates_for(nest.flatten(x)))
        ys, preds, listed = model._aligned(y, outputs, weights)
        own = [*model.get_losses_for(None), *model.get_losses_for(nest.flatten(x))]
        compiled = model._compiled
        loss = compiled.loss(ys, preds, listed, unique(own))
        compiled.update(ys, preds, listed)
        results = [compiled.graph_result(m) for m in (*compiled.loss_metrics, *compiled.metrics)]
        updates = unique([*model.get_updates_for(None), *model.get_updates_for(nest.flatten(x))])
        params = model._unique_trainable_weights
        if self._mode == "train" and params:
            updates += model.optimizer.get_updates(loss=loss, params=params)
        return results, updates


def cut(flat: list, strategy: Any, shared: bool = True) -> tuple[list, Any]:
    """The parts of a batch for the replicas of this process, as even as can be, and their shares of all rows. A batch that is
    `shared` by several workers is cut into a part for each replica of all of them."""
    devices = strategy.extended._input_devices()
    n = len(devices)
    if shared and getattr(strategy.extended, "_batches_are_global", False):
        begin, of = strategy.extended._replica_id(0), strategy.num_replicas_in_sync
    else:
        begin, of = 0, n
    everybody = n / strategy.num_replicas_in_sync if of == n else 1.0
    batched = [x for x in flat if getattr(x.shape, "rank", 1) != 0]
    if of == 1 or not batched:
        copies = [[_placed(x, d) for x in flat] for d in devices]
        return regroup(copies), PerReplica([everybody / n] * n) if n > 1 else everybody
    rows = next((d for d in (_static_rows(x) for x in batched) if d is not None), None)
    rows = _row_count(batched[0]) if rows is None else rows
    ends = [rows * (begin + i) // of for i in range(n + 1)]
    parts = [[_placed(_rows_of(x, ends[i], ends[i + 1]), d) if getattr(x.shape, "rank", 1) != 0 else x for x in flat]
             for i, d in enumerate(devices)]
    if isinstance(rows, int):
        shares = [everybody * (ends[i + 1] - ends[i]) / rows for i in range(n)]
    else:
        whole = get("Cast")(rows, DstT="float64")
        shares = [get("Cast")(ends[i + 1] - ends[i], DstT="float64") * everybody / whole for i in range(n)]
    return regroup(parts), PerReplica(shares)


def _static_rows(x: Any) -> int | None:
    dims = getattr(x.shape, "static_dims", None)
    return dims[0] if dims and isinstance(x, Tensor) else None


def first(strategy: Any, outputs: Any) -> Any:
    """The results of the first replica: those of metrics, which are the same for all."""
    return nest.map_structure(lambda v: strategy.experimental_local_results(v)[0], outputs)


def joined(strategy: Any, outputs: Any) -> Any:
    """The outputs of all replicas, concatenated."""

    def join(v: Any) -> Any:
        parts = strategy.experimental_local_results(v)
        return parts[0] if len(parts) == 1 else tf.concat(list(parts), 0)
    return nest.map_structure(join, outputs)
