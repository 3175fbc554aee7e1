"""Calling an op: inputs are converted, types and attributes computed, and the op is added or executed.

`apply` is the one entry point: every op function calls it. `resolve` turns the caller's arguments into flat tensors
and a full set of attributes; graph construction then runs the shape rule and adds the node, and eager execution runs
the kernel (`eager.execute`).
"""
from __future__ import annotations

import collections
import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from penstock._src.base import dtypes, errors
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.arguments import MAX_ARGS as MAX_ARGS
from penstock._src.graph.arguments import group_inputs as group_inputs
from penstock._src.graph.arguments import input_types as input_types
from penstock._src.graph.arguments import output_types as output_types
from penstock._src.graph.constant import constant_dims, constant_value
from penstock._src.graph.convert import convert, dtypes_in
from penstock._src.graph.engine import engine
from penstock._src.graph.graphdef import attr_from_message, is_attr_message
from penstock._src.graph.node import AnyOp, Operation, Tensor
from penstock._src.graph.recording import record
from penstock._src.graph.scopes import VALID_OP_NAME, graph_from
from penstock._src.ops.registry import OpDef, get
from penstock._src.ops.signature import REQUIRED, Arg, Attr


def apply(opdef: OpDef, args: tuple, attrs: dict[str, Any], name: str | None) -> Any:
    """Adds the op to the default graph, or executes it."""
    if context.process.watch is not None and not context.state.watching:
        return _watched(opdef, args, attrs, name)
    if context.executing_eagerly():
        return engine.execute(opdef, args, attrs, name)
    graph = context.current_graph()
    if not graph.building_function:
        for a in args:
            if isinstance(a, (list, tuple)) or isinstance(a, Tensor) and not hasattr(a, "_value") and a.op.graph is not graph:
                graph = graph_from(args)
                break
    elif (other := _symbolic_graph(graph, args)) is not None:
        graph, name = other, name[:-1] if name and name[-1] == "/" else name
    if graph is not context.current_graph():
        with graph.as_default():
            op = build(graph, opdef, args, attrs, name)
    else:
        op = build(graph, opdef, args, attrs, name)
    return results(op)


def _symbolic_graph(graph: Any, args: Any) -> Any:
    """The graph of a symbolic tensor among the arguments (see Graph.symbolic), unless it is around the function `graph`."""
    for a in args:
        kind = type(a)
        if kind is Tensor:
            continue
        if kind in (list, tuple):
            if (found := _symbolic_graph(graph, a)) is not None:
                return found
        elif isinstance(a, Tensor) and not hasattr(a, "_value"):
            other = a.op.graph
            if other is not graph and other.symbolic and not _is_around(other, graph):
                return other
    return None


def _is_around(outer: Any, graph: Any) -> bool:
    while graph is not None and graph is not outer:
        graph = getattr(graph, "around", None)
    return graph is outer


def _watched(opdef: OpDef, args: tuple, attrs: dict[str, Any], name: str | None) -> Any:
    """`apply`, with the results going through the process's watch; ops that the watch calls are not watched."""
    context.state.watching = True
    try:
        return context.process.watch(opdef.name, args, apply(opdef, args, attrs, name))
    finally:
        context.state.watching = False


def build(graph: Any, opdef: OpDef, args: tuple, attrs: dict[str, Any], name: str | None) -> Operation:
    """Adds the op to `graph` and returns the Operation."""
    if graph._finalized:
        graph._check_not_finalized()
    if isinstance(name, bytes):
        name = name.decode()
    if not name:
        full = graph.unique_name(opdef.name)
    elif name[-1] == "/":
        full = name[:-1]
    else:
        if not VALID_OP_NAME.match(name) and not (graph._stacks.name and name):
            raise ValueError(f"'{name}' is not a valid scope name")
        full = graph.unique_name(name)
    stacks = graph._stacks
    outer, stacks.name = stacks.name, full
    try:
        inputs, full_attrs, counts = resolve(opdef, args, attrs, _graph_converter(graph))
    finally:
        stacks.name = outer
    for n in opdef.function_attrs:
        _add_functions(graph, full_attrs[n])
    with _beside_references(graph, opdef, inputs) if opdef.has_ref_inputs else _NOTHING:
        op = graph.add(opdef, full, inputs, full_attrs, output_types(opdef, full_attrs), counts, infer=infer_shapes)
    if context.state.tapes:
        record(op, op.inputs, op.outputs)
    return op


