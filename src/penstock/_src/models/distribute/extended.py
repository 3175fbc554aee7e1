"""StrategyExtended: the interface of strategies for authors of strategies, optimizers and training loops.

A kind of strategy is a subclass. It defines the devices of replicas and variables (`worker_devices`, `parameter_devices`), and
overrides the methods whose names begin with an underscore:

    _create_variable(next_creator, **kwargs)            makes a variable; `colocate_with` among kwargs names another one
    _call_for_each_replica(fn, args, kwargs)            runs a function for each replica, and regroups the results
    _reduce_to(reduce_op, value, destinations)          one value, on the devices of `destinations`
    _batch_reduce_to(reduce_op, value_destination_pairs)
    _update(var, fn, args, kwargs, group)               runs `fn(copy, …)` for each copy of a variable
    _update_non_slot(colocate_with, fn, args, kwargs, group)
    _broadcast_to(tensor, destinations)
    _experimental_distribute_dataset(dataset), _experimental_distribute_datasets_from_function(dataset_fn)
    _make_dataset_iterator(dataset), _make_input_fn_iterator(input_fn, replication_mode)
    _configure(session_config, cluster_spec, task_type, task_id), _update_config_proto(config_proto)
    _num_replicas_in_sync, _local_index(replica_id), _in_multi_worker_mode()

The public methods check where they are called, and then call these.
"""
from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

from penstock._src.base import nest
from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.node import Operation
from penstock._src.graph.scopes import colocate_with, control_dependencies, device, name_scope, variable_creator_scope
from penstock._src.graph.strategies import Frame, entered
from penstock._src.models.distribute import contexts
from penstock._src.models.distribute.cross_device_ops import devices_of
from penstock._src.models.distribute.datasets import (
    DatasetIterator,
    DistributedDataset,
    DistributedDatasetsFromFunction,
    InputFunctionIterator,
    numpy_dataset,
)
from penstock._src.models.distribute.input_context import InputContext, ValueContext
from penstock._src.models.distribute.steps import run_steps
from penstock._src.models.distribute.strategy import Scope
from penstock._src.models.distribute.values import (
    DistributedValues,
    Mirrored,
    PerReplica,
    device_of,
    local_values,
    regroup,
    select_replica,
)
from penstock._src.ops.core import group as group_ops
from penstock._src.ops.core import identity
from penstock._src.ops.registry import get
from penstock._src.state.embeddings.variable import is_keyed
from penstock._src.state.variables.reduce_op import ReduceOp


