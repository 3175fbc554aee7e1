"""Inductor: ATen graphs to kernels. The only file that uses its interface, which PyTorch may change between versions."""
from __future__ import annotations

import atexit
import contextlib
import functools
import getpass
import importlib.util
import logging
import os
import pathlib
import re
import shutil
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from penstock._src.base import tracing
from penstock._src.step.tiers import convolutions

_one = threading.Lock()              # Inductor keeps state per process while it compiles
_log = logging.getLogger("penstock")


@functools.cache
def available(device: str) -> bool:
    """Whether Inductor can compile for a kind of device here."""
    if device == "cuda":
        return importlib.util.find_spec("triton") is not None
    return any(shutil.which(c) for c in ("g++", "clang++", "c++"))


def functional(graph: torch.fx.GraphModule, example: list[torch.Tensor]) -> torch.fx.GraphModule:
    """The same graph without updates in place, except of its inputs at the end."""
    from torch.fx.experimental.proxy_tensor import make_fx
    with torch.no_grad(), _fake_mode(example) as mode:
        made = make_fx(torch.func.functionalize(graph, remove="mutations"))(*example)
        _join_constants(made)
        _into_one_mode(made, mode)
    made.graph.eliminate_dead_code()
    made.recompile()
    return made


def _into_one_mode(graph: torch.fx.GraphModule, mode: Any) -> None:
    """Gives all values the fake mode of the inputs. What is made of constants alone was traced in others."""
    def moved(value: Any) -> Any:
        if isinstance(value, torch._subclasses.FakeTensor) and value.fake_mode is mode or not isinstance(value, torch.Tensor):
            return value
        with mode:
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    for node in graph.graph.nodes:
        if "val" in node.meta:
            node.meta["val"] = torch.utils._pytree.tree_map(moved, node.meta["val"])
        elif node.op == "get_attr" and isinstance(value := getattr(graph, str(node.target), None), torch.Tensor):
            node.meta["val"] = moved(value)


def _join_constants(graph: torch.fx.GraphModule) -> None:
    """Merges the nodes of equal constants, which each use had its own of."""
    first: dict[tuple, torch.fx.Node] = {}
    for node in list(graph.graph.find_nodes(op="get_attr")):
        value = getattr(graph, str(node.target), None)
        if not isinstance(value, torch.Tensor):
            continue
        same = (value.untyped_storage().data_ptr(), value.storage_offset(), value.shape, value.stride(), value.dtype) \
            if value.layout is torch.strided and value.numel() else (str(node.target),)
        known = first.setdefault(same, node)
        if known is not node:
            node.replace_all_uses_with(known)
            graph.graph.erase_node(node)


def compiled(graph: torch.fx.GraphModule, example: list[torch.Tensor], apart: bool = False) -> Callable[[list], Any]:
    """A function of a list of inputs that computes what `graph` does, for inputs like `example`.

    `apart` generates the code in another process, so that the steps that run meanwhile have Python's lock for themselves.

    The graph has no gradients to derive and no updates but those of its inputs at the end, so AOTAutograd, which would trace
    it twice more, is left out: its composite ops are decomposed here, and Inductor's passes and code generator follow.
    Kernels are kept in Inductor's cache on disk, under a hash of the graph and of everything that they depend on.
    """
    from torch._guards import TracingContext
    from torch._guards import tracing as traced
    from torch._inductor import compile_fx, config
    from torch._inductor.virtualized import V
    with _one, warnings.catch_warnings(), torch.no_grad(), _fake_mode(example) as mode, traced(TracingContext(mode)), \
            config.patch(_options(graph)):
        warnings.simplefilter("ignore")
        with V.set_fake_mode(mode):
            made = compile_fx._recursive_joint_graph_passes(_decomposed(graph, example))
        results = made.graph.output_node()
        results.meta["user_visible_output_idxs"] = list(range(len(results.args[0])))       # type: ignore[arg-type]
        with _elsewhere() if apart and _movable(made) else contextlib.nullcontext():
            run = _generated(made, example)
        if run is None:
            run = _generated(made, example)
    return run if getattr(run, "_boxed_call", False) else lambda inputs: run(*inputs)


def _generated(graph: torch.fx.GraphModule, example: list[torch.Tensor]) -> Any:
    """Inductor's passes and code generator; None if another process, which was to do it, could not."""
    from torch._inductor import compile_fx
    try:
        return compile_fx.compile_fx_inner(graph, example, static_input_idxs=(), is_inference=True,
                                           cudagraphs=compile_fx.BoxedBool(False))
    except Exception as e:
        if compile_fx.fx_compile_mode is compile_fx.FxCompileMode.NORMAL:
            raise
        _log.info("A step is compiled in this process: %s", str(e).strip().split("\n")[-1][:200])
        return None


def _movable(graph: torch.fx.GraphModule) -> bool:
    """Whether another process knows all ops of a graph."""
    return not any(getattr(n.target, "namespace", "") == "penstock" for n in graph.graph.nodes)


