"""cond, case and while_loop as functional ops: If, Case and While over function graphs.

Used inside of functions, and in graphs when v2 control flow is on. The public functions are in ops/control/control_flow.py.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes, errors, nest
from penstock._src.base.static_shape import TensorShape, as_dims, common
from penstock._src.graph import context
from penstock._src.graph.control_flow_util import covers
from penstock._src.graph.convert import convert
from penstock._src.graph.func_graph import FuncGraph, copy_handle_data, flow, trace
from penstock._src.graph.functions import GraphFunction
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops.control.functional import add_calling_op, branch_op, stateless_while, while_op
from penstock._src.ops.registry import get


def share_captures(graphs: list[FuncGraph]) -> list:
    """Gives all graphs the same captures in the same order, after their inputs; returns the outer tensors."""
    union: dict[int, Any] = {}
    for g in graphs:
        union.update((id(t), t) for t in g.external_captures)
    for g in graphs:
        own = [t for t in g.inputs if not any(t is p for p in g.internal_captures)]
        captured = []
        for key, t in union.items():
            if key not in g._captures:
                inner = g.placeholder(t.dtype.base_dtype, t.static_dims, "unused")
                copy_handle_data(t, inner)
                g._captures[key] = (t, inner)
            captured.append(g._captures[key][1])
        g.inputs = own + captured
        g._captures = {k: g._captures[k] for k in union}
    return list(union.values())


def rebuild(like: Any, tensors: list) -> Any:
    """Packs tensors into the structure of a function's results, with TensorArrays from their flows."""
    flat: list[Any]
    flat, it = [], iter(tensors)
    for x in nest.flatten(like, expand_composites=True):
        if x is None:
            flat.append(None)
        else:
            t = next(it)
            flat.append(x._with_flow(t) if getattr(x, "_is_tensor_array", False) else t)
    return nest.pack_sequence_as(like, flat, expand_composites=True)


# -- branches -------------------------------------------------------------------------------------------------------
def declare_common(packed: Any, results: list) -> Any:
    """Gives composite tensors of a conditional the static shapes that all branches' `results` have; returns `packed`.

    A SparseTensor's shape is not in the shapes of its parts.
    """
    for made, *given in zip(*(nest.flatten(x) for x in (packed, *results)), strict=True):
        if hasattr(made, "_declare_shape") and all(hasattr(g, "declared_shape") for g in given):
            made._declare_shape(TensorShape.of(functools.reduce(common, [g.declared_shape for g in given])))
    return packed


def cond_v2(pred: Any, true_fn: Callable, false_fn: Callable, name: str | None = None) -> Any:
    """tf.cond as an If op."""
    if isinstance(pred, bool):
        raise TypeError("pred must not be a Python bool")
    with name_scope(name, "cond", None) as scope:
        pred = convert(pred)
        label = scope.rstrip("/").rsplit("/", 1)[-1]
        graphs = [_branch(f"{label}_{kind}", fn, pred, scope) for kind, fn in (("true", true_fn), ("false", false_fn))]
        _check_branches(graphs, ["true_fn", "false_fn"])
        return _choose(pred, graphs, False, scope)


def switch_case_v2(index: Any, branches: list[Callable], name: str | None = None) -> Any:
    """tf.switch_case as a Case op."""
    with name_scope(name, "switch_case", None) as scope:
        index = convert(index, dtypes.int32)
        label = scope.rstrip("/").rsplit("/", 1)[-1]
        graphs = [_branch(f"{label}_branch{i}", fn, index, scope) for i, fn in enumerate(branches)]
        _check_branches(graphs, [f"branch {i}" for i in range(len(graphs))])
        return _choose(index, graphs, True, scope)


def _branch(name: str, fn: Callable, op_value: Tensor, scope: str) -> FuncGraph:
    return trace(FuncGraph(name, scope=scope), fn, ordered=_ordered(), op_return_value=op_value)


def _ordered() -> bool:
    """Whether side effects of branches and bodies all happen: in functions, unless they are made to be pruned."""
    return getattr(context.current_graph(), "ordered", False)


def _check_branches(graphs: list[FuncGraph], names: list[str]) -> None:
    """Checks that the branches return the same types in the same structure, and use no tensors of each other."""
    for g, name in zip(graphs, names, strict=True):
        for t in g.external_captures:
            for other, label in zip(graphs, names, strict=True):
                if not hasattr(t, "_value") and t.graph is other:
                    raise ValueError(f"Tensor {t.name} in {label} is accessed from {name}.")
    _match_index_types(graphs)
    first = graphs[0]
    for g, name in zip(graphs[1:], names[1:], strict=True):
        try:
            nest.assert_same_structure(first.structured_outputs, g.structured_outputs, expand_composites=True)
        except (ValueError, TypeError) as e:
            raise TypeError(f"{names[0]} and {name} arguments to tf.cond must have the same number, type, and overall "
                            f"structure of return values.\n\n{e}") from None
        if len(first.outputs) != len(g.outputs):
            raise ValueError(f"{names[0]} and {name} must return the same number of tensors, got "
                             f"{len(first.outputs)} and {len(g.outputs)}")
        for a, b in zip(first.outputs, g.outputs, strict=True):
            if a.dtype.base_dtype != b.dtype.base_dtype:
                raise TypeError(f"{names[0]} and {name} arguments to tf.cond must have the same number, type, and overall "
                                f"structure of return values. Found {a.dtype.name} and {b.dtype.name} for {a} and {b}.")


