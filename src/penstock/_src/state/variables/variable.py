"""Variable: the public class, and the base of reference and resource variables.

`tf.Variable(...)` calls the open creators (`variable_creator_scope`), the last of which creates a `RefVariable` or a
`ResourceVariable`.
"""
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.base.tracebacks import shorten
from penstock._src.graph import context
from penstock._src.graph.context import get_default_session
from penstock._src.graph.convert import register_tensor_conversion_function
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.node import Tensor, TensorRef
from penstock._src.graph.scopes import init_scope, prepend_name_scope, strip_name_scope
from penstock._src.graph.strategies import with_creators
from penstock._src.graph.trackable import VARIABLE_VALUE_KEY, Trackable
from penstock._src.ops.array.slicing import slice_helper
from penstock._src.ops.control.control_flow import cond
from penstock._src.state.variables.interface import VariableInterface
from penstock._src.state.variables.policy import VariableAggregation, VariableSynchronization


# -- creators ---------------------------------------------------------------------------------------------------------
def _chain(creator: Callable, following: Callable) -> Callable:
    return lambda **kwargs: creator(following, **kwargs)


def create(kwargs: dict[str, Any], default: Callable) -> Any:
    """A variable created by the open creators, innermost first, and finally by `default`."""
    make = default
    if context.state.strategies or context.process.strategy:
        make = with_creators(default)
    for creator in context.creating_graph()._stacks.variable_creators:
        make = _chain(creator, make)
    return make(**kwargs)


class VariableMeta(type):
    """Makes tf.Variable(...) go through the creators."""

    _last_creator: Callable                 # chooses the kind of variable (creators.py)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is not VariableV1 and cls is not Variable:
            return super().__call__(*args, **kwargs)
        try:
            given = (_v1_arguments if cls is VariableV1 else _v2_arguments)(*args, **kwargs)
            return create(given, cls._last_creator)
        except Exception as e:
            shorten(e)
            raise


def _v1_arguments(initial_value: Any = None, trainable: bool | None = None, collections: Any = None,
                  validate_shape: bool = True, caching_device: Any = None, name: str | None = None,
                  variable_def: Any = None, dtype: Any = None, expected_shape: Any = None, import_scope: Any = None,
                  constraint: Any = None, use_resource: bool | None = None,
                  synchronization: Any = VariableSynchronization.AUTO,
                  aggregation: Any = VariableAggregation.NONE, shape: Any = None,
                  experimental_enable_variable_lifting: bool | None = None) -> dict[str, Any]:
    given = dict(locals())
    del given["experimental_enable_variable_lifting"]      # variables of a first trace are always lifted out of it
    return given


def _v2_arguments(initial_value: Any = None, trainable: bool | None = None, validate_shape: bool = True,
                  caching_device: Any = None, name: str | None = None, variable_def: Any = None, dtype: Any = None,
                  import_scope: Any = None, constraint: Any = None,
                  synchronization: Any = VariableSynchronization.AUTO,
                  aggregation: Any = VariableAggregation.NONE, shape: Any = None,
                  experimental_enable_variable_lifting: bool | None = None,
                  per_worker_variable: bool = False) -> dict[str, Any]:
    given = dict(locals())
    del given["experimental_enable_variable_lifting"]      # variables of a first trace are always lifted out of it
    if not given.pop("per_worker_variable"):
        return given
    return {**given, "per_worker_variable": True}          # one copy, unless a strategy has several workers


