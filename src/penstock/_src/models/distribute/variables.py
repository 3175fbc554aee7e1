"""Distributed variables: one object for the copies of a variable on several devices.

Inside of a replica, or of an update, such a variable is the copy of that replica. Across replicas, a mirrored variable is its
first copy (all are the same), and a sync-on-read variable is the sum or mean of its copies. Writes preserve these
properties. Everything that reads goes through `_get`; everything that takes the handle gets the handle of one copy.
"""
from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.scopes import device
from penstock._src.graph.strategies import Frame, entered, exports_copies
from penstock._src.graph.trackable import VARIABLE_VALUE_KEY
from penstock._src.models.distribute import contexts
from penstock._src.models.distribute.cross_device_ops import divided
from penstock._src.models.distribute.saving import CopiesSaveable
from penstock._src.models.distribute.values import DistributedValues, PerReplica, device_of
from penstock._src.ops.core import group
from penstock._src.ops.registry import get
from penstock._src.state.variables.policy import VariableAggregation
from penstock._src.state.variables.reduce_op import ReduceOp
from penstock._src.state.variables.resource import BaseResourceVariable
from penstock._src.state.variables.variable import VariableV1


class DistributedVariable(DistributedValues, BaseResourceVariable):
    """The copies of a variable."""

    _own_saveable = True

    def __init__(self, strategy: Any, copies: Sequence, aggregation: Any):
        super().__init__(copies)
        first = copies[0]
        self._distribute_strategy, self._aggregation = strategy, aggregation
        self._dtype, self.static_dims = first.dtype, first.static_dims
        self._name, self._unique_id, self._in_graph_mode = first._name, first._unique_id, first._in_graph_mode
        self._trainable, self._constraint, self._synchronization = first._trainable, first._constraint, first._synchronization
        self._graph_key = getattr(first, "_graph_key", None)
        self._has_copies = len(copies) > 1
        for copy in copies:
            copy._distributed_container = weakref.ref(self)
            copy._distribute_strategy = strategy

    # -- which copy ---------------------------------------------------------------------------------------------------
    def _index(self) -> int | None:
        found = contexts.frame()
        if found.strategy is not self._distribute_strategy:
            return None
        return found.index

    def _get_cross_replica(self) -> Any:
        return self._values[0]

    _handle = property(lambda self: self._copy()._handle, doc="The handle of the copy that is meant.")
    handle = property(lambda self: self._copy()._handle, doc="The same. Writing through it changes one copy alone.")
    _graph_element = property(lambda self: self._get()._graph_element, doc="What a session fetches for it.")
    op = property(lambda self: self._copy().op, doc="The operation that makes the handle of the copy that is meant.")
    graph = property(lambda self: self._values[0].graph, doc="The graph of the variable.")
    device = property(lambda self: self._copy().device, doc="The device of the copy that is meant.")
    distribute_strategy = property(lambda self: self._distribute_strategy, doc="The strategy that it was made under.")
    _strategy = distribute_strategy

    def _copy(self) -> Any:
        """The current copy; the first one across replicas."""
        i = self._index()
        return self._values[0 if i is None else i]

    @property
    def initializer(self) -> Any:
        """The operation that initializes all copies."""
        if context.executing_eagerly() or not self._in_graph_mode:
            return None
        found = self.graph.caches.setdefault(("initializer", self._unique_id), None)
        if found is None:
            with self.graph.as_default(), self.graph.control_dependencies(None):
                found = group(*[c.initializer for c in self._values], name=f"{self._shared_name}/init_copies")
            self.graph.caches["initializer", self._unique_id] = found
        return found

    @property
    def initial_value(self) -> Any:
        """The tensor that the first copy is initialized from."""
        return self._values[0].initial_value

    def _initial_value_tensor(self) -> Any:
        return self._values[0]._initial_value

    def _as_graph_element(self) -> Any:
        return self._graph_element

    def _fill_proto(self, made: Any, strip: Any) -> None:
        self._values[0]._fill_proto(made, strip)

    def _proto_name(self) -> str:
        return self._values[0]._proto_name()

    def is_initialized(self, name: str | None = None) -> Any:
        """Whether all copies have a value, as a tensor."""
        each = [c.is_initialized() for c in self._values]
        return each[0] if len(each) == 1 else get("All")(get("Pack")(each), 0, name=name)

    def load(self, value: Any, session: Any = None) -> None:
        """Sets the value of all copies in a session (or at once in eager mode)."""
        for copy in self._values:
            copy.load(value, session)

    # -- reading ------------------------------------------------------------------------------------------------------
    def _read_variable_op(self) -> Any:
        return self._get()._read_variable_op()

    def value(self) -> Any:
        """The current value."""
        return self._get().value()

    def read_value(self) -> Any:
        """The value, read at this point: after the open control dependencies."""
        return self._get().read_value()

    def sparse_read(self, indices: Any, name: str | None = None) -> Any:
        """Rows of the value."""
        return self._get().sparse_read(indices, name)

    def gather_nd(self, indices: Any, name: str | None = None) -> Any:
        """Single elements or slices of the value."""
        return self._get().gather_nd(indices, name)

    def eval(self, session: Any = None) -> Any:
        """The value in `session`, or in the default one."""
        if context.executing_eagerly():
            raise RuntimeError("Trying to eval in EAGER mode")
        return convert(self._graph_element).eval(session=session)

    # -- writing ------------------------------------------------------------------------------------------------------
    def _changed(self, change: Callable, value: Any, how: str) -> Any:
        """Applies `change(copy, value)` to the copies, as the kind of variable requests."""
        raise NotImplementedError

    def assign(self, value: Any, use_locking: bool | None = None, name: str | None = None, read_value: bool = True) -> Any:
        """Sets the value."""
        return self._changed(lambda copy, x: copy.assign(x, name=name, read_value=read_value), value, "assign")

    def assign_add(self, delta: Any, use_locking: bool | None = None, name: str | None = None, read_value: bool = True) -> Any:
        """Adds `delta`."""
        return self._changed(lambda copy, x: copy.assign_add(x, name=name, read_value=read_value), delta, "assign_add")

    def assign_sub(self, delta: Any, use_locking: bool | None = None, name: str | None = None, read_value: bool = True) -> Any:
        """Subtracts `delta`."""
        return self._changed(lambda copy, x: copy.assign_sub(x, name=name, read_value=read_value), delta, "assign_sub")

    def count_up_to(self, limit: int) -> Any:
        """Not supported: each copy would count separately."""
        raise NotImplementedError(f"count_up_to is not supported by {type(self).__name__}.")

    def _scattered(self, kind: str, indices: Any, updates: Any, name: str | None) -> Any:
        """What tf.scatter_add and related functions do."""
        if kind.startswith("nd_"):
            return getattr(self, f"scatter_{kind}")(indices, updates, name)
        return getattr(self, f"scatter_{kind}")(IndexedSlices(updates, convert(indices)), name=name)

    def _scatter(self, op_name: str, delta: Any, use_locking: bool, name: str | None) -> Any:
        kind = op_name.removeprefix("ResourceScatter").lower()
        return self._changed(lambda copy, x: getattr(copy, f"scatter_{kind}")(x, name=name), delta, f"scatter_{kind}")

    def batch_scatter_update(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Sets rows, batch by batch."""
        return self._changed(lambda copy, x: copy.batch_scatter_update(x, name=name), sparse_delta, "batch_scatter_update")

    def _scatter_nd(self, op_name: str, indices: Any, updates: Any, name: str | None) -> Any:
        def change(copy: Any, x: Any) -> Any:
            return copy._scatter_nd(op_name, indices, x, name)
        return self._changed(change, updates, "scatter_nd")

    def _strided_slice_assign(self, value: Any, name: str | None, **parts: Any) -> Any:
        return self._changed(lambda copy, x: copy._strided_slice_assign(value=x, name=name, **parts), value, "assign")

    # -- checkpoints --------------------------------------------------------------------------------------------------
    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        return {VARIABLE_VALUE_KEY: lambda name=self._shared_name: CopiesSaveable(self, name)}

    def _saved_value(self) -> Any:
        """The value for checkpoints: that across replicas."""
        return self._values[0].read_value()

    def _restored(self, value: Any) -> Any:
        """Sets all copies from a value of a checkpoint; returns the ops."""
        done = []
        for copy in self._values:
            with device(device_of(copy) or None):
                done.append(copy.assign(self._restored_part(value), read_value=False))
        return None if context.executing_eagerly() else group(*done)

    def _restored_part(self, value: Any) -> Any:
        return value

    # -- Python -------------------------------------------------------------------------------------------------------
    def __deepcopy__(self, memo: dict) -> Any:
        with entered(Frame(self._distribute_strategy)), self._distribute_strategy.scope():
            made = VariableV1(self.read_value(), trainable=self._trainable, dtype=self._dtype, name=self._shared_name,
                              constraint=self._constraint, synchronization=self.synchronization, aggregation=self._aggregation)
        memo[id(self)] = made
        return made

    def __repr__(self) -> str:
        shown = ",\n".join(f"  {i}: {c!r}" for i, c in enumerate(self._values))
        return f"{type(self).__name__}:{{\n{shown}\n}}"


_NO_AGGREGATION = (
    "You must specify an aggregation method to update a MirroredVariable in Replica Context: {how} of '{name}' could give each "
    "copy another value. Pass an explicit value for argument `aggregation` to tf.Variable, for example "
    "`aggregation=tf.VariableAggregation.SUM`, or update the variable across replicas, in "
    "`tf.distribute.get_replica_context().merge_call(merge_fn, ...)`, with `strategy.extended.update()`.")


class MirroredVariable(DistributedVariable):
    """Copies that are always the same. A write inside of replicas meets the others, and is aggregated first."""

    _shared_by_replicas = False

    def _changed(self, change: Callable, value: Any, how: str) -> Any:
        found = contexts.frame()
        strategy = self._distribute_strategy
        if exports_copies() or found.strategy is strategy and found.copy is not None and found.replica is None:
            return change(self._copy(), value)
        if found.replica is None or found.strategy is not strategy:
            return strategy.extended.update(self, change, args=(value,))
        if self._aggregation == VariableAggregation.NONE:
            if strategy.num_replicas_in_sync == 1 or context.process.eager and not self._shared_by_replicas:
                return change(self._copy(), value)         # in the 2.x API, replicas answer for equal copies themselves
            raise ValueError(_NO_AGGREGATION.format(how=how, name=self.name))
        return found.replica.merge_call(self._merged, args=(value,), kwargs={"change": change})

    def _merged(self, strategy: Any, value: Any, change: Any) -> Any:
        """Updates all copies with the aggregated values of the replicas."""
        change = change._values[0] if isinstance(change, DistributedValues) else change
        return strategy.extended.update(self, change, args=(aggregated(strategy, value, self, self._aggregation),))


def aggregated(strategy: Any, value: Any, destinations: Any, aggregation: Any) -> Any:
    """The aggregated values of replicas, on the devices of `destinations`."""
    if aggregation == VariableAggregation.ONLY_FIRST_REPLICA:
        first = value._values[0] if isinstance(value, PerReplica) else value
        return strategy.extended.broadcast_to(_tensor(first, destinations), destinations)
    if not isinstance(value, DistributedValues):
        if aggregation == VariableAggregation.MEAN and not strategy.extended._in_multi_worker_mode():
            return value                                   # the same for all replicas, and so is the mean
        value = PerReplica([_tensor(value, destinations)] * len(strategy.extended.worker_devices))
    return strategy.extended.reduce_to(ReduceOp.from_variable_aggregation(aggregation), value, destinations)


def _tensor(value: Any, like: Any) -> Any:
    return value if isinstance(value, IndexedSlices) else convert(value, like.dtype)


class AggregatingVariable(MirroredVariable):
    """One variable for all replicas. A write inside of replicas meets the others, and is aggregated first."""

    _shared_by_replicas = True

    def _index(self) -> int | None:
        return 0 if super()._index() is not None else None


class SyncOnReadVariable(DistributedVariable):
    """Copies that replicas change on their own; read across replicas, it is their sum or mean."""

    _sum_when_read = False                     # also inside of replicas: a variable of tf.metrics

    def _get(self) -> Any:
        replica = contexts.frame().replica if self._sum_when_read else None
        if replica is None or self._index() is None:
            return super()._get()
        return _Reduced(self, replica)

    def _get_cross_replica(self) -> Any:
        alone = self._distribute_strategy.num_replicas_in_sync == 1
        if self._aggregation == VariableAggregation.ONLY_FIRST_REPLICA or alone or context.state.exporting:
            return self._values[0]
        return _Reduced(self)

    @property
    def _graph_element(self) -> Any:
        i = self._index()
        return self.value() if i is None else self._values[i]._graph_element

    def _saved_value(self) -> Any:
        whole = len(self._values) > 1 and self._aggregation in (VariableAggregation.SUM, VariableAggregation.MEAN)
        return self._read_across() if whole else super()._saved_value()

    def _read_across(self) -> Any:
        strategy = self._distribute_strategy
        op = ReduceOp.from_variable_aggregation(self._aggregation)
        values = []
        for copy in self._values:
            with device(device_of(copy) or None):
                values.append(copy.read_value())
        with entered(Frame(strategy)):
            return strategy.extended._reduce(op, PerReplica(values))

    def _changed(self, change: Callable, value: Any, how: str) -> Any:
        i = self._index()
        if i is not None or exports_copies():
            return change(self._values[i or 0], value)
        if how.startswith(("scatter", "batch_scatter")):
            raise NotImplementedError(f"{type(self).__name__} does not support `{how}` in cross-replica context.")
        if how != "assign" and self._aggregation == VariableAggregation.SUM:
            raise ValueError(f"SyncOnReadVariable does not support `{how}` in cross-replica context when aggregation is set to "
                             "`tf.VariableAggregation.SUM`.")
        value = value if isinstance(value, DistributedValues) else self._restored_part(convert(value, self._dtype))
        with entered(Frame(self._distribute_strategy)):
            return self._distribute_strategy.extended.update(self, change, args=(value,))

    def _restored_part(self, value: Any) -> Any:
        """The value of each copy, such that their sum is `value`."""
        if self._aggregation != VariableAggregation.SUM:
            return value
        return divided(convert(value, self._dtype), self._distribute_strategy.num_replicas_in_sync)


class _Reduced:
    """A sync-on-read variable, seen across replicas: reading reduces the copies."""

    def __init__(self, variable: SyncOnReadVariable, replica: Any = None):
        self._variable, self._replica = variable, replica

    def value(self) -> Any:
        """The sum or mean of the copies."""
        if self._replica is not None:
            return self._replica.merge_call(lambda strategy: self._variable._read_across())
        return self._variable._read_across()

    read_value = _read_variable_op = value

    def sparse_read(self, indices: Any, name: str | None = None) -> Any:
        """Rows of it."""
        return get("GatherV2")(self.value(), indices, 0, name=name)

    def gather_nd(self, indices: Any, name: str | None = None) -> Any:
        """Single elements or slices of it."""
        return get("GatherNd")(self.value(), indices, name=name)


