"""Frozen functions: variables are replaced by constants, and called functions are inlined.

Ops are copied into one new graph. A handle is replaced by the value of its variable, so the ops that take handles are replaced
by those that take values. Branches and loops stay functional; their functions are copied in the same way. A recurrent layer
that is one op becomes a loop.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.static_shape import TensorShape
from penstock._src.eager.function import ConcreteFunction
from penstock._src.eager.wrap_function import pruned
from penstock._src.graph.convert import constant
from penstock._src.graph.func_graph import FuncGraph
from penstock._src.graph.functions import GraphFunction, add_to_library, as_function, function_name
from penstock._src.graph.graphdef import is_written_as_call
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.prune import needed
from penstock._src.ops.registry import get
from penstock._src.ops.state.state import VariableResource
from penstock._src.state.saved_model import recurrent

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_TYPES = {"While": "T", "StatelessWhile": "T", "If": "Tin", "StatelessIf": "Tin", "Case": "Tin", "StatelessCase": "Tin"}
_READERS: dict[str, Callable[..., Tensor]] = {
    "ReadVariableOp": lambda op, name, value: get("Identity")(value, name=name),
    "VariableShape": lambda op, name, value: get("Shape")(value, out_type=op.attrs["out_type"], name=name),
    "ResourceGather": lambda op, name, value, indices: get("GatherV2")(value, indices, 0, batch_dims=op.attrs["batch_dims"],
                                                                       name=name),
    "ResourceGatherNd": lambda op, name, value, indices: get("GatherNd")(value, indices, name=name),
}
_CARRIERS = ("Identity", "Switch", "Merge", "Enter", "Exit", "NextIteration")       # pass their input on


def convert_variables_to_constants_v2(func: Any, lower_control_flow: bool = True,
                                      aggressive_inlining: bool = False) -> ConcreteFunction:
    """Returns a copy of `func`, a ConcreteFunction, with the current values of its variables as constants.

    Calls are always inlined, and branches and loops always stay functional: the two options are accepted and unused.

    >>> frozen = convert_variables_to_constants_v2(tf.function(model).get_concrete_function(spec))
    >>> tf.io.write_graph(frozen.graph, folder, "frozen.pb", as_text=False)
    """
    if not isinstance(func, ConcreteFunction):
        raise ValueError(f"Expected a ConcreteFunction, got {type(func).__name__}. Call `get_concrete_function` first.")
    source, target = func.graph, FuncGraph("frozen", collections={})
    captured = {id(inner) for inner in source.internal_captures}
    arguments = [t for t in source.inputs if id(t) not in captured]
    known: dict[int, Tensor] = {id(t): target.placeholder(t.dtype, t.static_dims, t.op.name) for t in arguments}
    values = [_value(outer) for outer, _ in source.captures]
    references = _references(source, {*known, *captured})
    with target.as_default():
        known.update((id(t), constant(value.numpy(), value.dtype, name=t.op.name)) for t, value in references)
        for value, (outer, inner) in zip(values, source.captures, strict=True):
            known[id(inner)] = target.capture(outer) if value is None else \
                constant(value.numpy(), value.dtype, name=inner.op.name)
        target.outputs = _copied(target, source.outputs, known, "")
    target.inputs = [known[id(t)] for t in arguments] + target.internal_captures
    target.structured_outputs = list(target.outputs)
    target.structured_input_signature = source.structured_input_signature
    return ConcreteFunction(target, len(arguments), function_name("frozen"), func._arg_names)


def convert_variables_to_constants_v2_as_graph(func: Any, lower_control_flow: bool = True,
                                               aggressive_inlining: bool = False) -> tuple[ConcreteFunction, Any]:
    """The same, and its GraphDef."""
    frozen = convert_variables_to_constants_v2(func, lower_control_flow, aggressive_inlining)
    return frozen, frozen.graph.as_graph_def()


def _references(source: Any, given: set[int]) -> list[tuple[Tensor, Any]]:
    """The reference variables that a function of a 1.x graph uses, and their values."""
    found = [op.outputs[0] for op in needed(source.outputs, [], given)
             if not op.inputs and op.outputs and op.outputs[0].dtype._is_ref_dtype]
    values = pruned(source, [], found, [], "references")() if found else []
    return list(zip(found, values, strict=True))


def _value(captured: Any) -> Any:
    """The value that a captured tensor represents: of a handle, its variable's; None for other resources."""
    resource = getattr(captured, "_value", None)
    if isinstance(resource, VariableResource):
        return get("ReadVariableOp")(captured, dtype=resource.dtype)
    return None if resource is None or captured.dtype in (dtypes.resource, dtypes.variant) else captured