# -- the class --------------------------------------------------------------------------------------------------------
@export(v2=["Variable"])
class Variable(VariableInterface, Trackable, metaclass=VariableMeta):
    """State that outlives a step: a tensor that ops can change.

    >>> v = tf.Variable([1.0, 2.0])
    >>> v.assign_add([1.0, 1.0]).numpy()
    array([2., 3.], dtype=float32)
    """

    if TYPE_CHECKING:      # the metaclass chooses the class, which has the constructor
        def __init__(self, initial_value: Any = None, *args: Any, **kwargs: Any): ...
        handle: Any
        _dense_var_to_tensor: Any
        _fill_proto: Any
        _initial_value_tensor: Any
        _initializer_op: Any
        _sum_when_read: Any

    __array_priority__ = 100
    _is_tensor_like = True
    _name: str
    _trainable: bool
    _save_slice_info: Any = None
    _synchronization: Any = VariableSynchronization.AUTO
    _aggregation: Any = VariableAggregation.NONE
    _constraint: Any = None
    _distribute_strategy: Any = None
    _distributed_container: Any               # only a copy has it: a reference to the variable that it belongs to
    _own_saveable = False                      # distributed variables define how they are saved and written

    # attributes of both kinds
    trainable = property(lambda self: self._trainable, doc="Whether optimizers change it by default.")
    synchronization = property(lambda self: self._synchronization, doc="When copies are synchronized.")
    aggregation = property(lambda self: self._aggregation, doc="How updates of copies are aggregated.")
    constraint = property(lambda self: self._constraint, doc="The function that projects the value after an update.")
    name = property(lambda self: self._name, doc="The name, with output index.")
    _shared_name = property(lambda self: self.name[:self.name.index(":")], doc="The name of the resource.")

    def get_shape(self) -> TensorShape:
        """Alias of `shape`."""
        return self.shape

    def _shape_as_list(self) -> list | None:
        return None if self.shape.rank is None else self.shape.as_list()

    def ref(self) -> TensorRef:
        """A hashable reference to this variable."""
        return TensorRef(self)

    experimental_ref = ref

    def eval(self, session: Any = None) -> Any:
        """The value in `session`, or in the default one."""
        return self.value().eval(session=session)

    def initialized_value(self) -> Any:
        """The value if it is initialized, else the initial value: for initializing other variables from this one."""
        from penstock._src.state.variables.collections import is_variable_initialized
        with init_scope():
            if context.executing_eagerly():
                return self.read_value()
            return self._cond(is_variable_initialized(self), self.read_value, lambda: self.initial_value)

    def _cond(self, pred: Any, true_fn: Callable, false_fn: Callable) -> Any:
        return cond(pred, true_fn, false_fn)

    def load(self, value: Any, session: Any = None) -> None:
        """Sets the value in a session (or at once in eager mode) without adding to the graph."""
        if context.executing_eagerly():
            self.assign(value)
            return
        session = session or get_default_session()
        if session is None:
            raise ValueError("Either session argument should be provided or default session should be established")
        session.run(self.initializer, {self.initializer.inputs[1]: value})

    # -- messages -----------------------------------------------------------------------------------------------------
    def to_proto(self, export_scope: str | None = None) -> Any:
        """The VariableDef message; None if the variable is not in `export_scope`."""
        from tensorboard.compat.proto.variable_pb2 import VariableDef
        if export_scope is not None and not self._proto_name().startswith(export_scope):
            return None
        made = VariableDef()
        if self._initial_value_tensor() is not None:
            made.initial_value_name = strip_name_scope(self._initial_value_tensor().name, export_scope)
        made.trainable = self.trainable
        made.synchronization = self.synchronization.value
        made.aggregation = self.aggregation.value
        self._fill_proto(made, lambda name: strip_name_scope(name, export_scope))
        if self._save_slice_info is not None:
            made.save_slice_info_def.MergeFrom(self._save_slice_info.to_proto(export_scope=export_scope))
        return made

    @staticmethod
    def from_proto(variable_def: Any, import_scope: str | None = None) -> Any:
        """The variable that a VariableDef names, in the default graph."""
        return VariableV1(variable_def=variable_def, import_scope=import_scope, use_resource=variable_def.is_resource)

    def _from_proto(self, variable_def: Any, import_scope: str | None) -> Callable[..., Any]:
        """Restores the attributes of both kinds from the message; returns a function from names to graph elements.

        They are tensors; with `operation`, they may also be operations.
        """
        graph = context.current_graph()

        def element(name: str, operation: bool = False) -> Any:
            return graph.as_graph_element(prepend_name_scope(name, import_scope), allow_operation=operation)
        self._synchronization = VariableSynchronization(variable_def.synchronization)
        self._aggregation = VariableAggregation(variable_def.aggregation)
        self._trainable = variable_def.trainable
        if variable_def.HasField("save_slice_info_def"):
            self._save_slice_info = SaveSliceInfo(save_slice_info_def=variable_def.save_slice_info_def,
                                                  import_scope=import_scope)
        return element

    def _proto_name(self) -> str:
        return self.name

    def _set_save_slice_info(self, info: Any) -> None:
        self._save_slice_info = info

    def _get_save_slice_info(self) -> Any:
        return self._save_slice_info

    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        return {VARIABLE_VALUE_KEY: self}

    def _serialize_to_tensors(self) -> dict[str, Any]:
        return {VARIABLE_VALUE_KEY: self.read_value()}

    def _restore_from_tensors(self, restored_tensors: dict[str, Any]) -> Any:
        return self.assign(restored_tensors[VARIABLE_VALUE_KEY])

    # -- as a value ---------------------------------------------------------------------------------------------------
    def __iter__(self) -> Any:
        if not context.executing_eagerly() and not context.current_graph().building_function:
            raise TypeError("'Variable' object is not iterable.")
        return iter(self.value())

    def __getitem__(self, key: Any) -> Any:
        return slice_helper(self.value(), key, var=self)

    def __eq__(self, other: Any) -> Any:
        if context.process.tensor_equality and context.eager_outside_functions():
            return Tensor.__eq__(self.value(), other)
        return self is other

    def __ne__(self, other: Any) -> Any:
        if context.process.tensor_equality and context.eager_outside_functions():
            return Tensor.__ne__(self.value(), other)
        return self is not other

    def __hash__(self) -> int:
        if context.process.tensor_equality and context.eager_outside_functions():
            raise TypeError("Variable is unhashable. Instead, use variable.ref() as the key.")
        return id(self)