_NOTHING = contextlib.nullcontext()


def _add_functions(graph: Any, value: Any) -> None:
    """Puts the functions that an attribute holds as objects into the library of the graph."""
    for f in value if isinstance(value, (list, tuple)) else (value,):
        if hasattr(f, "add_to_graph"):
            f.add_to_graph(graph)


@contextlib.contextmanager
def _beside_references(graph: Any, opdef: OpDef, inputs: list) -> Iterator[None]:
    """An op with reference inputs is colocated with them."""
    with contextlib.ExitStack() as stack:
        for arg, t in zip(opdef.inputs, inputs, strict=False):
            if arg.is_ref and opdef.plain:
                if not t.dtype._is_ref_dtype:
                    raise TypeError(f"'{opdef.name}' Op requires that input '{arg.name}' be a mutable tensor (e.g.: a "
                                    "tf.Variable)")
                stack.enter_context(graph.colocate_with(t.op))
        yield


def _graph_converter(graph: Any) -> Any:
    def to_tensor(value: Any, dtype: Any, arg: Arg, preferred: Any) -> Tensor:
        if type(value) is Tensor and value.op.graph is graph:
            if dtype is None or value.dtype is dtype or value.dtype.base_dtype is dtype:
                return value
        t = convert(value, dtype, arg.name, as_ref=arg.is_ref, preferred_dtype=preferred)
        return t if not hasattr(t, "_value") and t.graph is graph else graph.capture(t)
    return to_tensor


def results(op: Operation) -> Any:
    """The result of calling an op: the operation, a tensor, a list, or a named tuple."""
    opdef = op.opdef
    n = len(opdef.outputs)
    if n == 1:
        return list(op.outputs) if opdef.list_output else op.outputs[0]
    if n == 0:
        return op
    return structure(opdef, op.outputs, op.attrs)


_TUPLES: dict[str, Any] = {}


def structure(opdef: OpDef, flat: list, attrs: dict[str, Any]) -> Any:
    """Groups flat outputs by the declared ones, in a named tuple."""
    made = _TUPLES.get(opdef.name)
    if made is None:
        made = _TUPLES[opdef.name] = collections.namedtuple(opdef.name, [a.name for a in opdef.outputs], rename=True)
    out, i = [], 0
    for a in opdef.outputs:
        n = arg_count(a, attrs)
        if n is None:
            out.append(flat[i])
            i += 1
        else:
            out.append(flat[i:i + n])
            i += n
    return made(*out)


def arg_count(arg: Arg, attrs: dict[str, Any]) -> int | None:
    """How many tensors a list argument represents; None for a single one."""
    if arg.number_attr is not None:
        return attrs[arg.number_attr]
    if arg.type_list_attr is not None:
        return len(attrs[arg.type_list_attr])
    return None


# -- inputs and attributes ------------------------------------------------------------------------------------------
class InputTypeError(TypeError):
    """A tensor whose type the op does not accept.

    Graph construction raises it as a TypeError. Eager execution raises InvalidArgumentError with the message `eager`,
    as in TensorFlow, where Python checks graphs and the runtime checks eager calls.
    """

    def __init__(self, message: str, eager: str):
        super().__init__(message)
        self.eager = eager


class AttrValueError(InputTypeError, ValueError):
    """The same for the value of an attribute, which graph construction reports as ValueError."""


def _mismatch(message: str, opdef: OpDef, arg: Arg, wanted: Any, found: Any, place: int | None = None) -> InputTypeError:
    if place is None:
        place = [a.name for a in opdef.inputs].index(arg.name)
    return InputTypeError(message, f"cannot compute {opdef.name} as input #{place}(zero-based) was expected to be a "
                          f"{_runtime_name(wanted)} tensor but is a {_runtime_name(found)} tensor")


def _not_allowed(message: str, name: str, found: Any, allowed: Any) -> InputTypeError:
    return InputTypeError(message, f"Value for attr '{name}' of {_runtime_name(found)} is not in the list of allowed "
                          f"values: {', '.join(_runtime_name(t) for t in allowed)}")


_RUNTIME_NAMES = {"float16": "half", "float32": "float", "float64": "double"}


