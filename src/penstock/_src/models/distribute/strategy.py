"""Strategy: the public class for distributing a user program over devices. Its `extended` is the implementation.

`Strategy` is the class of both APIs; `StrategyV1` adds the methods of TensorFlow 1. Entering `scope()` makes the strategy the
current one, and lets it make the variables.
"""
from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.scopes import device
from penstock._src.graph.strategies import Frame
from penstock._src.models.distribute import contexts
from penstock._src.models.distribute.input_context import InputReplicationMode, for_each_replica
from penstock._src.models.distribute.values import PerReplica
from penstock._src.ops.core import group
from penstock._src.ops.registry import get
from penstock._src.state.variables.reduce_op import ReduceOp
from penstock._src.state.variables.scope import get_variable_scope, variable_scope


class RunOptions(NamedTuple):
    """Options of `Strategy.run` for TPUs; other strategies need none of them.

    >>> strategy.run(step, args=(batch,), options=tf.distribute.RunOptions())
    """
    experimental_enable_dynamic_batch_size: bool = True
    experimental_bucketizing_dynamic_shape: bool = False
    experimental_xla_options: Any = None


export.value(RunOptions, "distribute.RunOptions")


class Scope:
    """`with strategy.scope()`: may be entered again inside of itself, not inside of another strategy's."""

    def __init__(self, strategy: Any, creator: Any, getter: Any, default_device: Any):
        self._strategy, self._creator, self._getter, self._default_device = strategy, creator, getter, default_device
        self._entered: list[Any] = []

    def __enter__(self) -> Any:
        found = contexts.frame()
        if found.strategy is self._strategy and found is not contexts.default_frame():
            self._check_cross(found)
            self._entered.append(None)
            return self._strategy
        if found is not contexts.default_frame():
            raise RuntimeError("Mixing different tf.distribute.Strategy objects: "
                               f"{found.strategy} is not {self._strategy}")
        self._entered.append(_Opened(self._strategy, self._creator, self._getter, self._default_device))
        return self._strategy

    def _check_cross(self, found: Frame) -> None:
        if found.replica is not None:
            raise RuntimeError("`strategy.scope()` cannot be entered inside of a replica: use "
                               "tf.distribute.get_replica_context().merge_call() to leave it.")

    def __exit__(self, *exc: Any) -> None:
        opened = self._entered[-1]
        if opened is not None:
            opened.check()
        self._entered.pop()
        if opened is not None:
            opened.close(*exc)


class _Opened:
    """The scopes that one strategy scope has opened, and how they are closed again."""

    def __init__(self, strategy: Any, creator: Any, getter: Any, default_device: Any):
        self._graph_stacks = context.creating_graph()._stacks
        self._parts = contextlib.ExitStack()
        with contextlib.ExitStack() as parts:
            self._variables = variable_scope(get_variable_scope(), custom_getter=getter, auxiliary_name_scope=False)
            parts.enter_context(self._variables)
            if default_device is not None:
                parts.enter_context(device(default_device))
            self._creators, self._device_inside = self._graph_stacks.variable_creators, _device_scope()
            self._frame = Frame(strategy, creator=creator)
            context.state.strategies = (*context.state.strategies, self._frame)
            self._parts = parts.pop_all()

    def check(self) -> None:
        """Raises RuntimeError, without changes, if a scope that was opened inside is still open."""
        if _device_scope() != self._device_inside:
            raise RuntimeError("Device scope nesting error: move call to tf.distribute.set_strategy() out of `with` scope.")
        if self._graph_stacks.variable_creators is not self._creators:
            raise RuntimeError("Variable creator scope nesting error: move call to tf.distribute.set_strategy() out of `with` "
                               "scope.")

    def close(self, *exc: Any) -> None:
        """Closes them."""
        context.state.strategies = tuple(f for f in context.state.strategies if f is not self._frame)
        try:
            self._parts.__exit__(*exc)
        except RuntimeError as e:
            if "variable_scope" not in str(e):
                raise
            raise RuntimeError("Variable scope nesting error: move call to tf.distribute.set_strategy() out of `with` "
                               "scope.") from e


def _device_scope() -> Any:
    return context.state.device if context.executing_eagerly() else context.current_graph()._stacks.devices