@export(v1=["Variable"])
class VariableV1(Variable):
    """State that outlives a step: a tensor that ops can change (v1 form, with collections).

    Args:
        initial_value: Value, or a function without arguments that returns it. Its shape and type become the variable's.
        trainable: Whether the variables are added to the collection of trainable variables.
        collections: Graph collections to add the variable to, instead of the global variables.
        validate_shape: If False, the variable may have a shape that is not known.
        caching_device: Device that keeps a copy for readers.
        name: Name of the variable; made unique within its graph.
        variable_def: `VariableDef` to restore the variable from.
        dtype: Element type, by default that of the initial value.
        expected_shape: Unused.
        import_scope: Prefix of the names, when the variable comes from a MetaGraphDef.
        constraint: Function applied to the variable after each update.
        use_resource: True for a resource variable, False for a reference variable, None for the default of the scope.
        synchronization: When replicas synchronize the variable, under `tf.distribute`.
        aggregation: How replicas combine their updates, under `tf.distribute`.
        shape: Static shape, if it should be less exact than that of the initial value.
        experimental_enable_variable_lifting: Accepted for compatibility and unused.

    Raises:
        ValueError: if there is no initial value, or it has no static shape while `validate_shape` is True.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     v = tf.Variable([1., 2.], name="v")
    ...     sess.run(tf.global_variables_initializer())
    ...     print(sess.run(v.assign_add([1., 1.])))
    [2. 3.]
    """


Variable.__signature__ = inspect.signature(_v2_arguments)  # type: ignore[attr-defined]
VariableV1.__signature__ = inspect.signature(_v1_arguments)  # type: ignore[attr-defined]


def _operator(name: str) -> Callable:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(Tensor, name)(self.value(), *args, **kwargs)
    return functools.wraps(getattr(Tensor, name))(call) if hasattr(Tensor, name) else call