def _runtime_name(dtype: Any) -> str:
    name = dtypes.as_dtype(dtype).base_dtype.name
    return _RUNTIME_NAMES.get(name, name)


def resolve(opdef: OpDef, args: tuple, given: dict[str, Any], to_tensor: Any,
            arrays_follow: bool = False) -> tuple[list, dict[str, Any], tuple]:
    """Flat input tensors, all attributes, and the group sizes (empty when every argument is one tensor).

    With `arrays_follow`, arrays of NumPy take the type of a tensor beside them, as in TensorFlow's eager execution; graph
    construction takes arguments in their order, and an array before the tensor keeps its type.
    """
    attrs: dict[str, Any] = {}
    for n, v in given.items():
        a = opdef.attrs.get(n)
        if a is None:
            raise TypeError(f"{opdef.name}() got an unexpected keyword argument '{n}'")
        if v is not None or a.kind in ("shape", "list(shape)", "func"):
            attrs[n] = normalize(opdef, a, v)
    inputs: list = []
    if opdef.plain:
        for arg, value in zip(opdef.inputs, args, strict=True):
            inputs.append(_one(opdef, arg, value, args, attrs, to_tensor, arrays_follow))
        counts: tuple = ()
    else:
        sizes: list[int | None] = []
        for arg, value in zip(opdef.inputs, args, strict=True):
            if arg.is_list:
                many = _many(opdef, arg, list(value) if arrays_follow and _has_rows(value) else value, args, attrs, to_tensor)
                inputs.extend(many)
                sizes.append(len(many))
            else:
                inputs.append(_one(opdef, arg, value, args, attrs, to_tensor, arrays_follow))
                sizes.append(None)
        counts = tuple(sizes)
    for n, a in opdef.attrs.items():
        if n not in attrs:
            if a.default is REQUIRED:
                raise TypeError(f"No argument for attr {n} of op {opdef.name}")
            attrs[n] = normalize(opdef, a, a.default) if a.default is not None or a.kind == "shape" else None
    return inputs, attrs, counts


def _one(opdef: OpDef, arg: Arg, value: Any, args: tuple, attrs: dict[str, Any], to_tensor: Any,
         arrays_follow: bool) -> Any:
    n = arg.type_attr
    if n is None:
        t = _converted(opdef, arg, value, arg.type, None, to_tensor)
        if t.dtype.base_dtype != arg.type:
            raise _mismatch(f"Input '{arg.name}' of '{opdef.name}' Op has type {t.dtype.base_dtype.name} that does not "
                            f"match expected type of {arg.type.name}.", opdef, arg, arg.type, t.dtype)
        return t
    wanted = attrs.get(n)
    preferred = None
    if wanted is None and not isinstance(value, Tensor):
        wanted = _typed_peer(opdef, n, args, value, arrays_follow)
        preferred = _preferred(opdef.attrs[n], value, arrays_follow)
    t = _converted(opdef, arg, value, wanted, preferred, to_tensor)
    _set_type(opdef, arg, n, t.dtype.base_dtype, attrs)
    return t


def _preferred(attr: Any, value: Any, eager: bool) -> Any:
    """The dtype that a value gets if it can have it. As in TensorFlow, tensors in a list keep one that the op allows, and in a
    graph arrays do."""
    if attr.default is REQUIRED or isinstance(value, (list, tuple)) and dtypes_in(value) in [{t} for t in attr.allowed or ()]:
        return None
    if not eager and isinstance(value, (np.ndarray, np.generic)) and any(value.dtype == t.np for t in attr.allowed or ()):
        return None
    return attr.default


def _converted(opdef: OpDef, arg: Arg, value: Any, wanted: Any, preferred: Any, to_tensor: Any) -> Any:
    if value is None:
        raise ValueError(f"None values not supported. (argument '{arg.name}' of {opdef.name})")
    if isinstance(value, Tensor):
        return to_tensor(value, None, arg, None)
    try:
        return to_tensor(value, wanted, arg, preferred)
    except TypeError as e:
        if wanted is None:
            raise
        raise _type_mismatch(opdef, arg, value, wanted, e) from None
    except ValueError as e:
        if wanted is None or not hasattr(value, "dtype") or hasattr(value, "_type_spec"):
            raise
        raise _type_mismatch(opdef, arg, value, wanted, e) from None


