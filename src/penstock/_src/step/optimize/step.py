"""The ops of one step as a copy that passes may change.

The user's graph is never touched. A copied op has the name, frames and device of its original and refers to it as `_origin`,
so that errors and traces speak of the op that the user made. `ops` is always in an order in which they can run; the only
inputs that may come later are those that go round a loop (`back_edge`). `_consumers` and `_control_outputs` are not kept up:
a pass that needs them asks `users`.
"""
from __future__ import annotations

from typing import Any

import torch

from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.prune import needed
from penstock._src.ops.registry import OpDef, get

_SMALL = 64          # elements of a value that is known beforehand and becomes a constant of the graph


class _View:
    """The graph of copied ops: the same, with separate caches."""

    def __init__(self, graph: Any):
        self.original, self.caches = graph, {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)


class StepGraph:
    """The ops of a step with what is fetched from it, run for its effect, and fed to it."""

    def __init__(self, ops: list[Operation], fetches: list[Tensor], targets: list[Operation], feeds: list[Tensor],
                 placed: dict[Operation, Any] | None = None, held: dict[Operation, Any] | None = None):
        made: dict[int, Tensor] = {}
        views: dict[int, _View] = {}
        copies: dict[Operation, Operation] = {}
        self.ops = []
        for op in ops:
            view = views.get(id(op.graph))
            if view is None:
                view = views[id(op.graph)] = _View(op.graph)
            copy = copies[op] = _copy(op, view)
            if held is not None and op in held:
                copy.opdef, copy.attrs = _known(op, held[op])
                if isinstance(held[op], torch.Tensor):
                    copy.outputs[0]._dims = tuple(held[op].shape)
            for t, c in zip(op.outputs, copy.outputs):
                made[id(t)] = c
            self.ops.append(copy)
        for t in feeds:
            if id(t) not in made:                    # its op does not run
                made[id(t)] = t.__copy__()
        for op, copy in copies.items():
            copy._inputs = [made[id(t)] for t in op._inputs]
            if op._control_inputs:
                copy._control_inputs = [copies[c] for c in op._control_inputs if c in copies]
        self.fetches = [made[id(t)] for t in fetches]
        self.targets = [copies[op] for op in targets]
        self.feeds = [made[id(t)] for t in feeds]
        self.fed = {id(t) for t in self.feeds}
        self.has_control_flow = any(op.opdef.control_flow for op in ops)
        self._where = placed
        self.joins_pointwise = False                  # whether pointwise ops of loops will be joined (pointwise.py)

    @property
    def places(self) -> dict[Operation, Any]:
        """The devices of the ops that these are copies of."""
        return self._where or {}

    def place(self, more: dict[Operation, Any]) -> None:
        """Adds devices for ops that are put into the step."""
        self._where = {**self.places, **more}

    @property
    def placed(self) -> dict[Operation, Any] | None:
        """Devices for the ops: those that their originals were given; None where there is only one."""
        return None if self._where is None else {op: self._where[op._origin] for op in self.ops}

    def on_host(self, op: Operation) -> bool:
        """Whether an op runs on the CPU."""
        return self._where is None or self._where[op._origin].host

    def together(self, a: Operation, b: Operation) -> bool:
        """Whether two ops run on the same device."""
        return a._device == b._device if self._where is None else self._where[a._origin] is self._where[b._origin]

    def users(self) -> dict[int, list[Operation]]:
        """The ops that take each tensor, by the tensor's id."""
        users: dict[int, list[Operation]] = {}
        for op in self.ops:
            for t in op._inputs:
                users.setdefault(id(t), []).append(op)
        return users

    def kept(self) -> set[Operation]:
        """The ops that were requested: a pass may not drop them."""
        return {*self.targets, *(t._op for t in self.fetches)}

    def substitute(self, by: dict[int, Tensor]) -> None:
        """Puts other tensors in place of some: in the inputs of all ops, and in the fetches."""
        if not by:
            return
        for old in by:
            t = by[old]
            while id(t) in by:
                t = by[id(t)]
            by[old] = t
        for op in self.ops:
            inputs = op._inputs
            for i, t in enumerate(inputs):
                if id(t) in by:
                    inputs[i] = by[id(t)]
        self.fetches = [by.get(id(t), t) for t in self.fetches]

    def prune(self) -> None:
        """Dead-code elimination."""
        live = {*self.targets, *(t._op for t in self.fetches if id(t) not in self.fed)}
        fed, out = self.fed, []
        for op in reversed(self.ops):
            if op.opdef.back_edge:                    # needed by ops that come before it
                self.ops = needed(self.fetches, self.targets, fed)
                return
            if op in live:
                out.append(op)
                live.update([t._op for t in op._inputs if id(t) not in fed] if fed else [t._op for t in op._inputs])
                if op._control_inputs:
                    live.update([c for c in op._control_inputs if fed.isdisjoint(map(id, c.outputs))])
        out.reverse()
        self.ops = out

    def make(self, opdef: OpDef | str, inputs: list[Tensor], attrs: dict[str, Any], like: Operation, dims: list,
             dtypes: list | None = None, control: list[Operation] | None = None) -> Operation:
        """A new op that stands for `like`, under its name. The caller puts it into `ops`.

        `dims` are the static shapes of its outputs, `dtypes` their types (of `like`'s outputs, unless given).
        """
        opdef = get(opdef) if isinstance(opdef, str) else opdef
        op = object.__new__(Operation)
        op.__dict__.update(like.__dict__)
        op.opdef, op.attrs, op._inputs, op._counts = opdef, attrs, inputs, ()
        op._control_inputs = list(like._control_inputs if control is None else control)
        dtypes = [t._dtype for t in like.outputs] if dtypes is None else dtypes
        op.outputs = [Tensor(op, i, t, d) for i, (t, d) in enumerate(zip(dtypes, dims, strict=True))]
        return op


