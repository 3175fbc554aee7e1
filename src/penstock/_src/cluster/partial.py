"""partial_run over several tasks: each call is a separate step over the ops that have not run yet.

Values that later calls need are fetched too, and fed to them.
"""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes, errors
from penstock._src.execute.partial import PartialRun
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.prune import needed
from penstock._src.step.ir import StepGraph


class TaskPartialRun(PartialRun):
    """One partial step of a ClusterEngine."""

    def __init__(self, elements: list, feeds: list[Tensor], engine: Any):
        super().__init__(elements, feeds, engine.context(None))
        self._engine = engine
        tensors, targets = [e for e in elements if isinstance(e, Tensor)], [e for e in elements if isinstance(e, Operation)]
        self._all = needed(tensors, targets, {id(t) for t in feeds})

    def _compute(self, elements: list) -> None:
        ops = self._ready(elements)
        if not ops:
            return
        inside = set(ops)
        later = {id(t) for op in self._all if op not in inside and op not in self._done for t in op.inputs}
        wanted = {id(t): t for t in elements if isinstance(t, Tensor) and id(t) not in self._values}
        wanted.update({id(t): t for op in ops for t in op.outputs if id(t) in later and not _is_handle(t)})
        used = {id(t): t for op in ops for t in op.inputs if id(t) in self._values}
        fetches, feeds = list(wanted.values()), list(used.values())
        targets = [op for op in ops if op in elements]
        step = StepGraph(ops, fetches, targets, feeds)
        self._engine.place(step)
        results = self._engine.task_step(step).run(self.ctx, *[self._values[id(t)] for t in feeds])
        self._values.update(zip(wanted, results, strict=True))
        self._done.update(op for op in ops if not any(_is_handle(t) for t in op.outputs))

    def _ready(self, elements: list) -> list[Operation]:
        """The ops that `elements` still need, inputs first."""
        found: dict[Operation, None] = {}
        stack: list[tuple[Operation, bool]] = [(e.op if isinstance(e, Tensor) else e, False) for e in elements
                                               if id(e) not in self._values]
        while stack:
            op, ready = stack.pop()
            if op in found or op in self._done:
                continue
            if ready:
                found[op] = None
                continue
            stack.append((op, True))
            stack.extend((c, False) for c in op.control_inputs)
            for t in op.inputs:
                if id(t) in self._feedable and id(t) not in self._values:
                    raise errors.InvalidArgumentError(None, None, f"Must feed {t.name} before fetching what depends on it.")
                if id(t) not in self._values:
                    stack.append((t.op, False))
        return list(found)


def _is_handle(t: Tensor) -> bool:
    """Whether a tensor is a resource handle: it is meaningless in another process, and its op may run again."""
    return t.dtype is dtypes.resource or t.dtype._is_ref_dtype and not t.op.inputs
