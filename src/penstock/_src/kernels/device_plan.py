"""Several operations on each element of arrays on a GPU, in one kernel: CUDA source that NVRTC compiles in milliseconds.

A `Plan` is a list of *terms* over an array of some shape: arrays that are given (broadcast over the shape), numbers, and steps,
each of which computes one term of others. Sums and maxima over the last axis are steps, too: then a group of threads computes a
row, in one pass for each reduction that another one needs and one for the results.

Steps compute in single precision. Casts and results round to their types, other steps do not, so a plan returns what separate
kernels return, or something closer to the exact value. Steps that stand for ops in half precision use the fast functions of the
device, whose errors are below that precision. Where there is no NVRTC, or it fails, `Plan.separate` calls ATen for each step.
The same source, compiled for one lane by a C++ compiler, is what the tests run.
"""
from __future__ import annotations

import functools
import logging
import math
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from penstock._src.kernels import exiting

_NAMES = {torch.float32: "float", torch.bfloat16: "bf16", torch.float16: "f16", torch.bool: "bool", torch.int32: "int",
          torch.int64: "long long"}
LARGEST = (1 << 31) - 1                 # elements: indices are of 32 bits
MOST_GIVEN = 24                         # arrays that a kernel takes
_THREADS = 256
_WARP, _WIDE, _WIDEST = 32, 256, 512    # threads of a row, by its length
_LONG, _LONGER = 2048, 1 << 14
_NAMED = 6                              # instructions in the name of a kernel
_UNROLLED = 8                           # iterations over a row that are written out, so that it is read once
_log = logging.getLogger("penstock")
_several = threading.BoundedSemaphore(max(1, min(16, os.cpu_count() or 1)))        # kernels that are compiled at once


class Step(NamedTuple):
    """An instruction on terms, by their numbers; its result has a type."""
    kind: str
    sources: tuple[int, ...]
    dtype: torch.dtype


class Given(NamedTuple):
    """An array that the plan is given, by its number."""
    number: int


Term = Given | Step | float

# per instruction: what it makes of a, b and c in float32, and the same by ATen
_EACH: dict[str, tuple[str, Callable]] = {
    "ADD": ("a + b", torch.add),
    "SUB": ("a - b", torch.sub),
    "MUL": ("a * b", torch.mul),
    "DIV": ("a / b", torch.div),
    "NEG": ("-a", torch.neg),
    "SQUARE": ("a * a", torch.square),
    "COPY": ("a", lambda a: a),
    "ADD_PRODUCT": ("a + b * c", torch.addcmul),
    "SIGMOID": ("1.f / (1.f + expf(-a))", torch.sigmoid),
    "TANH": ("tanhf(a)", torch.tanh),
    "SIGMOID_GRAD": ("b * (1.f - a) * a", lambda a, b: b * (1 - a) * a),
    "TANH_GRAD": ("b * (1.f - a * a)", lambda a, b: b * (1 - a * a)),
    "EXP": ("expf(a)", torch.exp),
    "ERF": ("erff(a)", torch.erf),
    "LOG": ("logf(a)", torch.log),
    "LOG1P": ("log1pf(a)", torch.log1p),
    "SQRT": ("sqrtf(a)", torch.sqrt),
    "RSQRT": ("rsqrtf(a)", torch.rsqrt),
    "RECIPROCAL": ("1.f / a", torch.reciprocal),
    "ABS": ("fabsf(a)", torch.abs),
    "MAXIMUM": ("(a > b || a != a) ? a : b", torch.maximum),
    "MINIMUM": ("(a < b || a != a) ? a : b", torch.minimum),
    "RELU": ("a <= 0.f ? 0.f : a", torch.relu),
    "RELU_GRAD": ("b <= 0.f ? 0.f : a", lambda a, b: torch.where(b <= 0, 0.0, a)),
    "SQUARED_DIFFERENCE": ("(a - b) * (a - b)", lambda a, b: torch.square(a - b)),
    "GREATER": ("a > b", torch.gt),
    "GREATER_EQUAL": ("a >= b", torch.ge),
    "LESS": ("a < b", torch.lt),
    "LESS_EQUAL": ("a <= b", torch.le),
    "EQUAL": ("a == b", torch.eq),
    "NOT_EQUAL": ("a != b", torch.ne),
    "AND": ("a != 0.f && b != 0.f", torch.logical_and),
    "OR": ("a != 0.f || b != 0.f", torch.logical_or),
    "NOT": ("a == 0.f", torch.logical_not),
    "SIGN": ("a > 0.f ? 1.f : a < 0.f ? -1.f : a", lambda a: torch.where(a == a, torch.sign(a), a)),
    "EXPM1": ("expm1f(a)", torch.expm1),
    "SINE": ("sinf(a)", torch.sin),
    "COSINE": ("cosf(a)", torch.cos),
    "ROUND_DOWN": ("floorf(a)", torch.floor),
    "ROUND_UP": ("ceilf(a)", torch.ceil),
    "ROUND_EVEN": ("rintf(a)", torch.round),
    "SELECT": ("a != 0.f ? b : c", lambda a, b, c: torch.where(a != 0, b, c)),
}
_REDUCTIONS: dict[str, tuple[str, str, Callable]] = {       # the first value, how two become one, and the same by ATen
    "ROW_SUM": ("0.f", "a + b", lambda a: a.sum(-1, keepdim=True)),
    "ROW_MAXIMUM": ("-INFINITY", "(a > b || a != a) ? a : b", lambda a: a.amax(-1, keepdim=True)),
}
_QUICK = {                              # the same, as exact as half precision needs
    "DIV": "quick_div(a, b)",
    "SIGMOID": "quick_div(1.f, 1.f + quick_exp(-a))",
    "TANH": "quick_tanh(a)",
    "EXP": "quick_exp(a)",
    "LOG": "quick_log(a)",
    "RECIPROCAL": "quick_div(1.f, a)",
}
INSTRUCTIONS = frozenset(_EACH) | frozenset(_REDUCTIONS)

