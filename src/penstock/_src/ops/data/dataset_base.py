"""Shared by the modules of dataset ops: their declaration, and functions as the bodies that stages call."""
from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base import static_shape as shapes
from penstock._src.data.pipelines.base import make_room
from penstock._src.data.pipelines.mapping import stage_of
from penstock._src.graph.functions import GraphFunction, as_function, raise_typed
from penstock._src.graph.prune import needed
from penstock._src.ops import rules
from penstock._src.ops.data.dataset_blocks import BlockPlan
from penstock._src.ops.data.dataset_draws import DrawPlan
from penstock._src.ops.data.dataset_recipe import recipe_of
from penstock._src.ops.registry import keyword_names, op

ARGUMENTS = "Targuments: list(type) >= 0"
# Inputs of these names are one number in every dataset op.
_SCALARS = frozenset("batch_size block_length buffer_size count counter_prefix cycle_length drop_remainder index "
                     "num_parallel_calls num_shards seed seed2 start step stop tag".split())
OUTPUTS = "output_types: list(type) >= 1, output_shapes: list(shape) >= 1"

__all__ = ["ARGUMENTS", "OUTPUTS", "Body", "body", "dataset", "integer", "number", "on_host", "stage_of", "text"]


def dataset(*names: str, inputs: str = "", attrs: str = "", outputs: str = OUTPUTS, stateful: bool = False) -> Callable:
    """Declares an op that makes a dataset (under several names), with the decorated function as its kernel.

    The kernel returns a stage; its types and shapes are set from the op's attributes.
    """
    def decorate(kernel: Callable) -> Callable:
        own = keyword_names(kernel)
        typed_by = next((n for n in ("Toutput_types", "output_types") if n + ":" in f"{attrs}, {outputs}"), None)

        def make(*values: Any, node: Any, **attributes: Any) -> Any:
            stage = kernel(*map(on_host, values), **{n: node if n == "node" else attributes[n] for n in own})
            stage.recipe = recipe_of(node, values)
            make_room(stage)
            if typed_by is not None:
                stage.types = tuple(attributes[typed_by])
                stage.shapes = tuple(s.static_dims for s in attributes["output_shapes"])
            return stage
        make.wants = list(dict.fromkeys(                                                 # type: ignore[attr-defined]
            [*own, "node", *([] if typed_by is None else (typed_by, "output_shapes"))]))
        scalar = [arg.partition(":")[0].strip() in _SCALARS for arg in inputs.split(",") if arg]
        for name in names:
            made = op(name, f"{inputs} -> handle: variant", ", ".join(filter(None, (attrs, outputs))), stateful=stateful,
                      foldable=False).no_gradient()
            made.shape(functools.partial(_scalar_inputs, scalar))
            made.kernel(make, device="cpu")            # pipelines run on the host
        return kernel
    return decorate


def _scalar_inputs(scalar: list[bool], *dims: Any) -> tuple:
    for is_scalar, d in zip(scalar, dims, strict=True):
        if is_scalar:
            shapes.rank_is(d, 0)
    return ()


def on_host(value: Any) -> Any:
    """A value, or a list of values, in the memory of the host."""
    if isinstance(value, list):
        return [on_host(v) for v in value]
    return value.cpu() if isinstance(value, torch.Tensor) else value


def number(value: Any, name: str) -> Any:
    """The Python number in a scalar."""
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        raise errors.invalid(f"{name} must be a scalar")
    return value.item()


def integer(value: Any, name: str) -> int:
    """The Python int in a scalar."""
    return int(number(value, name))


def text(value: Any, name: str) -> str:
    """The text in a scalar string."""
    if not isinstance(value, np.ndarray) or value.size != 1:
        raise errors.invalid(f"{name} must be a scalar")
    return value.reshape(-1)[0].decode("utf-8", "surrogateescape")


