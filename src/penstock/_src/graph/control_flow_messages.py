"""Control flow contexts as messages: how a MetaGraphDef keeps the loops and conditionals of a graph differentiable."""
from __future__ import annotations

import functools
from typing import Any

from google.protobuf import descriptor_pool

from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys, register_proto_function
from penstock._src.graph.control_flow_context import CondContext, ControlFlowContext
from penstock._src.graph.messages import declare
from penstock._src.graph.scopes import prepend_name_scope, strip_name_scope
from penstock._src.graph.while_context import WhileContext

_messages = declare("penstock/control_flow.proto", "penstock", descriptor_pool.Default(), {
    "ValuesDef": "repeated string values = 1; map<string, string> external_values = 2",
    "ControlFlowContextDef": "CondContextDef cond_ctxt = 1 | WhileContextDef while_ctxt = 2",
    "CondContextDef": "string context_name = 1; string pred_name = 2; string pivot_name = 3; int32 branch = 4; "
                      "ValuesDef values_def = 5; repeated ControlFlowContextDef nested_contexts = 6",
    "WhileContextDef": "string context_name = 1; int32 parallel_iterations = 2; bool back_prop = 3; bool swap_memory = 4; "
                       "string pivot_name = 5; string pivot_for_pred_name = 6; string pivot_for_body_name = 7; "
                       "repeated string loop_exit_names = 8; ValuesDef values_def = 9; repeated string loop_enter_names = 10; "
                       "string maximum_iterations_name = 11; repeated ControlFlowContextDef nested_contexts = 12",
})
ValuesDef: Any = _messages["ValuesDef"]
CondContextDef: Any = _messages["CondContextDef"]
WhileContextDef: Any = _messages["WhileContextDef"]
ControlFlowContextDef: Any = _messages["ControlFlowContextDef"]


def to_message(ctxt: Any, export_scope: str | None = None) -> Any:
    """The CondContextDef or WhileContextDef; None if the context is not in `export_scope`."""
    if export_scope is not None and not ctxt.name.startswith(export_scope):
        return None
    strip = functools.partial(strip_name_scope, export_scope=export_scope)
    if ctxt.IsCondContext():
        out = CondContextDef(context_name=strip(ctxt.name), pred_name=strip(ctxt.pred.name),
                             pivot_name=strip(ctxt.pivot.name), branch=ctxt.branch)
    else:
        out = WhileContextDef(
            context_name=strip(ctxt.name), parallel_iterations=ctxt.parallel_iterations, back_prop=ctxt.back_prop,
            swap_memory=ctxt.swap_memory, pivot_name=strip(ctxt.pivot.name),
            pivot_for_pred_name=strip(ctxt._pivot_for_pred.name), pivot_for_body_name=strip(ctxt._pivot_for_body.name),
            loop_exit_names=[strip(t.name) for t in ctxt.loop_exits],
            loop_enter_names=[strip(t.name) for t in ctxt.loop_enters])
        if ctxt.maximum_iterations is not None:
            out.maximum_iterations_name = strip(ctxt.maximum_iterations.name)
    out.values_def.CopyFrom(values_message(ctxt, export_scope))
    for nested in ctxt._nested_contexts:
        nested.to_control_flow_context_def(out.nested_contexts.add(), export_scope)
    return out


def values_message(ctxt: ControlFlowContext, export_scope: str | None = None) -> Any:
    """The names of the tensors known inside a context."""
    out = ValuesDef(values=[strip_name_scope(v, export_scope) for v in sorted(ctxt._values)])
    for name, t in ctxt._external_values.items():
        out.external_values[strip_name_scope(name, export_scope)] = strip_name_scope(t.name, export_scope)
    return out


def from_message(message: Any, import_scope: str | None = None) -> Any:
    """A context from its message, over the ops of the default graph."""
    if message.DESCRIPTOR.name == "ControlFlowContextDef":
        message = getattr(message, message.WhichOneof("kind"))
    graph = context.current_graph()

    def element(name: str) -> Any:
        return graph.as_graph_element(prepend_name_scope(name, import_scope))
    made: Any
    if message.DESCRIPTOR.name == "CondContextDef":
        made = object.__new__(CondContext)
        made._pred, made._pivot, made._branch = element(message.pred_name), element(message.pivot_name), message.branch
    else:
        made = object.__new__(WhileContext)
        limit = message.maximum_iterations_name
        made._maximum_iterations = element(limit) if limit else None
        made._parallel_iterations = message.parallel_iterations
        made._back_prop, made._swap_memory = message.back_prop, message.swap_memory
        made._pivot_for_pred, made._pivot_for_body = element(message.pivot_for_pred_name), element(message.pivot_for_body_name)
        made._pivot = element(message.pivot_name)
        made._loop_exits = [element(n) for n in message.loop_exit_names]
        made._loop_enters = [element(n) for n in message.loop_enter_names]
        made._graph, made._grad_state = graph, None
    _set_surroundings(made, message, import_scope)
    made.Enter()
    for nested in message.nested_contexts:
        from_message(nested, import_scope)
    made.Exit()
    return made


def _set_surroundings(made: Any, message: Any, import_scope: str | None) -> None:
    """Sets name, outer context and known values, and assigns the context to its ops."""
    graph = context.current_graph()
    made._name = prepend_name_scope(message.context_name, import_scope)
    made._outer_context, made._nested_contexts, made._context_stack = graph._get_control_flow_context(), [], []
    if made._outer_context is not None:
        made._outer_context._nested_contexts.append(made)
    made._values = {prepend_name_scope(v, import_scope) for v in message.values_def.values}
    made._external_values = {prepend_name_scope(k, import_scope): graph.as_graph_element(prepend_name_scope(v, import_scope))
                             for k, v in message.values_def.external_values.items()}
    inside = {n.split(":")[0] for n in made._values - set(made._external_values)}
    for name in inside:
        op = graph._by_name.get(name)
        if op is not None:
            op._set_control_flow_context(made)
            if import_scope and op.opdef.control_flow == "enter" and made.IsWhileContext():
                op.attrs["frame_name"] = made._name


register_proto_function(GraphKeys.COND_CONTEXT, CondContextDef, to_message, from_message)
register_proto_function(GraphKeys.WHILE_CONTEXT, WhileContextDef, to_message, from_message)
