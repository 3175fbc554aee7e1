"""Functions as messages: writing and reading FunctionDefs.

In a FunctionDef an edge is written as "node:output name:index" or, for an argument, by the argument's name; attributes
may be placeholders ("$T") that the caller fills in. Reading one makes a GraphDef of the body and imports that.
"""
from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from penstock._src.base import dtypes
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.build import arg_count
from penstock._src.graph.func_graph import FuncGraph
from penstock._src.graph.functions import GraphFunction
from penstock._src.graph.graphdef import attr_from_message, attr_to_message, is_written_as_call, node_def, opdef_from_message
from penstock._src.graph.importer import import_graph_def
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.prune import needed
from penstock._src.ops.registry import OPS
from penstock._src.ops.signature import REQUIRED, Arg

if TYPE_CHECKING:
    from tensorboard.compat.proto.function_pb2 import FunctionDef
    from tensorboard.compat.proto.node_def_pb2 import NodeDef


_MOST_TENSORS = 1 << 20         # the most tensors that one argument of a function may represent


# -- writing ------------------------------------------------------------------------------------------------------
def definition(function: GraphFunction) -> FunctionDef:
    """The FunctionDef of a function."""
    from tensorboard.compat.proto.function_pb2 import FunctionDef
    out = FunctionDef()
    out.signature.name, out.signature.is_stateful = function.name, function.stateful
    taken: set[str] = set()
    arguments: dict[int, str] = {}
    for i, t in enumerate(function.inputs):
        arguments[id(t)] = name = _argument_name(t.op.name, taken)
        out.signature.input_arg.add(name=name, type=t.dtype.base_dtype.enum)
        if t.static_dims is not None:
            out.arg_attr[i].attr["_output_shapes"].list.shape.append(t.shape.as_proto())
    control = [op for op in function.graph.control_outputs if op not in {t.op for t in function.inputs}]
    for op in needed(function.outputs, control, set(arguments)):
        if all(id(t) in arguments for t in op.outputs) and op.outputs:
            continue
        _write_node(out.node_def.add(), op, arguments)
    for i, t in enumerate(function.outputs):
        name = _argument_name(f"output_{i}", taken)
        out.signature.output_arg.add(name=name, type=t.dtype.base_dtype.enum)
        out.ret[name] = _edge(t, arguments)
    for name, value in function.graph.attributes.items():
        out.attr[name].CopyFrom(attr_to_message(value))
    for op in control:
        out.control_ret[op.name] = op.name
        out.signature.control_output.append(op.name)
    return out


def _argument_name(name: str, taken: set[str]) -> str:
    base = re.sub(r"[^a-z0-9_]", "_", name.lower()).strip("_") or "arg"
    base = base if base[0].isalpha() else f"arg_{base}"
    made, i = base, 0
    while made in taken:
        i += 1
        made = f"{base}_{i}"
    taken.add(made)
    return made


def _write_node(node: NodeDef, op: Operation, arguments: dict[int, str]) -> None:
    node.CopyFrom(node_def(op))
    del node.input[:]
    node.input.extend(_edge(t, arguments) for t in op.inputs)
    fed = {t.op for t in op.graph.inputs if id(t) in arguments}  # type: ignore[attr-defined]
    node.input.extend(sorted("^" + c.name for c in op.control_inputs if c not in fed))


def _edge(t: Tensor, arguments: dict[int, str]) -> str:
    if id(t) in arguments:
        return arguments[id(t)]
    if is_written_as_call(t.op):
        return f"{t.op.name}:output:{t.value_index}"
    at = 0
    for a in t.op.opdef.outputs:
        n = arg_count(a, t.op.attrs)
        size = 1 if n is None else n
        if t.value_index < at + size:
            return f"{t.op.name}:{a.name}:{t.value_index - at}"
        at += size
    raise AssertionError(f"{t.name} is not an output of {t.op.type}")


# -- reading ------------------------------------------------------------------------------------------------------
def from_definition(message: FunctionDef, attrs: dict[str, Any], graph: Any) -> GraphFunction:
    """A function from its FunctionDef; `attrs` (AttrValue messages) fill in its attributes."""
    return GraphFunction(_Body(message, attrs, graph).build(), message.signature.name)


