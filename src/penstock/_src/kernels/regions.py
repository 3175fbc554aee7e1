"""Operations on small float32 arrays, one after the other, in one call: `_regions.h`, part of `_fused.c`.

Calling an operation of torch takes about a microsecond, whatever it does. A `Region` is a list of instructions on buffers,
written once by a `Builder` for some shapes: pointwise plans (`pointwise.py`), products of matrices, copies and reductions.
What an operation only looks at in another way (parts, transposes, other shapes) is a `View` and costs nothing.
"""
from __future__ import annotations

import ctypes
import functools
import itertools
import math
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch

from penstock._src.base import errors
from penstock._src.kernels.host_threads import compiled
from penstock._src.kernels.pointwise import PER_ROW, SAME, Columns, Plan, Step, Term

_PLAN, _PRODUCT, _COPY, _REDUCE, _CHOLESKY, _TRIANGULAR, _SOLVE = range(7)
_AXES = 4                                           # of what a copy takes
_ALIGNED = 16                                       # elements at whose multiples buffers begin
_MOST = 1 << 22                                     # elements of all buffers between operations
_WIDEST = 32                                        # columns of matrices that are factorized here


class Unfit(Exception):
    """An operation cannot be part of a region."""


@functools.cache
def available() -> bool:
    """Whether regions run here: the kernels are compiled, and torch's library has products of matrices."""
    kernels = compiled("_fused")
    if kernels is None:
        return False
    try:
        sgemm = ctypes.cast(ctypes.CDLL(None).sgemm_, ctypes.c_void_p).value
    except AttributeError:
        sgemm = _in_torch()
    if not sgemm:
        return False
    kernels.use_products(sgemm)
    return True


def _in_torch() -> int | None:
    """The address of sgemm in torch's library for the CPU."""
    try:
        with open("/proc/self/maps") as f:
            paths = {line.split(None, 5)[5].strip() for line in f if "libtorch_cpu" in line}
        return ctypes.cast(ctypes.CDLL(paths.pop()).sgemm_, ctypes.c_void_p).value if len(paths) == 1 else None
    except (OSError, AttributeError):
        return None


class View(NamedTuple):
    """Elements of a buffer, from `offset` on; `truth` says that they are booleans."""

    buffer: int
    offset: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    truth: bool = False

    @property
    def packed(self) -> bool:
        """Whether the elements are contiguous."""
        return self.strides == _in_order(self.dims) or all(
            d == 1 or s == o for d, s, o in zip(self.dims, self.strides, _in_order(self.dims), strict=True))


