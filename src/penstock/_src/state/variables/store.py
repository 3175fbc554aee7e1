"""The variables of get_variable by name: one store per graph.

`VariableStore.get` returns the variable of a name or creates it, whole or in parts, depending on `reuse`. Scopes (names,
defaults, getters) are in `scope.py`.
"""
from __future__ import annotations

import contextlib
import enum
import inspect
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape, as_shape
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import colocate_with, init_scope, name_scope
from penstock._src.ops.registry import get
from penstock._src.state.variables import initializers
from penstock._src.state.variables.partitioned import PartitionedVariable, PartitionInfo, call_partitioner, slices_of
from penstock._src.state.variables.policy import VariableAggregation, VariableSynchronization, validated
from penstock._src.state.variables.resource import ResourceVariable
from penstock._src.state.variables.variable import SaveSliceInfo, VariableV1


class ReuseMode(enum.Enum):
    """What to do if a variable of that name exists."""

    AUTO_REUSE = 1


AUTO_REUSE = ReuseMode.AUTO_REUSE
export.value(AUTO_REUSE, v1=["AUTO_REUSE"])

_ADVICE = "Did you mean to set reuse=True or reuse=tf.AUTO_REUSE in VarScope?"


def owner_graph() -> Any:
    """The graph whose store is used: functions under construction use that of the outer graph, unless they have one."""
    graph = context.current_graph()
    while graph.building_function and not getattr(graph, "own_collections", False):
        outer = getattr(graph, "around", None)
        if outer is None:
            return context.default_graph()
        graph = outer
    return graph


