"""Operations on small arrays, one after the other, in one call: `_regions.h`, part of `_fused.c`.

Calling a torch operation takes about a microsecond, independent of its size. A `Region` is a list of instructions on buffers,
written once by a `Builder` for some shapes: pointwise plans (`pointwise.py`), products of matrices, copies and reductions of
floats or doubles; pointwise operations, reductions and positions of integers and booleans; and draws of few random numbers.
Slices, transposes and reshapes are `View`s and cost nothing.
"""
from __future__ import annotations

import ctypes
import functools
import itertools
import math
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch

from penstock._src.base import errors
from penstock._src.kernels import philox, products
from penstock._src.kernels.host_threads import compiled
from penstock._src.kernels.pointwise import PER_ROW, SAME, Columns, Plan, Step, Term

_PLAN, _PRODUCT, _COPY, _REDUCE, _CHOLESKY, _TRIANGULAR, _SOLVE, _EACH, _DIVIDE, _FOLD, _POSITION, _TOP, _GATHER, _ONE_HOT, \
    _RUNNING, _SEGMENTS, _DRAW, _SEEDED, _BAND = range(19)
FLOAT, TRUTH, INT32, INT64, DOUBLE = range(5)       # kinds of elements
_DISTRIBUTIONS = {philox.uniform: 0, philox.normal: 1, philox.uniform_int: 2, philox.full_int: 2}
Source = Callable[[Any], philox.Stream]             # the stream of a draw, in the context of a step
KINDS = {torch.float32: FLOAT, torch.bool: TRUTH, torch.int32: INT32, torch.int64: INT64, torch.float64: DOUBLE}
_TYPES = tuple(KINDS)
_REALS = (FLOAT, DOUBLE)
_BYTES = (4, 1, 4, 8, 8)
_AXES = 4                                           # of operands that need not be contiguous
_ALIGNED = 16                                       # elements at whose multiples buffers begin
_MOST = 1 << 22                                     # elements of all buffers between operations
_WIDEST = 32                                        # columns of matrices that are factorized here
_FEW = 64                                           # elements of a row that are found in order
_MOST_INTEGERS = 1 << 13                            # elements of an array of integers: ATen is as fast on more


class Unfit(Exception):
    """An operation cannot be part of a region."""


@functools.cache
def available() -> bool:
    """Whether regions run here: the kernels are compiled, and torch's library has products of matrices."""
    kernels, sgemm, dgemm = compiled("_fused"), library_product("sgemm"), library_product("dgemm")
    if kernels is None or not sgemm or not dgemm:
        return False
    kernels.use_products(products.fastest_sgemm(sgemm), dgemm)
    return True


def library_product(name: str) -> int | None:
    """The address of sgemm or dgemm of the library that torch uses."""
    try:
        return ctypes.cast(getattr(ctypes.CDLL(None), f"{name}_"), ctypes.c_void_p).value
    except AttributeError:
        return _in_torch(name)


def _in_torch(name: str) -> int | None:
    """The address of such a function in torch's library for the CPU."""
    try:
        with open("/proc/self/maps") as f:
            paths = {line.split(None, 5)[5].strip() for line in f if "libtorch_cpu" in line}
        return ctypes.cast(getattr(ctypes.CDLL(paths.pop()), f"{name}_"), ctypes.c_void_p).value if len(paths) == 1 else None
    except (OSError, AttributeError):
        return None


class View(NamedTuple):
    """Elements of a buffer, from `offset` on."""

    buffer: int
    offset: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    kind: int = FLOAT

    @property
    def truth(self) -> bool:
        """Whether the elements are booleans."""
        return self.kind == TRUTH

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
    """Code that computes tensors of the shapes `results`, and of these kinds."""

    def __init__(self, code: bytes, results: list[tuple[int, ...]], kinds: list[int]):
        self.code, self.results = code, results
        self.ops = 1                                # how many operations it represents
        # by the numbers of instructions that may fail: (values that were given, where streams are) -> what went wrong
        self.failures: dict[int, Callable[..., Exception]] = {}
        self.sources: list[Source] = []             # of draws
        self._kinds = None if not any(kinds) else [_TYPES[k] for k in kinds]
        self._run: Callable = compiled("_fused").run_region

    def draw(self, values: list[torch.Tensor], ctx: Any) -> list[torch.Tensor]:
        """The results for some tensors, of a region that draws random numbers."""
        return self.run(values, [source(ctx).place() for source in self.sources])

    def run(self, values: list[torch.Tensor], *streams: list[bytearray]) -> list[torch.Tensor]:
        """The results for some tensors."""
        empty = torch.empty
        if self._kinds is None:
            results = [empty(shape) for shape in self.results]
        else:
            results = [empty(shape, dtype=kind) for shape, kind in zip(self.results, self._kinds, strict=True)]
        done = self._run(self.code, values, results, *streams)
        if done is not True:
            if done is not False:
                raise self.failures[done](values, *streams)
            raise errors.InternalError(None, None, f"Tensors of {[tuple(v.shape) for v in values]} are not those of the region")
        return results