def _type_mismatch(opdef: OpDef, arg: Arg, value: Any, wanted: Any, error: Exception) -> Exception:
    found = getattr(value, "dtype", None)
    if found is not None:
        found = dtypes.as_dtype(found).base_dtype.name
        text = (f"Input '{arg.name}' of '{opdef.name}' Op has type {found} that does not match "
                f"type {dtypes.as_dtype(wanted).name} of argument '{arg.name}'.")
        return TypeError(text) if not isinstance(error, TypeError) else TypeError(f"{text} ({error})")
    return TypeError(f"Expected {dtypes.as_dtype(wanted).name} passed to parameter '{arg.name}' of op '{opdef.name}', "
                     f"got {value!r} of type '{type(value).__name__}' instead. Error: {error}")


def _typed_peer(opdef: OpDef, type_attr: str, args: tuple, value: Any, arrays_follow: bool = False) -> Any:
    """The dtype of another argument of the same type attr that is already a tensor."""
    if hasattr(value, "dtype") and not (arrays_follow and isinstance(value, (np.ndarray, np.generic))):
        return None
    for a, v in zip(opdef.inputs, args, strict=True):
        if a.type_attr == type_attr and v is not value:
            for x in v if isinstance(v, (list, tuple)) else (v,):
                d = getattr(x, "dtype", None)
                if d is not None and (isinstance(x, Tensor) or hasattr(x, "_dense_var_to_tensor")
                                      or hasattr(x, "handle") or hasattr(x, "_as_graph_element")):
                    return dtypes.as_dtype(d).base_dtype
    return None


def _has_rows(value: Any) -> bool:
    """Whether eager execution takes a value that is no list as the list of its rows."""
    return isinstance(value, (Tensor, np.ndarray)) and bool(value.ndim)


def _many(opdef: OpDef, arg: Arg, value: Any, args: tuple, attrs: dict[str, Any], to_tensor: Any) -> list:
    if not isinstance(value, (list, tuple)):
        if isinstance(value, (Tensor, np.ndarray)) or not hasattr(value, "__iter__") or \
                hasattr(value, "_dense_var_to_tensor") and not context.executing_eagerly():
            raise TypeError(f"Expected list for '{arg.name}' argument to '{opdef.name}' Op, not {value}.")
        value = list(value)
    if arg.type_list_attr is not None:
        return _typed_list(opdef, arg, value, attrs, to_tensor)
    n = arg.type_attr
    wanted = arg.type if n is None else attrs.get(n)
    if wanted is None:
        wanted = next((v.dtype.base_dtype for v in value if isinstance(v, Tensor)), None)
    if wanted is None and n is not None:
        wanted = next((dtypes.as_dtype(v.dtype).base_dtype for v in value if hasattr(v, "dtype")), None) \
            or _typed_peer(opdef, n, args, value)
    out: list = []
    for v in value:
        t = _converted(opdef, arg, v, wanted, None, to_tensor)
        if wanted is None:
            wanted = t.dtype.base_dtype
        elif t.dtype.base_dtype != wanted:
            raise _mismatch(f"Tensors in list passed to '{arg.name}' of '{opdef.name}' Op have types "
                            f"[{', '.join(_type_name(x) for x in value)}] that don't all match.",
                            opdef, arg, wanted, t.dtype, place=len(out))
        out.append(t)
    if n is not None:
        if wanted is None:
            default = opdef.attrs[n].default
            if default is REQUIRED:
                raise ValueError(f"List argument '{arg.name}' to '{opdef.name}' Op with length 0 shorter than minimum "
                                 f"length {opdef.attrs[arg.number_attr].minimum or 0}.")  # type: ignore[index]
            wanted = default
        _set_type(opdef, arg, n, wanted, attrs)
    _set_count(opdef, arg, len(out), attrs)
    return out


def _set_count(opdef: OpDef, arg: Arg, length: int, attrs: dict[str, Any]) -> None:
    """Sets the attribute with the length of a list argument; ValueError if it does not fit."""
    count = opdef.attrs[arg.number_attr]  # type: ignore[index]
    if count.minimum is not None and length < count.minimum:
        raise ValueError(f"List argument '{arg.name}' to '{opdef.name}' Op with length {length} shorter than minimum "
                         f"length {count.minimum}.")
    known = attrs.get(count.name)
    if known is not None and known != length:
        raise ValueError(f"List argument '{arg.name}' to '{opdef.name}' Op with length {length} must match length "
                         f"{known} of argument '{_first_of(opdef, count.name)}'.")
    attrs[count.name] = length