def _overload_all(cls: type) -> None:
    """Gives a class of variables the operators of tensors; libraries call it for theirs."""
    for name in ("add", "radd", "sub", "rsub", "mul", "rmul", "div", "rdiv", "truediv", "rtruediv", "floordiv",
                 "rfloordiv", "mod", "rmod", "lt", "le", "gt", "ge", "and", "rand", "or", "ror", "xor", "rxor", "invert",
                 "pow", "rpow", "matmul", "rmatmul", "neg", "abs"):
        setattr(cls, f"__{name}__", _operator(f"__{name}__"))


_overload_all(Variable)
Variable._OverloadAllOperators = classmethod(_overload_all)  # type: ignore[attr-defined]


def sparse_parts(delta: Any) -> tuple[Any, Any]:
    """Indices and values of an update; TypeError unless it is IndexedSlices."""
    if not isinstance(delta, IndexedSlices):
        raise TypeError(f"sparse_delta is not IndexedSlices: {delta}")
    return delta.indices, delta.values


# -- slices of partitioned variables ----------------------------------------------------------------------------------
class SaveSliceInfo:
    """Which part of a larger, partitioned variable a variable holds; checkpoints store the whole."""

    def __init__(self, full_name: str | None = None, full_shape: Any = None, var_offset: Any = None,
                 var_shape: Any = None, save_slice_info_def: Any = None, import_scope: str | None = None):
        if save_slice_info_def is not None:
            d = save_slice_info_def
            self.full_name: str | None = prepend_name_scope(d.full_name, import_scope)
            self.full_shape, self.var_offset, self.var_shape = list(d.full_shape), list(d.var_offset), list(d.var_shape)
        else:
            self.full_name, self.full_shape = full_name, full_shape
            self.var_offset, self.var_shape = var_offset, var_shape

    @property
    def spec(self) -> str:
        """Full shape and extent as text: "10 20 0,5:0,20"."""
        full = " ".join(f"{d}" for d in self.full_shape)
        parts = ":".join(f"{o},{s}" for o, s in zip(self.var_offset, self.var_shape, strict=True))
        return f"{full} {parts}"

    @classmethod
    def from_spec(cls, spec: str) -> SaveSliceInfo:
        """The part that such a text describes, without a name."""
        *full, parts = spec.split(" ")
        if not full:
            raise ValueError(f"Spec string must contain space-separated full_shape info: {spec!r}")
        try:
            full_shape = [int(d) for d in full]
        except ValueError:
            raise ValueError(f"Spec string full_shape must be a sequence of integers: {spec!r}") from None
        offsets: list[int] = []
        sizes: list[int] = []
        for part in parts.split(":"):
            pair = part.split(",")
            if len(pair) != 2:
                raise ValueError(f"Spec string must contain comma-separated pairs of offsets and shapes: {spec!r}")
            for text, found, what in zip(pair, (offsets, sizes), ("var_offset", "var_shape"), strict=True):
                if not text.lstrip("-").isdigit():
                    raise ValueError(f"Spec string {what} must be an integer: {spec!r}")
                found.append(int(text))
        return cls(full_shape=full_shape, var_offset=offsets, var_shape=sizes)

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The SaveSliceInfoDef message."""
        from tensorboard.compat.proto.variable_pb2 import SaveSliceInfoDef
        full_name = self.full_name or ""
        if export_scope is not None and not full_name.startswith(export_scope):
            return None
        return SaveSliceInfoDef(full_name=strip_name_scope(full_name, export_scope), full_shape=self.full_shape,
                                var_offset=self.var_offset, var_shape=self.var_shape)


Variable.SaveSliceInfo = SaveSliceInfo  # type: ignore[attr-defined]


def _variable_to_tensor(value: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    """The value of a variable, for conversions; subclasses of libraries register their own."""
    read = getattr(value, "_dense_var_to_tensor", None)
    return NotImplemented if read is None else read(dtype=dtype, name=name, as_ref=as_ref)


register_tensor_conversion_function(Variable, _variable_to_tensor)