_HEAD = """
typedef unsigned short u16; typedef unsigned int u32;
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
struct bf16 { u16 x; }; struct f16 { u16 x; };
template <class T, int N> struct alignas(sizeof(T) * N) Vec { T x[N]; };
__device__ __forceinline__ float F(float v) { return v; }
__device__ __forceinline__ float F(bool v) { return v ? 1.f : 0.f; }
__device__ __forceinline__ float F(int v) { return (float)v; }
__device__ __forceinline__ float F(long long v) { return (float)v; }
__device__ __forceinline__ float F(bf16 v) { return __uint_as_float((u32)v.x << 16); }
__device__ __forceinline__ void put(float &to, float v) { to = v; }
__device__ __forceinline__ void put(bool &to, float v) { to = v != 0.f; }
__device__ __forceinline__ void put(bf16 &to, float v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.x) : "f"(v));
#else
    u32 b = __float_as_uint(v);
    to.x = v != v ? 0x7fff : (u16)((b + 0x7fff + ((b >> 16) & 1)) >> 16);
#endif
}
#ifdef HOST
__device__ __forceinline__ float F(f16 v) { _Float16 h; __builtin_memcpy(&h, &v, 2); return (float)h; }
__device__ __forceinline__ void put(f16 &to, float v) { _Float16 h = (_Float16)v; __builtin_memcpy(&to, &h, 2); }
#else
__device__ __forceinline__ float F(f16 v) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(v.x)); return r; }
__device__ __forceinline__ void put(f16 &to, float v) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.x) : "f"(v)); }
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
__device__ __forceinline__ float quick_tanh(float a) { float r; asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }
__device__ __forceinline__ float quick_exp(float a) { return __expf(a); }
__device__ __forceinline__ float quick_log(float a) { return __logf(a); }
__device__ __forceinline__ float quick_div(float a, float b) { return __fdividef(a, b); }
#else
__device__ __forceinline__ float quick_tanh(float a) { return tanhf(a); }
__device__ __forceinline__ float quick_exp(float a) { return expf(a); }
__device__ __forceinline__ float quick_log(float a) { return logf(a); }
__device__ __forceinline__ float quick_div(float a, float b) { return a / b; }
#endif
template <class T> __device__ __forceinline__ float rounded(float v) { T t; put(t, v); return F(t); }
"""


