"""Operation and Tensor, the nodes and edges of a graph.

An Operation is a node: an op type from the registry, input tensors, attributes, control inputs, a device, and the
user's frames where it was created. A Tensor is an edge: the n-th output of an Operation. Both are plain data; Graph
creates them (see `build.py`), Session runs them.
"""
from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from penstock._src.base.api import export
from penstock._src.base.errors import OperatorNotAllowedInGraphError
from penstock._src.base.static_shape import TensorShape, as_dims, merge
from penstock._src.graph import absent, context
from penstock._src.graph.arguments import input_types
from penstock._src.graph.graphdef import attr_from_message, func_message, is_attr_message, node_def, op_def_message
from penstock._src.graph.tensor_proto import make_tensor_proto
from penstock._src.kernels.devices.device_spec import device_text
from penstock._src.ops.signature import REQUIRED

if TYPE_CHECKING:
    from types import FrameType

    from penstock._src.graph.graph import Graph
    from penstock._src.ops.registry import OpDef

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep          # where this package is
_NOT_THE_USERS = (PACKAGE, PACKAGE.removesuffix(os.sep) + "_cli.py", "<frozen ")                # and what runs modules
_FRAMES = 12


def user_frames() -> tuple:
    """The innermost frames outside this package, as (code, instruction) pairs; decoded on demand."""
    frames: list[tuple] = []
    f: FrameType | None = sys._getframe(2)
    while f is not None and len(frames) < _FRAMES:
        code = f.f_code
        if not code.co_filename.startswith(_NOT_THE_USERS):
            frames.append((code, f.f_lasti))
        f = f.f_back
    return tuple(frames)


def decode_frames(frames: tuple) -> list[tuple[str, int, str, str]]:
    """(file, line, function, source text), outermost first."""
    import linecache
    out = []
    for code, lasti in reversed(frames):
        line = next((ln for start, end, ln in code.co_lines() if start <= lasti < end and ln), code.co_firstlineno)
        out.append((code.co_filename, line, code.co_name, linecache.getline(code.co_filename, line).strip()))
    return out


class _Equality:
    """Whether == compares elements, for libraries that query the class."""

    def __get__(self, instance: Any, owner: Any) -> bool:
        return context.process.tensor_equality


class TensorRef:
    """A hashable reference to a tensor, for use as a key (``tensor.ref()``)."""

    __slots__ = ("_tensor", "__weakref__")

    def __init__(self, tensor: Any):
        self._tensor = tensor

    def deref(self) -> Any:
        """The tensor."""
        return self._tensor

    def __hash__(self) -> int:
        return id(self._tensor)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, TensorRef) and other._tensor is self._tensor

    def __lt__(self, other: Any) -> bool:
        """An order, so that dictionaries with references as keys can be flattened."""
        return id(self._tensor) < id(other._tensor) if isinstance(other, TensorRef) else NotImplemented

    def __repr__(self) -> str:
        return f"<Reference wrapping {self._tensor!r}>"


class _Symbolic(type):
    """Distinguishes graph tensors from eager ones, which are a subclass of the same class."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and not hasattr(instance, "_value")


@export("__internal__.types.Tensor")
class TensorType:
    """The type of what counts as a tensor: tf.Tensor, and classes of libraries that convert themselves (`__tf_tensor__`)."""


@export("__internal__.SymbolicTensor")
class SymbolicTensor(TensorType, metaclass=_Symbolic):
    """The type of tensors in a graph: every tf.Tensor without a value."""


AnyOp = Any          # an Operation of the user's graph, or a node of a step (step/ir.py): shared code reads both
AnyTensor = Any      # a Tensor, or a value of a step


class Edge:
    """A result of a node: of an Operation of the user's graph (Tensor), or of a node of a step (step/ir.py)."""

    __slots__ = ()


def is_edge(value: Any) -> bool:
    """Whether a value is a Tensor, or a value of a step."""
    return isinstance(value, Edge)


