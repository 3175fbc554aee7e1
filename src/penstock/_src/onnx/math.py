"""Rules of element-wise ops, comparisons, products and reductions."""
from __future__ import annotations

import functools
from typing import Any

import numpy as np

from penstock._src.base import dtypes
from penstock._src.onnx.builder import Builder, Unsupported, axis_of, ints
from penstock._src.onnx.rules import rule
from penstock._src.step.ir import Node, Value

rule = functools.partial(rule, "Math")

_SAME = {                                          # ops that ONNX has under another name, or the same
    "Abs": "Abs", "Acos": "Acos", "Acosh": "Acosh", "Add": "Add", "AddV2": "Add", "Asin": "Asin", "Asinh": "Asinh",
    "Atan": "Atan", "Atanh": "Atanh", "Ceil": "Ceil", "Cos": "Cos", "Cosh": "Cosh", "Div": "Div", "Equal": "Equal",
    "Erf": "Erf", "Exp": "Exp", "Floor": "Floor", "Greater": "Greater", "GreaterEqual": "GreaterOrEqual", "IsNan": "IsNaN",
    "IsInf": "IsInf", "Less": "Less", "LessEqual": "LessOrEqual", "Log": "Log", "LogicalAnd": "And", "LogicalNot": "Not",
    "LogicalOr": "Or", "Maximum": "Max", "Minimum": "Min", "Mul": "Mul", "Neg": "Neg", "Pow": "Pow", "RealDiv": "Div",
    "Reciprocal": "Reciprocal", "Inv": "Reciprocal", "Rint": "Round", "Sigmoid": "Sigmoid", "Sign": "Sign", "Sin": "Sin",
    "Sinh": "Sinh", "Sqrt": "Sqrt", "Sub": "Sub", "Tan": "Tan", "Tanh": "Tanh", "TruncateDiv": "Div", "AddN": "Sum",
    "BitwiseAnd": "BitwiseAnd", "BitwiseOr": "BitwiseOr", "BitwiseXor": "BitwiseXor", "Invert": "BitwiseNot",
}


@rule(*_SAME)
def _same(b: Builder, op: Node) -> str:
    return b(_SAME[op.type], *op.inputs)


@rule("Identity", "StopGradient", "PreventGradient", "Snapshot", "CheckNumerics", "EnsureShape", "PlaceholderWithDefault")
def _identity(b: Builder, op: Node) -> str:
    return b.name(op.inputs[0])


@rule("Cast")
def _cast(b: Builder, op: Node) -> str:
    if dtypes.string in (op.inputs[0].dtype, op.outputs[0].dtype):
        raise Unsupported("strings and numbers are written in other ways in ONNX")
    return b.cast(op.inputs[0], op.outputs[0].dtype)


@rule("NotEqual")
def _not_equal(b: Builder, op: Node) -> str:
    return b("Not", b("Equal", *op.inputs))


@rule("LogicalXor")
def _xor(b: Builder, op: Node) -> str:
    return b("Xor", *op.inputs)


@rule("Square")
def _square(b: Builder, op: Node) -> str:
    return b("Mul", op.inputs[0], op.inputs[0])


@rule("SquaredDifference")
def _squared_difference(b: Builder, op: Node) -> str:
    difference = b("Sub", *op.inputs)
    return b("Mul", difference, difference)


@rule("Rsqrt")
def _rsqrt(b: Builder, op: Node) -> str:
    return b("Reciprocal", b("Sqrt", op.inputs[0]))


@rule("Round")
def _round(b: Builder, op: Node) -> str:
    return b("Round", op.inputs[0]) if op.inputs[0].dtype.is_floating else b.name(op.inputs[0])