@export(v2=["distribute.StrategyExtended"])
class StrategyExtended:
    """The implementation of a strategy: `strategy.extended`."""

    _require_static_shapes = False
    _default_device: Any = None

    def __init__(self, container_strategy: Any):
        self._container = weakref.ref(container_strategy)

    def _container_strategy(self) -> Any:
        return self._container()

    # -- places -------------------------------------------------------------------------------------------------------
    @property
    def worker_devices(self) -> tuple:
        """The devices of this process that run replicas."""
        raise NotImplementedError(f"{type(self).__name__} must implement worker_devices.")

    @property
    def parameter_devices(self) -> tuple:
        """The devices that variables are on."""
        raise NotImplementedError(f"{type(self).__name__} must implement parameter_devices.")

    @property
    def _num_replicas_in_sync(self) -> int:
        return len(self.worker_devices)

    def _local_index(self, replica_id: int) -> int:
        """The place of a replica among those of this process."""
        return replica_id

    def _replica_id(self, index: int) -> int:
        """The number among all replicas of one of this process."""
        return index

    def _in_multi_worker_mode(self) -> bool:
        return False

    @property
    def _own_copies(self) -> bool:
        """Whether this process is one of several that keep copies of the variables, and train them in step."""
        return False

    def non_slot_devices(self, var_list: Any) -> Any:
        """The devices of optimizer state that belongs to no variable."""
        return self.parameter_devices

    # -- variables ----------------------------------------------------------------------------------------------------
    def _scope(self, strategy: Any) -> Any:
        def without_partitions(getter: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._allow_variable_partition() and kwargs.pop("partitioner", None) is not None:
                logging.log_first_n(logging.WARN, "Partitioned variables are disabled when using current "
                                    "tf.distribute.Strategy.", 1)
            return getter(*args, **kwargs)
        return Scope(strategy, self._creator, without_partitions, self._default_device)

    def _creator(self, next_creator: Any, **kwargs: Any) -> Any:
        contexts.require_scope(self._container_strategy())
        kwargs["use_resource"] = True
        return self._create_variable(next_creator, **kwargs)

    def _allow_variable_partition(self) -> bool:
        return False

    def _create_variable(self, next_creator: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must implement _create_variable.")

    def variable_created_in_scope(self, v: Any) -> bool:
        """Whether a variable was created under this strategy."""
        return v._distribute_strategy is self._container_strategy()

    def colocate_vars_with(self, colocate_with_variable: Any) -> Any:
        """A context manager: variables made inside are where this one is.

        >>> with strategy.extended.colocate_vars_with(v): slot = tf.Variable(tf.zeros_like(v))
        """
        def creator(next_creator: Any, **kwargs: Any) -> Any:
            contexts.require_scope(self._container_strategy())
            return next_creator(**{"colocate_with": colocate_with_variable, **kwargs})
        self._validate_colocate_with_variable(colocate_with_variable)
        return variable_creator_scope(creator)

    def _validate_colocate_with_variable(self, colocate_with_variable: Any) -> None:
        """Raises ValueError for a variable of another strategy."""
        check_own_variable(self._container_strategy(), colocate_with_variable)

    def read_var(self, v: Any) -> Any:
        """The value of a variable, across replicas."""
        raise NotImplementedError(f"{type(self).__name__} must implement read_var.")

    def value_container(self, value: Any) -> Any:
        """The variable that a copy belongs to; other values unchanged."""
        container = getattr(value, "_distributed_container", None)
        return value if container is None else container()

    # -- replicas -----------------------------------------------------------------------------------------------------
    def call_for_each_replica(self, fn: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs `fn` once for each replica; returns a structure of values per replica."""
        contexts.require_cross(self._container_strategy())
        with self._container_strategy().scope():
            return self._call_for_each_replica(fn, args, kwargs or {})

    def _call_for_each_replica(self, fn: Any, args: Any, kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must implement _call_for_each_replica.")

    def _local_results(self, value: Any) -> tuple:
        return local_values(value)

    _unwrap = property(lambda self: self._local_results, doc="The older name of _local_results.")

    # -- reductions ---------------------------------------------------------------------------------------------------
    def reduce_to(self, reduce_op: Any, value: Any, destinations: Any, options: Any = None) -> Any:
        """One value for those of all replicas, on the devices of `destinations` (a device, a variable, a value)."""
        contexts.require_cross(self._container_strategy())
        return self._reduce_to(ReduceOp.of(reduce_op), value, destinations)

    def batch_reduce_to(self, reduce_op: Any, value_destination_pairs: Any, options: Any = None) -> Any:
        """`reduce_to` for many values at once."""
        contexts.require_cross(self._container_strategy())
        return self._batch_reduce_to(ReduceOp.of(reduce_op), list(value_destination_pairs))

    def _replica_ctx_all_reduce(self, reduce_op: Any, value: Any, options: Any = None) -> Any:
        """`all_reduce` of the replica that runs now, under the name that libraries call."""
        return contexts.get_replica_context().all_reduce(reduce_op, value, options)

    def _reduce_to(self, reduce_op: Any, value: Any, destinations: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must implement _reduce_to.")

    def _batch_reduce_to(self, reduce_op: Any, value_destination_pairs: Any) -> Any:
        return [self._reduce_to(reduce_op, value, destinations=d) for value, d in value_destination_pairs]

    def _reduce(self, reduce_op: Any, value: Any) -> Any:
        """One value for those of all replicas, for the caller: on the device that is open, or the first one."""
        asked = context.state.device if context.executing_eagerly() else None
        reduced = self._reduce_to(reduce_op, value, asked or "/device:CPU:0")
        return local_values(reduced)[0]

    def _gather_to(self, value: Any, axis: int) -> Any:
        parts = list(local_values(value))
        return parts[0] if len(parts) == 1 else get("ConcatV2")(parts, axis)

    def broadcast_to(self, tensor: Any, destinations: Any) -> Any:
        """Copies of a tensor on the devices of `destinations`."""
        contexts.require_cross(self._container_strategy())
        if destinations is None or isinstance(destinations, (list, tuple)) and not destinations:
            raise ValueError("destinations must name at least one device.")
        return self._broadcast_to(tensor, destinations)

    def _broadcast_to(self, tensor: Any, destinations: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must implement _broadcast_to.")

    # -- updates ------------------------------------------------------------------------------------------------------
    def update(self, var: Any, fn: Any, args: Any = (), kwargs: Any = None, group: bool = True) -> Any:
        """Runs `fn(copy, *args, **kwargs)` for each copy of a variable, on its device.

        >>> strategy.extended.update(v, lambda copy, x: copy.assign(x), args=(x,))

        Called in a replica, it waits for the others in a merge call.
        """
        replica = contexts.get_replica_context()
        if replica is not None and contexts.frame() is not contexts.default_frame() and \
                replica.strategy is self._container_strategy():
            return replica.merge_call(lambda _, *all_args, **named: self.update(var, fn, all_args, named, group),
                                      args=tuple(args), kwargs=kwargs)
        contexts.require_cross(self._container_strategy())
        with self._container_strategy().scope():
            return self._update(var, fn, tuple(args), dict(kwargs or {}), group)

    def update_non_slot(self, colocate_with: Any, fn: Any, args: Any = (), kwargs: Any = None, group: bool = True) -> Any:
        """Runs `fn(*args, **kwargs)` on each of the devices that `colocate_with` represents."""
        contexts.require_cross(self._container_strategy())
        with self._container_strategy().scope():
            return self._update_non_slot(colocate_with, fn, tuple(args), dict(kwargs or {}), group)

    def _update(self, var: Any, fn: Any, args: tuple, kwargs: dict, group: bool) -> Any:
        check_own_variable(self._container_strategy(), var)
        done = []
        for i, copy in enumerate(local_values(var)):
            with self._updating(i, device_of(copy)), colocate_with(copy):
                done.append(fn(copy, *select_replica(i, args), **select_replica(i, kwargs)))
        return update_regroup(done, group)

    def _update_non_slot(self, colocate_with: Any, fn: Any, args: tuple, kwargs: dict, group: bool) -> Any:
        done = []
        for i, d in enumerate(devices_of(colocate_with)):
            with self._updating(i, d):
                done.append(fn(*select_replica(i, args), **select_replica(i, kwargs)))
        return update_regroup(done, group)

    @contextlib.contextmanager
    def _updating(self, i: int, where: str) -> Iterator[None]:
        """Works on copy `i` of the variables, on its device."""
        with entered(Frame(self._container_strategy(), copy=i)), device(where or None), name_scope(f"update_{i}"):
            yield

    # -- input --------------------------------------------------------------------------------------------------------
    def _input_devices(self) -> tuple:
        """The devices that batches go to; one input pipeline feeds them."""
        return self.worker_devices

    def _input_context(self) -> Any:
        return InputContext(1, 0, self._num_replicas_in_sync)

    def _experimental_distribute_dataset(self, dataset: Any) -> Any:
        return DistributedDataset(dataset, self._container_strategy())

    def _experimental_distribute_datasets_from_function(self, dataset_fn: Any) -> Any:
        return DistributedDatasetsFromFunction(dataset_fn, self._container_strategy())

    def _make_dataset_iterator(self, dataset: Any) -> Any:
        return DatasetIterator(dataset, self._container_strategy())

    def _make_input_fn_iterator(self, input_fn: Any, replication_mode: Any = None) -> Any:
        return InputFunctionIterator(input_fn, self._container_strategy())

    def experimental_make_numpy_dataset(self, numpy_input: Any, session: Any = None) -> Any:
        """A dataset over the rows of numpy arrays."""
        contexts.require_cross(self._container_strategy())
        return self._experimental_make_numpy_dataset(numpy_input, session)

    def _experimental_make_numpy_dataset(self, numpy_input: Any, session: Any) -> Any:
        return numpy_dataset(numpy_input)

    def _distribute_values_from_function(self, value_fn: Any) -> Any:
        made = [value_fn(ValueContext(i, self._num_replicas_in_sync)) for i in range(len(self.worker_devices))]
        return regroup(made) if len(made) > 1 else PerReplica(made)

    # -- around sessions ----------------------------------------------------------------------------------------------
    def _configure(self, session_config: Any = None, cluster_spec: Any = None, task_type: Any = None,
                   task_id: Any = None) -> None:
        """Does nothing: a strategy of one process needs no configuration."""

    def _update_config_proto(self, config_proto: Any) -> Any:
        from tensorboard.compat.proto.config_pb2 import ConfigProto
        made = ConfigProto()
        made.CopyFrom(config_proto)
        return made

    experimental_require_static_shapes = property(lambda self: self._require_static_shapes, doc="Whether shapes must be known.")
    should_checkpoint = property(lambda self: True, doc="Whether this process writes checkpoints.")
    should_save_summary = property(lambda self: True, doc="Whether this process writes summaries.")
    _global_batch_size = property(lambda self: True, doc="Whether datasets have global batches.")


@export(v1=["distribute.StrategyExtended"])
class StrategyExtendedV1(StrategyExtended):
    """The implementation of a strategy (v1 form)."""

    experimental_between_graph = property(lambda self: False, doc="Whether each worker builds its own graph.")
    experimental_should_init = property(lambda self: True, doc="Whether this process initializes the variables.")

    def experimental_run_steps_on_iterator(self, fn: Any, iterator: Any, iterations: int = 1,
                                           initial_loop_values: Any = None) -> Any:
        """Runs `fn(context, inputs)` for several elements of an iterator."""
        contexts.require_cross(self._container_strategy())
        with self._container_strategy().scope():
            return self._experimental_run_steps_on_iterator(fn, iterator, iterations, initial_loop_values)

    def _experimental_run_steps_on_iterator(self, fn: Any, iterator: Any, iterations: int, initial_loop_values: Any) -> Any:
        return run_steps(self._container_strategy(), fn, iterator, iterations, initial_loop_values)


# -- what strategies share --------------------------------------------------------------------------------------------
def check_own_variable(strategy: Any, var: Any) -> None:
    """ValueError for a variable that was not created under `strategy`: updates would make its copies differ. A keyed table
    has no copies: all replicas look it up."""
    if is_keyed(var):
        return
    owner = getattr(var, "_distribute_strategy", None)
    if owner is not strategy:
        made = "outside of the scope" if owner is None else f"under another strategy, {owner}"
        raise ValueError(f"Variable '{getattr(var, 'name', var)}' of shape {getattr(var, 'shape', None)} was created {made} of "
                         f"{strategy}. Create it inside of `with strategy.scope():`.")


def update_regroup(done: list, group: bool) -> Any:
    """The results of an update of each copy: grouped, all of them happen when one is used; else, tuples of them."""
    regrouped = regroup(done, Mirrored)
    if not group:
        return nest.map_structure(local_values, regrouped)
    return nest.map_structure(_grouped, regrouped)


def _grouped(value: Any) -> Any:
    if not isinstance(value, DistributedValues) or context.executing_eagerly():
        return value
    parts = local_values(value)
    if any(isinstance(p, Operation) for p in parts):
        return group_ops(*parts)
    if not isinstance(value, Mirrored):
        return value
    everything = group_ops(*parts)
    copies = []
    for p in parts:
        with device(device_of(p) or None), control_dependencies([everything]):
            copies.append(identity(p))
    return Mirrored(copies)