def _first_of(opdef: OpDef, attr: str) -> str:
    return next(a.name for a in opdef.inputs if attr in (a.number_attr, a.type_attr, a.type_list_attr))


def _type_name(x: Any) -> str:
    d = getattr(x, "dtype", None)
    return "<NOT CONVERTIBLE TO TENSOR>" if d is None and not isinstance(x, (int, float, bool, str, bytes, list, tuple)) \
        else dtypes.as_dtype(d).name if d is not None else type(x).__name__


def _typed_list(opdef: OpDef, arg: Arg, value: Any, attrs: dict[str, Any], to_tensor: Any) -> list:
    known = attrs.get(arg.type_list_attr)  # type: ignore[arg-type]
    if known is not None and len(known) != len(value):
        raise ValueError(f"List argument '{arg.name}' to '{opdef.name}' Op has length {len(value)} where attr "
                         f"'{arg.type_list_attr}' has {len(known)}.")
    wanted = known or [None] * len(value)
    out = [_converted(opdef, arg, v, w, None, to_tensor) for v, w in zip(value, wanted, strict=True)]
    for t, w in zip(out, wanted, strict=True):
        if w is not None and t.dtype.base_dtype != w.base_dtype:
            raise TypeError(f"Input '{arg.name}' of '{opdef.name}' Op has type {t.dtype.name} where {w.name} is expected.")
    attr = opdef.attrs[arg.type_list_attr]  # type: ignore[index]
    if attr.minimum is not None and len(out) < attr.minimum:
        raise ValueError(f"List argument '{arg.name}' to '{opdef.name}' Op with length {len(out)} shorter than minimum "
                         f"length {attr.minimum}.")
    for t in out:
        if attr.allowed is not None and t.dtype.base_dtype not in attr.allowed:
            raise _not_allowed(f"Value passed to parameter '{arg.name}' has DataType {t.dtype.base_dtype.name} not in "
                               f"list of allowed values: {', '.join(a.name for a in attr.allowed)}", attr.name, t.dtype,
                               attr.allowed)
    attrs[attr.name] = [t.dtype.base_dtype for t in out]
    return out


def _set_type(opdef: OpDef, arg: Arg, name: str, found: Any, attrs: dict[str, Any]) -> None:
    known = attrs.get(name)
    if known is None:
        allowed = opdef.attrs[name].allowed
        if allowed is not None and found not in allowed:
            names = ", ".join(t.name for t in allowed)
            raise _not_allowed(f"Value passed to parameter '{arg.name}' has DataType {found.name} not in list of allowed "
                               f"values: {names}", name, found, allowed)
        attrs[name] = found
    elif known is not found and known != found:
        first = next((a.name for a in opdef.inputs if a.type_attr == name), arg.name)
        if first == arg.name:
            raise _mismatch(f"Input '{arg.name}' of '{opdef.name}' Op has type {found.name} that does not match "
                            f"attr '{name}' of type {known.name}.", opdef, arg, known, found)
        raise _mismatch(f"Input '{arg.name}' of '{opdef.name}' Op has type {found.name} that does not match type "
                        f"{known.name} of argument '{first}'.", opdef, arg, known, found)


_NUMBERS = {"int": (int, np.integer), "float": (int, float, np.integer, np.floating), "bool": (bool, np.bool_)}


def normalize(opdef: OpDef, attr: Attr, value: Any) -> Any:
    """An attribute value in the form that rules and kernels receive; TypeError or ValueError if it does not fit."""
    kind = attr.kind
    if kind.startswith("list("):
        if not isinstance(value, (list, tuple)) and not hasattr(value, "__iter__"):
            raise TypeError(f"Expected list for attr {attr.name} of op {opdef.name}, obtained {type(value).__name__} "
                            "instead.")
        out = [_normalize_one(opdef, attr, kind[5:-1], v) for v in value]
        if attr.minimum is not None and len(out) < attr.minimum:
            if context.executing_eagerly():
                raise errors.invalid(f"Length for attr '{attr.name}' of {len(out)} must be at least minimum {attr.minimum} "
                                     f"[Op:{opdef.name}]")
            raise ValueError(f"Attr '{attr.name}' of '{opdef.name}' Op passed list of length {len(out)} less than "
                             f"minimum {attr.minimum}.")
        return out
    return _normalize_one(opdef, attr, kind, value)


