"""A step as one ATen graph.

A program is Python that calls ATen. Here it runs once on fake tensors, which have shapes and no values, and every call is
written into a torch.fx graph. Gradients, optimizer updates and called functions are part of the program, so the graph holds the
whole step. Loops whose length is known on the host are unrolled.

The graph is a function. Its inputs are the values of the variables, the feeds, and the places in the random streams
(kernels/draws.py). At its end it copies new values into the variables that the step changed. What the host computes from shapes
and constants (axes, sizes, learning rates) stays real and becomes constants of the graph.

An integer or a boolean that the host reads from the inputs (the length of a loop, a condition) is taken from the inputs
as they are during the trace. The graph holds for inputs that give the same numbers. Its last result tells whether they did, and
whether everything holds that kernels check; if not, the graph leaves the variables as they were. A kernel that reads another
value that depends on the inputs ends the trace.
"""
from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils.flop_counter import flop_registry

from penstock._src.kernels import draws
from penstock._src.step.tiers import valueless
from penstock._src.step.tiers.captured import is_variable

aten = torch.ops.aten

MOST_NODES = 15_000             # of a graph: Inductor's time grows faster than their number
_LARGE = 1 << 20                # elements of constants that are computed at compile time
_MADE_LIKE = {aten.zeros_like.default, aten.ones_like.default, aten.full_like.default, aten.empty_like.default,
              aten.new_zeros.default, aten.new_ones.default, aten.new_full.default, aten.new_empty.default}   # of shapes alone
_SMALL = 64                     # elements of integer tensors that are taken to be shapes and axes


class Unsupported(Exception):
    """A step cannot be one graph; the message has the reason."""


@dataclasses.dataclass
class Lowered:
    """A traced step."""
    graph: torch.fx.GraphModule          # of (*variables, *feeds, *places) -> results
    variables: list[Any]    # in the order of its inputs
    fixed: list[Any]        # those found in the program; the others are feeds
    feeds: list[int]                     # positions of tensors among the feeds
    changed: list[int]                   # positions of variables that it updates
    results: list[Any]                   # per result: the position in the graph's output, or a constant
    draws: draws.Draws                   # what it takes from random streams
    later: list[tuple]                   # calls that run behind the graph: (function, arguments, keywords)
    example: list[torch.Tensor]          # fake inputs
    checked: bool = False                # whether the last result of the graph tells if it holds for its inputs