class VariableStore:
    """Variables by full name, whole ones and partitioned ones."""

    def __init__(self) -> None:
        self._vars: dict[str, Any] = {}
        self._partitioned_vars: dict[str, PartitionedVariable] = {}
        self._store_eager_variables = False

    def get(self, name: str, custom_getter: Any = None, **settings: Any) -> Any:
        """The variable `name`, by way of the custom getter if any."""
        if custom_getter is not None and not callable(custom_getter):
            raise ValueError(f"Passed a custom_getter which is not callable: {custom_getter}")
        with init_scope():
            if context.executing_eagerly():
                settings["use_resource"] = True
        if context.executing_eagerly():
            if settings["reuse"] and not self._store_eager_variables:
                raise RuntimeError("When eager execution is enabled variable reuse is only supported when an "
                                   "EagerVariableStore is active. See the documentation on EagerVariableStore for "
                                   "example usage.")
            if self._store_eager_variables:
                settings["reuse"] = AUTO_REUSE
        settings["dtype"] = getattr(settings["dtype"], "base_dtype", settings["dtype"])
        settings["synchronization"], settings["aggregation"], settings["trainable"] = validated(
            settings["synchronization"], settings["aggregation"], settings["trainable"], name)
        if custom_getter is None:
            return self._true_getter(name, **settings)
        if not _accepts(custom_getter, "constraint"):
            settings.pop("constraint")
        return custom_getter(getter=self._true_getter, name=name, **settings)

    def _true_getter(self, name: str, shape: Any = None, dtype: Any = dtypes.float32, initializer: Any = None,
                     regularizer: Any = None, reuse: Any = None, trainable: Any = None, collections: Any = None,
                     caching_device: Any = None, partitioner: Any = None, validate_shape: bool = True,
                     use_resource: Any = None, constraint: Any = None,
                     synchronization: Any = VariableSynchronization.AUTO,
                     aggregation: Any = VariableAggregation.NONE) -> Any:
        """The `getter` argument of custom getters: returns or creates the variable."""
        settings = dict(locals())
        del settings["self"], settings["partitioner"]
        scalar = isinstance(shape, Sequence) and not shape
        if partitioner is not None and not scalar:
            if not callable(partitioner):
                raise ValueError(f"Partitioner must be callable, but received: {partitioner}")
            with name_scope(None):
                return self.get_partitioned(partitioner=partitioner, **settings)
        if reuse is True and partitioner is None and name in self._partitioned_vars:
            return self.get_partitioned(partitioner=None, **settings)
        if f"{name}/part_0" in self._vars:
            raise ValueError("No partitioner was provided, but a partitioned version of the variable was found: "
                             f"{name}/part_0. Perhaps a variable of the same name was already created with "
                             "partitioning?")
        return self._single(**settings)

    # -- whole variables ----------------------------------------------------------------------------------------------
    def _single(self, name: str, shape: Any, dtype: Any, initializer: Any, regularizer: Any, reuse: Any,
                partition_info: Any = None, use_resource: Any = None, **settings: Any) -> Any:
        if shape is not None and initializer is not None and not callable(initializer):
            raise ValueError("If initializer is a constant, do not specify shape.")
        dtype, shape = dtypes.as_dtype(dtype), as_shape(shape)
        if name in self._vars:
            return self._existing(name, shape, dtype, reuse)
        if reuse is True:
            raise ValueError(f"Variable {name} does not exist, or was not created with tf.get_variable(). Did you mean "
                             "to set reuse=tf.AUTO_REUSE in VarScope?")
        if initializer is None:
            if not shape.is_fully_defined():
                raise ValueError(f"Variable {name} did not get an initializer, so its `shape` argument must be specified.")
            initializer = default_initializer(name, dtype)
        with init_scope():
            initial_value, variable_dtype = _initial_value(initializer, shape, dtype, partition_info)
        if use_resource is None:
            use_resource = context.process.resource_variables
        made = VariableV1(initial_value=initial_value, name=name, dtype=variable_dtype, use_resource=use_resource,
                          **settings)
        self._keep(name, made, settings)
        if regularizer:
            self._regularize(name, made, regularizer)
        return made

    def _existing(self, name: str, shape: TensorShape, dtype: Any, reuse: Any) -> Any:
        found = self._vars[name]
        if reuse is False:
            text = f"Variable {name} already exists, disallowed. {_ADVICE}"
            if hasattr(found, "handle"):
                raise ValueError(text)
            where = "".join(traceback.format_list(found.op.traceback[::-1][:5]))
            raise ValueError(f"{text} Originally defined at:\n\n{where}")
        if not shape.is_compatible_with(found.shape):
            raise ValueError(f"Trying to share variable {name}, but specified shape {shape} and found shape "
                             f"{found.shape}.")
        if not dtype.is_compatible_with(found.dtype):
            raise ValueError(f"Trying to share variable {name}, but specified dtype {dtype.name} and found dtype "
                             f"{found.dtype.name}.")
        return found

    def _keep(self, name: str, made: Any, settings: dict[str, Any]) -> None:
        """Remembers a new variable; eager ones only when a store requests it, since that keeps them alive."""
        if context.executing_eagerly():
            if not self._store_eager_variables:
                return
            graph = context.current_graph()
            graph.add_to_collections(settings["collections"] or [GraphKeys.GLOBAL_VARIABLES], made)
            if settings["trainable"]:
                graph.add_to_collection(GraphKeys.TRAINABLE_VARIABLES, made)
        self._vars[name] = made

    def _regularize(self, name: str, made: Any, regularizer: Any) -> None:
        with colocate_with(made), name_scope(name + "/Regularizer/"), init_scope():
            loss = regularizer(made)
        if loss is not None:
            context.current_graph().add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)

    # -- variables in parts -------------------------------------------------------------------------------------------
    def get_partitioned(self, name: str, partitioner: Any, shape: Any = None, dtype: Any = dtypes.float32,
                        initializer: Any = None, reuse: Any = None, **settings: Any) -> PartitionedVariable:
        """The partitioned variable `name`, made by `partitioner` when it does not exist."""
        dtype = dtypes.as_dtype(dtype)
        if name in self._vars:
            raise ValueError("A partitioner was provided, but an unpartitioned version of the variable was found: "
                             f"{name}.  Perhaps a variable of the same name was already created without partitioning?")
        shape = as_shape(shape)
        if isinstance(initializer, Tensor):
            shape = shape.merge_with(initializer.shape)
        partitions = call_partitioner(partitioner, shape, dtype) if not reuse or partitioner else None
        if name in self._partitioned_vars:
            return self._existing_partitioned(name, shape, dtype, reuse, partitions)
        if reuse is True:
            raise ValueError(f"PartitionedVariable {name} does not exist, or was not created with tf.get_variable(). "
                             "Did you mean to set reuse=False or reuse=tf.AUTO_REUSE in VarScope?")
        axis, count = next(((i, n) for i, n in enumerate(partitions) if n > 1), (0, 1))  # type: ignore[arg-type]
        self._check_parts(name, count)
        parts = [self._part(f"{name}/part_{i}", name, offset, part_shape, shape, dtype=dtype, initializer=initializer,
                            reuse=reuse, **settings)
                 for i, (offset, part_shape) in enumerate(slices_of(shape.as_list(), count, axis))]
        made = PartitionedVariable(name, shape, dtype, parts, partitions)
        if not context.executing_eagerly() or self._store_eager_variables:
            self._partitioned_vars[name] = made
        return made

    def _existing_partitioned(self, name: str, shape: TensorShape, dtype: Any, reuse: Any,
                              partitions: Any) -> PartitionedVariable:
        if reuse is False:
            raise ValueError(f"Partitioned variable with name {name} already exists. {_ADVICE}")
        found = self._partitioned_vars[name]
        for what, wanted, there, same in (
                ("shape", shape, found.get_shape(), shape.is_compatible_with(found.get_shape())),
                ("dtype", dtype.name, found.dtype.name, dtype.is_compatible_with(found.dtype)),
                ("partitions", partitions, found._get_partitions(),
                 partitions is None or list(partitions) == list(found._get_partitions()))):
            if not same:
                raise ValueError(f"Trying to reuse partitioned variable {name}, but specified {what} {wanted} and "
                                 f"found {what} {there}.")
        return found

    def _check_parts(self, name: str, count: int) -> None:
        if f"{name}/part_0" not in self._vars:
            return
        text = (f"Partitioner returned a different partitioning than what was already found.  Partitioner returned "
                f"{count} shards, and shard {name}/part_0 was found, but ")
        if f"{name}/part_{count - 1}" not in self._vars:
            raise ValueError(f"{text}{name}/part_{count - 1} was not.")
        if f"{name}/part_{count}" in self._vars:
            raise ValueError(f"{text}so was the extra shard {name}/part_{count}.")

    def _part(self, name: str, full_name: str, offset: list[int], part_shape: list[int], shape: TensorShape,
              dtype: Any, initializer: Any, **settings: Any) -> Any:
        info = PartitionInfo(full_shape=list(shape.static_dims), var_offset=offset)
        wanted: Any = part_shape
        with name_scope(name + "/PartitionedInitializer"):
            if initializer is None:
                initializer = default_initializer(full_name, dtype)
            elif not callable(initializer):
                whole = initializer if isinstance(initializer, Tensor) else convert(initializer, dtype)
                initializer, wanted, dtype = get("Slice")(whole, offset, part_shape), None, whole.dtype.base_dtype
        with name_scope(None):
            part = self._single(name=name, shape=wanted, dtype=dtype, initializer=initializer, partition_info=info,
                                **settings)
        part._set_save_slice_info(SaveSliceInfo(full_name, shape.as_list(), offset, part_shape))
        return part


