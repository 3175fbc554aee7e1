"""The result of compiling a step: the methods that callers may use, whatever runs it.

A straight program, a program with loops, the dataflow executor, programs on several threads, a recording, a CUDA graph, a
set of programs for several shapes and a step across tasks are all Runnables. They inherit from this class, whose defaults fit
the common case, so that callers need no type tests.
"""
from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from penstock._src.graph.node import Tensor
from penstock._src.step.ir import Node


class Runnable(Protocol):
    """A compiled step. Any number of threads may run it at once."""

    on_one_thread: bool = False          # all of it runs on the caller's thread, in the order of `sequence`
    unlocked: bool = False               # it needs Python's lock for little of its time

    def run(self, ctx: Any, *feeds: Any) -> tuple:
        """One step: takes the fed values in order, returns the fetched ones in order."""
        ...

    def failing_op(self, traceback: types.TracebackType | None) -> Node | None:
        """The op that raised; None if the error is not from one of this step's ops, or names its op already."""
        ...

    def pick(self, values: Sequence[Any]) -> Runnable:
        """The runnable for fed values: another one where shapes have their own programs."""
        return self

    @property
    def sequence(self) -> list[Node]:
        """The ops in the order in which they run, if that is fixed."""
        return []

    def text(self) -> str:
        """The step as text, for logs and reports."""
        return str(self)

    def explained(self, feeds: list[Tensor], device: Callable[[Node], str]) -> str:
        """The step as text for users; `device(op)` names the device of an op, or is empty where there is only one."""
        return self.text()
