"""A summary of the code that Inductor generated for a step: kernels, library calls, and memory plan."""
from __future__ import annotations

import collections
import math
import re
from typing import NamedTuple

_MADE = re.compile(r"^\s+(\w+) = empty_strided_\w+\(\(([\d, ]*)\), \(([\d, ]*)\), torch\.(\w+)\)")
_RENAMED = re.compile(r"^\s+(\w+) = (?:reinterpret_tensor\()?(\w+)\b.*# reuse$")
_ENDED = re.compile(r"\bdel (\w+)")
_KERNEL = re.compile(r"^\s+((?:triton|cpp)_\w+)(?:\.run)?\(")
_CALL = re.compile(r"^\s.*?(?:extern_kernels\.|torch\.ops\.\w+\.)(\w+)")
_BITS = re.compile(r"\d+")


class Plan(NamedTuple):
    """The memory between the ops of a step."""
    buffers: int                 # allocated
    reused: int                  # values that reuse the buffer of another one
    peak: int                    # bytes of buffers that exist at the same time, at most; results of library calls not counted


def plan(source: str) -> Plan:
    """The plan of memory in generated source."""
    held: dict[str, int] = {}
    buffers = reused = now = peak = 0
    for line in source.split("\n"):
        if made := _MADE.match(line):
            held[made[1]] = _bytes(made[2], made[3], made[4])
            buffers += 1
            now += held[made[1]]
            peak = max(peak, now)
        elif renamed := _RENAMED.match(line):
            held[renamed[1]] = held.pop(renamed[2], 0)
            reused += 1
            continue
        for name in _ENDED.findall(line):
            now -= held.pop(name, 0)
    return Plan(buffers, reused, peak)


def calls(source: str) -> tuple[collections.Counter, collections.Counter]:
    """How often the step calls each generated kernel, and each op of a library."""
    kernels: collections.Counter = collections.Counter()
    libraries: collections.Counter = collections.Counter()
    for line in source.split("\n"):
        code = line.split("#")[0]
        if found := _KERNEL.match(code):
            kernels[found[1]] += 1
        elif found := _CALL.match(code):
            libraries[found[1]] += 1
    return kernels, libraries


def summary(source: str) -> list[str]:
    """Both, as readable lines."""
    kernels, libraries = calls(source)
    memory = plan(source)
    return [f"{len(kernels)} generated kernels, called {kernels.total()} times: {_counted(kernels)}",
            f"{libraries.total()} calls of libraries: {_counted(libraries)}",
            f"memory: {memory.buffers} buffers, {memory.peak / 2**20:.1f} MiB at most; {memory.reused} values reuse one"]


def _counted(found: collections.Counter) -> str:
    return ", ".join(f"{name} × {count}" if count > 1 else name for name, count in sorted(found.items())) or "none"


def _bytes(sizes: str, strides: str, dtype: str) -> int:
    dims, steps = ([int(n) for n in _BITS.findall(text)] for text in (sizes, strides))
    if not math.prod(dims):
        return 0
    bits = int(_BITS.findall(dtype)[0]) if dtype != "bool" else 8
    return (1 + sum((d - 1) * s for d, s in zip(dims, steps, strict=True))) * bits // 8