class _Instruction(NamedTuple):
    kind: int
    words: Callable[[dict[int, int]], list[int]]    # with the numbers of buffers
    to: int
    reads: tuple[int, ...]
    tail: bytes = b""                               # what follows the words


class Builder:
    """Writes a region. Buffers are numbered temporarily until it is finished."""

    Unfit = Unfit

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self.kinds: dict[int, int] = {}
        self.given: list[int] = []                   # buffers that are
        self.instructions: list[_Instruction] = []
        self.draws: list[tuple[philox.Few, Source]] = []
        self.messages: dict[int, str | None] = {}    # of instructions that may fail; None: the operation says it
        self._counter = itertools.count()

    # -- views --------------------------------------------------------------------------------------------------------------
    def value(self, dims: tuple[int, ...], kind: int = FLOAT) -> View:
        """A tensor that is given."""
        view = self.new(dims, kind)
        self.given.append(view.buffer)
        return view

    def new(self, dims: Sequence[int], kind: int = FLOAT) -> View:
        """A new buffer."""
        buffer = next(self._counter)
        self.sizes[buffer], self.kinds[buffer] = math.prod(dims), kind
        return View(buffer, 0, tuple(dims), _in_order(dims), kind)

    def packed(self, view: View) -> View:
        """The same elements, in order."""
        return view if view.packed else self.copied(view)

    def copied(self, view: View) -> View:
        """The same elements in a new buffer."""
        to = self.new(view.dims, view.kind)
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

    def filled(self, dims: Sequence[int], value: float, kind: int = FLOAT) -> View:
        """A new buffer that holds one number."""
        return self.terms(dims, [value], lambda terms, x: x, kind)

    # -- instructions -------------------------------------------------------------------------------------------------------
    def copy(self, to: View, view: View) -> None:
        """Copies elements to another view of the same shape."""
        dims, strides = _merged(view.dims, [to.strides, view.strides])
        if to.kind != view.kind:
            raise Unfit("different types")
        numbers = [_BYTES[view.kind], *dims, *strides[0], *strides[1]]
        self._add(_COPY, lambda at: [at[to.buffer], to.offset, at[view.buffer], view.offset, *numbers], to, view)

    def joined(self, views: Sequence[View], axis: int) -> View:
        """Views concatenated along an axis."""
        first = views[0]
        axis %= len(first.dims)
        to = self.new((*first.dims[:axis], sum(v.dims[axis] for v in views), *first.dims[axis + 1:]), first.kind)
        begin = 0
        for v in views:
            if math.prod(v.dims):
                self.copy(self.part(to, axis, begin, v.dims[axis]), v)
            begin += v.dims[axis]
        return to

    def product(self, a: View, b: View, turn_a: bool = False, turn_b: bool = False) -> View:
        """Products of matrices, or of as many matrices in both."""
        a, b = (self.permuted(v, [*range(len(v.dims) - 2), -1, -2]) if turn else v for v, turn in ((a, turn_a), (b, turn_b)))
        if a.dims[:-2] != b.dims[:-2] or a.dims[-1] != b.dims[-2]:
            raise Unfit("shapes do not match")
        (a, a_turned), (b, b_turned) = self._matrix(a), self._matrix(b)
        kind = self._real(a, b)
        to = self.new((*a.dims[:-1], b.dims[-1]), kind)
        rows, depth, columns, count = a.dims[-2], a.dims[-1], b.dims[-1], math.prod(a.dims[:-2])
        numbers = [(v.offset, v.strides[-1] if turned else v.strides[-2], v.strides[-3] if len(v.dims) > 2 else 0)
                   for v, turned in ((a, a_turned), (b, b_turned))]

        def words(at: dict[int, int]) -> list[int]:
            return [kind, count, rows, columns, depth, a_turned, b_turned, at[a.buffer], *numbers[0], at[b.buffer], *numbers[1],
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
        view, sizes, dims = self._to_reduce(view, axes)
        kind = self._real(view)
        to = self.new(dims, kind)
        numbers = [int(greatest), kind, *sizes, *struct.unpack("=2i", struct.pack("=d", scale))]
        self._add(_REDUCE, lambda at: [at[to.buffer], 0, at[view.buffer], view.offset, *numbers], to, view)
        return to

    def _to_reduce(self, view: View, axes: Iterable[int]) -> tuple[View, tuple[int, int, int], list[int]]:
        """A view whose reduced axes are side by side, the sizes before, within and behind these, the shape of the result."""
        rank = len(view.dims)
        gone = {a % rank for a in axes}
        if not gone or 0 in view.dims:
            raise Unfit("nothing to reduce")
        order = [*(i for i in range(rank) if i not in gone), *sorted(gone)]
        dims = [1 if i in gone else d for i, d in enumerate(view.dims)]
        if sorted(gone) != list(range(min(gone), max(gone) + 1)):
            view, before = self.copied(self.permuted(view, order)), rank - len(gone)
        else:
            view, before = self.packed(view), min(gone)
        behind = before + len(gone)
        return view, (math.prod(view.dims[:before]), math.prod(view.dims[before:behind]), math.prod(view.dims[behind:])), dims

    # -- integers, booleans and positions -----------------------------------------------------------------------------------
    def each(self, what: str, views: Sequence[View], dims: Sequence[int], to_kind: int) -> View:
        """A pointwise operation on views that are repeated over a shape."""
        if math.prod(dims) > _MOST_INTEGERS:
            raise Unfit("too many integers")
        views = [self.repeated(v, dims) for v in views]
        to = self.new(dims, to_kind)
        sizes, strides = _merged(dims, [v.strides for v in views])
        kind = views[-1].kind
        if len({v.kind for v in views[what == "SELECT":]}) > 1:
            raise Unfit("different types")
        divides = what.startswith(("FLOOR", "TRUNCATE"))
        read = views if divides else [*views, *[views[0]] * (3 - len(views))]
        strides += [strides[0]] * (len(read) - len(views))
        numbers = [getattr(compiled("_fused"), what), kind, *([] if divides else [to_kind]), *sizes,
                   *(n for s in strides for n in s)]
        if divides:
            self.messages[len(self.instructions)] = None
        self._typed(_DIVIDE if divides else _EACH, [to, *read], numbers)
        return to

    def folded(self, what: str, view: View, axes: Iterable[int]) -> View:
        """A reduction over some axes, which have size 1 then."""
        self._check_size(view)
        view, sizes, dims = self._to_reduce(view, axes)
        to = self.new(dims, view.kind)
        self._typed(_FOLD, [to, view], [getattr(compiled("_fused"), what), view.kind, *sizes])
        return to

    def position(self, view: View, axis: int, least: bool, kind: int) -> View:
        """Where the first of the greatest, or least, elements along an axis is."""
        self._check_size(view)
        view, sizes, dims = self._to_reduce(view, [axis])
        to = self.new(dims, kind)
        self._typed(_POSITION, [to, view], [int(least), view.kind, kind, *sizes])
        return self.without_axis(to, axis)

    def top(self, view: View, count: int, kind: int) -> list[View]:
        """The greatest elements of rows, in order, and where they are."""
        if view.truth or not 0 < count <= min(_FEW, view.dims[-1]):
            raise Unfit("too many")
        view = self.packed(view)
        found = [self.new((*view.dims[:-1], count), k) for k in (view.kind, kind)]
        self._typed(_TOP, [*found, view], [view.kind, kind, math.prod(view.dims[:-1]), view.dims[-1], count])
        return found

    def gathered(self, view: View, places: View, axis: int, batch: int) -> View:
        """Slices along an axis; the first `batch` axes of both go together."""
        view, places = self.packed(view), self.packed(places)
        if view.dims[:batch] != places.dims[:batch] or places.kind not in (INT32, INT64) or not batch <= axis < len(view.dims):
            raise Unfit("shapes do not match")
        to = self.new((*view.dims[:axis], *places.dims[batch:], *view.dims[axis + 1:]), view.kind)
        numbers = [_BYTES[view.kind], places.kind, math.prod(view.dims[:batch]), math.prod(view.dims[batch:axis]),
                   view.dims[axis], math.prod(view.dims[axis + 1:]), math.prod(places.dims[batch:])]
        self.messages[len(self.instructions)] = None
        self._typed(_GATHER, [to, view, places], numbers)
        return to

    def one_hot(self, places: View, axis: int, depth: int, on: View, off: View) -> View:
        """`on` at some places along a new axis, `off` elsewhere."""
        places = self.packed(places)
        if places.kind not in (INT32, INT64) or on.kind != off.kind or self.count(on) != 1 or self.count(off) != 1:
            raise Unfit("other types")
        to = self.new((*places.dims[:axis], depth, *places.dims[axis:]), on.kind)
        numbers = [_BYTES[on.kind], places.kind, math.prod(places.dims[:axis]), depth, math.prod(places.dims[axis:])]
        self._typed(_ONE_HOT, [to, places, on, off], numbers)
        return to

    def running(self, view: View, axis: int, exclusive: bool, reverse: bool) -> View:
        """The sums of all elements up to each one along an axis."""
        self._check_size(view)
        if view.truth:
            raise Unfit("booleans")
        view = self.packed(view)
        axis %= len(view.dims)
        to = self.new(view.dims, view.kind)
        self._typed(_RUNNING, [to, view], [view.kind, int(exclusive), int(reverse), math.prod(view.dims[:axis]),
                                           view.dims[axis], math.prod(view.dims[axis + 1:])])
        return to

    def summed_by(self, view: View, places: View, count: int) -> View:
        """The sums of rows by the places that go with them."""
        view, places = self.packed(view), self.packed(places)
        rank = len(places.dims)
        if view.truth or places.kind not in (INT32, INT64) or view.dims[:rank] != places.dims:
            raise Unfit("shapes do not match")
        to = self.new((count, *view.dims[rank:]), view.kind)
        self.messages[len(self.instructions)] = None
        numbers = [view.kind, places.kind, self.count(places), math.prod(view.dims[rank:]), count]
        self._typed(_SEGMENTS, [to, view, places], numbers)
        return to

    def drawn(self, few: philox.Few, source: Source) -> View:
        """Random numbers of the next stretch of a stream."""
        if few.count > philox.FEW:
            raise Unfit("many random numbers")
        to, numbers = self._draw(few, len(self.draws))
        self._typed(_DRAW, [to], numbers)
        self.draws.append((few, source))
        return to

    def drawn_of_seed(self, few: philox.Few, seed: View) -> View:
        """Random numbers that a seed, two integers, determines."""
        if seed.kind not in (INT32, INT64) or seed.dims != (2,):
            raise Unfit("another seed")
        seed = self.packed(seed)
        to, numbers = self._draw(few, 0)
        self._add(_SEEDED, lambda at: [at[to.buffer], to.offset, *numbers, at[seed.buffer], seed.offset, seed.kind], to, seed)
        return to

    def _draw(self, few: philox.Few, number: int) -> tuple[View, list[int]]:
        """A buffer for random numbers of stream number `number`, and how they are made."""
        what, kind = _DISTRIBUTIONS.get(few.draw), KINDS.get(few.dtype, TRUTH)
        is_integer = few.draw in (philox.uniform_int, philox.full_int)
        if what is None or not few.count or kind not in ((INT32, INT64) if is_integer else (FLOAT,)):
            raise Unfit("other random numbers")
        low, high = few.bounds or (0, 0)
        halves = struct.unpack("=4i", struct.pack("=qQ", low, high - low))
        return self.new(few.dims, kind), [what, kind, number, few.count, *halves]

    def _check_size(self, view: View) -> None:
        if math.prod(view.dims) > _MOST_INTEGERS:
            raise Unfit("too many elements")

    def _typed(self, kind: int, views: Sequence[View], numbers: Sequence[int]) -> None:
        """An instruction on elements of any kind; it writes the first view."""
        places = [(v.buffer, v.offset) for v in views]
        self._add(kind, lambda at: [*(n for buffer, offset in places for n in (at[buffer], offset)), *numbers], *views)

    # -- matrices -----------------------------------------------------------------------------------------------------------

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
        real = self._real(matrix, sides)
        to, spare = self.new(sides.dims, real), self.new((size, size), real)
        numbers = [real, math.prod(matrix.dims[:-2]), size, width, int(upper), int(turned)]

        def words(at: dict[int, int]) -> list[int]:
            return [n for v in (to, matrix, sides, spare) for n in (at[v.buffer], v.offset)] + numbers
        self._add(kind, words, to, matrix, sides, spare)
        return to

    def band(self, view: View, lower: int, upper: int) -> View:
        """Matrices with zeros outside of so many diagonals below and above the main one."""
        view = self.packed(view)
        to = self.new(view.dims, view.kind)
        self._typed(_BAND, [to, view], [_BYTES[view.kind], math.prod(view.dims[:-2]), *view.dims[-2:], lower, upper])
        return to

    def diagonal(self, view: View) -> View:
        """The elements on the main diagonals of matrices."""
        return view._replace(dims=(*view.dims[:-2], min(view.dims[-2:])),
                             strides=(*view.strides[:-2], view.strides[-2] + view.strides[-1]))

    def plan(self, plan: Plan, views: Sequence[View]) -> list[View]:
        """The results of a plan."""
        views = [self.copied(v) if v.truth and v.offset else self.packed(v) for v in views]
        kind = KINDS[plan.dtype]
        if any(v.kind not in (kind, TRUTH) for v in views):
            raise Unfit("other types")
        if [math.prod(v.dims) for v in views] != plan.sizes or {i for i, v in enumerate(views) if v.truth} != plan.truths:
            raise Unfit("shapes do not match")
        results = [self.new(dims, kind) for dims in plan.results]
        places = [(v.buffer, v.offset) for v in (*views, *results)]

        def words(at: dict[int, int]) -> list[int]:
            return [len(places), *(n for buffer, offset in places for n in (at[buffer], offset))]
        self.instructions.append(_Instruction(_PLAN, words, -1, tuple(b for b, _ in places), plan.code))
        return results

    def terms(self, dims: Sequence[int], views: Sequence[View | float], write: Callable[..., int],
              kind: int | None = None) -> View:
        """What `write(terms, *sources)` writes as terms of a plan, on views that are repeated over a shape.

        Its elements are of the kind of the views, or of `kind` where there are none but booleans.
        """
        if kind is None:
            kind = next((v.kind for v in views if isinstance(v, View) and not v.truth), FLOAT)
        if kind not in _REALS:
            raise Unfit("not floats")
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
            elif v.dims != tuple(dims):
                if tuple(v.dims) == (*dims[:-1], 1) and not v.truth:
                    stride = PER_ROW
                else:
                    v = self.repeated(v, dims)
            given.append(self.packed(v))
            sources.append(made.add(Columns(len(given) - 1, 0, stride)))
        found = write(made, *sources)
        if not isinstance(made.terms[found], Step):
            found = made.step_of("COPY", found)
        truths = [i for i, v in enumerate(given) if v.truth]
        try:
            plan = Plan(rows, columns, [math.prod(v.dims) for v in given], [tuple(dims)], made.terms,
                        [(found, Columns(0, 0, columns))], truths, _TYPES[kind])
        except ValueError as e:
            raise Unfit(str(e)) from None
        return self.plan(plan, given)[0]

    def _real(self, *views: View) -> int:
        """The kind of views of floats, or of doubles."""
        kind, *others = {v.kind for v in views}
        if others or kind not in _REALS:
            raise Unfit("not floats")
        return kind

    def _add(self, kind: int, words: Callable[[dict[int, int]], list[int]], to: View, *reads: View) -> None:
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
        words = [len(self.given), len(whole), len(begins), room, len(self.instructions), len(self.draws),
                 *(self.sizes[b] for b in (*self.given, *whole)), *(self.kinds[b] for b in (*self.given, *whole)),
                 *begins.values(), *(few.reserved for few, _ in self.draws)]
        code = [struct.pack(f"={len(words)}i", *words)]
        for i in self.instructions:
            own = i.words(at)
            code.append(struct.pack(f"={len(own) + 2}i", i.kind, len(own) + len(i.tail) // 4, *own) + i.tail)
        region = Region(b"".join(code), [v.dims for v in results], [v.kind for v in results])
        region.sources = [source for _, source in self.draws]
        return region

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
                size = self._room(b)
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
                    free.append((begins[b], self._room(b)))
        return begins, end

    def _room(self, buffer: int) -> int:
        """What a buffer takes, in floats."""
        return max(_ALIGNED, -(-self.sizes[buffer] * _BYTES[self.kinds[buffer]] // (4 * _ALIGNED)) * _ALIGNED)


def _merged(dims: Sequence[int], strides: Sequence[tuple[int, ...]]) -> tuple[list[int], list[list[int]]]:
    """A shape, and the strides of operands, as four axes: those that follow each other in all operands are one."""
    merged: list[tuple[int, tuple[int, ...]]] = []
    for d, *s in zip(dims, *strides, strict=True):
        if d == 1:
            continue
        if merged and all(before == d * now for before, now in zip(merged[-1][1], s, strict=True)):
            merged[-1] = (merged[-1][0] * d, tuple(s))
        else:
            merged.append((d, tuple(s)))
    if len(merged) > _AXES:
        raise Unfit("too many axes")
    none = (0,) * len(strides)
    padded = [(1, none)] * (_AXES - len(merged)) + merged
    if padded[-1][0] == 1:
        padded[-1] = (1, (1,) * len(strides))
    return [d for d, _ in padded], [[s[i] for _, s in padded] for i in range(len(strides))]


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
