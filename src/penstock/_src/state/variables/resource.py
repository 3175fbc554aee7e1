"""ResourceVariable: a variable behind a handle. Every read is an op, so its place among updates is well defined.

In graph mode the handle is the output of a VarHandleOp and finds its value in the session. In eager mode the variable owns its
value, which is freed with the Python object.
"""
from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.static_shape import TensorShape
from penstock._src.eager import placement
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.convert import convert
from penstock._src.graph.eager_tensor import EagerTensor
from penstock._src.graph.engine import engine
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.recording import variable_accessed, variable_written
from penstock._src.graph.scopes import colocate_with, control_dependencies, device, init_scope, name_scope
from penstock._src.ops.core import identity
from penstock._src.ops.registry import get
from penstock._src.ops.state.state import VariableResource
from penstock._src.state.variables.functions import batch_scatter_update
from penstock._src.state.variables.guard import guarded
from penstock._src.state.variables.policy import validated
from penstock._src.state.variables.reference import add_row_updates, check_outside_control_flow, checked_collections
from penstock._src.state.variables.variable import VariableV1, sparse_parts

_uid = itertools.count()


@contextlib.contextmanager
def _handle_graph(handle: Any) -> Iterator[None]:
    """Builds in the graph of a handle, when another graph is the default one."""
    if hasattr(handle, "_value") or context.executing_eagerly() or context.current_graph().building_function:
        yield
        return
    with handle.graph.as_default():
        yield


def eager_handle(name: str, dtype: Any, dims: tuple | None) -> Any:
    """A handle that owns its variable, which cannot be looked up by name."""
    made = None
    if engine.elsewhere is not None:
        attrs = {"container": "", "shared_name": name, "dtype": dtype, "shape": TensorShape.of(dims)}
        made = engine.elsewhere(get("VarHandleOp"), [], attrs, ())
    handle = made[0] if made else EagerTensor(VariableResource(name, dtype, dims), dtypes.resource)
    if not made and placement.needed():
        handle._on = placement.choose(get("VarHandleOp"), {"dtype": dtype}, [])
    _describe(handle, dtype, dims)
    return handle


def _describe(handle: Any, dtype: Any, dims: tuple | None) -> None:
    """Stores on a handle the properties of its variable that shape rules and gradients need."""
    handle._handle_dtype, handle._handle_dims = dtype, dims


