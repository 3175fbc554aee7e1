"""Writes CUDA source for plans (`device_plan.py`): kernels that compute several steps on each element of arrays.

There are three forms. Without reductions, each thread computes a few neighbouring elements. With reductions over the last axis,
a group of threads computes a row, in one pass for each reduction that another one needs and one for the results. With sums over
all other axes, each block goes down some of the rows, and a second kernel adds up what the blocks found, in a fixed order.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

NAMES = {torch.float32: "float", torch.bfloat16: "bf16", torch.float16: "f16", torch.bool: "bool", torch.int32: "int",
         torch.int64: "long long"}
_THREADS = 256
_WARP, _WIDE, _WIDEST = 32, 256, 512    # threads of a row, by its length
_LONG, _LONGER = 2048, 1 << 14
_NAMED = 6                              # instructions in the name of a kernel
_UNROLLED = 8                           # iterations over a row that are written out, so that it is read once
_BLOCKS = 1056                          # that go over rows to sum columns: several for each processor of a large GPU
_TURNS = 8                              # rows that a thread of such a block adds up at least
_END = 32                               # threads, across and down, of a block that adds up what these have found


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
EACH: dict[str, tuple[str, Callable]] = {
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
    "ERFC": ("erfcf(a)", torch.erfc),
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
REDUCTIONS: dict[str, tuple[str, str, Callable]] = {       # the first value, how two become one, and the same by ATen
    "ROW_SUM": ("0.f", "a + b", lambda a: a.sum(-1, keepdim=True)),
    "ROW_MAXIMUM": ("-INFINITY", "(a > b || a != a) ? a : b", lambda a: a.amax(-1, keepdim=True)),
}
COLUMNS: dict[str, Callable] = {                           # sums over all axes but the last, by ATen; results only
    "COLUMN_SUM": lambda a: a.sum(list(range(a.ndim - 1))),
    "COLUMN_MEAN": lambda a: a.mean(list(range(a.ndim - 1))),
}
_QUICK = {                              # the same, as exact as half precision needs
    "DIV": "quick_div(a, b)",
    "SIGMOID": "quick_div(1.f, 1.f + quick_exp(-a))",
    "TANH": "quick_tanh(a)",
    "EXP": "quick_exp(a)",
    "LOG": "quick_log(a)",
    "RECIPROCAL": "quick_div(1.f, a)",
}
INSTRUCTIONS = frozenset(EACH) | frozenset(REDUCTIONS) | frozenset(COLUMNS)

HEAD = """
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


def rounds(step: Step) -> bool:
    """Whether a step rounds to its type: casts do, and what is true or false."""
    return step.kind == "COPY" or step.dtype is torch.bool


