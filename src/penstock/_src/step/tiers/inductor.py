"""Inductor: ATen graphs to kernels. The only file that uses its interface, which PyTorch may change between versions."""
from __future__ import annotations

import contextlib
import functools
import importlib.util
import shutil
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

_one = threading.Lock()              # Inductor keeps state per process while it compiles


@functools.cache
def available(device: str) -> bool:
    """Whether there is what Inductor needs to compile for a kind of device."""
    if device == "cuda":
        return importlib.util.find_spec("triton") is not None
    return any(shutil.which(c) for c in ("g++", "clang++", "c++"))


def functional(graph: torch.fx.GraphModule, example: list[torch.Tensor]) -> torch.fx.GraphModule:
    """The same graph without updates in place, except of its inputs at the end."""
    from torch.fx.experimental.proxy_tensor import make_fx
    with torch.no_grad(), _fake_mode(example):
        made = make_fx(torch.func.functionalize(graph, remove="mutations"))(*example)
    made.graph.eliminate_dead_code()
    made.recompile()
    return made


def compiled(graph: torch.fx.GraphModule, example: list[torch.Tensor]) -> Callable[[list], Any]:
    """A function of a list of inputs that computes what `graph` does, for inputs like `example`.

    Kernels are kept in Inductor's cache on disk, under a hash of the graph and of everything that they depend on.
    """
    from torch._guards import TracingContext, tracing
    from torch._inductor.compile_fx import compile_fx
    with _one, warnings.catch_warnings(), torch.no_grad(), _fake_mode(example) as mode, tracing(TracingContext(mode)):
        warnings.simplefilter("ignore")
        made = compile_fx(graph, example, config_patches=_options())
    return lambda inputs: made(*inputs)


def _options() -> dict[str, Any]:
    """CUDA graphs are captured by our own code, which knows where variables are."""
    return {"triton.cudagraphs": False, "fx_graph_cache": True, "fallback_random": False}


@contextlib.contextmanager
def _fake_mode(example: list[torch.Tensor]) -> Iterator[Any]:
    mode = next(t.fake_mode for t in example if isinstance(t, torch._subclasses.FakeTensor))
    yield mode
