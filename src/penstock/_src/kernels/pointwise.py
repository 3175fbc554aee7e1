"""Several operations on each element of arrays of floats, or of doubles, in one pass over them: `_fused.c`, compiled when
penstock is installed with a compiler.

Without it `available` returns False, and operations run one by one. A `Plan` is created once, for some sizes, and run on
tensors of these sizes. What it computes is a list of *terms*, each of which may be used by those behind it.
"""
from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import torch

from penstock._src.base import errors, tracing
from penstock._src.kernels.host_threads import compiled

SLOTS, ROOMS, LARGEST = 96, 24, (1 << 31) - 1       # what fits into a plan, and elements of a tensor
SAME, PER_ROW = -1, -2                              # strides of what is one number for all, or one for each row
_WORK = {"SIGMOID": 2.0, "TANH": 2.0, "DIV": 1.0, "EXP": 2.0, "ERF": 2.0, "ERFC": 4.0, "LOG": 2.0, "LOG1P": 3.0, "SQRT": 1.0,
         "RSQRT": 2.0, "RECIPROCAL": 1.0, "EXPM1": 2.0, "SINE": 3.0, "COSINE": 3.0}      # of one element; an addition is _LIGHT
_LIGHT = 0.25
_NARROW, _FEW = 2, 256                              # columns with which many rows are faster one op at a time
_VECTOR = 16                                        # elements of ATen's widest vectors
_LONG = 1 << 12                                     # elements of an array on which an instruction is faster than ATen
_BLOCK, WIDEST = 1 << 10, 1 << 12                   # floats of a block, and columns of rows that a block may have as a whole
_LEAST = 128                                        # elements of a block that take longer than the instructions on them
_ROOMS, _NARROW_ROOMS, _NUMBERS = 1 << 10, 2 << 10, 3 << 10      # slots, until it is known how many there are of each kind
_KINDS = {torch.float32: 0, torch.float64: 4}       # of tensors that are not boolean, as `_fused.c` numbers them
REALS = frozenset(_KINDS)
_REDUCES = "ROW_"                                   # begins the names of instructions that make one number of a row
_kernels = functools.partial(compiled, "_fused")


def available() -> bool:
    """Whether there are such kernels."""
    return _kernels() is not None


def has(kind: str) -> bool:
    """Whether the kernels have an instruction; those that were built from older sources lack the latest ones."""
    return hasattr(_kernels(), kind)