class Plan:
    """Computes `terms` over arrays of shape `dims`, and returns some of them, each of its type and in a shape: of all elements,
    or of one for each row. `given` are types and shapes of arrays."""

    def __init__(self, dims: Sequence[int], given: Sequence[tuple[torch.dtype, tuple[int, ...]]], terms: Sequence[Term],
                 results: Sequence[int], shapes: Sequence[tuple[int, ...]]):
        self.dims, self.given, self.terms, self.results = tuple(dims), list(given), list(terms), list(results)
        self.types, self.shapes = [_dtype(self.terms[r]) for r in results], list(shapes)
        self.per_row = [math.prod(s) != math.prod(self.dims) for s in shapes]
        self.narrow = [self._is_narrow(i) for i in range(len(self.terms))]
        self._source = _Source(self)
        self._kernel = _kernel(self._source.text(), self._source.name()) if torch.cuda.is_available() else None

    def _is_narrow(self, i: int) -> bool:
        """Whether a term is one number for each row."""
        term = self.terms[i]
        if isinstance(term, Given):
            return self.given[term.number][1][-1:] != (self.dims[-1],)
        if isinstance(term, float):
            return True
        return self.dims[-1] != 1 and (term.kind in _REDUCTIONS or all(self._is_narrow(s) for s in term.sources))

    def run(self, values: list[torch.Tensor]) -> list[torch.Tensor]:
        """The results for some arrays, on the device of the first one."""
        device = next((v.device for v in values if v.is_cuda), None)
        launch = self._kernel.loaded(device) if self._kernel is not None and device is not None else None
        if launch is None:
            return self.separate(values)
        values = [_aligned(v if v.is_cuda else v.to(device)) for v in values]
        results = [torch.empty(s, dtype=t, device=device) for s, t in zip(self.shapes, self.types, strict=True)]
        launch(self._source.grid, self._source.block, [*values, *results])
        return results

    def separate(self, values: list[torch.Tensor]) -> list[torch.Tensor]:
        """The same by a call of ATen for each step."""
        found: list[Any] = []
        for term in self.terms:
            if isinstance(term, Given):
                found.append(values[term.number].float())
            elif isinstance(term, float):
                found.append(torch.tensor(term, device=values[0].device))
            else:
                sources = [found[s] for s in term.sources]
                made = _REDUCTIONS[term.kind][2](sources[0].expand(self.dims)) if term.kind in _REDUCTIONS \
                    else _EACH[term.kind][1](*sources)
                found.append((made.to(term.dtype) if _rounds(term) else made).float())
        return [found[r].to(t).expand((*self.dims[:-1], 1) if narrow else self.dims).reshape(s).contiguous()
                for r, t, s, narrow in zip(self.results, self.types, self.shapes, self.per_row, strict=True)]

    @property
    def source(self) -> str:
        """The generated kernel."""
        return self._source.text()


def _rounds(term: Step) -> bool:
    """Whether a step rounds to its type: casts do, and what is true or false."""
    return term.kind == "COPY" or term.dtype is torch.bool


def _dtype(term: Term) -> torch.dtype:
    assert isinstance(term, Step)
    return term.dtype


def _aligned(value: torch.Tensor) -> torch.Tensor:
    """A value as the kernel reads it."""
    value = value.contiguous()
    return value if value.data_ptr() % 16 == 0 else value.clone()


