"""Updates of variables by optimizers on a GPU: one kernel for all variables of an op, generated from the rule.

A rule (ops/nn/training.py) is written for tensors. Here it runs once on terms, which stand for an element of each tensor and
record the operations on it; the text becomes a CUDA kernel, which NVRTC compiles once for each text. A launch gets a table of
the arrays as an argument, and its blocks look up theirs, so that a hundred small variables take one launch. Numbers of a rule
that are on the GPU (rates, powers of decays) stay there: the rule computes with them as usual, and the kernel reads them.
Arithmetic is in float32 whatever the types of the arrays. If a term does not support an operation, `update` returns False, and
the rule runs with torch.
"""
from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import torch

from penstock._src.base import tracing
from penstock._src.kernels import nvrtc
from penstock._src.kernels.device_source import HEAD, NAMES

TYPES = frozenset((torch.float32, torch.float16, torch.bfloat16))
_THREADS, _EACH = 256, 4           # threads of a block, and elements that each of them reads at once
_TILE = 2048                       # elements of a block
_TABLE = 3500                      # bytes of a table: a kernel takes 4 KiB of arguments
_FUNCTIONS = {"sqrt": "sqrtf({})", "rsqrt": "rsqrtf({})", "abs": "fabsf({})", "exp": "expf({})", "neg": "-{}",
              "sign": "{0} > 0.f ? 1.f : {0} < 0.f ? -1.f : {0}", "clone": "{}"}
_PAIRS = {"mul": "{} * {}", "div": "{} / {}", "lt": "{} < {}", "gt": "{} > {}", "copy": "{1}",
          "maximum": "({0} > {1} || {0} != {0}) ? {0} : {1}"}


class _Unknown(Exception):
    """An operation that terms do not support."""