@rule("Log1p")
def _log1p(b: Builder, op: Node) -> str:
    """log(u) x / (u - 1) for u = 1 + x, which keeps the digits of a small x; x itself where u is 1."""
    x = op.inputs[0]
    one = b.like(x, 1)
    u = b("Add", x, one)
    rest = b("Sub", u, one)
    near = b("Equal", rest, b.like(x, 0))
    safe = b("Where", near, one, rest)
    exact = b("Div", b("Mul", b("Log", u), x), safe)
    infinite = b("IsInf", b("Cast", u, to=dtypes.float32))
    return b("Where", infinite, b("Log", u), b("Where", near, x, exact))


@rule("Expm1")
def _expm1(b: Builder, op: Node) -> str:
    """2 sinh(x / 2) exp(x / 2), which keeps the digits of a small x; -1 where that is the result of rounding."""
    x = op.inputs[0]
    half = b("Mul", x, b.like(x, 0.5))
    exact = b("Mul", b("Mul", b("Sinh", half), b("Exp", half)), b.like(x, 2))
    plain = b("Sub", b("Exp", x), b.like(x, 1))
    return b("Where", b("Greater", b("Abs", x), b.like(x, 1)), plain, exact)


@rule("Erfc")
def _erfc(b: Builder, op: Node) -> str:
    return b("Sub", b.like(op.inputs[0], 1), b("Erf", op.inputs[0]))


@rule("IsFinite")
def _is_finite(b: Builder, op: Node) -> str:
    x = op.inputs[0]
    return b("Not", b("Or", b("IsNaN", x), b("IsInf", x)))


@rule("DivNoNan", "MulNoNan")
def _no_nan(b: Builder, op: Node) -> str:
    x, y = op.inputs
    zero = b("Equal", y, b.like(y, 0))
    safe = b("Where", zero, b.like(y, 1), y)
    return b("Where", zero, b.like(y, 0), b("Div" if op.type == "DivNoNan" else "Mul", x, safe))


@rule("Xdivy", "Xlogy", "Xlog1py")
def _zero_times(b: Builder, op: Node) -> str:
    x, y = op.inputs
    plain = b("Div", x, y) if op.type == "Xdivy" else \
        b("Mul", x, b("Log", y if op.type == "Xlogy" else b("Add", y, b.like(y, 1))))
    return b("Where", b("Equal", x, b.like(x, 0)), b.like(x, 0), plain)


@rule("FloorDiv")
def _floor_div(b: Builder, op: Node) -> str:
    x, y = op.inputs
    if x.dtype.is_floating:
        return b("Floor", b("Div", x, y))
    quotient = b("Div", x, y)                       # rounds to zero
    if x.dtype.is_unsigned:
        return quotient
    rest, zero = b("Mod", x, y, fmod=0), b.like(x, 0)
    cut = b("Sub", x, b("Mul", quotient, y))
    wrong = b("Not", b("Equal", rest, cut))
    return b("Sub", quotient, b("Where", wrong, b.like(x, 1), zero))


@rule("FloorMod")
def _floor_mod(b: Builder, op: Node) -> str:
    x, y = op.inputs
    if not x.dtype.is_floating:
        return b("Mod", x, y, fmod=0)
    rest, zero = b("Mod", x, y, fmod=1), b.like(x, 0)
    other_sign = b("Xor", b("Less", rest, zero), b("Less", y, zero))
    moved = b("And", other_sign, b("Not", b("Equal", rest, zero)))
    return b("Where", moved, b("Add", rest, y), rest)


@rule("Mod", "TruncateMod")
def _mod(b: Builder, op: Node) -> str:
    return b("Mod", *op.inputs, fmod=1)


@rule("ClipByValue")
def _clip(b: Builder, op: Node) -> str:
    x, low, high = op.inputs
    return b("Min", b("Max", x, low), high)


@rule("Select", "SelectV2")
def _select(b: Builder, op: Node) -> str:
    condition, x, y = op.inputs
    given = b.name(condition)
    if op.type == "Select" and b.rank(condition) == 1 and b.rank(x) > 1:
        given = b("Reshape", given, ints(-1, *[1] * (b.rank(x) - 1)))
    return b("Where", given, x, y)


