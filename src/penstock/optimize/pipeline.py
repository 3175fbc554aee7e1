"""The passes in their order."""
from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

from penstock.graph.node import Operation, Tensor
from penstock.optimize.arithmetic import simplify_arithmetic
from penstock.optimize.branches import narrow_branches
from penstock.optimize.common import merge_common
from penstock.optimize.dead_branches import drop_dead_branches
from penstock.optimize.dependencies import simplify_dependencies
from penstock.optimize.early import advance_early
from penstock.optimize.folding import fold_constants
from penstock.optimize.forwarding import forward_values
from penstock.optimize.fusion import fuse
from penstock.optimize.inlining import inline_calls
from penstock.optimize.loop_variables import narrow_loops
from penstock.optimize.loops import improve_body, improve_loops
from penstock.optimize.options import Options
from penstock.optimize.pointwise import join_body, join_pointwise, may_join
from penstock.optimize.saved import save_together
from penstock.optimize.shapes import specialize_shapes
from penstock.optimize.small import join_small
from penstock.optimize.step import StepGraph

PASSES = (
    ("dependency_optimization", simplify_dependencies),
    ("arithmetic_optimization", forward_values),
    ("constant_folding", fold_constants),
    ("loop_optimization", drop_dead_branches),
    ("loop_optimization", narrow_loops),
    ("arithmetic_optimization", simplify_arithmetic),
    ("common_subexpressions", merge_common),
    ("loop_optimization", improve_loops),
    ("remapping", fuse),
    ("remapping", join_pointwise),
    ("loop_optimization", save_together),
    ("remapping", join_small),
)
_IN_BODIES = {improve_loops: improve_body, join_pointwise: join_body}


def optimize(ops: list[Operation], fetches: list[Tensor], targets: list[Operation], feeds: list[Tensor],
             options: Options, placed: dict[Operation, Any] | None = None, dims: list | None = None,
             inline: bool = False) -> StepGraph:
    """A copy of the step's ops, with the passes that `options` ask for done to it; for feeds of shapes `dims`, if given.

    `inline` puts the ops of functions that it calls into it.
    """
    step = StepGraph(ops, fetches, targets, feeds, placed)
    if inline:
        inline_calls(step)
    if dims is not None:
        specialize_shapes(step, dims)
    narrow_branches(step)
    step.joins_pointwise = options.remapping and not options.jit and may_join(step)
    for switch, run in PASSES:
        if getattr(options, switch) and not (options.jit and run is join_small):       # torch.compile knows better
            (_IN_BODIES.get(run, run) if inline else run)(step)
    advance_early(step)
    if options.jit:
        from penstock.optimize.parts import take_parts
        take_parts(step)
    return step


@contextlib.contextmanager
def paused_collector() -> Iterator[None]:
    """Without the garbage collector: compiling makes many objects, and none of them is garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
