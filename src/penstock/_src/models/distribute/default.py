"""The default strategy, which is current if no other was entered. It has one replica."""
from __future__ import annotations

from typing import Any

from penstock._src.base import nest
from penstock._src.graph import context
from penstock._src.graph.scopes import colocate_with, variable_creator_scope
from penstock._src.graph.strategies import Frame, entered
from penstock._src.models.distribute import contexts
from penstock._src.models.distribute.datasets import PlainIterator
from penstock._src.models.distribute.extended import StrategyExtendedV1
from penstock._src.models.distribute.replica import ReplicaContext
from penstock._src.models.distribute.strategy import StrategyV1


class DefaultStrategy(StrategyV1):
    """One replica: variables, datasets and functions are as without a strategy."""

    _is_default = True

    def __init__(self) -> None:
        super().__init__(DefaultExtended(self))


class _DefaultScope:
    """The scope of the default strategy: everything stays as it is, but no other strategy may make variables inside."""

    def __init__(self, strategy: Any):
        self._strategy = strategy
        self._opened: list[Any] = []

    def __enter__(self) -> Any:
        found = contexts.frame()
        if found is not contexts.default_frame() and found.strategy is not self._strategy:
            raise contexts.wrong_strategy(self._strategy, found)

        def check(next_creator: Any, **kwargs: Any) -> Any:
            contexts.require_scope(self._strategy)
            return next_creator(**kwargs)
        scope = variable_creator_scope(check)
        scope.__enter__()
        self._opened.append(scope)
        return self._strategy

    def __exit__(self, *exc: Any) -> None:
        self._opened.pop().__exit__(*exc)


class DefaultExtended(StrategyExtendedV1):
    """The implementation of the default strategy."""

    worker_devices = property(lambda self: ("/device:CPU:0",), doc="The only one.")
    parameter_devices = property(lambda self: ("/device:CPU:0",), doc="The only one.")
    _num_replicas_in_sync = property(lambda self: 1)

    def _scope(self, strategy: Any) -> Any:
        return _DefaultScope(strategy)

    def _create_variable(self, next_creator: Any, **kwargs: Any) -> Any:
        return next_creator(**kwargs)

    def colocate_vars_with(self, colocate_with_variable: Any) -> Any:
        """As tf.colocate_with."""
        contexts.require_scope(self._container_strategy())
        return colocate_with(colocate_with_variable)

    def variable_created_in_scope(self, v: Any) -> bool:
        """Whether a variable was created under no strategy."""
        return v._distribute_strategy is None

    def _call_for_each_replica(self, fn: Any, args: Any, kwargs: Any) -> Any:
        with ReplicaContext(self._container_strategy(), 0):
            return fn(*args, **kwargs)

    def _reduce_to(self, reduce_op: Any, value: Any, destinations: Any) -> Any:
        return value

    def _reduce(self, reduce_op: Any, value: Any) -> Any:
        return value

    def _gather_to(self, value: Any, axis: int) -> Any:
        return value

    def _broadcast_to(self, tensor: Any, destinations: Any) -> Any:
        return tensor

    def _update(self, var: Any, fn: Any, args: tuple, kwargs: dict, group: bool) -> Any:
        return self._update_non_slot(var, fn, (var, *args), kwargs, group)

    def _update_non_slot(self, colocate_with: Any, fn: Any, args: tuple, kwargs: dict, group: bool) -> Any:
        with entered(Frame(self._container_strategy(), copy=0)):
            result = fn(*args, **kwargs)
        return result if group else nest.map_structure(self._local_results, result)

    def read_var(self, v: Any) -> Any:
        """The value of a variable."""
        return v.read_value()

    def _local_results(self, value: Any) -> tuple:
        return (value,)

    def _experimental_distribute_dataset(self, dataset: Any) -> Any:
        return dataset

    def _experimental_distribute_datasets_from_function(self, dataset_fn: Any) -> Any:
        return dataset_fn(self._input_context())

    def _make_dataset_iterator(self, dataset: Any) -> Any:
        return PlainIterator(dataset)

    def _make_input_fn_iterator(self, input_fn: Any, replication_mode: Any = None) -> Any:
        return PlainIterator(input_fn(self._input_context()))


class _DefaultReplicaContext(ReplicaContext):
    """The only replica of the default strategy, on the device that the program chooses."""

    @property
    def devices(self) -> tuple:
        """The device that is open; empty text where none is."""
        return (context.state.device or "",)


_strategy = DefaultStrategy()
contexts.install_default(Frame(_strategy, _DefaultReplicaContext(_strategy, 0)))