def _match_index_types(graphs: list[FuncGraph]) -> None:
    """IndexedSlices that all branches return get indices of one type: int64, where they differ."""
    mixed = [values for values in zip(*(nest.flatten(g.structured_outputs) for g in graphs), strict=False)
             if all(isinstance(v, IndexedSlices) for v in values) and len({v.indices.dtype for v in values}) > 1]
    for g, values in zip(graphs, zip(*mixed, strict=True), strict=False):
        with g.as_default():
            for v in values:
                v._indices = get("Cast")(v.indices, DstT=dtypes.int64)
        results = nest.flatten(g.structured_outputs, expand_composites=True)
        g.outputs = [g.capture(flow(t)) for t in results if t is not None]


def _choose(selector: Tensor, graphs: list[FuncGraph], case: bool, scope: str) -> Any:
    outer = share_captures(graphs)
    made = branch_op(selector, outer, [GraphFunction(g) for g in graphs], case, scope)
    if not made.outputs:
        return rebuild(graphs[0].structured_outputs, []) if graphs[0].structured_outputs is not None else made
    results = [g.structured_outputs for g in graphs]
    return declare_common(rebuild(results[0], _passed_on(made.outputs)), results)


def _passed_on(outputs: list[Tensor]) -> list[Tensor]:
    """Identities of the results, so that an op with many outputs can be pruned around."""
    out = []
    for t in outputs:
        if t.dtype in (dtypes.resource, dtypes.variant):
            out.append(t)
            continue
        out.append(get("Identity")(t))
    return out


# -- loops ------------------------------------------------------------------------------------------------------------
def while_v2(cond: Callable | None, body: Callable, loop_vars: Any, shape_invariants: Any = None,
             parallel_iterations: int = 10, maximum_iterations: Any = None, name: str | None = None,
             return_same_structure: bool = True, like: Any = None) -> Any:
    """tf.while_loop as a While op. Without `cond`, it runs maximum_iterations times.

    The first loop variable counts the iterations, for the gradient loop; the second is the limit, -1 without one. Converters of
    GraphDefs expect both there. `like` has the structure of the loop variables, with the type of a composite that changes its
    shape in its place.
    """
    flat = [_loop_tensor(v) for v in nest.flatten(loop_vars, expand_composites=True)]
    shapes = [t.static_dims for t in flat] if shape_invariants is None else _invariants(flat, shape_invariants)
    with name_scope(name, "while", None) as scope:
        label = scope.rstrip("/").rsplit("/", 1)[-1]
        counter = convert(0, dtypes.int32, name="loop_counter")
        limited = maximum_iterations is not None
        start = [counter, _limit(maximum_iterations if limited else -1), *flat]
        dims = [(), (), *shapes]
        cond_graph, body_graph = (FuncGraph(f"{label}_{kind}", scope=scope) for kind in ("cond", "body"))
        for g in (cond_graph, body_graph):
            g.inputs = [_state_placeholder(g, t, d) for t, d in zip(start, dims, strict=True)]
        like = loop_vars if like is None else like
        _trace_cond(cond_graph, cond, like, limited)
        result = _trace_body(body_graph, body, like, flat, shapes)
        captures = share_captures([cond_graph, body_graph])
        body_graph.outputs = body_graph.outputs + body_graph.internal_captures
        made = _add_while(cond_graph, body_graph, [*start, *captures], dims, parallel_iterations, scope)
        outputs = _passed_on(made.outputs[2:2 + len(flat)])
        packed = rebuild(_in_structure(like, nest.flatten(result, expand_composites=True)), outputs)
    if return_same_structure or len(flat) > 1:
        return packed
    return packed[0] if isinstance(packed, (list, tuple)) and packed else packed


def _in_structure(like: Any, flat: list) -> Any:
    return nest.pack_sequence_as(like, flat, expand_composites=True)


def _loop_tensor(v: Any) -> Tensor:
    v = flow(v)
    t = convert(v)
    graph = context.current_graph()
    return graph.capture(t) if hasattr(t, "_value") or t.graph is not graph else t


