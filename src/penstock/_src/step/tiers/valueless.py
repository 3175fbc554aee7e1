"""Records the ATen calls of a short program as a torch.fx graph, without PyTorch's own tracer, whose import takes seconds.

A stand-in has a shape, a type and a device, and no values. Calls on stand-ins compute shapes and become nodes; calls on other
tensors run, and their results are constants of the graph. In-place calls, and reading a number, are not supported.
"""
from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

aten = torch.ops.aten
_ATTENTION = "aten::_scaled_dot_product"
_COMPARES = {aten.eq.Tensor, aten.ne.Tensor, aten.lt.Tensor, aten.le.Tensor, aten.gt.Tensor, aten.ge.Tensor,
             aten.eq.Scalar, aten.ne.Scalar, aten.lt.Scalar, aten.le.Scalar, aten.gt.Scalar, aten.ge.Scalar,
             aten.logical_and.default, aten.logical_or.default, aten.logical_not.default}


class Unsupported(Exception):
    """A program cannot be recorded; the message has the reason."""


class StandIn(torch.Tensor):
    """A tensor without values."""

    shape_only: torch.Tensor               # on PyTorch's meta device
    node: torch.fx.Node                    # of the graph that is recorded

    @staticmethod
    def __new__(cls, shape_only: torch.Tensor, device: torch.device) -> StandIn:
        made = torch.Tensor._make_wrapper_subclass(
            cls, shape_only.shape, strides=shape_only.stride(), dtype=shape_only.dtype, device=device)
        made.shape_only = shape_only
        return made

    def __init__(self, *given: Any) -> None:
        """Nothing is left to do."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (),                     # type: ignore[override]
                           kwargs: Any = None) -> Any:
        return computed(func, args, kwargs or {})


def like(value: torch.Tensor) -> StandIn:
    """A stand-in for a tensor."""
    return StandIn(_shape_only(value), value.device)


def of(dims: Any, dtype: torch.dtype, device: torch.device) -> StandIn:
    """A stand-in of this shape."""
    return StandIn(torch.empty(dims, dtype=dtype, device="meta"), device)


def _shape_only(value: torch.Tensor) -> torch.Tensor:
    if isinstance(value, StandIn):
        return value.shape_only
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")


def computed(func: Any, args: Any, kwargs: dict) -> Any:
    """The result of a call, as stand-ins."""
    flat = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    device = kwargs.get("device") or next((t.device for t in flat if t.ndim), flat[0].device if flat else torch.device("cpu"))
    kwargs = {n: v for n, v in kwargs.items() if n != "generator"}
    if kwargs.get("device") is not None:
        kwargs["device"] = torch.device("meta")
    if torch.Tag.nondeterministic_seeded in func.tags and not flat:
        return StandIn(torch.empty(args[0], dtype=kwargs.get("dtype"), device="meta"), torch.device(device))
    args, kwargs = pytree.tree_map_only(torch.Tensor, _shape_only, (args, kwargs))
    with _disable_current_modes():
        found = _known(func, args, kwargs)
        found = func(*args, **kwargs) if found is None else found
    return pytree.tree_map_only(torch.Tensor, lambda t: StandIn(t, torch.device(device)), found)


def _known(func: Any, args: tuple, kwargs: dict) -> Any:
    """The shapes and types of some results, which PyTorch finds by code that takes seconds to import; None for others."""
    if func is aten.bmm.default:
        return _empty((*args[0].shape[:2], args[1].shape[2]), args[0])
    if func is aten._softmax.default and not args[2]:
        return _empty(args[0].shape, args[0])
    if func.name().startswith(_ATTENTION):
        return _attention(func, args)
    if func is aten.sum.dim_IntList and args[1]:
        axes = {a % args[0].ndim for a in args[1]}
        keep = len(args) > 2 and args[2]
        dims = [1 if i in axes else n for i, n in enumerate(args[0].shape) if keep or i not in axes]
        return torch.empty(dims, dtype=kwargs.get("dtype") or args[0].dtype, device="meta")
    return _elementwise(func, args) if torch.Tag.pointwise in func.tags and not kwargs else None


def _empty(dims: Any, like: torch.Tensor) -> torch.Tensor:
    return torch.empty(dims, dtype=like.dtype, device="meta")


def _attention(func: Any, args: tuple) -> tuple:
    """The results of a kernel of attention: only of the first one, or of gradients, the shape is used."""
    if func.name().endswith("backward"):
        biased = "efficient" in func.name() and args[4] is not None
        return tuple([_empty(a.shape, a) for a in args[1:5 if biased else 4]])
    first = _empty((*args[0].shape[:-1], args[2].shape[-1]), args[0])
    return first, *[_empty((0,), args[0]) if str(r.type) == "Tensor" else 0 for r in func._schema.returns[1:]]


def _elementwise(func: Any, args: tuple) -> torch.Tensor | None:
    given = args[1:] if func is aten.where.self else args
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    numbers = [a for a in given if isinstance(a, (torch.Tensor, int, float))]
    dtype = numbers[0].dtype if len(numbers) == 1 and isinstance(numbers[0], torch.Tensor) else \
        torch.result_type(numbers[0], numbers[1])
    if func in _COMPARES:
        dtype = torch.bool
    elif not dtype.is_floating_point:
        return None                                      # some return floats for integers
    return torch.empty(torch.broadcast_tensors(*tensors)[0].shape, dtype=dtype, device="meta")


class _Recorder(TorchDispatchMode):
    """Writes calls into a graph."""

    def __init__(self, root: torch.nn.Module, graph: torch.fx.Graph):
        super().__init__()
        self.root, self.graph = root, graph
        self.constants: dict[int, tuple[torch.fx.Node, torch.Tensor]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False                         # what it imports otherwise takes seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        traced = any(isinstance(t, StandIn) for t in pytree.tree_leaves((args, kwargs)))
        if not traced and torch.Tag.nondeterministic_seeded not in func.tags:
            with _disable_current_modes():
                return func(*args, **kwargs)
        if func._schema.is_mutable:
            raise Unsupported(f"{func} changes a tensor")
        if func is aten._local_scalar_dense.default:
            raise Unsupported("the host reads a number")
        if func in (aten.detach.default, aten.alias.default):
            return args[0]
        found = computed(func, args, kwargs)
        self._note(self.graph.call_function(func, *pytree.tree_map_only(torch.Tensor, self.node, (args, kwargs))), found)
        return found

    def node(self, value: torch.Tensor) -> torch.fx.Node:
        """The node of a stand-in, or of a constant."""
        if isinstance(value, StandIn):
            return value.node
        if id(value) not in self.constants:
            name = f"_constant{len(self.constants)}"
            self.root.register_buffer(name, value)
            made = self.graph.get_attr(name)
            made.meta["val"] = value
            self.constants[id(value)] = made, value
        return self.constants[id(value)][0]

    def _note(self, node: torch.fx.Node, found: Any) -> None:
        node.meta["val"] = found
        if isinstance(found, StandIn):
            found.node = node
        elif isinstance(found, (tuple, list)):
            for i, each in enumerate(found):
                if isinstance(each, StandIn):
                    self._note(self.graph.call_function(operator.getitem, (node, i)), each)


def recorded(run: Callable, inputs: list[StandIn]) -> torch.fx.GraphModule:
    """The graph of what `run` computes from stand-ins; its inputs and results are in their order."""
    root, graph = torch.nn.Module(), torch.fx.Graph()
    with torch.no_grad():
        for i, value in enumerate(inputs):
            value.node = graph.placeholder(f"given{i}")
            value.node.meta["val"] = value
        with _Recorder(root, graph) as recorder:
            found = run(*inputs)
        graph.output([recorder.node(t) if isinstance(t, torch.Tensor) else t for t in found])
    return torch.fx.GraphModule(root, graph)
