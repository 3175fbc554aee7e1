"""Several operations on each element of float32 arrays, in one pass over them: `_pointwise.c`, compiled when penstock is
installed with a compiler.

Without it `available` says no, and operations run one by one. A `Plan` is made once and run on tensors of the sizes that it was
made for. What it computes is a list of *terms*, each of which may be used by those behind it.
"""
from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from penstock._src.base import errors, tracing
from penstock._src.kernels.host_threads import compiled

SLOTS, ROOMS, LARGEST = 96, 24, (1 << 31) - 1       # what fits into a plan, and elements of a tensor
SAME, PER_ROW = -1, -2                              # strides of what is one number for all, or one for each row
_WORK = {"SIGMOID": 2.0, "TANH": 2.0, "DIV": 1.0, "EXP": 2.0, "LOG": 2.0, "LOG1P": 3.0, "SQRT": 1.0, "RSQRT": 2.0,
         "RECIPROCAL": 1.0}                         # of an instruction on one element, where an addition is _LIGHT
_LIGHT = 0.25
_NARROW, _FEW = 8, 256                              # columns with which many rows are faster one op at a time
_LONG = 1 << 12                                     # elements of an array on which an instruction is faster than ATen
_kernels = functools.partial(compiled, "_pointwise")


def available() -> bool:
    """Whether there are such kernels."""
    return _kernels() is not None


def add_scaled(to: torch.Tensor, value: torch.Tensor, other: torch.Tensor, scale: float) -> bool:
    """Writes `value + scale * other` to `to` while keeping the interpreter's lock; False if they do not fit, or are long.

    For short arrays, letting go of the lock and getting it back takes longer than the sum.
    """
    kernels = _kernels()
    return kernels is not None and kernels.add_scaled(to, value, other, scale)


def by_instruction(kind: str, aten: Callable, in_place: bool = False) -> Callable:
    """`aten`, which does to each element what the instruction `kind` does, by that where it is faster: ATen's logarithm and
    hyperbolic tangent take several times as long on long float32 arrays."""
    def run(x: torch.Tensor) -> torch.Tensor:
        if type(x) is torch.Tensor and x.dtype is torch.float32 and _LONG <= x.numel() <= LARGEST and x.is_cpu and \
                x.is_contiguous() and available() and not tracing.lowering() and not _is_wrapped(x):
            out = x if in_place else torch.empty_like(x)
            if _kernels().run(_code(kind, x.numel()), [x], [out]):
                return out
        return aten(x)
    return run


_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor       # by vmap: it has no memory


@functools.lru_cache(maxsize=256)
def _code(kind: str, size: int) -> bytes:
    """The plan of one instruction on an array."""
    return _Assembler(1, size, [size], [(size,)], [Columns(0, 0, size), Step(kind, (0,))], [(1, Columns(0, 0, size))]).code()


class Columns(NamedTuple):
    """Columns of a tensor, as many as the plan has: from element `offset` on, rows `stride` elements apart (0: one for all).

    A stride of SAME or PER_ROW repeats one number over all columns: the tensor's only one, or that of the row.
    """

    tensor: int
    offset: int
    stride: int


class Step(NamedTuple):
    """An instruction (`ADD`, `TANH`, … of `_pointwise.c`) on terms, by their numbers."""

    kind: str
    sources: tuple[int, ...]


Term = Columns | Step | float


class Plan:
    """Computes `terms` and writes some of them into new tensors of the shapes `results`.

    `sizes` are the elements of the tensors that are given; `written` says where in the results (by their numbers) which terms
    go. All has `rows` times `columns` elements, and there is at least one.
    """

    def __init__(self, rows: int, columns: int, sizes: Sequence[int], results: Sequence[tuple[int, ...]],
                 terms: Sequence[Term], written: Sequence[tuple[int, Columns]]):
        self.rows, self.columns, self.sizes, self.results = rows, columns, list(sizes), list(results)
        self.terms, self.written = list(terms), list(written)
        self._run = _kernels().run
        self.code = _Assembler(rows, columns, sizes, results, terms, written).code()

    def run(self, values: list[torch.Tensor]) -> list[torch.Tensor]:
        """The results for some tensors."""
        empty = torch.empty
        results = [empty(shape) for shape in self.results]
        if not self._run(self.code, values, results) and \
                not self._run(self.code, [v.contiguous() for v in values], results):
            raise errors.InternalError(None, None, f"Tensors of {[tuple(v.shape) for v in values]} are not those of the plan")
        return results

    def with_one_result(self, chosen: list[int]) -> Plan:
        """The same, with some of the results, which are of the plan's shape, in one array: the last result."""
        rest = [i for i in range(len(self.results)) if i not in chosen]
        written = [(term, _moved(to, rest, chosen, self.rows * self.columns)) for term, to in self.written]
        results = [*(self.results[i] for i in rest), (len(chosen), *self.results[chosen[0]])]
        return Plan(self.rows, self.columns, self.sizes, results, self.terms, written)

    def with_one_value(self, chosen: list[int]) -> Plan:
        """The same, with some of the given tensors, which are of the plan's shape, in one array: the last that is given."""
        rest = [i for i in range(len(self.sizes)) if i not in chosen]
        size = self.rows * self.columns
        terms = [_moved(t, rest, chosen, size) if isinstance(t, Columns) else t for t in self.terms]
        sizes = [*(self.sizes[i] for i in rest), size * len(chosen)]
        return Plan(self.rows, self.columns, sizes, self.results, terms, self.written)


