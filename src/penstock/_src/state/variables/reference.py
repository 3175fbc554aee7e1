"""RefVariable: TensorFlow 1's variable, an op whose output is a reference to a value."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import colocate_with, device, init_scope, name_scope
from penstock._src.ops.control.control_flow import _cond
from penstock._src.ops.core import identity
from penstock._src.ops.registry import get
from penstock._src.state.variables.functions import batch_scatter_update
from penstock._src.state.variables.guard import guarded
from penstock._src.state.variables.policy import VariableAggregation, VariableSynchronization, validated
from penstock._src.state.variables.variable import VariableV1, sparse_parts


def checked_collections(collections: Any, trainable: bool) -> list:
    """The collections to add a variable to: the global one by default, and that of trainable ones."""
    if collections is None:
        collections = [GraphKeys.GLOBAL_VARIABLES]
    if not isinstance(collections, (list, tuple, set)):
        raise ValueError("collections argument to Variable constructor must be a list, tuple, or set. Got "
                         f"{collections} of type {type(collections)}")
    if trainable and GraphKeys.TRAINABLE_VARIABLES not in collections:
        return [*collections, GraphKeys.TRAINABLE_VARIABLES]
    return list(collections)


def check_outside_control_flow(initial_value: Any, name: str) -> None:
    """Raises ValueError for an initial value that exists only inside a loop or conditional."""
    if not hasattr(initial_value, "_value") and initial_value.op._get_control_flow_context() is not None:
        raise ValueError(f"Initializer for variable {name} is from inside a control-flow construct, such as a loop or "
                         "conditional. When creating a variable inside a loop or conditional, use a lambda as the "
                         "initializer.")


class RefVariable(VariableV1):
    """A reference variable; created by tf.Variable unless resource variables are requested."""

    def __init__(self, initial_value: Any = None, trainable: bool | None = None, collections: Any = None,
                 validate_shape: bool = True, caching_device: Any = None, name: str | None = None,
                 variable_def: Any = None, dtype: Any = None, expected_shape: Any = None, import_scope: Any = None,
                 constraint: Any = None, synchronization: Any = VariableSynchronization.AUTO,
                 aggregation: Any = VariableAggregation.NONE, shape: Any = None):
        if variable_def is not None:
            if initial_value is not None:
                raise ValueError("variable_def and initial_value are mutually exclusive.")
            self._init_from_proto(variable_def, import_scope)
            return
        if initial_value is None:
            raise ValueError("initial_value must be specified.")
        if constraint is not None and not callable(constraint):
            raise ValueError("The `constraint` argument must be a callable.")
        self._constraint = constraint
        self._synchronization, self._aggregation, self._trainable = validated(synchronization, aggregation, trainable,
                                                                              name or "Variable")
        with init_scope():
            self._build(initial_value, checked_collections(collections, self._trainable), validate_shape,
                        caching_device, name, dtype, shape)

    def _build(self, initial_value: Any, collections: list, validate_shape: bool, caching_device: Any,
               name: str | None, dtype: Any, shape: Any) -> None:
        deferred = callable(initial_value)
        with name_scope(name, "Variable", [] if deferred else [initial_value]) as scope:
            value = self._initial(initial_value, scope, dtype, deferred)
            self._initial_value: Any = value
            known = TensorShape(shape) if shape is not None else value.shape if validate_shape else TensorShape(None)
            base = value.dtype.base_dtype if dtype is None else dtypes.as_dtype(dtype).base_dtype
            self._variable = get("VariableV2")(shape=known, dtype=base, name=scope)
            self._name = self._variable.name
            if validate_shape and shape is None and not value.shape.is_fully_defined():
                raise ValueError(f"initial_value must have a shape specified: {value}")
            self._initializer_op = get("Assign")(self._variable, guarded(value), validate_shape=validate_shape).op
            self._snapshot = self._read(caching_device)
            self._caching_device = caching_device
        context.current_graph().add_to_collections(collections, self)

    def _initial(self, initial_value: Any, scope: str, dtype: Any, deferred: bool) -> Tensor:
        if not deferred:
            value = convert(initial_value, dtype, "initial_value")
            check_outside_control_flow(value, scope[:-1])
            return value
        graph = context.current_graph()
        with graph._attr_scope({"_class": [f"loc:@{scope[:-1]}"]}), name_scope("Initializer"), device(None):
            return convert(initial_value(), dtype, "initial_value")

    def _read(self, caching_device: Any) -> Tensor:
        if caching_device is not None:
            with device(caching_device):
                return identity(self._variable, name="read")
        with colocate_with(self._variable.op):
            return identity(self._variable, name="read")

    def _init_from_proto(self, variable_def: Any, import_scope: Any) -> None:
        element = self._from_proto(variable_def, import_scope)
        self._variable = element(variable_def.variable_name)
        self._name = self._variable.name
        self._initializer_op = element(variable_def.initializer_name, operation=True)
        self._initial_value = element(variable_def.initial_value_name) if variable_def.initial_value_name else None
        self._snapshot = element(variable_def.snapshot_name)
        self._caching_device = None

    def _fill_proto(self, made: Any, strip: Any) -> None:
        made.variable_name = strip(self._variable.name)
        made.initializer_name = strip(self._initializer_op.name)
        made.snapshot_name = strip(self._snapshot.name)

    def _initial_value_tensor(self) -> Any:
        return self._initial_value

    # -- parts --------------------------------------------------------------------------------------------------------
    dtype = property(lambda self: self._variable.dtype, doc="The DType, of reference kind.")
    shape = property(lambda self: self._variable.shape, doc="The static shape.")
    op = property(lambda self: self._variable.op, doc="The operation that creates the reference.")
    graph = property(lambda self: self._variable.graph, doc="The graph of the variable.")
    device = property(lambda self: self._variable.device, doc="The device of the variable.")
    initializer = property(lambda self: self._initializer_op, doc="The operation that initializes it.")
    initial_value = property(lambda self: self._initial_value, doc="The tensor that it is initialized from.")

    def _as_graph_element(self) -> Tensor:
        return self._variable

    def _ref(self) -> Tensor:
        """The reference itself, for ops that change the variable."""
        return self._variable

    def _dense_var_to_tensor(self, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
        if dtype is not None and not dtype.is_compatible_with(self.dtype):
            raise ValueError(f"Incompatible type conversion requested to type '{dtype.name}' for variable of type "
                             f"'{self.dtype.name}'")
        return self._ref() if as_ref else self.value()

    def value(self) -> Tensor:
        """The value as a tensor (an Identity of the reference, made with the variable)."""
        return self._snapshot

    def read_value(self) -> Tensor:
        """The value, read at this point: after the open control dependencies."""
        return identity(self._variable, name="read")

    def _cond(self, pred: Any, true_fn: Any, false_fn: Any) -> Any:
        """Always by Switch and Merge: the body of a function would take the value, not the reference."""
        with name_scope("cond"):
            return _cond(pred, true_fn, false_fn, False)

    def set_shape(self, shape: Any) -> None:
        """Merges what is known about the shape."""
        self._ref().set_shape(shape)
        self.value().set_shape(shape)

    # -- changes ------------------------------------------------------------------------------------------------------
    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        """Sets the value."""
        done = get("Assign")(self._variable, value, use_locking=use_locking, name=name)
        return done if read_value else done.op

    def assign_add(self, delta: Any, use_locking: bool = False, name: str | None = None,
                   read_value: bool = True) -> Any:
        """Adds `delta`."""
        done = get("AssignAdd")(self._variable, delta, use_locking=use_locking, name=name)
        return done if read_value else done.op

    def assign_sub(self, delta: Any, use_locking: bool = False, name: str | None = None,
                   read_value: bool = True) -> Any:
        """Subtracts `delta`."""
        done = get("AssignSub")(self._variable, delta, use_locking=use_locking, name=name)
        return done if read_value else done.op

    def count_up_to(self, limit: int) -> Any:
        """Increments until `limit` is reached, and returns the previous value; then raises OutOfRangeError."""
        return get("CountUpTo")(self._variable, limit=limit)

    def _scatter(self, op_name: str, delta: Any, use_locking: bool, name: str | None) -> Any:
        indices, values = sparse_parts(delta)
        return get(op_name)(self._variable, indices, values, use_locking=use_locking, name=name)

    def batch_scatter_update(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Sets rows, batch by batch."""
        indices, values = sparse_parts(sparse_delta)
        return batch_scatter_update(self, indices, values, use_locking=use_locking, name=name)

    def scatter_nd_sub(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Subtracts from single elements or slices."""
        return get("ScatterNdSub")(self._variable, indices, updates, use_locking=True, name=name)

    def scatter_nd_add(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Adds to single elements or slices."""
        return get("ScatterNdAdd")(self._variable, indices, updates, use_locking=True, name=name)

    def scatter_nd_update(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Sets single elements or slices."""
        return get("ScatterNdUpdate")(self._variable, indices, updates, use_locking=True, name=name)

    def sparse_read(self, indices: Any, name: str | None = None) -> Any:
        """Rows of the value."""
        return get("GatherV2")(self, indices, 0, name=name)

    def gather_nd(self, indices: Any, name: str | None = None) -> Any:
        """Single elements or slices of the value."""
        return get("GatherNd")(self, indices, name=name)

    def _strided_slice_assign(self, value: Any, name: str | None, **parts: Any) -> Any:
        return get("StridedSliceAssign")(self._variable, value=value, name=name, **parts)

    def __repr__(self) -> str:
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}>"


_ROW_UPDATES = {
    "sub": "Subtracts IndexedSlices from rows.", "add": "Adds IndexedSlices to rows.",
    "max": "Takes the maximum of rows and IndexedSlices.", "min": "Takes the minimum of rows and IndexedSlices.",
    "mul": "Multiplies rows by IndexedSlices.", "div": "Divides rows by IndexedSlices.",
    "update": "Sets rows to IndexedSlices.",
}


def add_row_updates(cls: type, prefix: str) -> None:
    """Adds the methods scatter_sub, scatter_add … to a class of variables; `prefix` begins the names of their ops."""
    for kind, words in _ROW_UPDATES.items():
        setattr(cls, f"scatter_{kind}", _scatter_method(kind, words, f"{prefix}{kind.capitalize()}"))


def _scatter_method(kind: str, words: str, op_name: str) -> Any:
    def scatter(self: Any, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        return self._scatter(op_name, sparse_delta, use_locking, name)
    scatter.__name__, scatter.__doc__ = f"scatter_{kind}", words
    return scatter


add_row_updates(RefVariable, "Scatter")