def add_scaled(to: torch.Tensor, value: torch.Tensor, other: torch.Tensor, scale: float) -> bool:
    """Writes `value + scale * other` to `to` while keeping the interpreter's lock; False if they do not fit, or are long.

    For short arrays, releasing and reacquiring the lock takes longer than the sum.
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


def log_softmax(x: torch.Tensor) -> torch.Tensor:
    """The logarithms of the softmax of rows. ATen takes several times as long where a row is shorter than its vectors."""
    if type(x) is torch.Tensor and x.dtype in REALS and x.ndim and 1 < x.shape[-1] < _VECTOR and \
            _FEW <= x.numel() <= LARGEST and x.is_cpu and x.is_contiguous() and available() and not tracing.lowering() and \
            not _is_wrapped(x):
        return _log_softmax_plan(x.numel() // x.shape[-1], x.shape[-1], x.dtype).run([x])[0].view(x.shape)
    return torch.log_softmax(x, -1)


@functools.lru_cache(maxsize=64)
def _log_softmax_plan(rows: int, columns: int, dtype: torch.dtype) -> Plan:
    x = Columns(0, 0, columns)
    terms: list[Term] = [x, Step("ROW_MAXIMUM", (0,)), Step("SUB", (0, 1)), Step("EXP", (2,)), Step("ROW_SUM", (3,)),
                         Step("LOG", (4,)), Step("SUB", (2, 5))]
    return Plan(rows, columns, [rows * columns], [(rows, columns)], terms, [(6, x)], dtype=dtype)


_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor       # under vmap it has no memory


@functools.lru_cache(maxsize=256)
def _code(kind: str, size: int) -> bytes:
    """The plan of one instruction on an array."""
    return _Assembler(1, size, [size], [(size,)], [Columns(0, 0, size), Step(kind, (0,))], [(1, Columns(0, 0, size))]).code()


class Columns(NamedTuple):
    """Columns of a tensor, as many as the plan has: from element `offset` on, rows `stride` elements apart (0: one for all).

    A stride of SAME or PER_ROW repeats one number over all columns: the tensor's only one, or that of the row. With a `period`,
    rows begin again after so many. With `every`, the rows are those of `times` arrays that are `jump` elements apart and take
    turns, each for so many rows.
    """

    tensor: int
    offset: int
    stride: int
    period: int = 0
    every: int = 0
    times: int = 1
    jump: int = 0


class Step(NamedTuple):
    """An instruction (`ADD`, `TANH`, … of `_fused.c`) on terms, by their numbers."""

    kind: str
    sources: tuple[int, ...]


Term = Columns | Step | float


class Plan:
    """Computes `terms` and writes some of them into new tensors of the shapes `results`.

    `sizes` are the elements of the tensors that are given, of which those in `truths` are boolean; `written` says where in the
    results (by their numbers) which terms go. All else is of one type, float32 or float64. All has `rows` times `columns`
    elements, and there is at least one; terms that are one number for each row have `rows`.
    """

    def __init__(self, rows: int, columns: int, sizes: Sequence[int], results: Sequence[tuple[int, ...]],
                 terms: Sequence[Term], written: Sequence[tuple[int, Columns]], truths: Collection[int] = (),
                 dtype: torch.dtype = torch.float32):
        self.rows, self.columns, self.sizes, self.results = rows, columns, list(sizes), list(results)
        self.terms, self.written, self.truths, self.dtype = list(terms), list(written), frozenset(truths), dtype
        self._run = _kernels().run
        self._copies = False
        self.code = _Assembler(rows, columns, sizes, results, terms, written, self.truths, dtype).code()

    def run(self, values: list[torch.Tensor]) -> list[torch.Tensor]:
        """The results for some tensors."""
        empty, dtype = torch.empty, self.dtype
        results = [empty(shape, dtype=dtype) for shape in self.results]
        if self._copies:
            values = [v.contiguous() for v in values]
        if not self._run(self.code, values, results):
            self._copies = True                      # parts of arrays come again
            if self._run(self.code, [v.contiguous() for v in values], results):
                return results
            raise errors.InternalError(None, None, f"Tensors of {[tuple(v.shape) for v in values]} are not those of the plan")
        return results

    def with_one_result(self, chosen: list[int]) -> Plan:
        """The same, with some of the results, which are of the plan's shape, in one array: the last result."""
        rest = [i for i in range(len(self.results)) if i not in chosen]
        written = [(term, _moved(to, rest, chosen, self.rows * self.columns)) for term, to in self.written]
        results = [*(self.results[i] for i in rest), (len(chosen), *self.results[chosen[0]])]
        return Plan(self.rows, self.columns, self.sizes, results, self.terms, written, self.truths, self.dtype)

    def with_one_value(self, chosen: list[int]) -> Plan:
        """The same, with some of the given tensors, which are of the plan's shape, in one array: the last that is given."""
        rest = [i for i in range(len(self.sizes)) if i not in chosen]
        size = self.rows * self.columns
        terms = [_moved(t, rest, chosen, size) if isinstance(t, Columns) else t for t in self.terms]
        sizes = [*(self.sizes[i] for i in rest), size * len(chosen)]
        truths = [rest.index(i) for i in self.truths]
        return Plan(self.rows, self.columns, sizes, self.results, terms, self.written, truths, self.dtype)


def _moved(place: Columns, rest: list[int], chosen: list[int], size: int) -> Columns:
    """Where columns are when some tensors of that size are parts of one behind the rest."""
    if place.tensor in chosen:
        return place._replace(tensor=len(rest), offset=place.offset + chosen.index(place.tensor) * size)
    return place._replace(tensor=rest.index(place.tensor))


