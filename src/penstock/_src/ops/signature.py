"""The notation in which an op declares its inputs, outputs and attributes.

    "a: T, b: T -> product: T"                      one tensor of type attr T
    "values: N * T, axis: int32 -> output: T"       N tensors of type T (N is an int attr)
    "input: Tin -> output: Tout"                    as many tensors as the list(type) attr says
    "ref: Ref(T), value: T -> output_ref: Ref(T)"   a reference to a variable

    "T: type in {half float32}, transpose_a: bool = False, shape: shape = None, N: int >= 1"

Names, order, types and defaults are TensorFlow's, so that a GraphDef means the same in both systems.
"""
from __future__ import annotations

import ast
import dataclasses
import functools
import re
from typing import Any

from penstock._src.base import dtypes

REQUIRED: Any = type("Required", (), {"__repr__": lambda self: "REQUIRED"})()

TYPE_SETS = {
    "float": "half bfloat16 float32 float64",
    "real": "half bfloat16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64",
    "integer": "int8 int16 int32 int64 uint8 uint16 uint32 uint64",
    "complex": "complex64 complex128",
    "quantized": "qint8 quint8 qint32 qint16 quint16",
    "index": "int32 int64",
}
TYPE_SETS["floating"] = TYPE_SETS["float"] + " " + TYPE_SETS["complex"]
TYPE_SETS["numeric"] = TYPE_SETS["real"] + " " + TYPE_SETS["complex"]

_PART = re.compile(r"""(?:[^,(\[{'"]|\([^)]*\)|\[[^\]]*\]|\{[^}]*\}|'[^']*'|"[^"]*")+""")
_ATTR = re.compile(r"\s*([\w()]+)\s*(?:in\s*\{(.*)\})?\s*(?:>=\s*(-?\d+))?\s*", re.S)
_EQUALS = re.compile(r"(?<![<>=])=(?!=)")
_REF = re.compile(r"Ref\((.*)\)")


@dataclasses.dataclass(frozen=True, slots=True)
class Arg:
    """One input or output: `type` or `type_attr` or `type_list_attr`, `number_attr` for N of them."""
    name: str
    type: Any = None
    type_attr: str | None = None
    number_attr: str | None = None
    type_list_attr: str | None = None
    is_ref: bool = False

    @property
    def is_list(self) -> bool:
        return self.number_attr is not None or self.type_list_attr is not None


@dataclasses.dataclass(frozen=True, slots=True)
class Attr:
    """One attribute: its kind ("int", "list(type)" …), default, allowed values and minimum."""
    name: str
    kind: str
    default: Any = REQUIRED
    allowed: tuple | None = None
    minimum: int | None = None


def split(text: str) -> list[str]:
    """Splits at commas that are not inside brackets or quotes."""
    return [p for p in map(str.strip, _PART.findall(text)) if p]


def parse_attrs(text: str) -> dict[str, Attr]:
    """Parses the attribute part of a declaration."""
    return {attr.name: attr for attr in map(_attr, split(text))}


@functools.cache
def _attr(part: str) -> Attr:
    name, rest = part.split(":", 1)
    rest, default = _default(rest)
    m = _ATTR.fullmatch(rest)
    if m is None:
        raise ValueError(f"cannot read attribute {part!r}")
    kind, allowed, minimum = m.groups()
    return Attr(name.strip(), kind, _typed_default(kind, default), _allowed(kind, allowed) if allowed is not None else None,
                int(minimum) if minimum is not None else None)


def _default(rest: str) -> tuple[str, Any]:
    m = _EQUALS.search(rest)
    if m is None:
        return rest, REQUIRED
    return rest[:m.start()], rest[m.end():].strip()


def _typed_default(kind: str, text: Any) -> Any:
    if text is REQUIRED:
        return REQUIRED
    if kind == "type":
        return dtypes.as_dtype(text)
    if kind == "list(type)":
        return [dtypes.as_dtype(t) for t in text.strip("[]").replace(",", " ").split()]
    if kind == "float" and text in ("inf", "-inf", "nan"):
        return float(text)
    return ast.literal_eval(text)


@functools.cache
def _allowed(kind: str, text: str) -> tuple:
    words = text.replace(",", " ").split()
    if kind.endswith("type") or kind == "list(type)":
        names: list[str] = []
        for w in words:
            names.extend(TYPE_SETS.get(w, w).split() if w != "half" else ["half"])
        return tuple(dtypes.as_dtype(n) for n in names)
    return tuple(w.strip("'\"") for w in words)


def parse_args(text: str, attrs: dict[str, Attr]) -> list[Arg]:
    """Parses one side of the arrow."""
    return [_parse_arg(part, attrs) for part in split(text)]


def _parse_arg(part: str, attrs: dict[str, Attr]) -> Arg:
    name, kind = (s.strip() for s in part.split(":", 1))
    ref = _REF.fullmatch(kind)
    kind = ref.group(1).strip() if ref else kind
    number = None
    if "*" in kind:
        number, kind = (s.strip() for s in kind.split("*"))
    if kind in attrs:
        if attrs[kind].kind == "list(type)":
            return Arg(name, type_list_attr=kind, is_ref=bool(ref))
        return Arg(name, type_attr=kind, number_attr=number, is_ref=bool(ref))
    return Arg(name, type=dtypes.as_dtype(kind), number_attr=number, is_ref=bool(ref))
