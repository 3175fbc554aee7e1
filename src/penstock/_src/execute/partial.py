"""partial_run: a step that continues as feeds arrive.

Keeps every value computed so far; each call computes what its fetches still need from the feeds given up to now.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import errors
from penstock._src.graph.build import group_inputs
from penstock._src.graph.failure import typed
from penstock._src.graph.node import Operation, Tensor
from penstock._src.step.compile.adapt import loosely
from penstock._src.step.compile.program import kernel_of


class PartialRun:
    """One partial step: its declared fetches and feeds, and the values known so far."""

    def __init__(self, elements: list, feeds: list[Tensor], ctx: Any, device_of: Callable[[Operation], Any] | None = None):
        self.ctx = ctx
        self._device_of = device_of                    # the device of an op; None where everything is on the host
        self._fetchable = {id(e): e for e in elements}
        self._feedable = {id(t): t for t in feeds}
        self._fetched: set[int] = set()
        self._values: dict[int, Any] = {}
        self._done: set[Operation] = set()
        self._calls: tuple = ()                        # the feeds and fetches of each call, by their ids

    def run(self, elements: list, feeds: list[Tensor], values: list) -> list:
        """Takes more feeds, returns the values of more fetches. Each may be named once."""
        for t, v in zip(feeds, values, strict=True):
            if id(t) not in self._feedable:
                raise errors.InvalidArgumentError(None, None, f"The feed {t.name} was not specified in partial_run_setup.")
            if id(t) in self._values:
                raise errors.InvalidArgumentError(None, None, f"The feed {t.name} has already been fed.")
            self._values[id(t)] = v
        for e in elements:
            if id(e) not in self._fetchable:
                done = id(e) in self._fetched
                raise errors.InvalidArgumentError(
                    None, None, f"The fetch {e.name} " + ("has already been fetched." if done else
                                                          "was not specified in partial_run_setup."))
        self._calls = (*self._calls, tuple(map(id, feeds)), tuple(map(id, elements)))
        self._compute(elements)
        out = [self._value(e) if isinstance(e, Tensor) else None for e in elements]
        for e in elements:
            self._fetched.add(id(e))
            self._fetchable.pop(id(e), None)
        return out

    @property
    def is_finished(self) -> bool:
        """Whether all declared fetches have been returned."""
        return not self._fetchable

    def _compute(self, elements: list) -> None:
        """Ensures that the values of `elements` are known."""
        for e in elements:
            self._need(e.op if isinstance(e, Tensor) and id(e) not in self._values else e)

    def _value(self, t: Tensor) -> Any:
        v = self._values[id(t)]
        return v.read() if t.dtype._is_ref_dtype and hasattr(v, "read") else v

    def _need(self, element: Any) -> None:
        """Runs the ops that `element` waits for, without recursion."""
        if isinstance(element, Tensor):
            return
        stack = [(element, False)]
        while stack:
            op, ready = stack.pop()
            if op in self._done or (op.outputs and all(id(t) in self._values for t in op.outputs)):
                continue
            if ready:
                self._execute(op)
                continue
            stack.append((op, True))
            stack.extend((c, False) for c in op.control_inputs)
            for t in op.inputs:
                if id(t) in self._values:
                    continue
                if id(t) in self._feedable:
                    raise errors.InvalidArgumentError(
                        None, None, f"Must feed {t.name} before fetching what depends on it.")
                stack.append((t.op, False))

    def _execute(self, op: Operation) -> None:
        kernel = kernel_of(op)
        values, i = [], 0
        counts = op.counts or (None,) * len(op.inputs)
        for arg, n in zip(op.opdef.inputs, counts, strict=True):
            for t in op.inputs[i:i + (1 if n is None else n)]:
                values.append(self._values[id(t)] if arg.is_ref else self._value(t))
            i += 1 if n is None else n
        args = group_inputs(op.opdef, values, op.counts)
        bound = kernel.bind(op.attrs, op)
        if self._device_of is not None:
            bound = loosely(bound, op.opdef, self._device_of(op), [t.dtype for t in op.inputs], op.counts,
                            [t.dtype for t in op.outputs])
        try:
            out = bound(*args, **({"ctx": self.ctx} if kernel.wants_ctx else {}))
        except Exception as e:
            raise typed(e, op) from e
        self._done.add(op)
        for t, v in zip(op.outputs, op.opdef.flat(out), strict=True):
            self._values.setdefault(id(t), v)