def _normalize_one(opdef: OpDef, attr: Attr, kind: str, value: Any) -> Any:
    if kind == "type":
        value = dtypes.as_dtype(value).base_dtype
        if attr.allowed is not None and value not in attr.allowed:
            raise _not_allowed(f"Value passed to parameter '{attr.name}' has DataType {value.name} not in list of allowed "
                               f"values: {', '.join(t.name for t in attr.allowed)}", attr.name, value, attr.allowed)
        return value
    if kind in _NUMBERS:
        return _number(attr, kind, value)
    if kind == "string":
        if not isinstance(value, (str, bytes)):
            raise TypeError(f"Expected string for argument '{attr.name}' not {value!r}.")
        if isinstance(value, bytes):
            value = _text(value)
        if attr.allowed is not None and value not in attr.allowed:
            names = '", "'.join(attr.allowed)
            raise AttrValueError(f"Attr '{attr.name}' of '{opdef.name}' Op passed string '{value}' not in: \"{names}\".",
                                 f"Value for attr '{attr.name}' of \"{value}\" is not in the list of allowed values: "
                                 f'"{names}"')
        return value
    if kind == "shape":
        if isinstance(value, TensorShape):
            return value
        try:
            return TensorShape(value)
        except (TypeError, ValueError) as e:
            raise type(e)(f"Error converting {attr.name} to a TensorShape: {e}") from None
    return value


def _text(value: bytes) -> Any:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value


def _number(attr: Attr, kind: str, value: Any) -> Any:
    if isinstance(value, _NUMBERS[kind]) and not (kind != "bool" and isinstance(value, (bool, np.bool_))):
        value = {"int": int, "float": float, "bool": bool}[kind](value)
    elif kind == "int" and hasattr(value, "__index__") and not isinstance(value, (bool, Tensor)) or \
            kind == "int" and type(value).__name__ in ("Dimension", "EagerTensor") or \
            kind == "int" and isinstance(value, (float, np.floating)) and math.isfinite(value):         # a seed of 1.0
        value = int(value)
    elif kind != "bool" and isinstance(value, (bool, np.bool_)):
        value = int(value) if kind == "int" else float(value)
    elif kind == "bool" and isinstance(value, (int, np.integer)):
        value = bool(value)
    else:
        raise TypeError(f"Expected {kind} for argument '{attr.name}' not {value!r}.")
    if kind == "int" and not -2**63 <= value < 2**63:
        raise ValueError(f"Attr '{attr.name}' passed {value}, which does not fit in int64.")
    if attr.minimum is not None and value < attr.minimum and attr.kind == kind:     # for a list, the minimum length
        if context.executing_eagerly():
            raise errors.invalid(f"Value for attr '{attr.name}' of {value} must be at least minimum {attr.minimum}")
        raise ValueError(f"Attr '{attr.name}' passed {value} less than minimum {attr.minimum}.")
    return value


# -- shapes ---------------------------------------------------------------------------------------------------------
class ShapeContext:
    """The view of an op that a shape rule receives, with constant values of inputs."""

    __slots__ = ("op",)

    def __init__(self, op: Any):
        self.op = op

    def input(self, name: str) -> Any:
        """The input tensor of that name (of a plain op)."""
        return self.op.inputs[self._index(name)]

    def _index(self, name: str) -> int:
        i = self.op.opdef.input_names.index(name)
        return sum(1 if n is None else n for n in self.op.counts[:i]) if self.op.counts else i

    def const(self, name: str) -> np.ndarray | None:
        """The value of an input as a numpy array, if it is known at build time."""
        return constant_value(self.input(name))

    def dims(self, name: str) -> tuple | None:
        """The value of an input that is used as a shape, as far as it is known at build time."""
        return constant_dims(self.input(name))