# -- products -----------------------------------------------------------------------------------------------------------
def swapped(b: Builder, x: Value, swap: bool) -> str:
    """A value with its last two axes exchanged, if requested."""
    if not swap:
        return b.name(x)
    found = b.value(x)
    if found is not None:
        return b.constant(np.ascontiguousarray(np.swapaxes(found, -1, -2)), x.op.name)
    rank = b.rank(x)
    return b.transpose(x, [*range(rank - 2), rank - 1, rank - 2])


@rule("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _matmul(b: Builder, op: Node) -> str:
    if any(t.dtype.is_complex for t in op.inputs):
        raise Unsupported("ONNX has no products of complex numbers")
    names = ("transpose_a", "transpose_b") if op.type == "MatMul" else ("adj_x", "adj_y")
    made = b("MatMul", *(swapped(b, x, op.attrs[n]) for x, n in zip(op.inputs, names, strict=True)))
    same = op.inputs[0].dtype == op.outputs[0].dtype
    return made if same else b.cast(made, op.outputs[0].dtype)


@rule("Einsum")
def _einsum(b: Builder, op: Node) -> str:
    equation = op.attrs["equation"]
    text = equation.decode() if isinstance(equation, bytes) else equation
    return b("Einsum", *op.inputs, equation=text.replace(" ", ""))


# -- reductions ---------------------------------------------------------------------------------------------------------
_REDUCED = {"Sum": "ReduceSum", "Mean": "ReduceMean", "Max": "ReduceMax", "Min": "ReduceMin", "Prod": "ReduceProd",
            "EuclideanNorm": "ReduceL2"}


@rule(*_REDUCED)
def _reduce(b: Builder, op: Node) -> str:
    return reduced(b, _REDUCED[op.type], op.inputs[0], op)


@rule("All", "Any")
def _logical(b: Builder, op: Node) -> str:
    """Any: the number of true values is not 0. All: the number of false values is 0."""
    x: Any = op.inputs[0]
    given = b("Not", x) if op.type == "All" else b.name(x)
    total = reduced(b, "ReduceSum", b.cast(given, dtypes.int32), op)
    found = b("Greater", total, np.int32(0))
    return b("Not", found) if op.type == "All" else found


def reduced(b: Builder, type: str, x: Any, op: Node) -> str:
    """A reduction over the axes that an op has as its second input."""
    axes = b.value(op.inputs[1])
    if axes is not None and axes.size == 0:
        return b("Abs", x) if type == "ReduceL2" else b.name(x)
    keep = int(op.attrs["keep_dims"])
    return b(type, x, b.int64(op.inputs[1], vector=True), keepdims=keep, noop_with_empty_axes=1)


@rule("ArgMax", "ArgMin")
def _arg(b: Builder, op: Node) -> str:
    axis = axis_of(int(b.required(op.inputs[1], "axis")), b.rank(op.inputs[0]))
    found = b(op.type, op.inputs[0], axis=axis, keepdims=0, select_last_index=0)
    return found if op.outputs[0].dtype == dtypes.int64 else b.cast(found, op.outputs[0].dtype)


@rule("L2Loss")
def _l2_loss(b: Builder, op: Node) -> str:
    x = op.inputs[0]
    return b("Mul", b("ReduceSumSquare", x, keepdims=0), b.like(x, 0.5))


@rule("Cumsum")
def _cumsum(b: Builder, op: Node) -> str:
    return b("CumSum", op.inputs[0], op.inputs[1], exclusive=int(op.attrs["exclusive"]), reverse=int(op.attrs["reverse"]))


@rule("TopKV2", "TopK")
def _top_k(b: Builder, op: Node) -> list[str]:
    k = b.int64(op.inputs[1], vector=True) if op.type == "TopKV2" else b.name(ints(op.attrs["k"]))
    values, places = b("TopK", op.inputs[0], k, axis=-1, largest=1, sorted=1, outputs=2)
    return [values, b.cast(places, op.outputs[1].dtype)]
