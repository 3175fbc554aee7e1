"""ReplicaContext: the replica that a function runs for."""
from __future__ import annotations

from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.node import Tensor
from penstock._src.graph.strategies import Frame, entered
from penstock._src.models.distribute import contexts
from penstock._src.models.distribute.values import regroup, select_replica
from penstock._src.ops.control.custom_gradient import custom_gradient
from penstock._src.state.variables.reduce_op import ReduceOp


@export("distribute.ReplicaContext")
class ReplicaContext:
    """The replica that a function runs for: its number, and its synchronization with the others.

    >>> def step(x):
    ...     return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, x)
    >>> strategy.run(step, args=(x,))
    """

    def __init__(self, strategy: Any, replica_id_in_sync_group: Any):
        self._strategy, self._replica_id_in_sync_group = strategy, replica_id_in_sync_group
        self._local_index = 0 if isinstance(replica_id_in_sync_group, Tensor) else \
            strategy.extended._local_index(replica_id_in_sync_group)
        self._creator: Any = None
        self._before: list[tuple] = []

    strategy = property(lambda self: self._strategy, doc="The strategy.")
    num_replicas_in_sync = property(lambda self: self._strategy.num_replicas_in_sync, doc="How many replicas there are.")

    @property
    def replica_id_in_sync_group(self) -> Any:
        """The number of this replica among those that are kept in step, as a tensor."""
        contexts.require_replica(self)
        value = self._replica_id_in_sync_group
        return value if isinstance(value, Tensor) else convert(value)

    @property
    def devices(self) -> tuple:
        """The devices of this replica."""
        contexts.require_replica(self)
        return (self._strategy.extended.worker_devices[self._local_index],)

    def __enter__(self) -> ReplicaContext:
        self._before.append(context.state.strategies)
        context.state.strategies = (*context.state.strategies, Frame(self._strategy, self, creator=self._creator))
        return self

    def __exit__(self, *exc: Any) -> None:
        context.state.strategies = self._before.pop()

    # -- meeting the others -------------------------------------------------------------------------------------------
    def merge_call(self, merge_fn: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Waits for all replicas, calls `merge_fn(strategy, *args, **kwargs)` once, and passes each replica its part.

        >>> context.merge_call(lambda strategy, x: strategy.reduce("sum", x, axis=None), args=(x,))
        """
        contexts.require_replica(self)
        return self._merge_call(merge_fn, tuple(args), dict(kwargs or {}))

    def _merge_call(self, merge_fn: Any, args: tuple, kwargs: dict) -> Any:
        """Calls the function: one replica waits for no others."""
        with entered(Frame(self._strategy)):
            return select_replica(0, merge_fn(self._strategy, *regroup([args]), **regroup([kwargs])))

    def all_reduce(self, reduce_op: Any, value: Any, options: Any = None) -> Any:
        """The sum or mean over all replicas of each tensor of a structure. It has a gradient.

        >>> context.all_reduce("mean", [loss, accuracy])
        """
        op = ReduceOp.of(reduce_op)
        flat = [v if isinstance(v, (Tensor, IndexedSlices)) else convert(v) for v in nest.flatten(value)]
        if any(isinstance(v, IndexedSlices) for v in flat):
            return nest.pack_sequence_as(value, self._reduced(op, flat, options))

        @custom_gradient
        def reduced(*xs: Any) -> tuple:
            return self._reduced(op, list(xs), options), lambda *grads: self.all_reduce(op, list(grads), options)
        return nest.pack_sequence_as(value, nest.flatten(reduced(*flat)))

    def _reduced(self, op: ReduceOp, flat: list, options: Any) -> list:
        def merge(strategy: Any, *values: Any) -> list:
            return strategy.extended.batch_reduce_to(op, [(v, v) for v in values], options)
        return list(self.merge_call(merge, args=tuple(flat)))

    def all_gather(self, value: Any, axis: int, options: Any = None) -> Any:
        """The values of all replicas, one behind the other along `axis`."""
        def merge(strategy: Any, *values: Any) -> list:
            return [strategy.gather(v, axis) for v in values]
        return nest.pack_sequence_as(value, list(self.merge_call(merge, args=tuple(nest.flatten(value)))))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(replica {self._replica_id_in_sync_group} of {self._strategy})"