def ruled_shapes(op: AnyOp) -> Any:
    """The output shapes of an operation, by its shape rule."""
    opdef = op.opdef
    shapes: list = [t.static_dims for t in op.inputs]
    if op.counts:
        shapes = group_inputs(opdef, shapes, op.counts)
    wants = opdef.shape_wants
    if not wants:
        return opdef.shape_rule(*shapes)
    attrs = op.attrs
    return opdef.shape_rule(*shapes, **{n: ShapeContext(op) if n == "c" else attrs[n] for n in wants})


def infer_shapes(op: Operation) -> None:
    """Sets the static shapes of an operation's outputs from its rule."""
    if op.opdef.shape_rule is None:
        return
    try:
        out = ruled_shapes(op)
    except ValueError as e:
        discard(op)
        inputs = ", ".join(str(t.shape) for t in op.inputs)
        raise ValueError(f"{e} for '{op.name}' (op: '{op.type}') with input shapes: {inputs}.") from None
    except errors.OpError:                    # attributes that no kernel takes: TensorFlow's error is the run-time one
        discard(op)
        raise
    outputs = op.outputs
    if isinstance(out, list):
        for t, dims in zip(outputs, out, strict=True):
            t.static_dims = dims
    elif outputs:
        outputs[0].static_dims = out


def discard(op: Operation) -> None:
    """Removes an operation that its shape rule rejected."""
    g = op.graph
    with g._lock:
        if g._ops and g._ops[-1] is op:
            g._ops.pop()
        elif op in g._ops:
            g._ops.remove(op)
        g._by_name.pop(op.name, None)
    for t in op.inputs:
        t._consumers.remove(op)
    for c in op.control_inputs:
        c._control_outputs.remove(op)


def create_from_parts(graph: Any, op_type: str, inputs: list, types: Any, name: str | None,
                      attrs: dict[str, Any], opdef: Any = None) -> Operation:
    """An operation from flat inputs and attributes (plain values or AttrValue messages)."""
    opdef = opdef or get(op_type)
    plain = {k: attr_from_message(v, opdef.attrs[k].kind if k in opdef.attrs else None, graph)
             if is_attr_message(v) else v for k, v in attrs.items()}
    extra = {k: v for k, v in plain.items() if k not in opdef.attrs}
    full = {k: normalize(opdef, opdef.attrs[k], v) for k, v in plain.items() if k in opdef.attrs and v is not None}
    counts = infer_from_inputs(opdef, inputs, full)
    for n, a in opdef.attrs.items():
        if n not in full:
            if a.default is REQUIRED:
                raise ValueError(f"NodeDef missing attr '{n}' from Op<name={opdef.name}>")
            full[n] = normalize(opdef, a, a.default) if a.default is not None or a.kind == "shape" else None
    if name is None:
        name = opdef.name
    final = name[:-1] if name.endswith("/") else graph.unique_name(name)
    if not VALID_OP_NAME.match(final):
        raise ValueError(f"'{name}' is not a valid node name")
    inputs = [t if t.graph is graph else graph.capture(t) for t in inputs]
    op = graph.add(opdef, final, inputs, full, output_types(opdef, full), counts, infer=infer_shapes)
    op._extra.update(extra)
    return op


def infer_from_inputs(opdef: OpDef, inputs: list, attrs: dict[str, Any]) -> tuple:
    """Fills type and number attributes from flat inputs, and returns the group sizes."""
    sizes: list[int | None] = []
    i = 0
    for k, arg in enumerate(opdef.inputs):
        if not arg.is_list:
            n: int | None = None
        elif arg.number_attr and arg.number_attr in attrs:
            n = attrs[arg.number_attr]
        elif arg.type_list_attr and arg.type_list_attr in attrs:
            n = len(attrs[arg.type_list_attr])
        else:
            n = len(inputs) - i - (len(opdef.inputs) - k - 1)
        group = inputs[i:i + (1 if n is None else n)]
        i += 1 if n is None else n
        if arg.number_attr:
            attrs.setdefault(arg.number_attr, n)
        if arg.type_list_attr:
            attrs.setdefault(arg.type_list_attr, [t.dtype.base_dtype for t in group])
        elif arg.type_attr and group:
            attrs.setdefault(arg.type_attr, group[0].dtype.base_dtype)
        sizes.append(n)
    if i != len(inputs):
        raise ValueError(f"op {opdef.name} takes {i} inputs, got {len(inputs)}")
    return () if opdef.plain else tuple(sizes)
