"""What graph construction and ops need from the layers above them: eager execution, and the compiler of function bodies.

A function call may execute eagerly, and a kernel may run the body of a function. `eager` and `step` implement both, and they
import `graph`. `eager` installs itself here when it is loaded; `startup.py` installs the compiler, which is loaded when it is
first used.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from penstock._src.graph.functions import GraphFunction
    from penstock._src.graph.node import Operation, Tensor
    from penstock._src.ops.registry import OpDef


class Bodies(Protocol):
    """The compiler, for functions that run inside of a step or as a step (step/bodies.py)."""

    def program(self, function: GraphFunction, ctx: Any, repeated: bool = False) -> Any:
        """The compiled body, a Runnable."""

    def unfused(self, function: GraphFunction, ctx: Any) -> Any:
        """The body as a Runnable that only calls ATen."""

    def optimized(self, function: GraphFunction, ctx: Any, in_loop: bool) -> Any:
        """The body as a StepGraph, after the passes."""

    def loop(self, test: GraphFunction, body: GraphFunction, ctx: Any) -> Any:
        """The program of a loop; None if it cannot be one."""

    def called(self, function: GraphFunction) -> Any:
        """The function as its own step, for eager code."""

    def bound(self, function: GraphFunction, ctx: Any, held: dict[int, Any]) -> Any:
        """The function as its own step, compiled for the values `held` of some arguments."""

    def shapes(self, function: GraphFunction, known: list) -> list:
        """The shapes of its results for arguments of the shapes `known`."""

    def once(self, ops: list[Operation], fetch: Tensor, feeds: list[Tensor], ctx: Any) -> Any:
        """A Runnable for a step that runs a single time."""


class Engine:
    """See `engine`, the only instance."""

    __slots__ = ("execute", "eager_context", "elsewhere", "bodies")

    execute: Callable[[OpDef, tuple, dict[str, Any], str | None], Any]     # runs an op, returns eager tensors: eager/execute.py
    eager_context: Callable[[], Any]                                       # the StepContext of eager ops: execute/context.py
    elsewhere: Callable[[OpDef, list, dict[str, Any], tuple], list | None] | None     # see below
    bodies: Bodies                                                         # step/bodies.py

    # `elsewhere` runs calls on other tasks, if this process is connected to some (models/distribute/connect.py): (op, inputs,
    # attributes, counts) to eager tensors, or None where the call is for this process.

    def __init__(self) -> None:
        self.elsewhere = None


engine = Engine()
