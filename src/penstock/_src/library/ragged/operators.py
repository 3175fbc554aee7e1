"""Python operators on ragged tensors."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.graph import context
from penstock._src.library.ragged.tensor import RaggedTensor
from penstock.compat import v1 as tf

_BINARY = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "truediv", "floordiv": "floordiv", "mod": "floormod",
           "pow": "pow", "div": "div", "and": "logical_and", "or": "logical_or", "xor": "logical_xor"}
_COMPARE = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}


def _forward(name: str) -> Callable:
    """The public function, which dispatches: libraries call operators of this class on symbolic tensors of their own."""
    return lambda self, other: getattr(tf, name)(self, other)


def _reverse(name: str) -> Callable:
    return lambda self, other: getattr(tf, name)(other, self)


def _equality(name: str, identity: Callable) -> Callable:
    """Compares elements where tensors do (2.x), and objects otherwise. Nothing equals None."""
    def compare(self: Any, other: Any) -> Any:
        if not context.process.tensor_equality or other is None:
            return identity(self, other)
        return getattr(tf, name)(self, other)
    return compare


def _install() -> None:
    for operator, name in _BINARY.items():
        setattr(RaggedTensor, f"__{operator}__", _forward(name))
        setattr(RaggedTensor, f"__r{operator}__", _reverse(name))
    for operator, name in _COMPARE.items():
        setattr(RaggedTensor, f"__{operator}__", _forward(name))
    RaggedTensor.__eq__ = _equality("equal", object.__eq__)         # type: ignore[method-assign]
    RaggedTensor.__ne__ = _equality("not_equal", object.__ne__)     # type: ignore[method-assign]
    for operator, name in {"neg": "negative", "abs": "abs", "invert": "logical_not"}.items():
        def unary(self: Any, name: str = name) -> Any:
            return getattr(tf, name)(self)
        setattr(RaggedTensor, f"__{operator}__", unary)

    def refuse(self: Any) -> bool:
        raise TypeError("RaggedTensor may not be used as a boolean.")
    RaggedTensor.__bool__ = RaggedTensor.__nonzero__ = refuse  # type: ignore[attr-defined]


_install()