class Source:
    """Writes the kernel of a plan."""

    def __init__(self, plan: Any):
        self.plan, self.columns = plan, plan.dims[-1]
        self.rows = math.prod(plan.dims[:-1])
        widest = max([d.itemsize for d, s in plan.given if s[-1:] == (self.columns,)] + [t.itemsize for t in plan.types])
        self.reduces = any(plan.per_row) or any(isinstance(t, Step) and t.kind in REDUCTIONS for t in plan.terms)
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
        given = [f"const {NAMES[d]} *__restrict__ g{i}" for i, (d, _) in enumerate(plan.given)]
        made = [f"{NAMES[t]} *__restrict__ o{i}" for i, t in enumerate(plan.types)]
        body = self._by_rows() if self.reduces else self._by_elements()
        shared = [f"#define LANES {self.lanes}", f"#define TOGETHER {self.together}"]
        reduce = [_reduction(k) for k in REDUCTIONS] if self.reduces else []
        head = f'extern "C" __global__ void {self.name()}({", ".join([*given, *made])}) {{'
        return "\n".join([HEAD, *shared, *reduce, head, *body, "}"])

    def names(self) -> tuple[str, ...]:
        """The kernels of the source."""
        return (self.name(),)

    def run(self, launch: Callable, values: list[torch.Tensor], results: list[torch.Tensor]) -> None:
        """Computes results."""
        launch(self.name(), self.grid, self.block, [*values, *results])

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
        lines += [f"Vec<{NAMES[t]}, {v}> w{j};" for j, t in enumerate(plan.types)]
        lines += ["#pragma unroll", f"for (int k = 0; k < {v}; ++k) {{", *self._steps(sorted(wide))]
        lines += [f"put(w{j}.x[k], t{r});" for j, r in enumerate(plan.results)]
        lines += ["}", *[f"*(Vec<{NAMES[t]}, {v}> *)(o{j} + at) = w{j};" for j, t in enumerate(plan.types)]]
        return lines

    def _by_rows(self) -> list[str]:
        plan, v = self.plan, self.vector
        lines = ["u32 row = blockIdx.x * TOGETHER + threadIdx.y;", f"if (row >= {self.rows}u) return;"]
        done: set[int] = set()                              # narrow terms that are known
        left = [i for i, t in enumerate(plan.terms) if isinstance(t, Step) and t.kind in REDUCTIONS]
        while left:
            lines += self._narrow(done, left)
            now = [i for i in left if all(n in done or not self._is_reduced(n) for n in self._below(i) - {i})]
            steps = [(i, t) for i in now if isinstance(t := plan.terms[i], Step)]
            lines += [f"float t{i} = {REDUCTIONS[s.kind][0]};" for i, s in steps]
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
            kinds = [(j, NAMES[plan.types[j]]) for j, _ in wide]
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
            elif term.kind in REDUCTIONS or not all(s in done or isinstance(self.plan.terms[s], float) for s in term.sources):
                continue
            else:
                lines += self._steps([i])
            done.add(i)
        return lines

    def _thread(self) -> str:
        return f"blockIdx.x * {_THREADS}u + threadIdx.x"

    def _is_reduced(self, i: int) -> bool:
        term = self.plan.terms[i]
        return isinstance(term, Step) and term.kind in REDUCTIONS

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
            return [f"Vec<{NAMES[dtype]}, {self.vector}> v{i} = *(const Vec<{NAMES[dtype]}, {self.vector}> *)"
                    f"(g{number} + {self._offset(number, row, at)});"]
        if self.columns == 1:
            return [f"Vec<{NAMES[dtype]}, 1> v{i}; v{i}.x[0] = g{number}[{self._offset(number, row, at)}];"]
        return [f"{NAMES[dtype]} s{i} = g{number}[{self._offset(number, row, at)}];"]

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
        return _QUICK.get(step.kind, EACH[step.kind][0]) if step.dtype in (torch.bfloat16, torch.float16) else \
            EACH[step.kind][0]

    @staticmethod
    def _rounded(expression: str, step: Step) -> str:
        if step.dtype is torch.float32 or not rounds(step):
            return expression
        return f"(float)({expression})" if step.dtype is torch.bool else f"rounded<{NAMES[step.dtype]}>({expression})"


def _number(value: float) -> str:
    """A number as a float of C."""
    bits = int(torch.tensor(value, dtype=torch.float32).view(torch.int32)) & 0xFFFFFFFF
    return f"__uint_as_float({bits:#010x}u)"


def _reduction(kind: str) -> str:
    """Functions that reduce two numbers, and those of all lanes of a row."""
    _, two, _ = REDUCTIONS[kind]
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