class Body:
    """A function with the values that it captured, for stages to call."""

    short: bool | None = None          # whether calls are too short for threads, if a parallel map has found out

    def __init__(self, function: GraphFunction, captured: list, of: str):
        self.function, self.captured = function, tuple(captured)
        self._where = (f"Error in user-defined function passed to {of} transformation with iterator: "
                       f"Iterator::Root::{re.sub(r'Dataset(V[0-9])?$', '', of)}")
        self._at_once: bool | None = None
        self._plan: BlockPlan | None = None
        self._pure: bool | None = None
        self._draws: DrawPlan | None = None

    @property
    def pure(self) -> bool:
        """Whether the order of calls affects only time: no state, no waiting, no Python."""
        if self._pure is None:
            self._pure = all(o.opdef.foldable or o.outputs and any(o.outputs[0] is t for t in self.function.inputs)
                             for o in self._ops())
        return self._pure

    @functools.cached_property
    def computes(self) -> bool:
        """Whether a call neither waits nor runs Python: it computes, and draws random numbers."""
        return _computes(self.function)

    @functools.cached_property
    def prompt(self) -> bool:
        """Whether a call never waits for other calls, and runs no Python of the user: it may have state, and read files."""
        return _every_op(self.function, lambda o: not (o.opdef.blocking or o.opdef.client_code))

    def statements(self, ctx: Any) -> int:
        """How many kernels a call runs; 0 if that is not known."""
        return len(getattr(self.function.repeated(ctx.within(ctx.streams)), "lines", ()))

    @property
    def outer_state(self) -> str | None:
        """The type of an op that depends on state outside of the pipeline, like a variable; None without one."""
        return _outer_state(self.function)

    def _ops(self) -> list:
        return _ops_of(self.function)

    def runner(self, ctx: Any) -> Callable:
        """A callable f(ctx, element) -> values of the outputs, compiled for the resources of a context."""
        program = self.function.repeated(ctx.within(ctx.streams))
        run, captured = program.run, self.captured
        if self._draws is None:
            self._draws = DrawPlan(self.function, self._ops(), len(captured))

        def call(ctx: Any, element: tuple) -> tuple:
            try:
                return run(ctx, *element, *captured)
            except Exception as e:
                self._raise(e, program)
        return self._draws.runner(captured, call) if self._draws.fits else call

    def _raise(self, error: Exception, program: Any) -> NoReturn:
        """Raises an error of a call as a typed one, which names the transformation."""
        try:
            raise_typed(error, program)
            raise error
        except errors.OpError as typed:
            typed._add_context(self._where)
            raise

    def vectorized(self, ctx: Any) -> Callable | None:
        """A callable f(ctx, columns) -> columns of the outputs; None if elements must be called one by one."""
        if self._at_once is None:
            self._at_once = self.pure
            if self._at_once:
                self._plan = BlockPlan(self.function, self._ops(), len(self.captured))
                self._at_once = self._plan.fits
        if not self._at_once or self._plan is None:
            return None
        return self._plan.compiled(ctx.within(ctx.streams), self.captured)

    def give_up(self) -> None:
        """Calls the function on single elements from now on."""
        self._at_once = False


def _ops_of(f: GraphFunction) -> list:
    return needed(f.outputs, f.effects, {id(t) for t in f.inputs})


def _computes(function: GraphFunction) -> bool:
    inputs = {id(t) for f in (function, *_functions(function)) for t in f.inputs}

    def one(o: Any) -> bool:
        opdef = o.opdef
        return opdef.foldable or opdef.random or opdef in rules.folding.checks or opdef.calls and not opdef.stateful or \
            any(id(t) in inputs for t in o.outputs)
    return _every_op(function, one)


def _every_op(function: GraphFunction, holds: Callable[[Any], bool]) -> bool:
    """Whether something holds for all ops of a function, and of those that it may call."""
    return all(holds(o) for f in (function, *_functions(function)) for o in _ops_of(f))


def _functions(function: GraphFunction) -> Iterator[GraphFunction]:
    """The functions that a function may call."""
    for f in function.graph._functions.values():
        if isinstance(f, GraphFunction):
            yield f
            yield from _functions(f)


def _outer_state(function: GraphFunction) -> str | None:
    """For ops that call functions, checks the functions; datasets carry their state, and ops without results only print."""
    for o in _ops_of(function):
        calls = any(isinstance(a, GraphFunction) for a in o.attrs.values())
        if o.opdef.stateful and o.outputs and not calls and o.outputs[0].dtype not in (dtypes.variant, dtypes.resource):
            return o.type
    inner = (f for f in function.graph._functions.values() if isinstance(f, GraphFunction))
    return next(filter(None, map(_outer_state, inner)), None)


def body(function: Any, node: Any, captured: list) -> Body:
    """The function attribute of an op, with captured values."""
    return Body(as_function(function, node.graph), on_host(captured), node.opdef.name)
