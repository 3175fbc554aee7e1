"""Updates of variables by optimizers on a GPU, as one kernel for each variable, generated from the rule.

A rule (ops/nn/training.py) is written for tensors. Here it runs once on terms, which stand for an element of each tensor and
record the operations on it; the text becomes a Triton kernel, cached by its text. Numbers of a rule that are on the GPU
(rates, powers of decays) stay there: the rule computes with them as usual, and the kernel reads them. Arithmetic is in float32
whatever the type of the arrays. If a term does not support an operation, `update` returns False, and the rule runs with torch.
"""
from __future__ import annotations

import functools
import hashlib
import importlib.util
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import torch

from penstock._src.base import tracing
from penstock._src.kernels.triton_nn import TYPES, available

_TILE = 1024                       # elements of a tile
_FUNCTIONS = {"sqrt": "tl.sqrt({})", "rsqrt": "1.0 / tl.sqrt({})", "abs": "tl.abs({})", "exp": "tl.exp({})", "neg": "-{}",
              "sign": "tl.where({0} > 0, 1.0, tl.where({0} < 0, -1.0, {0}))", "clone": "{}"}
_PAIRS = {"mul": "{} * {}", "div": "{} / {}", "lt": "{} < {}", "gt": "{} > {}", "copy": "{1}",
          "maximum": "tl.where(({0} > {1}) | ({0} != {0}), {0}, {1})"}


class _Unknown(Exception):
    """An operation that terms do not support."""


class _Text:
    """The operations of a rule on an element, line by line, and the numbers that it uses."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.numbers: list[Any] = []

    def name(self, expression: str) -> str:
        """The name of a new value."""
        self.lines.append(f"t{len(self.lines)} = {expression}")
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
            made = _Term(text, text.name("tl.where({}, {}, {})".format(*map(text.of, args))))
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
        return f"tl.where({self.now} < {low}, {low}, {self.now})"
    if name in _FUNCTIONS and not args and not kwargs:
        return _FUNCTIONS[name].format(self.now)
    if name in _PAIRS and len(args) == 1 and not kwargs:
        return _PAIRS[name].format(self.now, text.of(args[0]))
    raise _Unknown(name)


def fits(states: list[list[torch.Tensor]], grads: list[torch.Tensor]) -> bool:
    """Whether the kernels take these variables, slots and gradients."""
    every = [*(t for s in states for t in s), *grads]
    return available() and not tracing.lowering() and all(t.is_cuda and t.dtype in TYPES for t in every) and \
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
    kernel = _kernel(_source(text, terms))
    for each in zip(*states, grads, strict=True):
        var, count = each[0], each[0].numel()
        grad = each[-1] if each[-1].stride() == var.stride() else torch.empty_like(var, dtype=each[-1].dtype).copy_(each[-1])
        if count:
            kernel[(-(-count // _TILE),)](count, *each[:-1], grad, *text.numbers, _TILE)
    return True


def _source(text: _Text, terms: list[_Term]) -> str:
    """The kernel as text."""
    arrays = [*(f"p{i}" for i in range(len(terms))), "pg"]
    numbers = [f"n{i}" if not isinstance(n, torch.Tensor) else f"q{i}" for i, n in enumerate(text.numbers)]
    body = ["at = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)", "ok = at < count"]
    body += [f"n{i} = tl.load(q{i}).to(tl.float32)" for i, n in enumerate(numbers) if n.startswith("q")]
    body += [f"{name} = tl.load({p} + at, mask=ok, other=1.0).to(tl.float32)"
             for name, p in zip([*(f"s{i}" for i in range(len(terms))), "g"], arrays, strict=True)]
    body += text.lines
    body += [f"tl.store(p{i} + at, {t.now}, mask=ok)" for i, t in enumerate(terms) if t.now != f"s{i}"]
    head = f"def update({', '.join(['count', *arrays, *numbers, 'B: tl.constexpr'])}):"
    return "import triton\nimport triton.language as tl\n\n\n@triton.jit\n" + "\n    ".join([head, *body]) + "\n"


@functools.lru_cache(maxsize=256)
def _kernel(source: str) -> Any:
    """The kernel of a text. Triton reads the text of a function from its file."""
    name = f"penstock_update_{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    with tempfile.TemporaryDirectory(prefix="penstock_") as folder:
        path = pathlib.Path(folder, f"{name}.py")
        path.write_text(source)
        spec: Any = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module.update
