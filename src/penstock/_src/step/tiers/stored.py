"""Compiled steps on disk, for later processes.

Inductor keeps what it has compiled under a hash of the graph that it was given. To know that hash, the step has to be traced,
which takes longer than loading. So beside it, a file is kept for each step: its name is a hash of everything that the trace
depends on (the ops, their attributes and constants, the functions that they call, shapes and types of variables and feeds,
versions and settings), its content says what Inductor's entry is called, and which inputs and results it has.

The file is written when the compiled version has given the same numbers as the program, and a step that is loaded has to do
that again before it takes over. Steps whose compiled form holds more than names and positions (places in random streams, calls
behind the graph without a name) are not stored.
"""
from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from penstock._src.base import tracing, version
from penstock._src.base.dtypes import DType
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.functions import GraphFunction, as_function
from penstock._src.kernels import draws
from penstock._src.step.tiers import inductor, lower
from penstock._src.step.tiers.captured import is_variable

_MOST_BYTES = 1 << 29               # of constants that are hashed
_SMALL = 64                         # elements of a constant that is written into the file
_PLAIN = (torch.bool, torch.int32, torch.int64, torch.float32, torch.float64)
_DEEPEST = 32                       # functions within functions


class Unstorable(Exception):
    """A step cannot be stored, or found again."""


@dataclasses.dataclass(frozen=True)
class Stored:
    """What the file of a step says."""
    entry: str                      # of Inductor's cache
    variables: list                 # in the order of the graph's inputs
    feeds: list[int]                # see lower.Lowered
    changed: list[int]
    results: list                   # each as `_written` says
    later: list[list]               # per call behind the graph: its name, arguments and keywords
    unseeded: bool
    rounds: bool
    checked: bool


# -- names -------------------------------------------------------------------------------------------------------------------
def name_of(spec: Any, dims: Any, variables: Sequence[Any], feeds: Sequence[Any], device: torch.device) -> str:
    """The name of a step: a hash of everything that its compiled form depends on. `variables` are numbered in their order."""
    found = _Hash(variables)
    found.add(_versions(), _settings(device), repr(dims), [_about(v.value) for v in variables])
    found.add([_about(f) if isinstance(f, torch.Tensor) else found.variable(f) for f in feeds])
    found.step(spec.ops, spec.feeds, spec.fetches, spec.targets, spec.held or {}, spec.known)
    return found.hash.hexdigest()