class _Text:
    """The operations of a rule on an element, as statements, and the numbers that it uses."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.numbers: list[Any] = []

    def name(self, expression: str) -> str:
        """The name of a new value."""
        self.lines.append(f"float t{len(self.lines)} = {expression};")
        return f"t{len(self.lines) - 1}"

    def of(self, value: Any) -> str:
        """The name of a term or of a number."""
        if isinstance(value, _Term):
            return value.now
        if isinstance(value, torch.Tensor) and value.dim() or not isinstance(value, (torch.Tensor, float, int)):
            raise _Unknown(f"a {type(value).__name__}")
        at = next((i for i, n in enumerate(self.numbers) if n is value), None)
        if at is None:
            at = len(self.numbers)
            self.numbers.append(value if isinstance(value, torch.Tensor) else float(value))
        return f"n{at}"


class _Term:
    """An element of a tensor in a rule."""

    def __init__(self, text: _Text, now: str):
        self.text, self.now = text, now

    is_cpu, dtype = False, torch.float32

    def is_complex(self) -> bool:
        """Elements are real numbers."""
        return False

    def __getattr__(self, name: str) -> Callable:
        if name.startswith("__"):
            raise AttributeError(name)
        return functools.partial(_called, name, self)

    def __add__(self, other: Any) -> _Term:
        return _called("add", self, other)

    def __sub__(self, other: Any) -> _Term:
        return _called("sub", self, other)

    def __rsub__(self, other: Any) -> _Term:
        return _called("add", _called("neg", self), other)

    def __mul__(self, other: Any) -> _Term:
        return _called("mul", self, other)

    def __truediv__(self, other: Any) -> _Term:
        return _called("div", self, other)

    def __gt__(self, other: Any) -> _Term:
        return _called("gt", self, other)

    def __lt__(self, other: Any) -> _Term:
        return _called("lt", self, other)

    __radd__, __rmul__ = __add__, __mul__

    @classmethod
    def __torch_function__(cls, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = dict(kwargs or {})
        out = kwargs.pop("out", None)
        text = next(a.text for a in args if isinstance(a, _Term))
        if func is torch.where and not kwargs:
            made = _Term(text, text.name("{} != 0.f ? {} : {}".format(*map(text.of, args))))
        elif func is torch.maximum and not kwargs:
            made = _called("maximum", *args)
        elif func is torch.zeros_like and not kwargs:
            made = _called("mul", args[0], 0.0)
        else:
            raise _Unknown(getattr(func, "__name__", "a function"))
        if out is None:
            return made
        out.now = made.now
        return out


def _called(name: str, self: _Term, *args: Any, **kwargs: Any) -> _Term:
    """The method of that name."""
    text, plain = self.text, name.rstrip("_")
    value = text.name(_expression(text, plain, self, args, kwargs))
    if name == plain:
        return _Term(text, value)
    self.now = value
    return self


def _expression(text: _Text, name: str, self: _Term, args: tuple, kwargs: dict) -> str:
    if name in ("add", "sub") and len(args) == 1 and kwargs.keys() <= {"alpha"}:
        sign = "+" if name == "add" else "-"
        factor = f"{text.of(kwargs['alpha'])} * " if "alpha" in kwargs else ""
        return f"{self.now} {sign} {factor}{text.of(args[0])}"
    if name in ("addcmul", "addcdiv") and len(args) == 2 and kwargs.keys() <= {"value"}:
        pair = f"{text.of(args[0])} {'*' if name == 'addcmul' else '/'} {text.of(args[1])}"
        return f"{self.now} + {pair}" if "value" not in kwargs else f"{self.now} + {text.of(kwargs['value'])} * ({pair})"
    if name == "lerp" and len(args) == 2 and not kwargs:
        return f"{self.now} + {text.of(args[1])} * ({text.of(args[0])} - {self.now})"
    if name == "clamp" and not args and kwargs.keys() == {"min"}:
        low = text.of(kwargs["min"])
        return f"{self.now} < {low} ? {low} : {self.now}"
    if name in _FUNCTIONS and not args and not kwargs:
        return _FUNCTIONS[name].format(self.now)
    if name in _PAIRS and len(args) == 1 and not kwargs:
        return _PAIRS[name].format(self.now, text.of(args[0]))
    raise _Unknown(name)


def fits(states: list[list[torch.Tensor]], grads: list[torch.Tensor]) -> bool:
    """Whether the kernels take these variables, slots and gradients."""
    every = [*(t for s in states for t in s), *grads]
    return not tracing.lowering() and all(t.is_cuda and t.dtype in TYPES for t in every) and \
        all(t.shape == var.shape and t.stride() == var.stride() and _dense(var)
            for s in states[1:] for t, var in zip(s, states[0], strict=True))


def _dense(t: torch.Tensor) -> bool:
    """Whether elements are side by side in memory, in some order."""
    expected = 1
    for stride, size in sorted(zip(t.stride(), t.shape, strict=True)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def update(rule: Callable, states: list[list[torch.Tensor]], numbers: list, grad_at: int, grads: list[torch.Tensor],
           chosen: dict[str, Any]) -> bool:
    """Applies a rule to variables and their slots: `states` has a list of the variables, and one for each slot. `numbers` are
    the arguments behind them, with the gradient at `grad_at`. False if the kernel does not support the rule."""
    if not fits(states, grads):
        return False
    text = _Text()
    terms = [_Term(text, f"s{i}") for i in range(len(states))]
    given = [_Term(text, "g") if i == grad_at else n for i, n in enumerate(numbers)]
    try:
        rule(*terms, *given, **chosen)
    except _Unknown:
        return False
    used = [n.float() if isinstance(n, torch.Tensor) else ctypes.c_float(n) for n in text.numbers]
    alike: dict[tuple, list[tuple[torch.Tensor, ...]]] = {}
    for each in zip(*states, grads, strict=True):
        if each[0].numel():
            alike.setdefault(_place(each), []).append((*each[:-1], _beside(each[-1], each[0])))
    for (device, *types), variables in alike.items():
        kernel = nvrtc.kernel(source(text, terms, types), ("update",)).loaded(device)
        if kernel is None:
            return False
        here = [n.to(device) if isinstance(n, torch.Tensor) else n for n in used]
        for table, blocks in _tables(variables):
            kernel("update", (blocks, 1, 1), (_THREADS, 1, 1), [table, *here])
    return True


def _place(arrays: tuple[torch.Tensor, ...]) -> tuple:
    """What arrays of one launch have in common."""
    return arrays[0].device, *(t.dtype for t in arrays)


def _beside(grad: torch.Tensor, var: torch.Tensor) -> torch.Tensor:
    """A gradient in the variable's order in memory."""
    return grad if grad.stride() == var.stride() else torch.empty_like(var, dtype=grad.dtype).copy_(grad)


