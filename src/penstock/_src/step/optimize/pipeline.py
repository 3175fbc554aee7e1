"""The passes in their order."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import switches
from penstock._src.step.ir import Pass, Place, StepGraph, verify
from penstock._src.step.loops.improve import improve_body, improve_loops
from penstock._src.step.loops.saved import save_together
from penstock._src.step.loops.variables import narrow_loops
from penstock._src.step.optimize.arithmetic import simplify_arithmetic
from penstock._src.step.optimize.branches import narrow_branches
from penstock._src.step.optimize.common import merge_common
from penstock._src.step.optimize.dead_branches import drop_dead_branches
from penstock._src.step.optimize.dependencies import simplify_dependencies
from penstock._src.step.optimize.early import advance_early
from penstock._src.step.optimize.folding import fold_constants
from penstock._src.step.optimize.forwarding import forward_values
from penstock._src.step.optimize.fusion import fix_sizes, fuse, simplify
from penstock._src.step.optimize.inlining import inline_calls
from penstock._src.step.optimize.late_reads import read_late
from penstock._src.step.optimize.memory import recompute_cheap, release_early
from penstock._src.step.optimize.on_device import join_on_device
from penstock._src.step.optimize.options import Options
from penstock._src.step.optimize.ordering import forward_assigned, relax_order
from penstock._src.step.optimize.pointwise import join_body, join_pointwise, may_join
from penstock._src.step.optimize.reads_first import use_reads_first
from penstock._src.step.optimize.regions import join_regions, join_regions_of_body
from penstock._src.step.optimize.shapes import calls_open, check_functions, specialize_shapes
from penstock._src.step.optimize.single import write_out_loops
from penstock._src.step.optimize.small import join_small
from penstock._src.step.optimize.updates import join_updates


def known_blocks(step: StepGraph) -> None:
    """Replaces structures that have kernels of their own."""
    if step.use_blocks is not None:
        step.use_blocks(step)


PASSES = (
    ("dependency_optimization", simplify_dependencies),
    ("arithmetic_optimization", forward_values),
    ("dependency_optimization", relax_order),
    ("arithmetic_optimization", forward_assigned),
    ("constant_folding", fold_constants),
    ("loop_optimization", drop_dead_branches),
    ("loop_optimization", narrow_loops),
    ("arithmetic_optimization", simplify_arithmetic),
    ("common_subexpressions", merge_common),
    ("loop_optimization", improve_loops),
    ("arithmetic_optimization", fix_sizes),
    ("arithmetic_optimization", simplify),
    ("remapping", known_blocks),
    ("remapping", fuse),
    ("joined_updates", join_updates),
    ("remapping", join_pointwise),
    ("loop_optimization", save_together),
    ("remapping", join_regions),
    ("remapping", join_small),
    ("memory", release_early),
    ("memory", recompute_cheap),
    ("remapping", join_on_device),
    ("memory", use_reads_first),
)
_VERIFY = switches.VERIFY_PASSES.value()            # tests set it
_IN_BODIES: dict[Any, Callable] = {improve_loops: improve_body, join_pointwise: join_body, join_regions: join_regions_of_body,
                               release_early: lambda body: None, recompute_cheap: lambda body: None,
                               join_on_device: lambda body: None, use_reads_first: lambda body: None,
                               known_blocks: lambda body: None}


def optimize(step: StepGraph, options: Options, dims: list | None = None, in_loop: bool = False,
             place: Place | None = None, blocks: Pass | None = None, part: Pass | None = None) -> StepGraph:
    """Runs the passes that `options` request on a step; for feeds of shapes `dims`, if given, or as the body of a loop.

    `place` assigns devices to the ops of called functions; `blocks` replaces structures that have kernels of their own;
    `part` keeps a part of the step.
    """
    step.use_blocks = blocks
    if _VERIFY:
        verify(step, "import and placement")
    read_late(step)
    check_functions(step)
    if options.function_optimization:
        inline_calls(step, place)
    if part is not None:
        part(step)
    if dims is not None:
        specialize_shapes(step, dims)
    elif options.shape_optimization and calls_open(step):
        specialize_shapes(step, [None] * len(step.feeds))
    narrow_branches(step)
    if options.loop_optimization:
        write_out_loops(step)
    step.joins_pointwise = options.remapping and may_join(step)
    step.joins_on_device = options.remapping and not in_loop and not step.has_control_flow
    for switch, run in PASSES:
        if getattr(options, switch):
            (_IN_BODIES.get(run, run) if in_loop else run)(step)
            if _VERIFY:
                verify(step, run.__name__)
    advance_early(step)
    if _VERIFY:
        verify(step, "advance_early")
    return step