@export("Tensor")
class Tensor(TensorType, Edge):
    """An output of an operation. Arithmetic, comparison and indexing build more operations.

    >>> x = tf.placeholder(tf.float32, [2, None])
    >>> (x[:, 0] * 2).shape
    TensorShape([Dimension(2)])
    """

    __array_priority__ = 100
    OVERLOADABLE_OPERATORS: set[str] = set()
    _USE_EQUALITY = _Equality()

    op: Operation                  # the operation that produces this tensor
    value_index: int               # which output of its operation this is
    dtype: Any                     # the DType of the elements
    static_dims: tuple | Any       # the static shape: None for what is unknown, a dimension or all of it

    def __init__(self, op: Operation, value_index: int, dtype: Any, dims: tuple | None = None):
        self.op, self.value_index, self.dtype = op, value_index, dtype
        self.static_dims = dims
        self._consumers: list = []

    graph = property(lambda self: self.op.graph, doc="The graph that holds this tensor.")
    name = property(lambda self: f"{self.op.name}:{self.value_index}", doc="Operation name and output index.")
    device = property(lambda self: self.op.device, doc="The device of the operation.")

    @property
    def shape(self) -> TensorShape:
        """The static shape, as far as it is known."""
        return TensorShape.of(self.static_dims)

    def get_shape(self) -> TensorShape:
        """Alias of `shape`."""
        return TensorShape.of(self.static_dims)

    @property
    def ndim(self) -> int | None:
        """The static rank."""
        return None if self.static_dims is None else len(self.static_dims)

    def set_shape(self, shape: Any) -> None:
        """Merges a shape into the static shape."""
        self.static_dims = merge(self.static_dims, as_dims(shape))

    def consumers(self) -> list[Operation]:
        """The operations that take this tensor as an input."""
        seen: dict[Operation, None] = {}
        for op in self._consumers:
            seen[op] = None
        return list(seen)

    def ref(self) -> TensorRef:
        """A hashable reference to this tensor."""
        return TensorRef(self)

    experimental_ref = ref
    __ref__ = ref

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Runs the graph up to this tensor in `session`, or in the default one."""
        return _session(session, self.graph, "eval").run(self, feed_dict)

    def _rank(self) -> int | None:
        return None if self.static_dims is None else len(self.static_dims)

    def _shape_as_list(self) -> list | None:
        return None if self.static_dims is None else list(self.static_dims)

    def __repr__(self) -> str:
        return f"<tf.Tensor '{self.name}' shape={self.shape} dtype={self.dtype.name}>"

    def __str__(self) -> str:
        shape = f", shape={self.shape}" if self.static_dims is not None else ", shape=<unknown>"
        device = f", device={self.device}" if self.device else ""
        return f'Tensor("{self.name}"{shape}, dtype={self.dtype.name}{device})'

    def __len__(self) -> int:
        raise TypeError(f"len is not well defined for a symbolic Tensor ({self.name}). Use x.shape[0] for the static "
                        "size, or tf.shape(x)[0].")

    def __bool__(self) -> bool:
        raise OperatorNotAllowedInGraphError(
            "Using a `tf.Tensor` as a Python `bool` is not allowed. Use `if t is not None:` instead of `if t:` to test if a "
            f"tensor is defined, and use tf.cond to choose by a tensor's value ({self.name}).")

    __nonzero__ = __bool__

    if TYPE_CHECKING:      # ops/operators.py sets the operators, ops/array/slicing.py the first of these
        def __getitem__(self, key: Any) -> Tensor: ...
        numpy: Any                 # for eager tensors, like the next
        _value: Any
        _by_reference: Any         # data of other modules
        _handle_dims: Any
        _handle_dtype: Any
        _keras_mask: Any
        _metric_obj: Any
        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __floordiv__(self, other: Any) -> Tensor: ...
        def __rfloordiv__(self, other: Any) -> Tensor: ...
        def __mod__(self, other: Any) -> Tensor: ...
        def __rmod__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __rpow__(self, other: Any) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __rmatmul__(self, other: Any) -> Tensor: ...
        def __and__(self, other: Any) -> Tensor: ...
        def __rand__(self, other: Any) -> Tensor: ...
        def __or__(self, other: Any) -> Tensor: ...
        def __ror__(self, other: Any) -> Tensor: ...
        def __xor__(self, other: Any) -> Tensor: ...
        def __rxor__(self, other: Any) -> Tensor: ...
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...

    def __iter__(self) -> Any:
        if not context.executing_eagerly() and not _iterable_in_graph(self):
            raise OperatorNotAllowedInGraphError(
                f"Iterating over a symbolic `tf.Tensor` is not allowed ({self.name}). Use tf.map_fn, or a loop that AutoGraph "
                "converts: decorate the function with @tf.function.")
        if self.static_dims is None:
            raise TypeError("Cannot iterate over a tensor with unknown shape.")
        if not self.static_dims:
            raise TypeError("Cannot iterate over a scalar tensor.")
        if self.static_dims[0] is None:
            raise OperatorNotAllowedInGraphError("Cannot iterate over a tensor with unknown first dimension.")
        return (self[i] for i in range(self.static_dims[0]))

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        kind = TypeError if hasattr(self, "_keras_history") else NotImplementedError
        raise kind(f"Cannot convert a symbolic Tensor ({self.name}) to a numpy array: it has no value yet. Use "
                   "functions of `tf` instead of numpy's, or run it in a session and use the result.")

    def __index__(self) -> int:
        raise TypeError(f"A symbolic tensor ({self.name}) cannot be used as an index.")

    def __float__(self) -> float:
        raise TypeError(f"A symbolic tensor ({self.name}) has no value that Python could use as a number: use tf.cast and "
                        "other functions of `tf`, or run it in a session.")

    def __int__(self) -> int:
        return int(self.__float__())

    def __hash__(self) -> int:
        if context.process.tensor_equality and context.process.eager and self.graph.building_function:
            raise TypeError("Tensor is unhashable. Instead, use tensor.ref() as the key.")
        return id(self)

    def __copy__(self) -> Tensor:
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        return new


absent.declare(Tensor)


def _iterable_in_graph(t: Tensor) -> bool:
    """In TensorFlow 2 behaviour a graph tensor of known length may be iterated, as in a traced function."""
    return getattr(t.graph, "building_function", False)


def _session(session: Any, graph: Any, what: str) -> Any:
    if session is None:
        session = context.get_default_session()
        if session is None:
            task = "execute operation" if what == "run" else "evaluate tensor"
            raise ValueError(f"Cannot {task} using `{what}()`: No default session is registered. Use "
                             f"`with sess.as_default()` or pass an explicit session to `{what}(session=sess)`")
        if session.graph is not graph:
            raise ValueError(f"Cannot use the default session to evaluate tensor: the tensor's graph is different "
                             f"from the session's graph. Pass an explicit session to `{what}(session=sess)`.")
    elif session.graph is not graph:
        raise ValueError("Cannot use the given session to evaluate tensor: the tensor's graph is different from the "
                         "session's graph.")
    return session


@export("Operation")
class Operation:
    """A node of a graph. Made by calling ops; `type` names the op, `inputs` and `outputs` are tensors."""

    _original_op: Any = None       # the op whose gradient this one belongs to
    _device_assignments: list = []             # the device scopes around it, innermost first, with their lines
    _colocation_dict: dict = {}                # name of an op that it is colocated with -> the line that requested it
    origin: Any = None            # in a step that is being compiled: the op of the user's graph that this one represents

    def __init__(self, graph: Graph, opdef: OpDef, name: str, inputs: list[Tensor], attrs: dict[str, Any],
                 output_types: list, counts: tuple):
        self.graph, self.opdef, self.name = graph, opdef, name
        self.inputs, self.attrs, self.counts = _Inputs(inputs), attrs, counts
        self._control_inputs: list[Operation] = []
        self._control_outputs: list[Operation] = []
        self.device: str = ""                     # the requested device; empty if there is none
        self._control_flow_context: Any = None
        self._original_op: Any = None
        self.number = 0
        self.frames: tuple = ()
        self._extra: dict[str, Any] = {}          # attributes outside of the declaration, such as _class
        made = graph.tensor_class
        self.outputs = [made(self, i, t) for i, t in enumerate(output_types)]
        for t in inputs:
            t._consumers.append(self)

    @property
    def type(self) -> str:
        """The op type, such as "MatMul"."""
        return self.opdef.name

    @property
    def _input_types(self) -> list:
        """The types with which the inputs are used: a reference only where the op takes one."""
        return input_types(self.opdef, self.attrs)

    @property
    def control_inputs(self) -> list[Operation]:
        """Operations that run before this one."""
        return list(self._control_inputs)

    @property
    def op_def(self) -> Any:
        """The OpDef message."""
        return op_def_message(self.opdef)

    @property
    def node_def(self) -> Any:
        """The NodeDef message."""
        return node_def(self)

    @property
    def traceback(self) -> list:
        """The user's stack where this op was created: (file, line, function, text), outermost first."""
        return decode_frames(self.frames)

    @property
    def made_at(self) -> str:
        """The user's line that made this op, as "file:line"; empty if unknown."""
        frames = self.traceback
        return f"{frames[-1][0]}:{frames[-1][1]}" if frames else ""

    @property
    def made_note(self) -> str:
        """`made_at` as it stands at the end of error messages."""
        at = self.made_at
        return f" (defined at {at})" if at else ""

    @property
    def traceback_with_start_lines(self) -> list:
        """Like `traceback`, with the first line of each function at the end."""
        starts = [code.co_firstlineno for code, _ in reversed(self.frames)]
        return [(*f, {}, s) for f, s in zip(self.traceback, starts, strict=True)]

    def values(self) -> tuple:
        """The outputs."""
        return tuple(self.outputs)

    def get_attr(self, name: str) -> Any:
        """The value of an attribute; ValueError if there is none of that name."""
        value = self.attrs[name] if name in self.attrs else self._extra.get(name, self)
        if value is self:
            raise ValueError(f"Operation '{self.name}' has no attr named '{name}'.")
        kind = self.opdef.attrs[name].kind if name in self.opdef.attrs else None
        return _public_attr(kind, value, self)

    def _set_attr(self, name: str, value: Any) -> None:
        """Sets an attribute from an AttrValue message or a plain value."""
        if is_attr_message(value):
            kind = self.opdef.attrs[name].kind if name in self.opdef.attrs else None
            value = attr_from_message(value, kind, self.graph)
        (self.attrs if name in self.opdef.attrs else self._extra)[name] = value
        self.graph._version_changed()

    _set_attr_with_buf = _set_attr

    def _clear_attr(self, name: str) -> None:
        """Sets an attribute to its default; one that the op does not declare is removed."""
        if name in self.opdef.attrs:
            if self.opdef.attrs[name].default is REQUIRED:
                raise ValueError(f"Attribute {name!r} of {self.type} has no default")
            self.attrs[name] = self.opdef.attrs[name].default
        else:
            self._extra.pop(name, None)
        self.graph._version_changed()

    def colocation_groups(self) -> list[bytes]:
        """The groups of ops that must share a device with this one."""
        groups = [_bytes(c) for c in self._extra.get("_class", [])]
        found = [c for c in groups if c.startswith(b"loc:@")]
        return found or [_bytes("loc:@" + self.name)]

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Runs this operation in `session`, or in the default one."""
        _session(session, self.graph, "run").run(self, feed_dict)

    # -- changes, for control flow construction and rewrites ------------------------------------------
    def _set_device(self, device: Any) -> None:
        self.device = device_text(device)
        self.graph._version_changed()

    _set_device_from_string = _set_device

    def _add_control_inputs(self, ops: Any) -> None:
        for op in ops:
            self._add_control_input(op)

    def _add_control_input(self, op: Operation) -> None:
        op = op.op if isinstance(op, Tensor) else op
        if not isinstance(op, Operation):
            raise TypeError(f"op must be an Operation: {op}")
        if op.graph is not self.graph:
            raise ValueError(f"{op.name} must be from the same graph as {self.name}.")
        if op not in self._control_inputs:
            self._control_inputs.append(op)
            op._control_outputs.append(self)
            self.graph._version_changed()

    def _remove_all_control_inputs(self) -> None:
        for op in self._control_inputs:
            op._control_outputs.remove(self)
        self._control_inputs = []
        self.graph._version_changed()

    def _update_input(self, index: int, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"tensor must be a Tensor: {tensor}")
        if tensor.graph is not self.graph:
            raise ValueError(f"{tensor} must be from the same graph as {self.name}.")
        old = self.inputs[index]
        if old.dtype.base_dtype != tensor.dtype.base_dtype:
            raise TypeError(f"Cannot convert from {tensor.dtype.name} to {old.dtype.name} as input {index} of "
                            f"{self.name}")
        old._consumers.remove(self)
        self.inputs = _Inputs((*self.inputs[:index], tensor, *self.inputs[index + 1:]))
        tensor._consumers.append(self)
        self.graph._version_changed()

    def set_inputs(self, inputs: Iterable[Tensor]) -> None:
        """Replaces the inputs of the op."""
        for t in self.inputs:
            t._consumers.remove(self)
        self.inputs = _Inputs(inputs)
        for t in self.inputs:
            t._consumers.append(self)
        self.graph._version_changed()

    def _add_input(self, tensor: Tensor) -> None:
        """Appends an input to a variadic op (Merge of a loop, for example)."""
        self.inputs = _Inputs((*self.inputs, tensor))
        tensor._consumers.append(self)
        self.graph._version_changed()

    def _get_control_flow_context(self) -> Any:
        return self._control_flow_context

    def _set_control_flow_context(self, ctx: Any) -> None:
        self._control_flow_context = ctx

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type={self.type}>"

    def __str__(self) -> str:
        return str(self.node_def)


class _Inputs(tuple):
    """A tuple of inputs that compares by identity of its elements."""

    __slots__ = ()

    def __eq__(self, other: Any) -> bool:
        return len(self) == len(other) and all(a is b for a, b in zip(self, other, strict=True))

    def __ne__(self, other: Any) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


def _bytes(s: Any) -> bytes:
    return s.encode() if isinstance(s, str) else s


def _public_attr(kind: str | None, value: Any, op: Operation) -> Any:
    """Attributes as TensorFlow's get_attr returns them: bytes for strings, messages for shapes and tensors."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, TensorShape):
        return value.as_proto()
    if kind == "tensor":
        return make_tensor_proto(value, dtype=op.attrs.get("dtype"))
    if kind == "func" or (kind is None and type(value).__name__ == "NameAttrList"):
        return func_message(value)
    if isinstance(value, (list, tuple)):
        return [_public_attr(None, v, op) for v in value]
    return value