def _limit(maximum: Any) -> Tensor:
    maximum = convert(maximum, dtypes.int32, "maximum_iterations") if not isinstance(maximum, Tensor) else maximum
    if maximum.static_dims not in ((), None):
        raise ValueError(f"maximum_iterations must be a scalar, saw shape: {maximum.shape}")
    return _loop_tensor(maximum if maximum.dtype.base_dtype == dtypes.int32 else get("Cast")(maximum, DstT=dtypes.int32))


def _state_placeholder(graph: FuncGraph, t: Tensor, dims: tuple | None) -> Tensor:
    out = graph.placeholder(t.dtype.base_dtype, dims, t.op.name)
    copy_handle_data(t, out)
    return out


def _invariants(flat: list[Tensor], shapes: list) -> list:
    """The static shape of every loop variable, checked against its shape at the start."""
    dims = [as_dims(s) for s in shapes]
    if len(dims) != len(flat):
        raise ValueError(f"shape_invariants has {len(dims)} shapes for {len(flat)} loop variables")
    for t, s in zip(flat, dims, strict=True):
        if not covers(s, t.static_dims):
            raise ValueError(f"The shape invariant specified for {t.name} is not compatible with the initial shape of the "
                             f"loop variable. It enters the loop with shape {t.shape}, but the specified shape invariant "
                             f"is {TensorShape.of(s)}.")
    return dims


def _trace_cond(graph: FuncGraph, cond: Callable | None, loop_vars: Any, limited: bool) -> None:
    counter, maximum, *state = graph.inputs

    def condition() -> Tensor:
        below = get("Less")(counter, maximum) if limited else None
        if cond is None:
            return below  # type: ignore[return-value]
        pred = cond(*_arguments(loop_vars, state))
        pred = convert(pred)
        if pred.dtype.base_dtype != dtypes.bool:
            raise errors.InvalidArgumentError(None, None, "The condition of a loop must return a tensor of type bool; this one "
                                                          f"returned {pred.dtype.base_dtype.name} (tensor {pred.name}).")
        if pred.static_dims != ():                   # as TensorFlow has it: one element in any number of dimensions
            pred = get("Squeeze")(pred)
        return pred if below is None else get("LogicalAnd")(below, pred)
    trace(graph, condition, ordered=_ordered())


def _arguments(loop_vars: Any, tensors: list[Tensor]) -> list:
    flat = nest.flatten(loop_vars, expand_composites=True)
    inside = [x._with_flow(t) if getattr(x, "_is_tensor_array", False) else t
              for x, t in zip(flat, tensors, strict=True)]
    packed = nest.pack_sequence_as(loop_vars, inside, expand_composites=True)
    return list(packed) if isinstance(packed, (list, tuple)) else [packed]


def _trace_body(graph: FuncGraph, body: Callable, loop_vars: Any, flat: list[Tensor], shapes: list) -> Any:
    counter, maximum, *inputs = graph.inputs
    kept: list = []

    def step() -> list:
        result = body(*_arguments(loop_vars, inputs))
        if not nest.is_nested_or_composite(result):
            result = [result]
        nest.assert_same_structure(_as_list(loop_vars), _as_list(result), expand_composites=True)
        kept.append(result)
        new = [convert(flow(x)) for x in nest.flatten(result, expand_composites=True)]
        _check_results(flat, new, shapes)
        return [get("AddV2")(counter, 1), maximum, *new]
    trace(graph, step, ordered=_ordered())
    return kept[0]


def _as_list(x: Any) -> Any:
    return list(x) if isinstance(x, (list, tuple)) and not hasattr(x, "_type_spec") else x


def _check_results(start: list[Tensor], new: list[Tensor], shapes: list) -> None:
    if len(start) != len(new):
        raise ValueError(f"Number of inputs and outputs of body must match loop_vars: {len(start)}, {len(new)}")
    for s, t, dims in zip(start, new, shapes, strict=True):
        if s.dtype.base_dtype != t.dtype.base_dtype:
            raise TypeError(f"Loop var {s.name} enters the loop with type {s.dtype} but has type {t.dtype} after "
                            "1 iteration.")
        if not covers(dims, t.static_dims):
            raise ValueError(f"Input tensor '{s.name}' enters the loop with shape {s.shape}, but has shape {t.shape} after "
                             "one iteration. To allow the shape to vary across iterations, use the `shape_invariants` "
                             "argument of tf.while_loop to specify a less-specific shape.")


def _add_while(cond_graph: FuncGraph, body_graph: FuncGraph, inputs: list[Tensor], dims: list, parallel: int,
               scope: str) -> Operation:
    cond, body = GraphFunction(cond_graph), GraphFunction(body_graph)
    definition = while_op if cond.stateful or body.stateful else stateless_while
    shapes = [*dims, *(t.static_dims for t in inputs[len(dims):])]
    attrs = {"cond": cond, "body": body, "output_shapes": [TensorShape.of(d) for d in shapes],
             "parallel_iterations": parallel}
    return add_calling_op(definition, (inputs,), attrs, [cond, body], scope)