@export(v2=["distribute.Strategy"])
class Strategy:
    """A way to spread a program over devices: which have a replica, where variables are, how results are combined.

    >>> strategy = tf.distribute.MirroredStrategy()
    >>> with strategy.scope():
    ...     model = make_model()
    ...     model.compile(...)
    >>> model.fit(dataset)
    """

    _is_default = False                           # of the one that code finds where no strategy was entered
    _should_use_with_coordinator = False          # whether a ClusterCoordinator schedules the functions

    def __init__(self, extended: Any):
        self._extended = extended
        self._scale_loss_for_estimator = False

    extended = property(lambda self: self._extended, doc="The StrategyExtended that does the work.")
    num_replicas_in_sync = property(lambda self: self._extended._num_replicas_in_sync, doc="The replicas that step together.")

    @property
    def cluster_resolver(self) -> Any:
        """The resolver of the cluster; None for one process."""
        return getattr(self._extended, "_cluster_resolver", None)

    def scope(self) -> Any:
        """A context manager: this strategy is the current one, and makes the variables.

        >>> with strategy.scope(): v = tf.Variable(1.0)
        """
        return self._extended._scope(self)

    # -- running ------------------------------------------------------------------------------------------------------
    def run(self, fn: Any, args: Any = (), kwargs: Any = None, options: Any = None) -> Any:
        """Calls `fn` once for each replica, with its part of the arguments; returns a value per replica.

        >>> per_replica = strategy.run(train_step, args=(next(iterator),))
        """
        if not isinstance(args, (list, tuple)):
            raise ValueError(f"positional args must be a list or tuple, got {type(args)}")
        with self.scope():
            return self._extended.call_for_each_replica(context.traced_as(fn), args=args, kwargs=kwargs)

    def experimental_run_v2(self, fn: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The older name of `run`."""
        return self.run(fn, args, kwargs)

    def experimental_run(self, fn: Any, input_iterator: Any = None) -> Any:
        """Calls `fn` once for each replica, with the next element of an iterator."""
        with self.scope():
            args = (input_iterator.get_next(),) if input_iterator is not None else ()
        return self.run(fn, args=args)

    def reduce(self, reduce_op: Any, value: Any, axis: Any) -> Any:
        """One value for those of all replicas; with `axis`, also over that axis of each of them.

        >>> strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica_losses, axis=None)
        """
        contexts.require_cross(self)
        op = ReduceOp.of(reduce_op)
        if axis is None:
            return nest.map_structure(lambda v: self._extended._reduce(op, v), value)
        return nest.map_structure(lambda v: self._reduce_axis(op, v, axis), value)

    def _reduce_axis(self, op: ReduceOp, value: Any, axis: Any) -> Any:
        """The mean counts the elements of each replica, which need not be the same number."""
        def part(v: Any) -> tuple:
            v = convert(v)
            along = convert(axis)
            total = get("Sum")(v, along)
            if op is ReduceOp.SUM:
                return (total,)
            count = get("Prod")(get("GatherV2")(get("Shape")(v), get("Reshape")(along, [-1]), 0), 0)
            return total, get("Cast")(count, DstT=total.dtype)
        parts = self._each(part, value)
        if op is ReduceOp.SUM:
            return self._extended._reduce(ReduceOp.SUM, parts[0])
        total, count = (self._extended._reduce(ReduceOp.SUM, p) for p in parts)
        return total / count

    def _each(self, fn: Any, value: Any) -> tuple:
        """`fn` of each local value, on its device; a distributed value for each of its results."""
        found = []
        for v in self.experimental_local_results(value):
            with device(getattr(v, "device", None) or None):
                found.append(fn(v))
        return tuple(PerReplica(column) if len(column) > 1 else column[0] for column in zip(*found, strict=True))

    def gather(self, value: Any, axis: int) -> Any:
        """The values of all replicas, one behind the other along `axis`."""
        contexts.require_cross(self)
        return nest.map_structure(lambda v: self._extended._gather_to(v, axis), value)

    def experimental_local_results(self, value: Any) -> tuple:
        """The values of the replicas of this process, as a tuple."""
        return self._extended._local_results(value)

    def unwrap(self, value: Any) -> tuple:
        """The older name of `experimental_local_results`."""
        return self.experimental_local_results(value)

    def group(self, value: Any, name: str | None = None) -> Any:
        """One op that waits for those of all replicas."""
        return group(*self.experimental_local_results(value), name=name)

    # -- input --------------------------------------------------------------------------------------------------------
    def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
        """A dataset of global batches, cut into one part for each replica.

        >>> for batch in strategy.experimental_distribute_dataset(dataset): strategy.run(step, args=(batch,))
        """
        if options is not None and options.per_replica:
            raise NotImplementedError("InputReplicationMode.PER_REPLICA is only supported in "
                                      "`distribute_datasets_from_function`.")
        return self._extended._experimental_distribute_dataset(dataset)

    def distribute_datasets_from_function(self, dataset_fn: Any, options: Any = None) -> Any:
        """A dataset per input pipeline, made by `dataset_fn(input_context)`, whose batches are those of single replicas.

        >>> strategy.distribute_datasets_from_function(
        ...     lambda c: dataset.batch(c.get_per_replica_batch_size(64)))
        """
        if options is not None and options.per_replica:
            if self._extended._input_context().num_input_pipelines > 1:
                raise NotImplementedError("InputReplicationMode.PER_REPLICA is not supported with several workers.")
            dataset_fn = for_each_replica(dataset_fn, self.num_replicas_in_sync)
        return self._extended._experimental_distribute_datasets_from_function(dataset_fn)

    def experimental_distribute_datasets_from_function(self, dataset_fn: Any) -> Any:
        """The older name of `distribute_datasets_from_function`."""
        return self.distribute_datasets_from_function(dataset_fn)

    def experimental_distribute_values_from_function(self, value_fn: Any) -> Any:
        """A value per replica, made by `value_fn(value_context)`."""
        return self._extended._distribute_values_from_function(value_fn)

    def experimental_make_numpy_dataset(self, numpy_input: Any) -> Any:
        """A dataset over the rows of numpy arrays."""
        with self.scope():
            return self._extended.experimental_make_numpy_dataset(numpy_input, session=None)

    def make_dataset_iterator(self, dataset: Any) -> Any:
        """An iterator over global batches, each cut into one part for each replica."""
        return self._extended._make_dataset_iterator(dataset)

    def make_input_fn_iterator(self, input_fn: Any, replication_mode: Any = InputReplicationMode.PER_WORKER) -> Any:
        """An iterator over what `input_fn(input_context)`, a dataset or a function of no arguments, passes to each replica."""
        if replication_mode != InputReplicationMode.PER_WORKER:
            raise ValueError(f"Input replication mode not supported: {replication_mode}")
        with self.scope():
            return self._extended._make_input_fn_iterator(input_fn, replication_mode=replication_mode)

    # -- around sessions ----------------------------------------------------------------------------------------------
    def colocate_vars_with(self, colocate_with_variable: Any) -> Any:
        """The older place of `extended.colocate_vars_with`."""
        return self._extended.colocate_vars_with(colocate_with_variable)

    def configure(self, session_config: Any = None, cluster_spec: Any = None, task_type: Any = None,
                  task_id: Any = None) -> None:
        """Tells the strategy about the cluster and the session that it will be used in."""
        return self._extended._configure(session_config, cluster_spec, task_type, task_id)

    def update_config_proto(self, config_proto: Any) -> Any:
        """A ConfigProto with the settings of the strategy."""
        return self._extended._update_config_proto(config_proto)

    def __deepcopy__(self, memo: dict) -> Any:
        return self

    def __copy__(self) -> Any:
        raise RuntimeError("Must only deepcopy DistributionStrategy.")


@export(v1=["distribute.Strategy"])
class StrategyV1(Strategy):
    """A way to spread a program over devices (v1 form)."""

    def reduce(self, reduce_op: Any, value: Any, axis: Any = None) -> Any:
        """One value for those of all replicas; with `axis`, also over that axis of each of them."""
        return super().reduce(reduce_op, value, axis)

    def experimental_make_numpy_dataset(self, numpy_input: Any, session: Any = None) -> Any:
        """A dataset over the rows of numpy arrays, which a session keeps in variables."""
        with self.scope():
            return self._extended.experimental_make_numpy_dataset(numpy_input, session)