def _copied(target: FuncGraph, wanted: list[Tensor], known: dict[int, Tensor], prefix: str) -> list[Tensor]:
    """Copies the ops that tensors need into `target`; `known` has what represents their inputs, and gets the results."""
    ops: dict[int, Operation] = {}
    source = needed(wanted, [], set(known))
    used = {id(t) for op in source for t in op.inputs} | {id(t) for t in wanted}
    for op in source:
        inputs = [known[id(t)] for t in op.inputs]
        if recurrent.is_loop(op, used):
            with target.as_default(), target.name_scope(f"{prefix}{op.name}/"):
                results = recurrent.loop(op, inputs, source)
        elif op.type in _CALLS or is_written_as_call(op):
            function = as_function(op.attrs["f" if op.type in _CALLS else "written_as"], op.graph)
            inner = {id(t): given for t, given in zip(function.inputs, inputs, strict=True)}
            results = _copied(target, function.outputs, inner, f"{prefix}{op.name}/")
        else:
            waits = [ops[id(c)] for c in op.control_inputs if id(c) in ops]
            ops[id(op)], results = _one(target, op, inputs, prefix + op.name, waits)
        known.update((id(old), new) for old, new in zip(op.outputs, results, strict=True))
    return [known[id(t)] for t in wanted]


def _one(target: FuncGraph, op: Operation, inputs: list[Tensor], name: str,
         waits: list) -> tuple[Operation, list[Tensor]]:
    """A copy of one op, and its outputs. Where values have taken the place of handles, the op for values."""
    changed = [old.dtype == dtypes.resource != new.dtype for old, new in zip(op.inputs, inputs, strict=True)]
    if changed and changed[0] and op.type in _READERS:
        with target.control_dependencies(waits):
            result = _READERS[op.type](op, name, *inputs)
        return result.op, [result]
    attrs, types = dict(op.attrs), [t.dtype for t in op.outputs]
    if op.type in _TYPES:
        attrs, types = _with_functions(target, op, attrs, inputs, types)
    elif any(changed):
        if op.type not in _CARRIERS:
            raise ValueError(f"Cannot find the ReadVariableOp of {op.name}: {op.type} needs the variable, not its value.")
        attrs["T"] = inputs[0].dtype
        types = [inputs[0].dtype if t == dtypes.resource else t for t in types]
    made = target.add(op.opdef, target.unique_name(name), inputs, attrs, types, op.counts, waits)
    made._extra.update({k: v for k, v in op._extra.items() if k != "_class"})     # the ops that it names have other names here
    for i, (old, new) in enumerate(zip(op.outputs, made.outputs, strict=True)):
        given = inputs[i if "body" in attrs else 0] if old.dtype != new.dtype else old      # a value for a handle
        new.static_dims = given.static_dims
    return made, list(made.outputs)


def _with_functions(target: FuncGraph, op: Operation, attrs: dict[str, Any], inputs: list[Tensor],
                    types: list) -> tuple[dict[str, Any], list]:
    """The attributes and output types of a branch or loop whose functions take values for handles."""
    operands = inputs[1:] if _TYPES[op.type] == "Tin" else inputs
    attrs[_TYPES[op.type]] = [t.dtype for t in operands]
    for key in ("cond", "body", "then_branch", "else_branch"):
        if key in attrs:
            attrs[key] = _function(target, as_function(attrs[key], op.graph), operands)
    if "branches" in attrs:
        attrs["branches"] = [_function(target, as_function(f, op.graph), operands) for f in attrs["branches"]]
    if "body" in attrs:
        if attrs.get("output_shapes"):
            attrs["output_shapes"] = [TensorShape.of(new.static_dims) if old.dtype != new.dtype else shape for shape, old, new
                                      in zip(attrs["output_shapes"], op.inputs, inputs, strict=True)]
        types = [t.dtype for t in inputs]
    return attrs, types


def _function(library: FuncGraph, function: GraphFunction, operands: list[Tensor]) -> GraphFunction:
    """The function of a branch or loop, for operands that may be values instead of handles; `library` gets it."""
    target = FuncGraph(function.graph.name, collections={})
    known = {id(t): target.placeholder(given.dtype, t.static_dims if given.dtype == t.dtype else given.static_dims, t.op.name)
             for t, given in zip(function.inputs, operands, strict=True)}
    target.inputs = list(known.values())
    with target.as_default():
        target.outputs = _copied(target, function.outputs, known, "")
    made = GraphFunction(target, function_name(function.graph.name))
    add_to_library(library, made)
    return made