class ColumnSource(Source):
    """Writes the kernels of a plan that sums columns, each of which is a vector of `vector` columns for one thread."""

    def __init__(self, plan: Any):
        super().__init__(plan)
        vectors = -(-self.columns // self.vector)
        self.across = min(_WARP, 1 << (vectors - 1).bit_length())
        self.down = _THREADS // self.across
        tiles = -(-vectors // self.across)
        parts = max(1, min(-(-_BLOCKS // tiles), self.rows // (self.down * _TURNS)))
        self.rows_of_part = -(-self.rows // parts)
        self.parts = -(-self.rows // self.rows_of_part)
        self.sums = [(j, r) for j, r in enumerate(plan.results) if plan.per_column[j]]
        self.whole = [(j, r) for j, r in enumerate(plan.results) if not plan.per_column[j]]
        self.grid, self.block = (tiles, self.parts, 1), (self.across, self.down, 1)
        self.end_grid = (-(-self.columns // _END), len(self.sums), 1)

    def names(self) -> tuple[str, ...]:
        return (self.name(), f"{self.name()}_end")

    def run(self, launch: Callable, values: list[torch.Tensor], results: list[torch.Tensor]) -> None:
        found = torch.empty(len(self.sums) * self.parts * self.columns, dtype=torch.float32, device=results[0].device)
        launch(self.name(), self.grid, self.block, [*values, *[results[j] for j, _ in self.whole], found])
        launch(f"{self.name()}_end", self.end_grid, (_END, _END, 1), [found, *[results[j] for j, _ in self.sums]])

    def text(self) -> str:
        plan = self.plan
        given = [f"const {NAMES[d]} *__restrict__ g{i}" for i, (d, _) in enumerate(plan.given)]
        made = [f"{NAMES[plan.types[j]]} *__restrict__ o{j}" for j, _ in self.whole]
        ends = [f"{NAMES[plan.types[j]]} *__restrict__ o{j}" for j, _ in self.sums]
        return "\n".join([
            HEAD, f"#define ACROSS {self.across}", f"#define DOWN {self.down}", f"#define END {_END}",
            f'extern "C" __global__ void {self.name()}({", ".join([*given, *made, "float *__restrict__ found"])}) {{',
            *self._down(), *self._exchanged(), "}",
            f'extern "C" __global__ void {self.name()}_end({", ".join(["const float *__restrict__ found", *ends])}) {{',
            *self._end(), "}"])

    def _down(self) -> list[str]:
        """The sums that a thread finds in its rows, whose other results it writes."""
        plan, v = self.plan, self.vector
        needed = sorted(self._needed([*(s for _, r in self.sums for s in plan.terms[r].sources), *(r for _, r in self.whole)]))
        given = [i for i in needed if isinstance(plan.terms[i], Given)]
        same = [i for i in given if "row" not in self._offset(plan.terms[i].number, "row", "c")]
        kinds = [(j, NAMES[plan.types[j]]) for j, _ in self.whole]
        return [
            f"u32 c = (blockIdx.x * ACROSS + threadIdx.x) * {v}u;",
            *[f"float sum{j}[{v}] = {{}};" for j, _ in self.sums],
            f"if (c < {self.columns}u) {{",
            *[line for i in same for line in self._load(i, "c", "row")],
            f"u32 first = blockIdx.y * {self.rows_of_part}u, last = first + {self.rows_of_part}u;",
            f"if (last > {self.rows}u) last = {self.rows}u;",
            "#pragma unroll 4",
            "for (u32 row = first + threadIdx.y; row < last; row += DOWN) {",
            *[line for i in given if i not in same for line in self._load(i, "c", "row")],
            *[f"Vec<{n}, {v}> w{j};" for j, n in kinds],
            "#pragma unroll", f"for (int k = 0; k < {v}; ++k) {{", *self._steps(needed),
            *[f"sum{j}[k] += {self._value(plan.terms[r].sources[0])};" for j, r in self.sums],
            *[f"put(w{j}.x[k], t{r});" for j, r in self.whole], "}",
            *[f"*(Vec<{n}, {v}> *)(o{j} + row * {self.columns}u + c) = w{j};" for j, n in kinds], "}", "}"]

    def _exchanged(self) -> list[str]:
        """Adds up what the threads of a block have found."""
        width = f"ACROSS * {self.vector}u"
        lines = [f"__shared__ float part[DOWN][{width}];", "u32 thread = threadIdx.y * ACROSS + threadIdx.x;"]
        for n, (j, _) in enumerate(self.sums):
            lines += [f"for (int k = 0; k < {self.vector}; ++k)",
                      f"part[threadIdx.y][threadIdx.x * {self.vector} + k] = sum{j}[k];",
                      "__syncthreads();",
                      f"for (u32 i = thread; i < {width}; i += ACROSS * DOWN) {{",
                      f"u32 at = blockIdx.x * {width} + i;", "float total = 0.f;",
                      "for (int r = 0; r < DOWN; ++r) total += part[r][i];",
                      f"if (at < {self.columns}u) found[({n * self.parts}u + blockIdx.y) * {self.columns}u + at] = total;", "}",
                      "__syncthreads();"]
        return lines

    def _end(self) -> list[str]:
        """Adds up what the blocks have found."""
        lines = ["__shared__ float part[END][END + 1];", "u32 c = blockIdx.x * END + threadIdx.x;", "float v = 0.f;",
                 f"if (c < {self.columns}u)",
                 f"for (u32 p = threadIdx.y; p < {self.parts}u; p += END)",
                 f"v += found[(blockIdx.y * {self.parts}u + p) * {self.columns}u + c];",
                 "part[threadIdx.y][threadIdx.x] = v;", "__syncthreads();",
                 f"if (threadIdx.y != 0 || c >= {self.columns}u) return;", "v = 0.f;",
                 "for (int r = 0; r < END; ++r) v += part[r][threadIdx.x];"]
        for n, (j, r) in enumerate(self.sums):
            scale = f" * {_number(1.0 / self.rows)}" if self.plan.terms[r].kind == "COLUMN_MEAN" else ""
            lines.append(f"if (blockIdx.y == {n}u) put(o{j}[c], v{scale});")
        return lines
