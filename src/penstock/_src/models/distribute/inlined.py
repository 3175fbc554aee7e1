"""The body of a function as ops of the current graph: a step of several tasks can partition graphs, but not functions.

Calls are inlined recursively. Conditionals and loops stay whole where all that they use is on one task; one that
uses a resource of another task becomes Switch and Merge, and Enter, Exit and NextIteration, which can be cut between tasks.
"""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

from penstock._src.base import dtypes, errors
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.func_graph import copy_handle_data
from penstock._src.graph.functions import GraphFunction, add_to_library, as_function
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.prune import needed
from penstock._src.graph.scopes import control_dependencies, device
from penstock._src.kernels.devices.device_spec import name_of, parts_of
from penstock._src.ops import rules
from penstock._src.ops.control import control_flow
from penstock._src.ops.core import identity
from penstock._src.ops.registry import get

_HERE = "localhost"                     # the job of devices that were named before it was known which task runs the function


def is_call(opdef: Any) -> bool:
    """Whether an op only calls one function."""
    return opdef in rules.inlining.in_place and opdef not in rules.inlining.chooses


def used_inputs(function: GraphFunction) -> list[bool]:
    """Which inputs a function reads."""
    ops = needed(function.outputs, function.graph.control_outputs, {id(t) for t in function.inputs})
    used = {id(t) for op in ops for t in op.inputs} | {id(t) for t in function.outputs}
    return [id(t) in used for t in function.inputs]


