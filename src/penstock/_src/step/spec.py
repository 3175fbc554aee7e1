"""What a step is asked to do (StepSpec), and where it will run (StepEnv).

Sessions, functions, parts of distributed steps and lifted initial values differ in these two only; compiler.py makes
a Runnable of them.
"""
from __future__ import annotations

import dataclasses
from typing import Any

from penstock._src.graph.functions import GraphFunction
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.prune import needed
from penstock._src.step.optimize.options import ALL, Options, jit_everywhere
from penstock._src.step.place.placer import Placement, inside


@dataclasses.dataclass(slots=True, eq=False)
class StepSpec:
    """The pruned ops of a step in an order in which they can run, and what is wanted of them."""
    ops: list[Operation]
    fetches: list[Tensor]                       # whose values are returned, in this order
    targets: list[Operation]                    # that run for their effect
    feeds: list[Tensor]                         # whose values are given, in this order
    placed: Placement | None = None             # the devices of the ops; None where there is only one
    inline: bool = False                        # put the ops of called functions in the place of the calls

    @property
    def shapes_open(self) -> bool:
        """Whether all feeds are arrays, and the graph leaves some of their shapes open."""
        return all(t._dtype.torch is not None for t in self.feeds) and \
            any(t._dims is None or None in t._dims for t in self.feeds)


@dataclasses.dataclass(slots=True, eq=False)
class StepEnv:
    """The surroundings of a step."""
    ctx: Any                                    # the StepContext whose resources and devices it is compiled for
    options: Options                            # which passes run
    threads: Any = None                         # that run parts on further devices (execute/lanes.py); None: there are none
    inter_op: int = 0                           # at most so many of them; 0: as many as there are devices
    whole: bool = False                         # not a part of another step: it may have variants, and be recorded
    outermost: bool = False                     # no step calls it: it gets better versions while it runs (step/tiers)
    in_order: bool = False                      # sends and receives stay in order: other tasks wait for them
    by_tokens: bool = False                     # ops run when their inputs are there: some may wait for each other


def body_of(function: GraphFunction, ctx: Any, inline: bool = False, outermost: bool = False) -> tuple[StepSpec, StepEnv]:
    """The body of a function: it runs in the step that calls it, on its devices, or is a step by itself (`outermost`)."""
    ops = needed(function.outputs, function.graph.control_outputs, {id(t) for t in function.inputs})
    spec = StepSpec(ops, function.outputs, function.graph.control_outputs, function.inputs, inside(ops, ctx.devices), inline)
    options = dataclasses.replace(ALL, jit=function.graph.jit or jit_everywhere[0])
    return spec, StepEnv(ctx, options, outermost=outermost)