def function_def_to_graph(fdef: FunctionDef, structured_input_signature: Any = None, structured_outputs: Any = None,
                          input_shapes: Any = None) -> FuncGraph:
    """The FuncGraph of a FunctionDef, for user code that reads graphs node by node.

    The functions that it calls are found in the current graph. `input_shapes` has a shape (or its message, or None) for each
    argument, for those whose shape the message does not have. A loop's function has other shapes than the values at its start.
    """
    if input_shapes is not None and len(input_shapes) != len(fdef.signature.input_arg):
        raise ValueError(f"function {fdef.signature.name} takes {len(fdef.signature.input_arg)} arguments, got "
                         f"{len(input_shapes)} shapes")
    shapes = None if input_shapes is None else [TensorShape(s).static_dims for s in input_shapes]
    graph = _Body(fdef, {}, context.current_graph(), shapes).build()
    graph.structured_input_signature, graph.structured_outputs = structured_input_signature, structured_outputs
    return graph


class _Body:
    """Converts the body of one FunctionDef to a FuncGraph."""

    def __init__(self, message: FunctionDef, attrs: dict[str, Any], library: Any, shapes: list | None = None):
        self.message, self.library, self.shapes = message, library, shapes
        self.attrs = {a.name: a.default_value for a in message.signature.attr if a.HasField("default_value")}
        self.attrs.update(attrs)
        self.graph = FuncGraph(message.signature.name)
        self.graph.around = library
        self.arguments: dict[str, list[Tensor]] = {}

    def build(self) -> FuncGraph:
        """Imports the nodes and finds inputs and outputs."""
        from tensorboard.compat.proto.graph_pb2 import GraphDef

        for i, a in enumerate(self.message.signature.input_arg):
            self._argument(i, a)
        body = GraphDef(versions=self.graph.graph_def_versions)
        nodes = {n.name: n for n in self.message.node_def}
        for n in self.message.node_def:
            self._node(body.node.add(), n, nodes)
        results = [r for a in self.message.signature.output_arg for r in self._results(a, nodes)]
        control = list(self.message.control_ret.values())
        wanted = [r for r in results if isinstance(r, str)] + control
        mapped = {f"{name}:{i}": t for name, ts in self.arguments.items() for i, t in enumerate(ts)}
        used = {i.lstrip("^") for n in body.node for i in n.input}
        mapped = {k: t for k, t in mapped.items() if k in used or k.removesuffix(":0") in used}
        with self.graph.as_default():
            found = iter(import_graph_def(body, input_map=mapped, return_elements=wanted, name="",
                                          validate_colocation_constraints=False) or ())
        self.graph.outputs = [next(found) if isinstance(r, str) else r for r in results]
        self.graph.control_outputs = [next(found) for _ in control] or \
            [op for op in self.graph._ops if op.opdef.stateful and not op.opdef.per_session]
        return self.graph

    def _argument(self, i: int, a: Any) -> None:
        dims: list = [] if self.shapes is None else [self.shapes[i]]
        if i in self.message.arg_attr:
            listed = self.message.arg_attr[i].attr.get("_output_shapes")
            dims = [s.static_dims for s in attr_from_message(listed, "list(shape)")] if listed is not None else dims
        tensors = [self.graph.placeholder(t, dims[k] if k < len(dims) else None, a.name)
                   for k, t in enumerate(self._types(a))]
        self.arguments[a.name] = tensors
        self.graph.inputs.extend(tensors)

    def _types(self, a: Any) -> list:
        if a.type_list_attr:
            return attr_from_message(self._attr(a.type_list_attr), "list(type)")
        one = dtypes.as_dtype(a.type if a.type else self._attr(a.type_attr).type)
        count = self._attr(a.number_attr).i if a.number_attr else 1
        if not 0 <= count <= _MOST_TENSORS:
            raise ValueError(f"function {self.message.signature.name}: {a.name} represents {count} tensors")
        return [one] * count

    def _attr(self, name: str) -> Any:
        if name not in self.attrs:
            raise ValueError(f"function {self.message.signature.name} needs attr '{name}'")
        return self.attrs[name]

    def _node(self, out: NodeDef, node: NodeDef, nodes: dict[str, NodeDef]) -> None:
        out.CopyFrom(node)
        for key in out.attr:
            self._fill_in(out.attr[key])
        del out.input[:]
        out.input.extend(self._flat_edge(i, nodes) for i in node.input)

    def _fill_in(self, value: Any) -> None:
        if value.WhichOneof("value") == "placeholder":
            value.CopyFrom(self._attr(value.placeholder))
        elif value.WhichOneof("value") == "func":
            for key in value.func.attr:
                self._fill_in(value.func.attr[key])

    def _flat_edge(self, text: str, nodes: dict[str, NodeDef]) -> str:
        """An edge of a FunctionDef as one of a GraphDef."""
        if text.startswith("^"):
            return text
        head, *rest = text.split(":")
        if head in self.arguments:
            return f"{head}:{rest[-1] if rest else 0}"
        if len(rest) < 2:
            return f"{head}:{rest[0] if rest and rest[0].isdigit() else 0}"
        if head not in nodes or not rest[1].isdigit():
            raise ValueError(f"function {self.message.signature.name} has no tensor '{text}'")
        return f"{head}:{self._output_start(nodes[head], rest[0]) + int(rest[1])}"

    def _output_start(self, node: NodeDef, output: str) -> int:
        opdef = OPS.get(node.op)
        if opdef is None:
            function = self.library._get_function(node.op)
            if function is None:
                raise ValueError(f"node '{node.name}' calls '{node.op}', which is neither an op nor a function")
            opdef = opdef_from_message(function.definition.signature)
        at = 0
        for a in opdef.outputs:
            if a.name == output:
                return at
            at += self._size(a, node, opdef)
        raise ValueError(f"node '{node.name}' ({node.op}) has no output '{output}'")

    def _size(self, a: Arg, node: NodeDef, opdef: Any) -> int:
        name = a.number_attr or a.type_list_attr
        if name is None:
            return 1
        value = node.attr[name] if name in node.attr else None
        if value is not None and value.WhichOneof("value") == "placeholder":
            value = self._attr(value.placeholder)
        if value is None:
            default = opdef.attrs[name].default
            return 0 if default is REQUIRED else default if isinstance(default, int) else len(default)
        return value.i if a.number_attr else len(value.list.type)

    def _results(self, a: Any, nodes: dict[str, NodeDef]) -> list:
        """The outputs that one declared output represents: names of tensors, or arguments themselves."""
        text = self.message.ret[a.name]
        count = len(self._types(a))
        head, *rest = text.split(":")
        if head in self.arguments:
            first = int(rest[-1]) if rest and rest[-1].isdigit() else 0
            return self.arguments[head][first:first + count]
        name, index = self._flat_edge(text, nodes).rsplit(":", 1)
        return [f"{name}:{int(index) + i}" for i in range(count)]