def _without_copies(terms: Sequence[Term], written: Sequence[tuple[int, Columns]]) -> tuple[list, list]:
    """The terms, with what is copied in place of its copies. Those stay, so that numbers are the same, but are not needed."""
    of = list(range(len(terms)))
    out: list[Term] = []
    for i, term in enumerate(terms):
        if isinstance(term, Step):
            term = term._replace(sources=tuple(of[s] for s in term.sources))
            if term.kind == "COPY":
                of[i] = term.sources[0]
        out.append(term)
    return out, [(of[i], place) for i, place in written]


class _Assembler:
    """Writes the code of a plan: see `_fused.c`.

    A term is *narrow* if it is one number for all columns of a row; it has a vector for each row, not a block.
    """

    def __init__(self, rows: int, columns: int, sizes: Sequence[int], results: Sequence[tuple[int, ...]],
                 terms: Sequence[Term], written: Sequence[tuple[int, Columns]], truths: Collection[int] = (),
                 dtype: torch.dtype = torch.float32):
        self.real, self.bytes = _KINDS[dtype], dtype.itemsize
        terms, written = _without_copies(terms, written)
        self.shape, self.sizes, self.given = (rows, columns), [*sizes, *map(math.prod, results)], len(sizes)
        self.terms, self.truths = terms, truths
        self.operands: list[Columns] = [t for t in terms if isinstance(t, Columns)]
        self.numbers: list[float] = [t for t in terms if isinstance(t, float)]
        self.places: dict[int, list[int]] = {}       # term -> operands that it is written to
        for term, columns_ in sorted(written, key=lambda w: w[1].stride >= 0):      # narrow ones first: others copy them
            self.places.setdefault(term, []).append(len(self.operands))
            self.operands.append(columns_._replace(tensor=columns_.tensor + len(sizes)))
        self.needed = self._needed()
        self.last = {source: i for i, t in enumerate(terms) if i in self.needed and isinstance(t, Step) for source in t.sources}
        self.whole = any(isinstance(t, Step) and t.kind.startswith(_REDUCES) for t in terms)
        self.narrow = self._narrow()
        self.free: dict[bool, list[int]] = {False: [], True: []}
        self.rooms = {False: 0, True: 0}
        self.instructions: list[tuple[int, ...]] = []
        self.work = 0.0

    def _needed(self) -> set[int]:
        """The terms that results depend on."""
        found = set(self.places)
        for i in range(len(self.terms) - 1, -1, -1):
            term = self.terms[i]
            if i in found and isinstance(term, Step):
                found.update(term.sources)
        return found

    def _narrow(self) -> list[bool]:
        found: list[bool] = []
        for term in self.terms:
            found.append(term.stride < 0 if isinstance(term, Columns) else isinstance(term, float) or
                         term.kind.startswith(_REDUCES) or all(found[s] for s in term.sources))
        return found

    def code(self) -> bytes:
        """The plan as bytes."""
        slots: dict[int, int] = {}
        operands, numbers = iter(range(len(self.operands))), iter(range(len(self.numbers)))
        for i, term in enumerate(self.terms):
            if isinstance(term, Columns):
                slots[i] = next(operands)
            elif isinstance(term, float):
                slots[i] = _NUMBERS + next(numbers)
            elif i in self.needed:
                self._instruct(i, term, slots)
        for i, term in enumerate(self.terms):
            if not isinstance(term, Step):
                for place in self.places.get(i, ()):
                    self._write("COPY", place, (slots[i],))
        self._join_rows()
        begins = [0, len(self.operands), len(self.operands) + self.rooms[False], len(self.operands) + sum(self.rooms.values())]
        rows = [[kind, *(begins[s // _ROOMS] + s % _ROOMS for s in places)] for kind, *places in self.instructions]
        filled = sum(o.tensor in self.truths for o in self.operands) + self.rooms[False]
        if begins[-1] + len(self.numbers) > SLOTS or filled > ROOMS or max(self.sizes) > LARGEST or \
                self.whole and self.shape[1] > WIDEST:
            raise ValueError("too much for one plan")
        header = (self.given, len(self.sizes) - self.given, *self.shape, len(self.operands), self.rooms[False],
                  self.rooms[True], len(self.numbers), len(rows), math.ceil(self.work), self._down(), self.whole, self.real)
        truths = [i in self.truths for i in range(len(self.sizes))]
        flat = [*header, *self.sizes, *truths, *(n for o in self.operands for n in self._numbers_of(o)),
                *(n for row in rows for n in row)]
        return struct.pack(f"={len(flat)}i{len(self.numbers)}{'f' if self.bytes == 4 else 'd'}", *flat, *self.numbers)

    def _numbers_of(self, o: Columns) -> tuple[int, ...]:
        """An operand as `_fused.c` has it: one without turns or periods has those of all rows."""
        rows = self.shape[0]
        return (*o[:3], o.period or rows, o.every or rows, o.times, o.jump)

    def _down(self) -> int:
        """The rows of a block: as many as fit, without an operand that begins again within them. If these are too few, all that
        fit: then rows of such operands are copied."""
        rows, columns = self.shape
        down = max(1, _BLOCK * 4 // self.bytes // columns)
        turning = [o for o in self.operands if o.period or o.every]
        limits = {n for o in turning for n in (o.period, o.every) if n}
        even = down if not limits else max(d for d in range(1, down + 1) if all(n % d == 0 for n in limits))
        if even * columns >= _LEAST or any(o.stride < 0 or o.tensor >= self.given for o in turning) or \
                self.rooms[False] + len(self.operands) > ROOMS:
            return even
        return min(down, rows)

    def _join_rows(self) -> None:
        """Makes one row of several where no operand begins again with a row: short rows do not fill vectors."""
        rows, columns = self.shape
        if not self.whole and all(o.stride in (columns, SAME) for o in self.operands):
            many = math.gcd(*(o.period or rows for o in self.operands if o.stride != SAME))
            self.shape = (rows // many, columns * many)
            self.operands = [o if o.stride == SAME else self._of_longer_rows(o, many) for o in self.operands]
        elif columns < _NARROW and rows > _FEW:
            raise ValueError("rows are too short")

    def _of_longer_rows(self, o: Columns, many: int) -> Columns:
        """An operand when `many` rows are one."""
        period = o.period // many
        stride, period = (0, 0) if period == 1 else (o.stride * many, period)
        return o._replace(stride=stride, period=period, every=o.every // many)

    def _instruct(self, i: int, step: Step, slots: dict[int, int]) -> None:
        sources = tuple(slots[s] for s in step.sources)
        places, narrow = self.places.get(i, []), self.narrow[i]
        reduces = step.kind.startswith(_REDUCES)
        if places and not (reduces and self.operands[places[0]].stride >= 0):
            to, rest = places[0], places[1:]
        else:
            to, rest = self._room(narrow), places
        self._write(step.kind, to, sources)
        for place in rest:
            self._write("COPY", place, (to,))
        slots[i] = to
        for s in set(step.sources):
            if self.last[s] == i and isinstance(self.terms[s], Step) and s not in self.places:
                self.free[self.narrow[s]].append(slots[s])

    def _room(self, narrow: bool) -> int:
        if self.free[narrow]:
            return self.free[narrow].pop()
        self.rooms[narrow] += 1
        return (_NARROW_ROOMS if narrow else _ROOMS) + self.rooms[narrow] - 1

    def _write(self, kind: str, to: int, sources: tuple[int, ...]) -> None:
        padded = (*sources, *[sources[0]] * (3 - len(sources)))
        self.instructions.append((getattr(_kernels(), kind), to, *padded))
        self.work += _WORK.get(kind, _LIGHT) * self.bytes / 4