def _in_order(dims: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous array."""
    out, step = [], 1
    for d in reversed(dims):
        out.append(step)
        step *= d
    return tuple(reversed(out))


class Region:
    """Code that computes tensors of the shapes `results`."""

    def __init__(self, code: bytes, results: list[tuple[int, ...]]):
        self.code, self.results = code, results
        self.ops = 1                                # how many operations it represents
        self.failures: dict[int, Callable[[], Exception]] = {}      # by the numbers of instructions: what went wrong
        self._run: Callable = compiled("_fused").run_region

    def run(self, values: list[torch.Tensor]) -> list[torch.Tensor]:
        """The results for some tensors."""
        empty = torch.empty
        results = [empty(shape) for shape in self.results]
        done = self._run(self.code, values, results)
        if done is not True:
            if done is not False:
                raise self.failures[done]()
            raise errors.InternalError(None, None, f"Tensors of {[tuple(v.shape) for v in values]} are not those of the region")
        return results


class _Instruction(NamedTuple):
    kind: int
    words: Callable[[dict[int, int]], list[int]]    # with the numbers of buffers
    to: int
    reads: tuple[int, ...]
    tail: bytes = b""                               # what follows the words


class Builder:
    """Writes a region. Buffers have numbers of their own until it is finished."""

    Unfit = Unfit

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self.given: dict[int, bool] = {}             # buffers that are given; whether they are booleans
        self.instructions: list[_Instruction] = []
        self.messages: dict[int, str] = {}           # of instructions that may fail
        self._counter = itertools.count()

    # -- views --------------------------------------------------------------------------------------------------------------
    def value(self, dims: tuple[int, ...], truth: bool = False) -> View:
        """A tensor that is given."""
        view = self.new(dims)
        self.given[view.buffer] = truth
        return view._replace(truth=truth)

    def new(self, dims: Sequence[int]) -> View:
        """A new buffer."""
        buffer = next(self._counter)
        self.sizes[buffer] = math.prod(dims)
        return View(buffer, 0, tuple(dims), _in_order(dims))

    def packed(self, view: View) -> View:
        """The same elements, in order."""
        return view if view.packed else self.copied(view)

    def copied(self, view: View) -> View:
        """The same elements in a new buffer."""
        to = self.new(view.dims)
        self.copy(to, view)
        return to

    def reshaped(self, view: View, dims: Sequence[int]) -> View:
        """The same elements in another shape."""
        if math.prod(dims) != math.prod(view.dims):
            raise Unfit("different numbers of elements")
        return self.packed(view)._replace(dims=tuple(dims), strides=_in_order(dims))

    def permuted(self, view: View, order: Sequence[int]) -> View:
        """The same with the axes in another order."""
        return view._replace(dims=tuple(view.dims[i] for i in order), strides=tuple(view.strides[i] for i in order))

    def part(self, view: View, axis: int, begin: int, size: int, step: int = 1) -> View:
        """Some of the elements along an axis."""
        axis %= len(view.dims)
        return view._replace(offset=view.offset + begin * view.strides[axis],
                             dims=(*view.dims[:axis], size, *view.dims[axis + 1:]),
                             strides=(*view.strides[:axis], view.strides[axis] * step, *view.strides[axis + 1:]))

    def repeated(self, view: View, dims: Sequence[int]) -> View:
        """The elements, repeated over a larger shape."""
        own = (*(1,) * (len(dims) - len(view.dims)), *view.dims)
        strides = (*(0,) * (len(dims) - len(view.dims)), *view.strides)
        if any(a not in (1, b) for a, b in zip(own, dims, strict=True)):
            raise Unfit("shapes do not match")
        strides = tuple(s if a == b else 0 for a, b, s in zip(own, dims, strides, strict=True))
        return view._replace(dims=tuple(dims), strides=strides)

    def with_axis(self, view: View, axis: int) -> View:
        """The same with one more axis of size 1."""
        return view._replace(dims=(*view.dims[:axis], 1, *view.dims[axis:]),
                             strides=(*view.strides[:axis], 0, *view.strides[axis:]))

    def without_axis(self, view: View, axis: int) -> View:
        """The same without an axis of size 1."""
        axis %= len(view.dims)
        return view._replace(dims=(*view.dims[:axis], *view.dims[axis + 1:]),
                             strides=(*view.strides[:axis], *view.strides[axis + 1:]))

    def count(self, view: View) -> int:
        """The number of elements."""
        return math.prod(view.dims)

    def filled(self, dims: Sequence[int], value: float) -> View:
        """A new buffer that holds one number."""
        return self.terms(dims, [value], lambda terms, x: x)

    # -- instructions -------------------------------------------------------------------------------------------------------
    def copy(self, to: View, view: View) -> None:
        """Copies elements to another view of the same shape."""
        axes = [(d, t, s) for d, t, s in zip(view.dims, to.strides, view.strides, strict=True) if d != 1]
        merged: list[tuple[int, int, int]] = []
        for d, t, s in axes:
            if merged and merged[-1][1] == d * t and merged[-1][2] == d * s:
                merged[-1] = (merged[-1][0] * d, t, s)
            else:
                merged.append((d, t, s))
        if view.truth or len(merged) > _AXES:
            raise Unfit("too many axes")
        padded = [(1, 0, 0)] * (_AXES - len(merged)) + merged
        if padded[-1][0] == 1:
            padded[-1] = (1, 1, 1)
        rest = [n for column in zip(*padded, strict=True) for n in column]
        self._add(_COPY, lambda at: [at[to.buffer], to.offset, at[view.buffer], view.offset, *rest], to, view)

    def joined(self, views: Sequence[View], axis: int) -> View:
        """Views side by side along an axis."""
        first = views[0]
        axis %= len(first.dims)
        to = self.new((*first.dims[:axis], sum(v.dims[axis] for v in views), *first.dims[axis + 1:]))
        begin = 0
        for v in views:
            if math.prod(v.dims):
                self.copy(self.part(to, axis, begin, v.dims[axis]), v)
            begin += v.dims[axis]
        return to

    def product(self, a: View, b: View, turn_a: bool = False, turn_b: bool = False) -> View:
        """Products of matrices, or of as many matrices in both."""
        a, b = (self.permuted(v, [*range(len(v.dims) - 2), -1, -2]) if turn else v for v, turn in ((a, turn_a), (b, turn_b)))
        if a.dims[:-2] != b.dims[:-2] or a.dims[-1] != b.dims[-2] or a.truth or b.truth:
            raise Unfit("shapes do not match")
        (a, a_turned), (b, b_turned) = self._matrix(a), self._matrix(b)
        to = self.new((*a.dims[:-1], b.dims[-1]))
        rows, depth, columns, count = a.dims[-2], a.dims[-1], b.dims[-1], math.prod(a.dims[:-2])
        numbers = [(v.offset, v.strides[-1] if turned else v.strides[-2], v.strides[-3] if len(v.dims) > 2 else 0)
                   for v, turned in ((a, a_turned), (b, b_turned))]

        def words(at: dict[int, int]) -> list[int]:
            return [count, rows, columns, depth, a_turned, b_turned, at[a.buffer], *numbers[0], at[b.buffer], *numbers[1],
                    at[to.buffer], 0, columns, rows * columns]
        self._add(_PRODUCT, words, to, a, b)
        return to

    def _matrix(self, view: View) -> tuple[View, bool]:
        """Matrices whose rows, or columns, are contiguous, and whether it is the columns; copied where neither does."""
        *batch, rows, columns = view.dims
        if len(batch) > 1:
            view = self.reshaped(view, (math.prod(batch), rows, columns))
        down, across = view.strides[-2:]
        least = [max(1, n) for n in (rows, columns)]
        if (across == 1 or columns == 1) and (down >= least[1] or rows == 1):
            return view._replace(strides=(*view.strides[:-2], max(down, least[1]), 1)), False
        if (down == 1 or rows == 1) and (across >= least[0] or columns == 1):
            return view._replace(strides=(*view.strides[:-2], 1, max(across, least[0]))), True
        return self._matrix(self.copied(view))

    def reduced(self, view: View, axes: Iterable[int], greatest: bool = False, scale: float = 1.0) -> View:
        """The sum, or the greatest, over some axes, which have size 1 then."""
        rank = len(view.dims)
        gone = {a % rank for a in axes}
        if not gone or 0 in view.dims:
            raise Unfit("nothing to reduce")
        order = [*(i for i in range(rank) if i not in gone), *sorted(gone)]
        if sorted(gone) != list(range(min(gone), max(gone) + 1)):
            view, before = self.copied(self.permuted(view, order)), rank - len(gone)
        else:
            view, before = self.packed(view), min(gone)
        outer = math.prod(view.dims[:before])
        middle = math.prod(view.dims[before:before + len(gone)])
        inner = math.prod(view.dims[before + len(gone):])
        kept = iter([d for i, d in enumerate(view.dims) if not before <= i < before + len(gone)])
        to = self.new([1 if i in gone else next(kept) for i in range(rank)])
        bits = struct.unpack("=i", struct.pack("=f", scale))[0]
        numbers = [int(greatest), outer, middle, inner, bits]
        self._add(_REDUCE, lambda at: [at[to.buffer], 0, at[view.buffer], view.offset, *numbers], to, view)
        return to

    def cholesky(self, view: View) -> View:
        """The lower triangles of Cholesky's factors of matrices."""
        return self._squares(_CHOLESKY, view, None)

    def solved(self, matrix: View, sides: View, turned: bool, message: str) -> View:
        """The solutions of systems of equations; the message is for matrices without an inverse."""
        self.messages[len(self.instructions) + sum(not v.packed for v in (matrix, sides))] = message
        return self._squares(_SOLVE, matrix, sides, turned=turned)

    def solved_triangular(self, matrix: View, sides: View, lower: bool, turned: bool) -> View:
        """The solutions of systems of equations whose matrices are triangles."""
        return self._squares(_TRIANGULAR, matrix, sides, lower == turned, turned)

    def _squares(self, kind: int, matrix: View, sides: View | None, upper: bool = False, turned: bool = False) -> View:
        size, width = matrix.dims[-1], 0 if sides is None else sides.dims[-1]
        if matrix.dims[-2] != size or size > _WIDEST or sides is not None and sides.dims[:-1] != matrix.dims[:-1]:
            raise Unfit("shapes do not fit")
        matrix = self.packed(matrix)
        sides = matrix if sides is None else self.packed(sides)
        to, spare = self.new(sides.dims), self.new((size, size))
        numbers = [math.prod(matrix.dims[:-2]), size, width, int(upper), int(turned)]

        def words(at: dict[int, int]) -> list[int]:
            return [n for v in (to, matrix, sides, spare) for n in (at[v.buffer], v.offset)] + numbers
        self._add(kind, words, to, matrix, sides, spare)
        return to

    def diagonal(self, view: View) -> View:
        """The elements on the main diagonals of matrices."""
        return view._replace(dims=(*view.dims[:-2], min(view.dims[-2:])),
                             strides=(*view.strides[:-2], view.strides[-2] + view.strides[-1]))

    def plan(self, plan: Plan, views: Sequence[View]) -> list[View]:
        """The results of a plan."""
        views = [self.packed(v) for v in views]
        if [math.prod(v.dims) for v in views] != plan.sizes or {i for i, v in enumerate(views) if v.truth} != plan.truths:
            raise Unfit("shapes do not match")
        results = [self.new(dims) for dims in plan.results]
        places = [(v.buffer, v.offset) for v in (*views, *results)]

        def words(at: dict[int, int]) -> list[int]:
            return [len(places), *(n for buffer, offset in places for n in (at[buffer], offset))]
        self.instructions.append(_Instruction(_PLAN, words, -1, tuple(b for b, _ in places), plan.code))
        return results

    def terms(self, dims: Sequence[int], views: Sequence[View | float], write: Callable[..., int]) -> View:
        """What `write(terms, *sources)` writes as terms of a plan, on views that are repeated over a shape."""
        rows, columns = math.prod(dims[:-1]), dims[-1] if dims else 1
        made = Terms()
        given: list[View] = []
        sources = []
        for v in views:
            if isinstance(v, float):
                sources.append(made.add(v))
                continue
            stride = columns
            if math.prod(v.dims) == 1 and not v.truth:
                stride = SAME
            elif tuple(v.dims) == (*dims[:-1], 1) and not v.truth:
                stride = PER_ROW
            elif v.dims != tuple(dims):
                v = self.repeated(v, dims)
            given.append(self.packed(v))
            sources.append(made.add(Columns(len(given) - 1, 0, stride)))
        found = write(made, *sources)
        if not isinstance(made.terms[found], Step):
            found = made.step_of("COPY", found)
        truths = [i for i, v in enumerate(given) if v.truth]
        try:
            plan = Plan(rows, columns, [math.prod(v.dims) for v in given], [tuple(dims)], made.terms,
                        [(found, Columns(0, 0, columns))], truths)
        except ValueError as e:
            raise Unfit(str(e)) from None
        return self.plan(plan, given)[0]

    def _add(self, kind: int, words: Callable[[dict[int, int]], list[int]], to: View, *reads: View) -> None:
        if any(v.truth for v in reads):
            raise Unfit("booleans")
        self.instructions.append(_Instruction(kind, words, to.buffer, (to.buffer, *(v.buffer for v in reads))))

    # -- code ---------------------------------------------------------------------------------------------------------------
    def finish(self, results: Sequence[View]) -> Region:
        """The region that computes some views."""
        whole: list[int] = []
        for v in results:
            taken = v.buffer in self.given or v.buffer in whole or v.offset or not v.packed or \
                self.sizes[v.buffer] != math.prod(v.dims)
            whole.append(self.copied(v).buffer if taken else v.buffer)
        begins, room = self._places(set(whole) | set(self.given))
        if room > _MOST:
            raise Unfit("too large")
        order = [*self.given, *whole, *begins]
        at = {buffer: i for i, buffer in enumerate(order)}
        words = [len(self.given), len(whole), len(begins), room, len(self.instructions),
                 *(self.sizes[b] for b in (*self.given, *whole)), *map(int, self.given.values()), *begins.values()]
        code = [struct.pack(f"={len(words)}i", *words)]
        for i in self.instructions:
            own = i.words(at)
            code.append(struct.pack(f"={len(own) + 2}i", i.kind, len(own) + len(i.tail) // 4, *own) + i.tail)
        return Region(b"".join(code), [v.dims for v in results])

    def _places(self, kept: set[int]) -> tuple[dict[int, int], int]:
        """Where the other buffers begin in memory that they share: each from its first use to its last. Its size."""
        last = {b: i for i, n in enumerate(self.instructions) for b in n.reads}
        begins: dict[int, int] = {}
        free: list[tuple[int, int]] = []             # begin, size
        end = 0
        for i, n in enumerate(self.instructions):
            for b in dict.fromkeys(n.reads):
                if b in kept or b in begins:
                    continue
                size = max(_ALIGNED, -(-self.sizes[b] // _ALIGNED) * _ALIGNED)
                fit = min((f for f in free if f[1] >= size), key=lambda f: f[1], default=None)
                if fit is None:
                    begins[b], end = end, end + size
                else:
                    free.remove(fit)
                    begins[b] = fit[0]
                    if fit[1] > size:
                        free.append((fit[0] + size, fit[1] - size))
            for b in dict.fromkeys(n.reads):
                if b in begins and last[b] == i:
                    free.append((begins[b], max(_ALIGNED, -(-self.sizes[b] // _ALIGNED) * _ALIGNED)))
        return begins, end


class Terms:
    """The terms of a plan, as formulas (`rules.pointwise.formula`) write them."""

    def __init__(self) -> None:
        self.terms: list[Term] = []

    def add(self, term: Term) -> int:
        """The number of a new term."""
        self.terms.append(term)
        return len(self.terms) - 1

    def step_of(self, kind: str, *sources: int) -> int:
        """The term that is the result of an instruction."""
        return self.add(Step(kind, sources))

    def number(self, value: float) -> int:
        """The term of a number."""
        return self.add(value)