def _accepts(function: Any, name: str) -> bool:
    """Whether a function has a parameter of this name. Initializers of Keras check what they get as `**kwargs`."""
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return True


def _initial_value(initializer: Any, shape: TensorShape, dtype: Any, partition_info: Any) -> tuple[Any, Any]:
    """The arguments of tf.Variable: a value or a function without arguments, and the dtype."""
    if not callable(initializer):
        return initializer, None
    if inspect.isclass(initializer):
        initializer = initializer()
    if shape.is_fully_defined():
        extra = {"partition_info": partition_info} if _accepts(initializer, "partition_info") else {}
        return lambda: initializer(shape.as_list(), dtype=dtype, **extra), dtype.base_dtype
    required = [p for p in inspect.signature(initializer).parameters.values()
                if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if required:
        raise ValueError("The initializer passed is not valid. It should be a callable with no arguments and the shape "
                         "should not be provided or an instance of `tf.keras.initializers.*' and `shape` should be "
                         "fully defined.")
    return initializer, None


def default_initializer(name: str, dtype: Any) -> Any:
    """Glorot's for floats, zeros for the other types that have a zero."""
    if dtype.is_floating:
        return initializers.GlorotUniform()
    if dtype.is_integer or dtype.is_unsigned or dtype.is_bool or dtype == dtypes.string:
        return initializers.Zeros()
    raise ValueError(f"An initializer for variable {name} of {dtype.base_dtype} is required")


def current_store() -> VariableStore:
    """The store of the graph that is being built."""
    return owner_graph().caches.setdefault("variable_store", VariableStore())


@contextlib.contextmanager
def with_store(store: VariableStore) -> Iterator[None]:
    """Uses another store for a block."""
    caches = owner_graph().caches
    old = current_store()
    caches["variable_store"] = store
    try:
        yield
    finally:
        caches["variable_store"] = old


class EagerVariableStore:
    """Stores the variables that get_variable creates in eager mode, so that they are found by name."""

    def __init__(self, store: VariableStore | None = None):
        if store is not None and not store._store_eager_variables:
            raise ValueError("Cannot construct EagerVariableStore from a VariableStore object that does not hold eager "
                             "variables.")
        self._store = store or VariableStore()
        self._store._store_eager_variables = True

    def as_default(self) -> Any:
        """A context manager in which get_variable uses this store."""
        return with_store(self._store)

    def variables(self) -> list:
        """All variables, by name."""
        return sorted(self._store._vars.values(), key=lambda v: v.name)

    def trainable_variables(self) -> list:
        """The trainable ones, by name."""
        return [v for v in self.variables() if v.trainable]

    def non_trainable_variables(self) -> list:
        """The others, by name."""
        return [v for v in self.variables() if not v.trainable]

    def copy(self) -> EagerVariableStore:
        """A store with copies of the variables."""
        new = EagerVariableStore()
        for key, v in self._store._vars.items():
            new._store._vars[key] = ResourceVariable(v.read_value(), name=v.name.split(":")[0], trainable=v.trainable)
        return new