# -- libraries ---------------------------------------------------------------------------------------------------------
def _names_in(nodes: Iterable[Any]) -> set[str]:
    """What nodes may call: their ops, and the functions and texts in their attributes."""
    found = set()
    for node in nodes:
        found.add(node.op)
        waiting = list(node.attr.values())
        while waiting:
            value = waiting.pop()
            kind = value.WhichOneof("value")
            functions = [value.func] if kind == "func" else value.list.func if kind == "list" else ()
            for function in functions:
                found.add(function.name)
                waiting += function.attr.values()
            if kind == "s":
                found.add(value.s.decode(errors="replace"))
    return found


def keep_called(message: Any) -> None:
    """Removes functions that are unreachable from the nodes of a GraphDef from its library."""
    if not message.library.function:
        return
    known = {f.signature.name: f for f in message.library.function}
    gradients = {g.function_name: g.gradient_func for g in message.library.gradient}
    called: set[str] = set()
    waiting = _names_in(message.node)
    while waiting:
        name = waiting.pop()
        if name in known and name not in called:
            called.add(name)
            waiting |= _names_in(known[name].node_def) | ({gradients[name]} if name in gradients else set())
    for listed, name_of in ((message.library.function, lambda f: f.signature.name),
                            (message.library.gradient, lambda g: g.function_name)):
        kept = [m for m in listed if name_of(m) in called]
        if len(kept) < len(listed):
            del listed[:]
            listed.extend(kept)