def _copy(op: Operation, view: _View) -> Operation:
    new = object.__new__(Operation)
    new.__dict__.update(op.__dict__)
    new._origin = op._origin or op
    new.graph = view                                  # type: ignore[assignment]
    new._control_inputs, new._control_outputs = [], []
    outputs = []
    for t in op.outputs:
        c = object.__new__(type(t))
        c.__dict__.update(t.__dict__)
        c._op, c._consumers = new, []
        outputs.append(c)
    new.outputs = outputs
    return new


def _known(op: Operation, value: Any) -> tuple[OpDef, dict[str, Any]]:
    """The op, in place of a placeholder, that gives a value known beforehand; passes see through a short one."""
    if isinstance(value, torch.Tensor) and value.is_cpu and value.numel() <= _SMALL and value.dtype is not torch.bfloat16:
        return get("Const"), {"dtype": op.outputs[0].dtype.base_dtype, "value": value.numpy().copy()}
    return get("_Held"), {"dtype": op.outputs[0].dtype.base_dtype, "value": value}


def is_const(t: Tensor) -> bool:
    """Whether a tensor is a constant of the graph."""
    return t._op.opdef.constant


def verify(step: StepGraph) -> None:
    """Checks the invariants that passes keep; AssertionError names the op that breaks one."""
    seen: set[Operation] = set()
    for op in step.ops:
        for t in op._inputs:
            source = t._op
            if id(t) not in step.fed and source not in seen and not source.opdef.back_edge:
                raise AssertionError(f"{op.name} runs before its input {t.name}")
        for c in op._control_inputs:
            if c not in seen and not c.opdef.back_edge and step.fed.isdisjoint(map(id, c.outputs)):
                raise AssertionError(f"{op.name} runs before {c.name}, for which it waits")
        seen.add(op)
    for t in step.fetches:
        if id(t) not in step.fed and t._op not in seen:
            raise AssertionError(f"{t.name} is fetched, and its op does not run")
    for op in step.targets:
        if op not in seen:
            raise AssertionError(f"{op.name} was asked for, and does not run")