def _about(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        raise Unstorable(f"it uses a {type(value).__name__}")
    return f"{value.dtype} {tuple(value.shape)} {value.stride()} {value.device}"


@functools.cache
def _versions() -> str:
    """Of PyTorch and of penstock. While it is developed, its files change between versions: their sizes and times are part."""
    package = pathlib.Path(__file__).parents[3]
    files = sorted((str(p.relative_to(package)), p.stat().st_size, p.stat().st_mtime_ns) for p in package.rglob("*.py"))
    return f"{version.__version__} {torch.__version__} {hashlib.sha256(repr(files).encode()).hexdigest()}"


def _settings(device: torch.device) -> str:
    """What kernels are chosen by."""
    on_gpu = device.type == "cuda"
    return repr((str(device), torch.cuda.get_device_name(device) if on_gpu else torch.backends.cpu.get_cpu_capability(),
                 torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark,
                 torch.backends.cudnn.deterministic, torch.are_deterministic_algorithms_enabled(),
                 torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
                 torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction))


class _Hash:
    """Collects what a step depends on."""

    def __init__(self, variables: Sequence[Any]):
        self.hash = hashlib.sha256()
        self._variables = {id(v): i for i, v in enumerate(variables)}
        self._functions: dict[int, int] = {}
        self._kept: list[Any] = []                     # functions stay while their ids are used
        self._bytes = 0

    def add(self, *values: Any) -> None:
        """Plain values, each with its kind, so that different lists have different bytes."""
        for value in values:
            if isinstance(value, (list, tuple)):
                self.hash.update(f"[{len(value)}".encode())
                self.add(*value)
            elif isinstance(value, dict):
                self.add(sorted(value.items()))
            elif isinstance(value, (np.ndarray, np.generic)):
                self._array(np.asarray(value))
            elif isinstance(value, torch.Tensor):
                self.add(_about(value))
                self._count(value.nbytes)
                self._array(value.detach().cpu().contiguous().view(torch.uint8).numpy() if value.numel() and value.ndim
                            else np.array(repr(value.tolist())))
            elif value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
                self.hash.update(f"{type(value).__name__}:{value!r};".encode())
            elif isinstance(value, DType):
                self.hash.update(f"dtype:{value.name};".encode())
            elif isinstance(value, (TensorShape, torch.dtype, torch.device)):
                self.hash.update(f"{type(value).__name__}:{value};".encode())
            else:
                raise Unstorable(f"it has a {type(value).__name__}")

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > _MOST_BYTES:
            raise Unstorable("its constants are large")

    def _array(self, value: np.ndarray) -> None:
        self._count(value.nbytes)
        self.hash.update(f"{value.dtype.str}{value.shape}".encode())
        self.hash.update(repr(value.tolist()).encode() if value.dtype.kind == "O" else np.ascontiguousarray(value).tobytes())

    def variable(self, value: Any) -> str:
        """A variable, by its number."""
        if not is_variable(value):
            raise Unstorable(f"it uses a {type(value).__name__}")
        return f"variable {self._variables.get(id(value), _about(value.value))}"

    def step(self, ops: Sequence[Any], feeds: Sequence[Any], fetches: Sequence[Any], targets: Iterable[Any], held: dict,
             known: Any, depth: int = 0) -> None:
        """Ops in their order, by numbers."""
        if depth > _DEEPEST:
            raise Unstorable("its functions call each other too deep")
        number = {op: i for i, op in enumerate(ops)}
        fed = {id(t): i for i, t in enumerate(feeds)}

        def place(t: Any) -> tuple:
            return ("fed", fed[id(t)]) if id(t) in fed else (number[t.op], t.value_index)
        for t in feeds:
            self.add(t.dtype, None if t.static_dims is None else list(t.static_dims))
        for op in ops:
            self.add(op.type, op.device, [place(t) for t in op.inputs if id(t) in fed or t.op in number],
                     [number[c] for c in op.control_inputs if c in number])
            self.add([[t.dtype, None if t.static_dims is None else list(t.static_dims)] for t in op.outputs])
            if op in held:
                value = held[op]
                self.add(value if isinstance(value, (tuple, torch.Tensor)) else self.variable(value))
            self._attributes(op, depth)
        self.add([place(t) for t in fetches], [number[op] for op in targets], repr(known))

    def _attributes(self, op: Any, depth: int) -> None:
        for name, value in sorted(op.attrs.items()):
            self.add(name)
            if name not in op.opdef.function_attrs:
                self.add(value)
                continue
            for f in value if isinstance(value, (list, tuple)) else [value]:
                self._function(as_function(f, op.graph), depth + 1)

    def _function(self, f: GraphFunction, depth: int) -> None:
        if id(f) in self._functions:
            self.add("function", self._functions[id(f)])
            return
        self._functions[id(f)] = len(self._functions)
        self._kept.append(f)
        self.step(f.ops(), f.inputs, f.outputs, f.effects, f.held, f.known, depth)


# -- files -------------------------------------------------------------------------------------------------------------------
def _path(name: str) -> pathlib.Path:
    return inductor.folder() / "penstock" / f"{name}.json"


def save(name: str, lowered: lower.Lowered, entry: str, rounds: bool, variables: Sequence[Any]) -> None:
    """Writes the file of a compiled step."""
    number = {id(v): i for i, v in enumerate(variables)}
    if lowered.draws.taken:
        raise Unstorable("it draws from random streams")
    names = {id(f): name for name, f in tracing.behind.items()}
    later = [[names.get(id(f)), _written(arguments, number), keywords] for f, arguments, keywords in lowered.later]
    if any(f is None for f, _, _ in later):
        raise Unstorable("a call behind the graph has no name")
    made = Stored(entry, _written(lowered.variables, number), lowered.feeds, lowered.changed,
                  _written(lowered.results, number), later, lowered.draws.unseeded, rounds,
                  lowered.checked)
    path = _path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as to:
        json.dump(dataclasses.asdict(made), to)
    os.replace(to.name, path)


def _written(value: Any, number: dict[int, int]) -> Any:
    """A value for JSON: an output of the graph, a variable by its number, a number, a small constant, or a list of them."""
    if isinstance(value, (list, tuple)):
        return [_written(v, number) for v in value]
    if isinstance(value, lower.Output):
        return {"output": value.at}
    if id(value) in number:
        return {"variable": number[id(value)]}
    if value is None or type(value) in (bool, int, float):
        return value
    if isinstance(value, torch.Tensor) and value.numel() <= _SMALL and value.dtype in _PLAIN:
        return {"constant": value.flatten().tolist(), "shape": list(value.shape), "dtype": str(value.dtype)[len("torch."):],
                "device": str(value.device)}
    raise Unstorable(f"it holds a {type(value).__name__}")


def _read(value: Any, variables: Sequence[Any]) -> Any:
    """What was written."""
    if isinstance(value, list):
        return [_read(v, variables) for v in value]
    if not isinstance(value, dict):
        return value
    if "output" in value:
        return lower.Output(value["output"])
    if "variable" in value:
        return variables[value["variable"]]
    made = torch.tensor(value["constant"], dtype=getattr(torch, value["dtype"]), device=value["device"])
    return made.reshape(value["shape"])


def forget(name: str) -> None:
    """Removes the file of a step whose results differed from the program's."""
    _path(name).unlink(missing_ok=True)


def load(name: str, variables: Sequence[Any], feeds: Sequence[Any],
         device: torch.device) -> tuple[lower.Lowered, Any, bool] | None:
    """The step that an earlier process has stored under this name: what it takes and returns, what runs it, and whether it
    computes in half precision. None if there is none."""
    path = _path(name)
    if not path.exists():
        return None
    found = Stored(**json.loads(path.read_text()))
    drawn = draws.Draws(lowering=True)
    drawn.unseeded = found.unseeded
    used = _read(found.variables, variables)
    later = [(tracing.behind[f], _read(arguments, variables), keywords) for f, arguments, keywords in found.later]
    example = lower.stand_ins([v.value for v in used] + [feeds[i] for i in found.feeds], device)
    lowered = lower.Lowered(None, used, [], found.feeds, found.changed,                # type: ignore[arg-type]
                            _read(found.results, variables), drawn, later, example, found.checked)
    run = inductor.loaded(found.entry, lowered.example)
    return None if run is None else (lowered, run, found.rounds)