class _HostStaysReal(TorchDispatchMode):
    """Computes ops on constants, so that Python can read their values; everything else is traced."""

    def __init__(self, device: torch.device, drawn: draws.Draws, inputs: Callable[[], list[torch.Tensor]]):
        super().__init__()
        self.device, self.draws, self.calls, self.inputs = device, drawn, 0, inputs
        self._read: dict[int, tuple] = {}            # what the host has read: tensors by their ids, and numbers

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [t for t in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        fake = [isinstance(t, torch._subclasses.FakeTensor) for t in given]
        random = torch.Tag.nondeterministic_seeded in func.tags
        constant = not any(fake) and all(t.numel() <= _LARGE for t in given)
        made = not given or func in _MADE_LIKE
        if constant and not random and (not made or self._is_small(func, args, kwargs)):
            with _disable_current_modes():
                return func(*args, **kwargs)
        if func is aten._local_scalar_dense.default:
            return self._number(args[0])
        if self.draws.choosing and func.overloadpacket in flop_registry:
            raise Unsupported(f"a branch that may not run calls {func}")
        if any(fake):
            _check_writes(func, args, kwargs)
        self.calls += 1
        if self.calls > MOST_NODES:
            raise Unsupported(f"it has more than {MOST_NODES} calls")
        return func(*args, **kwargs)

    def _number(self, value: torch.Tensor) -> int:
        """The number that the host reads from a tensor, for which the graph then holds."""
        if value.is_floating_point() or value.is_complex():
            raise Unsupported("the host reads a number that depends on the inputs")
        if id(value) not in self._read:
            found = _Slice(value).run(self.inputs()).item()
            self._read[id(value)] = value, found
            self.draws.require(value.reshape(()) == found)
        return self._read[id(value)][1]

    def _is_small(self, func: Any, args: tuple, kwargs: dict) -> bool:
        """Whether a tensor created from shapes alone is one that the host computes with."""
        like = args[0] if args and isinstance(args[0], torch.Tensor) else None
        device = torch.device(kwargs.get("device") or (like.device if like is not None else "cpu"))
        if device.type != self.device.type:
            return True
        if device.type != "cpu":
            return False
        with _disable_current_modes():
            made = func(*args, **{**kwargs, "device": torch.device("meta")})
        return not (made.dtype.is_floating_point or made.dtype.is_complex) and made.numel() <= _SMALL


def _check_writes(func: Any, args: tuple, kwargs: dict) -> None:
    """A constant must not be overwritten with something that is not constant."""
    for i, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[i] if i < len(args) else kwargs.get(argument.name)
        for t in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(t, torch.Tensor) and not isinstance(t, torch._subclasses.FakeTensor):
                raise Unsupported(f"{func} changes a constant")


class _Slice:
    """The part of the graph so far that computes a value from the inputs."""

    def __init__(self, value: torch.Tensor):
        from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot
        tracer: Any = get_proxy_mode().tracer                                               # type: ignore[union-attr]
        self.end, self.root = get_proxy_slot(value, tracer).proxy.node, tracer.root
        self.nodes: list[torch.fx.Node] = []
        needed = {self.end}
        for node in reversed(self.end.graph.nodes):
            if node in needed:
                self.nodes.insert(0, node)
                needed.update(node.all_input_nodes)
            elif _written(node) & needed:
                raise Unsupported("the host reads a number from a tensor that is changed in place")

    def run(self, inputs: list[torch.Tensor]) -> torch.Tensor:
        """The value for these inputs, the last of which, places in random streams, is not given."""
        places = {n: i for i, n in enumerate(n for n in self.end.graph.nodes if n.op == "placeholder")}
        last = {n: user for user in self.nodes for n in user.all_input_nodes}
        values: dict[torch.fx.Node, Any] = {}
        with _disable_current_modes(), torch.no_grad():
            for node in self.nodes:
                if node.op == "placeholder":
                    if places[node] >= len(inputs):
                        raise Unsupported("the host reads a random number")
                    values[node] = inputs[places[node]]
                elif node.op == "get_attr":
                    values[node] = getattr(self.root, str(node.target))
                else:
                    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
                    values[node] = node.target(*args, **kwargs)                             # type: ignore[operator]
                for n in node.all_input_nodes:
                    if last[n] is node:
                        del values[n]
        return values[self.end]


def _written(node: torch.fx.Node) -> set[torch.fx.Node]:
    """The nodes whose values a node changes: arguments, and what these are views of."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable:
        return set()
    found = set()
    for argument, value in zip(schema.arguments, node.args, strict=False):
        while argument.alias_info is not None and argument.alias_info.is_write and isinstance(value, torch.fx.Node):
            found.add(value)
            returns = getattr(value.target, "_schema", None)
            is_view = returns is not None and any(r.alias_info is not None for r in returns.returns)
            value = value.args[0] if is_view and value.args else None
    return found


def trace(program: Any, ctx: Any, feeds: tuple, device: torch.device) -> Lowered:
    """The graph of a program, for feeds and variables of the shapes that they have now.

    Some updates run after the graph, unless the program uses their results.
    """
    later: list = []
    try:
        return _trace(program, ctx, feeds, device, later)
    except Exception:
        if not later:
            raise
        return _trace(program, ctx, feeds, device, None)


def block(program: Any, ctx: Any, shapes: list[tuple], device: torch.device) -> torch.fx.GraphModule:
    """The graph of a short program without variables, for feeds of these shapes and types."""
    step, drawn = _rebindable(program), draws.Draws(lowering=True)
    given = [valueless.of(dims, dtype, device) for dims, dtype in shapes]
    with draws.traced(drawn), torch.no_grad():
        graph = valueless.recorded(lambda *values: step(ctx, *values), given)
    if drawn.required:
        raise Unsupported("it checks values")
    _fold_uniform(graph, device)
    return graph


def _trace(program: Any, ctx: Any, feeds: tuple, device: torch.device, later: list | None) -> Lowered:
    from torch.fx.experimental.proxy_tensor import make_fx
    step = _rebindable(program)
    fixed = [c for c in step.__globals__.values() if is_variable(c)]
    given = [f for f in feeds if is_variable(f)]
    variables = list({id(v): v for v in (*fixed, *given)}.values())
    _check_inputs(variables, feeds, step.__globals__, device)
    tensors = [i for i, f in enumerate(feeds) if isinstance(f, torch.Tensor)]
    mode = _fake_mode()
    example = _like(mode, [v.value for v in variables] + [feeds[i] for i in tensors], device)
    found = Lowered(None, variables, fixed, tensors, [], [], draws.Draws(lowering=True), [], example)     # type: ignore[arg-type]
    found.draws.later = later

    def now() -> list[torch.Tensor]:
        """The inputs of the graph. They are not held during the trace: steps that run meanwhile write variables in place."""
        return [*(v.value for v in variables), *(feeds[i].to(device) for i in tensors)]
    with draws.traced(found.draws) as drawn, torch.no_grad():
        places = drawn.places(mode, device)
        graph = make_fx(lambda *values: _run(found, step, ctx, feeds, values, _HostStaysReal(device, drawn, now)),
                        tracing_mode="fake", _allow_non_fake_inputs=True)(*example, places)
    example.append(places)
    if len(graph.graph.nodes) > MOST_NODES:
        raise Unsupported(f"it has more than {MOST_NODES} calls")
    _check_constants(graph, ctx)
    _fold_uniform(graph, device)
    found.graph = graph
    return found


def _run(found: Lowered, step: Callable, ctx: Any, feeds: tuple, values: tuple, mode: _HostStaysReal) -> list:
    """Runs the program on the values that represent variables and feeds, and the updates at its end."""
    count = len(found.variables)
    shadows = [v.shadow(value) for v, value in zip(found.variables, values, strict=False)]
    by = {id(v): s for v, s in zip(found.variables, shadows, strict=True)}
    tensors = dict(zip(found.feeds, values[count:-1], strict=True))
    arguments = [tensors[i] if i in tensors else by.get(id(f), f) for i, f in enumerate(feeds)]
    scope = {name: by.get(id(c), c) for name, c in step.__globals__.items()}
    found.draws.begin(values[-1])
    with mode:
        results = types.FunctionType(step.__code__, scope)(ctx, *arguments)
        out = _flat_results(found, results, by)
        found.later = [_behind(call, out, by, found.variables) for call in found.draws.later or ()]
        last = [s.value for s in shadows]
        found.changed = [i for i, s in enumerate(shadows) if s.value is not s.first and s.value is not None]
        new = {i: last[i].clone() if any(last[i] is s.first for s in shadows) else last[i] for i in found.changed}
        for i in found.changed:
            if new[i].shape != shadows[i].first.shape or new[i].dtype is not shadows[i].first.dtype:
                raise Unsupported(f"it changes the shape of the variable {shadows[i].name}")
        holds = _all(found.draws.required, mode.device)
        found.checked = holds is not None
        if found.checked and found.later:
            raise Unsupported("calls behind the graph would run where a check fails")
        for i in found.changed:
            shadows[i].first.copy_(new[i] if holds is None else torch.where(holds, new[i], shadows[i].first))
    return out if holds is None else [*out, holds]


def _all(conditions: list[torch.Tensor], device: torch.device) -> torch.Tensor | None:
    """Whether all conditions hold; None if there are none."""
    return torch.stack([c.reshape(()).to(device) for c in conditions]).all() if conditions else None


def _behind(call: tuple, out: list, shadows: dict[int, Any], variables: list[Any]) -> tuple:
    """A call after the graph: its inputs from the graph become results, and stand-ins become variables."""
    function, arguments, keywords = call
    back = {id(s): v for v, s in zip(variables, shadows.values(), strict=True)}

    def real(value: Any) -> Any:
        if isinstance(value, list):
            return [real(v) for v in value]
        if id(value) in back:
            if value.value is not None:
                raise Unsupported(f"it changes the variable {value.name} after an update that runs behind the graph")
            return back[id(value)]
        if not isinstance(value, torch._subclasses.FakeTensor):
            return value
        out.append(value.clone() if value._is_view() or any(value is s.first for s in shadows.values()) else value)
        return Output(len(out) - 1)
    return function, [real(a) for a in arguments], keywords


def _flat_results(found: Lowered, results: tuple, shadows: dict[int, Any]) -> list:
    """The results that are computed; constant ones are recorded instead."""
    out: list[torch.Tensor] = []
    firsts = {id(s.first) for s in shadows.values()}
    found.results = []
    back = {id(s): v for v, s in zip(found.variables, shadows.values(), strict=True)}
    for r in results:
        if isinstance(r, torch._subclasses.FakeTensor):
            found.results.append(Output(len(out)))
            out.append(r.clone() if id(r) in firsts or r._is_view() else r)
        elif id(r) in back:
            found.results.append(back[id(r)])
        else:
            found.results.append(r)
    return out


@dataclasses.dataclass(frozen=True)
class Output:
    """A result that the graph computes."""
    at: int


def _rebindable(program: Any) -> types.FunctionType:
    """The function of a program, whose constants can be replaced."""
    program = getattr(program, "program", program)
    if not isinstance(getattr(program, "run", None), types.FunctionType):
        raise Unsupported("it runs on the dataflow executor")
    return program.run


def _check_inputs(variables: list[Any], feeds: tuple, scope: dict, device: torch.device) -> None:
    for v in variables:
        if not isinstance(v.value, torch.Tensor):
            raise Unsupported(f"the variable {v.name} does not hold numbers")
        if v.value.device != device:
            raise Unsupported(f"the variable {v.name} is on {v.value.device}")
    for f in feeds:
        if not isinstance(f, torch.Tensor) and not is_variable(f):
            raise Unsupported(f"it is fed a {type(f).__name__}")
    for c in scope.values():
        if hasattr(c, "lock") and not is_variable(c):
            raise Unsupported(f"it uses a {type(c).__name__}")


def _fake_mode() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv
    return FakeTensorMode(allow_non_fake_inputs=True, static_shapes=True, shape_env=ShapeEnv(
        allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False))           # the disk cache of Inductor needs one


def _like(mode: Any, values: list[torch.Tensor], device: torch.device) -> list[torch.Tensor]:
    return [mode.from_tensor(v) if v.device == device else _moved(mode, v, device) for v in values]


def stand_ins(values: list[torch.Tensor], device: torch.device) -> list[torch.Tensor]:
    """Fake inputs of a traced step whose variables and feeds have these values."""
    mode = _fake_mode()
    return [*[_moved(mode, v, device) for v in values], draws.Draws.places(mode, device)]


def _moved(mode: Any, feed: torch.Tensor, device: torch.device) -> torch.Tensor:
    with mode:
        return torch.empty_strided(feed.shape, feed.stride(), dtype=feed.dtype, device=device)


def _check_constants(graph: torch.fx.GraphModule, ctx: Any) -> None:
    """Checks that no variable became a constant because it was reached other than through feeds or the program."""
    held = {v.value.untyped_storage().data_ptr() for _, v in ctx.resources.items()
            if is_variable(v) and isinstance(v.value, torch.Tensor)}
    for node in graph.graph.find_nodes(op="get_attr"):
        value = getattr(graph, str(node.target))
        if isinstance(value, torch.Tensor) and value.numel() and value.untyped_storage().data_ptr() in held:
            raise Unsupported("it reads a variable of a function")


def _fold_uniform(graph: torch.fx.GraphModule, device: torch.device) -> None:
    """Constants that hold one number everywhere become `full`, which costs no memory."""
    for node in graph.graph.find_nodes(op="get_attr"):
        value = getattr(graph, str(node.target))
        if not isinstance(value, torch.Tensor) or value.numel() < 2 or value.is_complex():
            continue
        first = value.flatten()[0]
        if bool((value == first).all()):
            with graph.graph.inserting_before(node):
                made = graph.graph.call_function(torch.ops.aten.full.default, (list(value.shape), first.item()),
                                                 {"dtype": value.dtype, "device": value.device, "pin_memory": False})
            made.meta.update(node.meta)
            node.replace_all_uses_with(made)
            graph.graph.erase_node(node)
    graph.recompile()