@contextlib.contextmanager
def _elsewhere() -> Iterator[None]:
    """Graphs that are compiled in this block are compiled by a process beside this one."""
    from torch._inductor import compile_fx
    _worker()
    before = compile_fx.fx_compile_mode
    compile_fx.fx_compile_mode = compile_fx.FxCompileMode.SUBPROCESS
    try:
        with _any_op():
            yield
    finally:
        compile_fx.fx_compile_mode = before


@contextlib.contextmanager
def _any_op() -> Iterator[None]:
    """In this block PyTorch writes graphs of any ops for other processes, by default those of ATen alone. The process beside
    this one has the same version of PyTorch, and knows all ops that decompositions use."""
    from torch.fx import _graph_pickler
    usual = _graph_pickler.Options
    _graph_pickler.Options = functools.partial(usual, ops_filter=None)                         # type: ignore[misc, assignment]
    try:
        yield
    finally:
        _graph_pickler.Options = usual                                                          # type: ignore[misc]


def prepare() -> None:
    """Starts the process that compiles, which takes seconds, before it is needed."""
    _worker()


@functools.cache
def _worker() -> Any:
    """The process that compiles. It ends with this one, which does not wait for it."""
    from torch._inductor.compile_fx_subproc import _SubprocessFxCompile
    pool = _SubprocessFxCompile.process_pool()
    atexit.register(pool.process.kill)                                   # type: ignore[union-attr]
    return pool


def entry(run: Callable) -> str:
    """The name of what `compiled` returned in Inductor's cache on disk; empty where it is not kept."""
    return str(getattr(run, "_fx_graph_cache_key", "") or "")


def loaded(name: str, example: list[torch.Tensor]) -> Callable[[list], Any] | None:
    """What `compiled` returned in an earlier process, by the name of its entry; None if Inductor's cache lost it."""
    from torch._guards import TracingContext
    from torch._guards import tracing as traced
    from torch._inductor import compile_fx, config
    from torch._inductor.codecache import FxGraphCache
    from torch._inductor.output_code import CompiledFxGraphConstants
    for declare in tracing.torch_ops:
        declare()
    constants = CompiledFxGraphConstants()
    with _one, warnings.catch_warnings(), torch.no_grad(), _fake_mode(example) as mode, traced(TracingContext(mode)), \
            config.patch({"triton.cudagraphs": False}):
        warnings.simplefilter("ignore")
        run, _ = FxGraphCache.load_with_key(name, [], example, True, None, False, constants)
        if run is None:
            return None
        run.post_compile(example, constants, {"cudagraphs": compile_fx.BoxedBool(False), "is_backward": False,
                                              "static_input_idxs": (), "is_inference": True})
    return run if getattr(run, "_boxed_call", False) else lambda inputs: run(*inputs)


def folder() -> pathlib.Path:
    """Where Inductor keeps its files. It is not asked itself, because importing it takes a second."""
    if chosen := os.environ.get("TORCHINDUCTOR_CACHE_DIR"):
        return pathlib.Path(chosen).absolute()
    try:
        user = getpass.getuser()
    except (KeyError, ModuleNotFoundError, OSError):
        user = f"uid_{os.getuid()}"
    return pathlib.Path(tempfile.gettempdir(), "torchinductor_" + re.sub(r'[\\/:*?"<>|]', "_", user)).absolute()


def source(run: Callable) -> str:
    """The code that Inductor has generated for what `compiled` returned; empty where it does not keep it."""
    return str(getattr(run, "source_code", "") or "")


def _decomposed(graph: torch.fx.GraphModule, example: list[torch.Tensor]) -> torch.fx.GraphModule:
    """The same graph of the ops that Inductor generates code for."""
    from torch._inductor.decomposition import select_decomp_table
    from torch.fx.experimental.proxy_tensor import make_fx
    made = make_fx(graph, decomposition_table=select_decomp_table())(*example)
    made.graph.eliminate_dead_code()
    made.recompile()
    return made


def _options(graph: torch.fx.GraphModule) -> dict[str, Any]:
    """CUDA graphs are captured by our own code, which knows where variables are.

    Inductor's own choice of layouts stores every tensor of four dimensions with the second one last, for convolutions: of
    images that are NHWC by shape, it would store rows last, and copy them before each convolution.

    Sums of rows and of columns over the same array stay separate: joined, the columns' ends in a call of ATen for each sum, and
    all of them take longer than reading the array again.
    """
    return {"triton.cudagraphs": False, "fx_graph_cache": True, "fallback_random": False, "triton.mix_order_reduction": False,
            "layout_optimization": not convolutions.channels_last(graph)}


@contextlib.contextmanager
def _fake_mode(example: list[torch.Tensor]) -> Iterator[Any]:
    mode = next(t.fake_mode for t in example if isinstance(t, torch._subclasses.FakeTensor))
    yield mode