def room(arrays: int) -> int:
    """How many variables a table has room for, if each has so many arrays."""
    return (_TABLE - 4) // (8 * arrays + 12)


@functools.cache
def _table_type(arrays: int) -> type[ctypes.Structure]:
    most = room(arrays)

    class Table(ctypes.Structure):
        """As in `source`."""
        _fields_ = [("p", (ctypes.c_void_p * most) * arrays), ("count", ctypes.c_longlong * most),
                    ("first", ctypes.c_uint * most), ("several", ctypes.c_int)]
    return Table


def _tables(variables: list[tuple[torch.Tensor, ...]]) -> list[tuple[ctypes.Structure, int]]:
    """The tables of variables, each with the number of its blocks."""
    made = []
    arrays = len(variables[0])
    most = room(arrays)
    for begin in range(0, len(variables), most):
        table: Any = _table_type(arrays)()
        blocks = 0
        part = variables[begin:begin + most]
        for i, each in enumerate(part):
            for a, t in enumerate(each):
                table.p[a][i] = t.data_ptr()
            table.count[i], table.first[i] = each[0].numel(), blocks
            blocks += -(-each[0].numel() // _TILE)
        table.several = len(part)
        made.append((table, blocks))
    return made


def source(text: _Text, terms: list[_Term], types: list[torch.dtype]) -> str:
    """The kernel of a rule, for variables, slots and gradients of these types."""
    names = [*(f"s{i}" for i in range(len(terms))), "g"]
    kinds = [NAMES[t] for t in types]
    numbers = [f"const float *q{i}" if isinstance(n, torch.Tensor) else f"float n{i}" for i, n in enumerate(text.numbers)]
    arrays, most = len(names), room(len(names))
    changed = [(i, t.now) for i, t in enumerate(terms) if t.now != f"s{i}"]
    each = f"for (int k = 0; k < {_EACH}; ++k)"
    return "\n".join([
        HEAD, f"struct Table {{ void *p[{arrays}][{most}]; long long count[{most}]; u32 first[{most}]; int several; }};",
        f'extern "C" __global__ void update({", ".join(["const __grid_constant__ Table table", *numbers])}) {{',
        "int here = 0, last = table.several - 1;",
        "while (here < last) { int mid = (here + last + 1) / 2;",
        "if (table.first[mid] <= blockIdx.x) here = mid; else last = mid - 1; }",
        f"long long begin = (long long)(blockIdx.x - table.first[here]) * {_TILE}, end = begin + {_TILE};",
        "if (end > table.count[here]) end = table.count[here];",
        *[f"{kind} *a{i} = ({kind} *)table.p[{i}][here];" for i, kind in enumerate(kinds)],
        *[f"float n{i} = *q{i};" for i, n in enumerate(text.numbers) if isinstance(n, torch.Tensor)],
        *[f"bool even{i} = (unsigned long long)a{i} % sizeof(Vec<{kind}, {_EACH}>) == 0;" for i, kind in enumerate(kinds)],
        f"for (long long at = begin + threadIdx.x * {_EACH}; at < end; at += {_THREADS * _EACH}) {{",
        f"bool whole = at + {_EACH} <= end{''.join(f' && even{i}' for i in range(arrays))};",
        *[f"Vec<{kind}, {_EACH}> v{i};" for i, kind in enumerate(kinds)],
        "if (whole) {", *[f"v{i} = *(Vec<{kind}, {_EACH}> *)(a{i} + at);" for i, kind in enumerate(kinds)],
        f"}} else {each} if (at + k < end) {{", *[f"v{i}.x[k] = a{i}[at + k];" for i in range(arrays)], "}",
        "#pragma unroll", f"{each} {{", *[f"float {n} = F(v{i}.x[k]);" for i, n in enumerate(names)],
        *text.lines, *[f"put(v{i}.x[k], {now});" for i, now in changed], "}",
        "if (whole) {", *[f"*(Vec<{kinds[i]}, {_EACH}> *)(a{i} + at) = v{i};" for i, _ in changed],
        f"}} else {each} if (at + k < end) {{", *[f"a{i}[at + k] = v{i}.x[k];" for i, _ in changed], "}", "}", "}"])
