"""The specification of a step (StepSpec) and its environment (StepEnv).

Sessions, functions, parts of distributed steps and lifted initial values differ only in these two; compiler.py makes a Runnable
from them.
"""
from __future__ import annotations

import dataclasses
from typing import Any

from penstock._src.graph.functions import GraphFunction
from penstock._src.graph.node import Operation, Tensor
from penstock._src.step.ir import Place
from penstock._src.step.optimize.options import ALL, Options, jit_everywhere
from penstock._src.step.place.placer import inside


@dataclasses.dataclass(slots=True, eq=False)
class StepSpec:
    """The pruned ops of a step in topological order, with its fetches, targets and feeds."""
    ops: list[Operation]
    fetches: list[Tensor]                       # whose values are returned, in this order
    targets: list[Operation]                    # that run for their effect
    feeds: list[Tensor]                         # whose values are given, in this order
    place: Place | None = None                  # the pass that places them; None where there is only one device
    held: dict[Operation, Any] | None = None    # placeholders whose values are known at compile time, with these
    in_loop: bool = False                       # the test or the body of a loop
    known: list | None = None                   # of the feeds: see `GraphFunction.shaped`

    @property
    def shapes_open(self) -> bool:
        """Whether all feeds are arrays, of numbers or strings, and the graph leaves some of their shapes open."""
        return all(t.dtype.torch is not None or t.dtype.name == "string" for t in self.feeds) and \
            any(t.static_dims is None or None in t.static_dims for t in self.feeds)


@dataclasses.dataclass(slots=True, eq=False)
class StepEnv:
    """The environment of a step."""
    ctx: Any                                    # the StepContext whose resources and devices it is compiled for
    options: Options                            # which passes run
    threads: Any = None                         # that run parts on further devices (execute/lanes.py); None: there are none
    inter_op: int = 0                           # at most so many of them; 0: as many as there are devices
    whole: bool = False                         # not a part of another step: it gets variants, and better versions (step/tiers)
    repeated: bool = False                      # a part that is called often by itself: it is recorded, too
    in_order: bool = False                      # sends and receives stay in order: other tasks wait for them
    by_tokens: bool = False                     # ops run when their inputs are there: some may wait for each other


def body_of(function: GraphFunction, ctx: Any, in_loop: bool = False) -> tuple[StepSpec, StepEnv]:
    """The body of a function that a step calls: it runs inside of that step, on its devices."""
    ops = function.ops()
    spec = StepSpec(ops, function.outputs, function.effects, function.inputs, inside(ctx.devices),
                    function.held, in_loop=in_loop, known=None if function.known is None else list(function.known))
    return spec, StepEnv(ctx, _options(function))


def _options(function: GraphFunction) -> Options:
    return dataclasses.replace(ALL, jit=function.graph.jit or jit_everywhere[0])


def step_of(function: GraphFunction, ctx: Any, held: dict[int, Any]) -> tuple[StepSpec, StepEnv]:
    """A function as its own step. Its inputs in `held`, by their positions, have the same values whenever it runs:
    the variables that it uses, and what it captured."""
    inputs = [t for i, t in enumerate(function.inputs) if i not in held]
    ops = function.in_order({id(t) for t in inputs})
    known = {function.inputs[i].op: value for i, value in held.items()}
    return StepSpec(ops, function.outputs, function.effects, inputs, inside(ctx.devices), known), \
        StepEnv(ctx, _options(function), whole=True)