class Body:
    """Writes functions into the current graph. `foreign` are the handles of resources of other tasks."""

    def __init__(self, foreign: Iterable[Tensor]):
        self._foreign = {id(t) for t in foreign}

    def write(self, function: GraphFunction, args: list) -> tuple[list[Tensor], list[Operation]]:
        """The outputs of a function on tensors of the current graph (None for those that it does not use), and what has to
        run for its side effects."""
        copies: dict[int, Any] = {id(p): a for p, a in zip(function.inputs, args, strict=True)}
        done: dict[Operation, list[Operation]] = {p.op: [] for p in function.inputs}
        for op in needed(function.outputs, function.graph.control_outputs, set(copies)):
            waits = list(dict.fromkeys(c for old in op.control_inputs for c in done.get(old, ())))
            inputs = [copies[id(t)] for t in op.inputs]
            with _device(op):
                made, done[op] = self._written(op, inputs, waits)
            for old, new in zip(op.outputs, made, strict=True):
                copies[id(old)] = new
        outputs = [copies[id(t)] for t in function.outputs]
        return outputs, list(dict.fromkeys(c for old in function.graph.control_outputs for c in done[old]))

    def _written(self, op: Operation, inputs: list, waits: list) -> tuple[list[Tensor], list[Operation]]:
        if is_call(op.opdef):
            with control_dependencies(waits):
                outputs, done = self.write(as_function(op.attrs["f"], op.graph), inputs)
                return outputs, self._one([*done, *(t.op for t in outputs)])
        if op.opdef.calls and any(id(t) in self._foreign for t in inputs):
            with control_dependencies(waits):
                return self._lowered(op, inputs)
        made = self._copied(op, inputs, waits)
        if any(id(t) in self._foreign for t in inputs):
            self._foreign.update(id(t) for t in made.outputs if t.dtype == dtypes.resource)
        return list(made.outputs), [made]

    @staticmethod
    def _one(ops: list[Operation]) -> list[Operation]:
        """Groups many control inputs into one op."""
        ops = list(dict.fromkeys(ops))
        return ops if len(ops) < 4 else [_group(ops)]

    @staticmethod
    def _copied(op: Operation, inputs: list, waits: list) -> Operation:
        if op.opdef.control_flow:
            raise errors.UnimplementedError(None, None, f"{op.name} ({op.type}) of v1 control flow is inside of a function "
                                            "that uses several tasks. Use tf.cond and tf.while_loop of 2.x there.")
        graph = context.current_graph()
        for attr in op.opdef.function_attrs if op.opdef.calls else ():
            given = op.attrs.get(attr)
            for f in given if isinstance(given, list) else () if given is None else (given,):
                add_to_library(graph, as_function(f, op.graph))
        made = graph.add(op.opdef, graph.unique_name(op.name), inputs, dict(op.attrs), [t.dtype for t in op.outputs],
                         op.counts, control_inputs=waits)
        made.frames = op.frames
        for old, new in zip(op.outputs, made.outputs, strict=True):
            new.static_dims = old.static_dims
            copy_handle_data(old, new)
        return made

    # -- control flow of ops that can be cut --------------------------------------------------------------------------
    def _lowered(self, op: Operation, inputs: list) -> tuple[list[Tensor], list[Operation]]:
        attrs = op.attrs
        if "body" in attrs and "cond" in attrs:
            return self._loop(op, as_function(attrs["cond"], op.graph), as_function(attrs["body"], op.graph), inputs)
        branches = [as_function(f, op.graph) for name in rules.inlining.branches.get(op.opdef, ()) for f in
                    (attrs[name] if isinstance(attrs[name], list) else [attrs[name]])]
        if not branches:
            raise errors.UnimplementedError(None, None, f"{op.name} ({op.type}) uses resources of several tasks.")
        if op.opdef in rules.inlining.chooses:
            outputs = self._choice(_truth(inputs[0]), branches[0], branches[1], inputs[1:])
        else:
            outputs = self._case(inputs[0], 0, branches, inputs[1:])
        return outputs[1:], [outputs[0].op]

    def _case(self, index: Tensor, i: int, branches: list[GraphFunction], inputs: list) -> list[Tensor]:
        if i == len(branches) - 1:
            return self._branch(branches[i], inputs)()
        return self._choice(get("Equal")(index, i), branches[i], lambda: self._case(index, i + 1, branches, inputs), inputs)

    def _choice(self, pred: Tensor, then: Any, otherwise: Any, inputs: list) -> list[Tensor]:
        """Switches and merges; the first result only says that the branch is done."""
        fns = [self._branch(f, inputs) if isinstance(f, GraphFunction) else f for f in (then, otherwise)]
        return list(control_flow.switched(pred, *fns))

    def _branch(self, function: GraphFunction, inputs: list) -> Callable[[], list[Tensor]]:
        def results() -> list[Tensor]:
            outputs, done = self.write(function, self._again(inputs))
            with control_dependencies(done):
                return [convert(0), *(identity(t) for t in outputs)]
        return results

    def _again(self, inputs: list) -> list:
        """Handles of other tasks, made again inside of a branch or loop: they do not pass through its switches."""
        out = []
        for t in inputs:
            if id(t) in self._foreign and t.op.opdef.per_session and not t.op.inputs:
                with device(t.op.device):
                    t = self._copied(t.op, [], []).outputs[0]
                self._foreign.add(id(t))
            out.append(t)
        return out

    def _loop(self, op: Operation, test: GraphFunction, body: GraphFunction,
              inputs: list) -> tuple[list[Tensor], list[Operation]]:
        """A loop over what changes; resources stay what they are."""
        def test_again(*values: Any) -> Tensor:
            return self.write(test, self._again(among(values)))[0][0]
        moving = [i for i, t in enumerate(inputs) if t.dtype != dtypes.resource]

        def among(values: Any) -> list:
            found = list(inputs)
            for i, v in zip(moving, values, strict=True):
                found[i] = v
            return found

        def step(*values: Any) -> list[Tensor]:
            outputs, done = self.write(body, self._again(among(values)))
            with control_dependencies(done):
                results = [identity(outputs[i]) for i in moving]
            for result, shape in zip(results, shapes, strict=True):
                result.set_shape(shape)              # a body that was loaded knows less than the loop around it
            return results
        shapes = [op.outputs[i].shape for i in moving]
        got = control_flow.cut_loop(test_again, step, [inputs[i] for i in moving], shapes)
        outputs = among(got)
        return outputs, self._one([outputs[i].op for i in moving])


def _group(ops: list[Operation]) -> Operation:
    with control_dependencies(ops):
        return get("NoOp")()


def _device(op: Operation) -> Any:
    """The scope of what an op requests, without the name of a task that represented whichever runs it."""
    if not op.device:
        return contextlib.nullcontext()
    job, _, _, kind, index = parts_of(op.device)
    return device(op.device if job not in (None, _HERE) else name_of((None, None, None, kind, index)))


def _truth(pred: Tensor) -> Tensor:
    return pred if pred.dtype.base_dtype == dtypes.bool else get("Cast")(pred, DstT=dtypes.bool)