class BaseResourceVariable(VariableV1):
    """The methods of a variable with a handle."""

    _handle: Any
    _dtype: Any
    static_dims: tuple | None
    _unique_id: str
    _initial_value: Any = None
    _initializer_op: Any = None
    _graph_element: Any = None
    _cached_value: Any = None
    _is_initialized_op: Any = None
    _in_graph_mode = True
    _caching_device: Any = None

    # -- parts --------------------------------------------------------------------------------------------------------
    handle = property(lambda self: self._handle, doc="The handle that ops take.")
    dtype = property(lambda self: self._dtype, doc="The DType of the elements.")
    shape = property(lambda self: TensorShape.of(self.static_dims), doc="The static shape.")
    op = property(lambda self: self._handle.op, doc="The operation that creates the handle.")
    graph = property(lambda self: self._handle.graph, doc="The graph of the variable.")
    device = property(lambda self: self._handle.device, doc="The device of the variable.")
    create = property(lambda self: self.initializer, doc="The operation that initializes it.")

    @property
    def initializer(self) -> Any:
        """The operation that initializes the variable."""
        return self._initializer_op

    @property
    def initial_value(self) -> Any:
        """The tensor that the variable is initialized from (graph mode only)."""
        if context.executing_eagerly():
            raise RuntimeError("initial_value not supported in EAGER mode.")
        return self._initial_value

    def set_shape(self, shape: Any) -> None:
        """Merges what is known about the shape."""
        self.static_dims = self.shape.merge_with(shape).static_dims
        self._handle._handle_dims = self.static_dims

    def _as_graph_element(self) -> Any:
        return self._graph_element

    def _initial_value_tensor(self) -> Any:
        return self._initial_value

    def _proto_name(self) -> str:
        return self.handle.name

    def _fill_proto(self, made: Any, strip: Any) -> None:
        made.variable_name = strip(self.handle.name)
        made.initializer_name = strip(self.initializer.name)
        made.snapshot_name = strip((self._cached_value if self._cached_value is not None else self._graph_element).name)
        made.is_resource = True

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The VariableDef message; None if the variable is not in `export_scope`."""
        if context.executing_eagerly():
            raise RuntimeError("to_proto not supported in EAGER mode.")
        return super().to_proto(export_scope)

    # -- reading ------------------------------------------------------------------------------------------------------
    def _note_write(self) -> None:
        """Notifies functions that are being traced of an update."""
        if context.state.tapes:
            variable_written(self)

    def _read_variable_op(self) -> Any:
        if context.state.tapes:
            variable_accessed(self)
        return get("ReadVariableOp")(self._handle, dtype=self._dtype)

    def value(self) -> Any:
        """The value, read at this point."""
        if self._cached_value is not None:
            return self._cached_value
        if context.executing_eagerly():
            return self._read_variable_op()
        with colocate_with(None, ignore_existing=True), device(self._handle_device()):
            return self._read_variable_op()

    def _handle_device(self) -> str | None:
        return None if hasattr(self._handle, "_value") else self._handle.device

    def read_value(self) -> Any:
        """The value, read at this point: after the open control dependencies."""
        with name_scope("Read"):
            if context.executing_eagerly():
                return self._read_variable_op()
            with device(self._handle_device()):
                value = self._read_variable_op()
        return identity(value)

    def is_initialized(self, name: str | None = None) -> Any:
        """Whether the variable has a value, as a tensor."""
        return get("VarIsInitializedOp")(self.handle, name=name)

    def sparse_read(self, indices: Any, name: str | None = None) -> Any:
        """Rows of the value: reads only those."""
        with name_scope(name or "Gather") as scope:
            if context.state.tapes:
                variable_accessed(self)
            return identity(get("ResourceGather")(self._handle, indices, dtype=self._dtype, name=scope))

    def gather_nd(self, indices: Any, name: str | None = None) -> Any:
        """Single elements or slices of the value."""
        with name_scope(name or "GatherNd") as scope:
            if context.state.tapes:
                variable_accessed(self)
            return identity(get("ResourceGatherNd")(self._handle, indices, dtype=self._dtype, name=scope))

    def numpy(self) -> Any:
        """The value as a numpy array (eager mode only)."""
        if context.executing_eagerly():
            return self.read_value().numpy()
        raise NotImplementedError("numpy() is only available when eager execution is enabled.")

    def eval(self, session: Any = None) -> Any:
        """The value in `session`, or in the default one."""
        if context.executing_eagerly():
            raise RuntimeError("Trying to eval in EAGER mode")
        return self._graph_element.eval(session=session)

    def _dense_var_to_tensor(self, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
        if dtype is not None and not dtype.is_compatible_with(self._dtype):
            raise ValueError(f"Incompatible type conversion requested to type {dtype.name!r} for variable of type "
                             f"{self.dtype.name!r}")
        return self.value()

    # -- changes ------------------------------------------------------------------------------------------------------
    def _lazy_read(self, op: Any) -> Any:
        """The variable as it is after `op`; read only if it is used."""
        self._note_write()
        if op is None:
            return _EagerUpdate(self) if type(self) is ResourceVariable else self
        return _UnreadVariable(self, op)

    def _updated(self, op: Any) -> Any:
        """`_lazy_read` for functions whose result programs take the operation of: in eager execution that is None."""
        read = self._lazy_read(op)
        return _EagerUpdate(self) if read is self else read

    def _checked(self, value: Any) -> Any:
        t = convert(value, self._dtype)
        if not self.shape.is_compatible_with(t.shape):
            raise ValueError(f"Cannot assign value to variable '{self.name}': Shape mismatch. The variable shape {self.shape}, "
                             f"and the assigned value shape {t.shape} are incompatible: shapes must be equal.")
        return t

    def _update(self, op_name: str, value: Any, name: str | None, read_value: bool) -> Any:
        with _handle_graph(self.handle), self._assign_dependencies():
            done = get(op_name)(self.handle, self._checked(value), dtype=self._dtype, name=name)
        if not read_value:
            self._note_write()
        return self._lazy_read(done) if read_value else done

    def _assign_dependencies(self) -> Any:
        return contextlib.nullcontext()

    def assign(self, value: Any, use_locking: bool | None = None, name: str | None = None,
               read_value: bool = True) -> Any:
        """Sets the value."""
        return self._update("AssignVariableOp", value, name, read_value)

    def assign_add(self, delta: Any, use_locking: bool | None = None, name: str | None = None,
                   read_value: bool = True) -> Any:
        """Adds `delta`."""
        return self._update("AssignAddVariableOp", delta, name, read_value)

    def assign_sub(self, delta: Any, use_locking: bool | None = None, name: str | None = None,
                   read_value: bool = True) -> Any:
        """Subtracts `delta`."""
        return self._update("AssignSubVariableOp", delta, name, read_value)

    def count_up_to(self, limit: int) -> Any:
        """Increments until `limit` is reached, and returns the previous value; then raises OutOfRangeError."""
        return get("ResourceCountUpTo")(self.handle, limit=limit, T=self._dtype)

    def _scatter(self, op_name: str, delta: Any, use_locking: bool, name: str | None) -> Any:
        indices, values = sparse_parts(delta)
        return self._lazy_read(get(op_name)(self.handle, indices, convert(values, self._dtype), name=name))

    def batch_scatter_update(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Sets rows, batch by batch."""
        indices, values = sparse_parts(sparse_delta)
        return batch_scatter_update(self, indices, values, use_locking=use_locking, name=name)

    def scatter_nd_sub(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Subtracts from single elements or slices."""
        return self._scatter_nd("ResourceScatterNdSub", indices, updates, name)

    def scatter_nd_add(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Adds to single elements or slices."""
        return self._scatter_nd("ResourceScatterNdAdd", indices, updates, name)

    def scatter_nd_update(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Sets single elements or slices."""
        return self._scatter_nd("ResourceScatterNdUpdate", indices, updates, name)

    def _scatter_nd(self, op_name: str, indices: Any, updates: Any, name: str | None) -> Any:
        return self._lazy_read(get(op_name)(self.handle, indices, convert(updates, self._dtype), name=name))

    def _strided_slice_assign(self, value: Any, name: str | None, **parts: Any) -> Any:
        with _handle_graph(self.handle), self._assign_dependencies():
            done = get("ResourceStridedSliceAssign")(self.handle, value=convert(value, self._dtype), name=name, **parts)
        return self._lazy_read(done)

    # -- Python -------------------------------------------------------------------------------------------------------
    def __bool__(self) -> bool:
        return bool(self.read_value())

    __nonzero__ = __bool__

    def __int__(self) -> int:
        return int(self.value().numpy())

    def __float__(self) -> float:
        return float(self.value().numpy())

    def __complex__(self) -> complex:
        return complex(self.value().numpy())

    def __index__(self) -> int:
        return self.value().numpy().__index__()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.value().__array__(dtype)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict) -> Any:
        if not context.executing_eagerly():
            raise NotImplementedError("__deepcopy__() is only available when eager execution is enabled.")
        copied = ResourceVariable(self.read_value(), trainable=self._trainable, constraint=self._constraint,
                                  dtype=self._dtype, name=self._shared_name, synchronization=self.synchronization,
                                  aggregation=self.aggregation)
        memo[id(self)] = copied
        return copied

    def __reduce__(self) -> Any:
        return (_rebuild, (self.numpy(), self._trainable, self._shared_name, self._dtype))

    def __repr__(self) -> str:
        if context.executing_eagerly() and not self._in_graph_mode:
            value = self._handle._value.value
            shown = "<uninitialized>" if value is None else self.read_value()._show(repr)
            return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}, numpy={shown}>"
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}>"


add_row_updates(BaseResourceVariable, "ResourceScatter")


def _rebuild(value: Any, trainable: bool, name: str, dtype: Any) -> Any:
    return ResourceVariable(value, trainable=trainable, name=name, dtype=dtype)


class ResourceVariable(BaseResourceVariable):
    """A variable behind a handle; created by tf.Variable in eager mode, or when resource variables are requested."""

    def __init__(self, initial_value: Any = None, trainable: bool | None = None, collections: Any = None,
                 validate_shape: bool = True, caching_device: Any = None, name: str | None = None, dtype: Any = None,
                 variable_def: Any = None, import_scope: Any = None, constraint: Any = None,
                 synchronization: Any = None, aggregation: Any = None, shape: Any = None):
        if variable_def is not None:
            if initial_value is not None:
                raise ValueError("variable_def and initial_value are mutually exclusive.")
            if context.executing_eagerly():
                raise ValueError("Creating ResourceVariable from variable_def is not supported when eager execution is "
                                 "enabled.")
            self._init_from_proto(variable_def, import_scope)
            return
        if initial_value is None:
            raise ValueError("initial_value must be specified.")
        if isinstance(initial_value, Tensor) and not hasattr(initial_value, "_value") and \
                getattr(initial_value.graph, "building_function", False):
            raise ValueError(f"Tensor-typed variable initializers must either be wrapped in an init_scope or callable "
                             f"(e.g., `tf.Variable(lambda : tf.truncated_normal([10, 40]))`) when building functions. "
                             f"Please file a feature request if this restriction inconveniences you. ({initial_value})")
        if constraint is not None and not callable(constraint):
            raise ValueError("The `constraint` argument must be a callable.")
        self._constraint = constraint
        self._synchronization, self._aggregation, self._trainable = validated(synchronization, aggregation, trainable,
                                                                              name or "Variable")
        collections = checked_collections(collections, self._trainable)
        with init_scope():
            self._in_graph_mode = not context.executing_eagerly()
            self._graph_key = context.current_graph()
            self._build(initial_value, caching_device, name, dtype, shape)
            if self._in_graph_mode:
                context.current_graph().add_to_collections(collections, self)
            elif GraphKeys.GLOBAL_STEP in collections:
                context.current_graph().add_to_collection(GraphKeys.GLOBAL_STEP, self)

    def _build(self, initial_value: Any, caching_device: Any, name: str | None, dtype: Any, shape: Any) -> None:
        deferred = callable(initial_value)
        with name_scope(name, "Variable", [] if deferred else [initial_value]) as scope:
            own = scope[:-1] if scope else "Variable"
            value = self._initial(initial_value, own, dtype, deferred)
            if shape is not None and not TensorShape(shape).is_compatible_with(value.shape):
                raise ValueError(f"The initial value of variable {own} has shape {value.shape}, which is not compatible with "
                                 f"the argument `shape`, {TensorShape(shape)}.")
            self.static_dims = TensorShape(shape).static_dims if shape is not None else value.shape.static_dims
            self._dtype = value.dtype.base_dtype
            self._name = own + ":0"
            if not self._in_graph_mode:
                self._unique_id = f"{own}_{next(_uid)}"
                self._handle = eager_handle(own, self._dtype, self.static_dims)
                get("AssignVariableOp")(self._handle, value)
                return
            self._unique_id = own
            self._initial_value = value
            self._handle = get("VarHandleOp")(shape=TensorShape.of(self.static_dims), dtype=self._dtype, shared_name=own,
                                              name=scope)
            _describe(self._handle, self._dtype, self.static_dims)
            self._build_ops(value, caching_device)

    def _initial(self, initial_value: Any, own: str, dtype: Any, deferred: bool) -> Any:
        with contextlib.ExitStack() as stack:
            if self._in_graph_mode and deferred:
                stack.enter_context(context.current_graph()._attr_scope({"_class": [f"loc:@{own}"]}))
            stack.enter_context(name_scope("Initializer"))
            if deferred and self._in_graph_mode:
                stack.enter_context(device(None))
            value = convert(initial_value() if deferred else initial_value, dtype, "initial_value")
        if self._in_graph_mode and not deferred:
            check_outside_control_flow(value, own)
        return value

    def _build_ops(self, value: Any, caching_device: Any) -> None:
        """The ops of a variable in a graph: check, initialize, read."""
        with name_scope("IsInitialized"):
            self._is_initialized_op = get("VarIsInitializedOp")(self._handle)
        with name_scope("Assign") as scope, colocate_with(None, ignore_existing=True), device(self._handle_device()):
            self._initializer_op = get("AssignVariableOp")(self._handle, guarded(value), name=scope)
        with name_scope("Read"):
            with device(self._handle_device()):
                self._graph_element = get("ReadVariableOp")(self._handle, dtype=self._dtype)
            if caching_device is not None:
                with device(caching_device):
                    self._cached_value = identity(self._graph_element)
        self._caching_device = caching_device

    def _init_from_proto(self, variable_def: Any, import_scope: Any) -> None:
        if not variable_def.is_resource:
            raise ValueError("Trying to restore Variable as ResourceVariable.")
        element = self._from_proto(variable_def, import_scope)
        self._handle = element(variable_def.variable_name)
        attrs = self._handle.op.attrs
        if "dtype" not in attrs or "shape" not in attrs:
            raise ValueError(f"{variable_def.variable_name} is not the handle of a variable: {self._handle.op.type} made it.")
        self._dtype, self.static_dims = attrs["dtype"], attrs["shape"].static_dims
        _describe(self._handle, self._dtype, self.static_dims)
        self._name = self._handle.name
        self._unique_id = self._shared_name
        self._initializer_op = element(variable_def.initializer_name, operation=True)
        self._initial_value = element(variable_def.initial_value_name) if variable_def.initial_value_name else None
        if variable_def.snapshot_name:
            snapshot = element(variable_def.snapshot_name)
            if snapshot.op.type != "ReadVariableOp":
                self._cached_value = snapshot
            while snapshot.op.type != "ReadVariableOp":
                if not snapshot.op.inputs:
                    raise ValueError(f"{variable_def.snapshot_name} is not a value of variable {variable_def.variable_name}.")
                snapshot = snapshot.op.inputs[0]
            self._graph_element = snapshot
        else:
            self._graph_element = get("ReadVariableOp")(self._handle, dtype=self._dtype)


class _UnreadVariable(BaseResourceVariable):
    """A resource variable as it is after an update; the read happens when the value is used."""

    def __init__(self, variable: Any, parent_op: Operation):
        self._handle, self._parent_op = variable._handle, parent_op
        self._dtype, self.static_dims = variable.dtype, variable.static_dims
        self._trainable, self._constraint = variable._trainable, variable._constraint
        self._synchronization, self._aggregation = variable._synchronization, variable._aggregation
        self._in_graph_mode, self._unique_id = True, variable._unique_id
        self._initializer_op, self._initial_value = variable._initializer_op, variable._initial_value
        self._save_slice_info = variable._save_slice_info
        self._variable_name = variable.name
        if not parent_op.graph.building_function:   # there is nothing to fetch there
            self._graph_element = self.read_value()

    name = property(lambda self: self._parent_op.name, doc="The name of the update.")
    _shared_name = property(lambda self: self._variable_name[:-2], doc="The name of the variable.")
    op = property(lambda self: self._parent_op, doc="The update.")

    def _note_write(self) -> None:
        """Does nothing: the variable is already tracked."""

    def value(self) -> Any:
        """The value after the update."""
        with control_dependencies([self._parent_op]):
            return super().value()

    def read_value(self) -> Any:
        """The value after the update."""
        with control_dependencies([self._parent_op]):
            return super().read_value()

    def _assign_dependencies(self) -> Any:
        return control_dependencies([self._parent_op])


class _EagerUpdate(ResourceVariable):
    """An eager variable as the result of an update, which has no operation."""

    def __init__(self, variable: Any):
        self.__dict__ = variable.__dict__

    op = property(lambda self: None, doc="None: eager updates have no operation.")

    def __repr__(self) -> str:
        return super().__repr__().replace(repr(self.name), "'UnreadVariable'", 1)