def _moved(place: Columns, rest: list[int], chosen: list[int], size: int) -> Columns:
    """Where columns are when some tensors of that size are parts of one behind the rest."""
    if place.tensor in chosen:
        return Columns(len(rest), place.offset + chosen.index(place.tensor) * size, place.stride)
    return place._replace(tensor=rest.index(place.tensor))


class _Assembler:
    """Writes the code of a plan: see `_pointwise.c`."""

    def __init__(self, rows: int, columns: int, sizes: Sequence[int], results: Sequence[tuple[int, ...]],
                 terms: Sequence[Term], written: Sequence[tuple[int, Columns]]):
        self.shape, self.sizes, self.given = (rows, columns), [*sizes, *map(math.prod, results)], len(sizes)
        self.terms = terms
        self.operands: list[Columns] = [t for t in terms if isinstance(t, Columns)]
        self.numbers: list[float] = [t for t in terms if isinstance(t, float)]
        self.places: dict[int, list[int]] = {}       # term -> operands that it is written to
        for term, columns_ in written:
            self.places.setdefault(term, []).append(len(self.operands))
            self.operands.append(columns_._replace(tensor=columns_.tensor + len(sizes)))
        self.last = {source: i for i, t in enumerate(terms) if isinstance(t, Step) for source in t.sources}
        self.free: list[int] = []
        self.rooms = 0
        self.instructions: list[tuple[int, ...]] = []
        self.work = 0.0

    def code(self) -> bytes:
        """The plan as bytes."""
        slots: dict[int, int] = {}
        operands, numbers = iter(range(len(self.operands))), iter(range(len(self.numbers)))
        for i, term in enumerate(self.terms):
            if isinstance(term, Columns):
                slots[i] = next(operands)
            elif isinstance(term, float):
                slots[i] = -1 - next(numbers)          # behind the rooms, of which the number is not known yet
            else:
                self._instruct(i, term, slots)
        for i, term in enumerate(self.terms):
            if not isinstance(term, Step):
                for place in self.places.get(i, ()):
                    self._write("COPY", place, (slots[i],))
        self._join_rows()
        behind = len(self.operands) + self.rooms
        rows = [[s if s >= 0 else behind - 1 - s for s in line] for line in self.instructions]
        filled = self.rooms + len(self.numbers) + sum(o.stride < 0 for o in self.operands)
        if behind + len(self.numbers) > SLOTS or filled > ROOMS or max(self.sizes) > LARGEST:
            raise ValueError("too much for one plan")
        header = (self.given, len(self.sizes) - self.given, *self.shape, len(self.operands), self.rooms, len(self.numbers),
                  len(rows), math.ceil(self.work))
        flat = [*header, *self.sizes, *(n for o in self.operands for n in o), *(n for row in rows for n in row)]
        return struct.pack(f"={len(flat)}i{len(self.numbers)}f", *flat, *self.numbers)

    def _join_rows(self) -> None:
        """Makes one row of all where no operand begins again with a row: short rows leave lanes and time unused."""
        rows, columns = self.shape
        if all(o.stride in (columns, SAME) for o in self.operands):
            self.shape = (1, rows * columns)
        elif columns < _NARROW and rows > _FEW:
            raise ValueError("rows are too short")

    def _instruct(self, i: int, step: Step, slots: dict[int, int]) -> None:
        sources = tuple(slots[s] for s in step.sources)
        places = self.places.get(i, ())
        if places:
            to = places[0]
        elif self.free:
            to = self.free.pop()
        else:
            to, self.rooms = len(self.operands) + self.rooms, self.rooms + 1
        self._write(step.kind, to, sources)
        for place in places[1:]:
            self._write("COPY", place, (to,))
        slots[i] = to
        self.free.extend(slots[s] for s in set(step.sources)
                         if self.last[s] == i and isinstance(self.terms[s], Step) and s not in self.places)

    def _write(self, kind: str, to: int, sources: tuple[int, ...]) -> None:
        padded = (*sources, *[sources[0]] * (3 - len(sources)))
        self.instructions.append((getattr(_kernels(), kind), to, *padded))
        self.work += _WORK.get(kind, _LIGHT)