class _Source:
    """Writes the kernel of a plan."""

    def __init__(self, plan: Plan):
        self.plan, self.columns = plan, plan.dims[-1]
        self.rows = math.prod(plan.dims[:-1])
        widest = max([d.itemsize for d, s in plan.given if s[-1:] == (self.columns,)] + [t.itemsize for t in plan.types])
        self.reduces = any(plan.per_row) or any(isinstance(t, Step) and t.kind in _REDUCTIONS for t in plan.terms)
        self.vector = next(v for v in (8, 4, 2, 1) if self.columns % v == 0 and v * widest <= 16)
        self.lanes = _WARP if self.columns <= _LONG else _WIDE if self.columns <= _LONGER else _WIDEST    # of a row
        self.together = max(1, _THREADS // self.lanes) if self.lanes == _WARP else 1       # rows of a block
        if self.reduces:
            self.grid, self.block = (-(-self.rows // self.together), 1, 1), (self.lanes, self.together, 1)
        else:
            self.grid, self.block = (-(-self.rows * self.columns // self.vector // _THREADS), 1, 1), (_THREADS, 1, 1)

    def text(self) -> str:
        """The source."""
        plan = self.plan
        given = [f"const {_NAMES[d]} *__restrict__ g{i}" for i, (d, _) in enumerate(plan.given)]
        made = [f"{_NAMES[t]} *__restrict__ o{i}" for i, t in enumerate(plan.types)]
        body = self._by_rows() if self.reduces else self._by_elements()
        shared = [f"#define LANES {self.lanes}", f"#define TOGETHER {self.together}"]
        reduce = [_reduction(k) for k in _REDUCTIONS] if self.reduces else []
        head = f'extern "C" __global__ void {self.name()}({", ".join([*given, *made])}) {{'
        return "\n".join([_HEAD, *shared, *reduce, head, *body, "}"])

    def name(self) -> str:
        """The name of the kernel in profiles: its last instructions and the shape."""
        kinds = list(dict.fromkeys(t.kind.lower() for t in self.plan.terms if isinstance(t, Step) and t.kind != "COPY"))
        return "_".join(["fused", *kinds[-_NAMED:], "x".join(map(str, self.plan.dims))])

    def _by_elements(self) -> list[str]:
        plan, v = self.plan, self.vector
        total = self.rows * self.columns
        lines = [f"u32 at = ({self._thread()}) * {v}u;", f"if (at >= {total}u) return;"]
        wide = self._needed(plan.results)
        for i in sorted(n for n in wide if isinstance(plan.terms[n], Given)):
            lines += self._load(i, "at", None)
        lines += [f"Vec<{_NAMES[t]}, {v}> w{j};" for j, t in enumerate(plan.types)]
        lines += ["#pragma unroll", f"for (int k = 0; k < {v}; ++k) {{", *self._steps(sorted(wide))]
        lines += [f"put(w{j}.x[k], t{r});" for j, r in enumerate(plan.results)]
        lines += ["}", *[f"*(Vec<{_NAMES[t]}, {v}> *)(o{j} + at) = w{j};" for j, t in enumerate(plan.types)]]
        return lines

    def _by_rows(self) -> list[str]:
        plan, v = self.plan, self.vector
        lines = ["u32 row = blockIdx.x * TOGETHER + threadIdx.y;", f"if (row >= {self.rows}u) return;"]
        done: set[int] = set()                              # narrow terms that are known
        left = [i for i, t in enumerate(plan.terms) if isinstance(t, Step) and t.kind in _REDUCTIONS]
        while left:
            lines += self._narrow(done, left)
            now = [i for i in left if all(n in done or not self._is_reduced(n) for n in self._below(i) - {i})]
            steps = [(i, t) for i in now if isinstance(t := plan.terms[i], Step)]
            lines += [f"float t{i} = {_REDUCTIONS[s.kind][0]};" for i, s in steps]
            lines += self._over_columns([s.sources[0] for _, s in steps], done,
                                        [f"t{i} = {s.kind}_two(t{i}, {self._value(s.sources[0])});" for i, s in steps])
            lines += [f"t{i} = {self._rounded(f'{s.kind}_all(t{i})', s)};" for i, s in steps]
            done.update(now)
            left = [i for i in left if i not in now]
        lines += self._narrow(done, [])
        per_row = [(j, r) for j, r in enumerate(plan.results) if plan.per_row[j]]
        if per_row:
            lines += ["if (threadIdx.x == 0) {", *[f"put(o{j}[row], t{r});" for j, r in per_row], "}"]
        wide = [(j, r) for j, r in enumerate(plan.results) if not plan.per_row[j]]
        if wide:
            kinds = [(j, _NAMES[plan.types[j]]) for j, _ in wide]
            use = [f"put(w{j}.x[k], t{r});" for j, r in wide]
            lines += self._over_columns([r for _, r in wide], done, use, [f"Vec<{n}, {v}> w{j};" for j, n in kinds],
                                        [f"*(Vec<{n}, {v}> *)(o{j} + row * {self.columns}u + c) = w{j};" for j, n in kinds])
        return lines

    def _over_columns(self, terms: list[int], done: set[int], use: list[str], before: Sequence[str] = (),
                      after: Sequence[str] = ()) -> list[str]:
        """A loop over the columns of a row, which computes terms for `use`."""
        v, needed = self.vector, sorted(self._needed(terms, done))
        turns = -(-self.columns // (v * self.lanes))
        lines = [f"#pragma unroll {turns if turns <= _UNROLLED else 1}",
                 f"for (u32 c = threadIdx.x * {v}u; c < {self.columns}u; c += LANES * {v}u) {{"]
        for i in needed:
            if isinstance(self.plan.terms[i], Given):
                lines += self._load(i, "c", "row")
        lines += [*before, "#pragma unroll", f"for (int k = 0; k < {v}; ++k) {{", *self._steps(needed), *use, "}"]
        return [*lines, *after, "}"]

    def _narrow(self, done: set[int], left: list[int]) -> list[str]:
        """The terms of one number per row that can be computed now."""
        lines: list[str] = []
        for i, term in enumerate(self.plan.terms):
            if i in done or not self.plan.narrow[i] or isinstance(term, float) or i in left:
                continue
            if isinstance(term, Given):
                lines += [f"float t{i} = F(g{term.number}[{self._offset(term.number, 'row', None)}]);"]
            elif term.kind in _REDUCTIONS or not all(s in done or isinstance(self.plan.terms[s], float) for s in term.sources):
                continue
            else:
                lines += self._steps([i])
            done.add(i)
        return lines

    def _thread(self) -> str:
        return f"blockIdx.x * {_THREADS}u + threadIdx.x"

    def _is_reduced(self, i: int) -> bool:
        term = self.plan.terms[i]
        return isinstance(term, Step) and term.kind in _REDUCTIONS

    def _below(self, i: int) -> set[int]:
        """A term, and all that it is computed from."""
        found, left = set(), [i]
        while left:
            n = left.pop()
            if n not in found:
                found.add(n)
                term = self.plan.terms[n]
                left += term.sources if isinstance(term, Step) else ()
        return found

    def _needed(self, terms: Sequence[int], done: set[int] | None = None) -> set[int]:
        """The terms that others are computed from, apart from those that are done."""
        found: set[int] = set()
        left = list(terms)
        while left:
            n = left.pop()
            if n in found or done is not None and n in done or isinstance(self.plan.terms[n], float):
                continue
            found.add(n)
            term = self.plan.terms[n]
            left += term.sources if isinstance(term, Step) else ()
        return found

    def _load(self, i: int, at: str, row: str | None) -> list[str]:
        """Reads a given array for the elements from `at` on: a vector where it has columns, otherwise one number."""
        term = self.plan.terms[i]
        assert isinstance(term, Given)
        number = term.number
        dtype, dims = self.plan.given[number]
        if dims[-1:] == (self.columns,) and self.columns != 1:
            return [f"Vec<{_NAMES[dtype]}, {self.vector}> v{i} = *(const Vec<{_NAMES[dtype]}, {self.vector}> *)"
                    f"(g{number} + {self._offset(number, row, at)});"]
        if self.columns == 1:
            return [f"Vec<{_NAMES[dtype]}, 1> v{i}; v{i}.x[0] = g{number}[{self._offset(number, row, at)}];"]
        return [f"{_NAMES[dtype]} s{i} = g{number}[{self._offset(number, row, at)}];"]

    def _offset(self, number: int, row: str | None, at: str | None) -> str:
        """Where an element of a given array is, from its row and column, or from its place in the whole shape."""
        dims = self.plan.dims
        own = self.plan.given[number][1]
        own = (1,) * (len(dims) - len(own)) + tuple(own)
        if math.prod(own) == 1:
            return "0"
        index = row if row is not None else f"({at} / {self.columns}u)" if self.columns > 1 else f"{at}"
        column = "" if own[-1] != self.columns or self.columns == 1 else at if row is not None else f"{at} % {self.columns}u"
        if row is None and own == dims:
            return f"{at}"
        parts = [column] if column else []
        stride, inner = own[-1], 1                     # of the array; rows of the shape below an axis
        run, begin = 1, None                           # neighbouring axes that the array has are one
        for size, mine in [*zip(reversed(dims[:-1]), reversed(own[:-1]), strict=True), (0, -1)]:
            if mine == size and size != 1:
                begin = (inner, stride) if begin is None else begin
                run *= size
            elif size != 1 and begin is not None:
                above, step = begin
                of = index if above == 1 else f"({index} / {above}u)"
                of = of if above * run == self.rows else f"({of} % {run}u)"
                parts.append(f"{of} * {step}u" if step != 1 else of)
                begin, run = None, 1
            inner, stride = inner * size, stride * mine
        return " + ".join(parts) or "0"

    def _steps(self, terms: Sequence[int]) -> list[str]:
        """Statements that compute terms."""
        lines = []
        for i in terms:
            term = self.plan.terms[i]
            if isinstance(term, Given):
                wide = self.plan.given[term.number][1][-1:] == (self.columns,) or self.columns == 1
                lines.append(f"float t{i} = F({f'v{i}.x[k]' if wide else f's{i}'});")
            elif isinstance(term, Step):
                names = [f"float {n} = {self._value(s)};" for n, s in zip("abc", term.sources, strict=False)]
                lines.append(f"float t{i}; {{ {' '.join(names)} t{i} = {self._rounded(self._computed(term), term)}; }}")
        return lines

    def _value(self, i: int) -> str:
        term = self.plan.terms[i]
        return _number(term) if isinstance(term, float) else f"t{i}"

    @staticmethod
    def _computed(step: Step) -> str:
        return _QUICK.get(step.kind, _EACH[step.kind][0]) if step.dtype in (torch.bfloat16, torch.float16) else \
            _EACH[step.kind][0]

    @staticmethod
    def _rounded(expression: str, step: Step) -> str:
        if step.dtype is torch.float32 or not _rounds(step):
            return expression
        return f"(float)({expression})" if step.dtype is torch.bool else f"rounded<{_NAMES[step.dtype]}>({expression})"


def _number(value: float) -> str:
    """A number as a float of C."""
    bits = int(torch.tensor(value, dtype=torch.float32).view(torch.int32)) & 0xFFFFFFFF
    return f"__uint_as_float({bits:#010x}u)"


def _reduction(kind: str) -> str:
    """Functions that reduce two numbers, and those of all lanes of a row."""
    _, two, _ = _REDUCTIONS[kind]
    return f"""
__device__ __forceinline__ float {kind}_two(float a, float b) {{ return {two}; }}
__device__ __forceinline__ float {kind}_all(float v) {{
    for (int o = (LANES < 32 ? LANES : 32) / 2; o > 0; o /= 2) v = {kind}_two(v, __shfl_xor_sync(0xffffffffu, v, o));
    if (LANES > 32) {{
        __shared__ float part[LANES / 32 + 1];
        __syncthreads();
        if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
        __syncthreads();
        v = part[0];
        for (int i = 1; i < LANES / 32; ++i) v = {kind}_two(v, part[i]);
    }}
    return v;
}}"""


class _Kernel:
    """A kernel that is compiled on another thread, and loaded per device when it first runs."""

    def __init__(self, source: str, name: str):
        self._source, self._name = source, name
        self._binary: tuple[bytes, str] | None = None
        self._loaded: dict[torch.device, Any] = {}
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._compile, daemon=True, name="penstock-nvrtc")
        exiting.start(self._thread)

    def _compile(self) -> None:
        with _several:
            try:
                self._binary = _compiled(self._source, self._name)
            except Exception as e:                                       # ATen runs the steps one by one
                _log.info("A kernel is not compiled: %s", str(e).strip().split("\n")[0])

    def loaded(self, device: torch.device) -> Callable | None:
        """What launches it; None if it could not be compiled."""
        if device not in self._loaded:
            with self._lock:
                self._thread.join()
                if device not in self._loaded:
                    self._loaded[device] = None if self._binary is None else _load(*self._binary, device)
        return self._loaded[device]


def _compiled(source: str, name: str) -> tuple[bytes, str]:
    from torch.cuda import _utils
    return _utils._nvrtc_compile(source, name, nvcc_options=["--fmad=true"])


def _load(binary: bytes, name: str, device: torch.device) -> Callable:
    from torch.cuda import _utils
    load: Any = _utils._cuda_load_module
    with torch.cuda.device(device):
        kernel = load(binary, [name])[name]

    def launch(grid: tuple, block: tuple, arguments: list) -> None:
        with torch.cuda.device(device):
            kernel(grid, block, arguments)
    return launch


@functools.cache
def _kernel(source: str, name: str) -> _Kernel:
    return _Kernel(source, name)
