"""Division: of real numbers, rounded down or towards zero, with remainders, without infinities.

Integers are checked for zeros before they are divided, because processors trap on those.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import arrays, unsigned
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.math.math import binary, both, conj, function
from penstock._src.ops.registry import OpDef, get

INTEGERS = "int8 int16 int32 int64 uint8"


# -- kernels and ops --------------------------------------------------------------------------------------------------
def _nonzero(x: torch.Tensor, y: torch.Tensor) -> None:
    if not bool(torch.all(arrays.all_rows(y))) and x.numel():          # nothing by zero is nothing
        raise errors.invalid("Integer division by zero")


def _checked(kernel: Callable) -> Callable:
    """An integer kernel that refuses to divide by zero."""
    @functools.wraps(kernel)
    def run(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        _nonzero(x, y)
        return kernel(x, y)
    return run


def _truncated(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """x / y rounded towards zero. The lowest integer by -1 traps in ATen's truncating division, not in its flooring."""
    if bool(torch.any(arrays.all_rows(y) == -1)):
        q = torch.div(x, y, rounding_mode="floor")
        return q + ((q < 0) & (q * y != x)).to(q.dtype)
    return torch.div(x, y, rounding_mode="trunc")


_floored = functools.partial(torch.div, rounding_mode="floor")


def _quotient(name: str, kernel: Callable, on_integers: Callable | None, types: str) -> OpDef:
    made = binary(name, kernel, types)
    if on_integers is not None:
        made.kernel(_checked(on_integers), types=INTEGERS)
        made.kernel(_checked(unsigned.divide), types=unsigned.TYPES)
    return made


div_op = _quotient("Div", torch.true_divide, _truncated, "numeric")
real_div = _quotient("RealDiv", torch.true_divide, _truncated, "numeric")
rules.pointwise.instruction[real_div] = "DIV"
rules.small.text[real_div] = "{} / {}"
rules.arithmetic.neutral[real_div] = {1: 1}
floor_div_op = _quotient("FloorDiv", lambda x, y: torch.floor(torch.true_divide(x, y)), _floored, "real")
truncate_div = _quotient("TruncateDiv", lambda x, y: torch.trunc(torch.true_divide(x, y)), _truncated, "real")


def _divide_gradient(op, grad):
    x, y = (conj(t) for t in op.inputs)
    return both(op, grad / y, grad * ((-x / y) / y))


@div_op.gradient
@real_div.gradient
def _div_gradient(op, grad):
    return _divide_gradient(op, grad)


floor_div_op.gradient(lambda op, grad: (None, None))
truncate_div.gradient(lambda op, grad: (None, None))

div_no_nan_op = binary("DivNoNan", None, "floating")


@div_no_nan_op.kernel
def _div_no_nan_kernel(x, y):
    return torch.true_divide(x, y).masked_fill_(y == 0, 0)


@rules.pointwise.formula(div_no_nan_op)
def _div_no_nan_terms(terms: Any, op: Any, x: int, y: int) -> int:
    return terms.step_of("SELECT", terms.step_of("EQUAL", y, terms.number(0.0)), terms.number(0.0), terms.step_of("DIV", x, y))


@div_no_nan_op.gradient
def _div_no_nan_gradient(op, grad):
    x, y = (conj(t) for t in op.inputs)
    return both(op, div_no_nan_op(grad, y), grad * div_no_nan_op(div_no_nan_op(-x, y), y))


mul_no_nan = binary("MulNoNan", None, "floating")


@mul_no_nan.kernel
def _mul_no_nan_kernel(x, y):
    return torch.where(y == 0, torch.zeros((), dtype=y.dtype, device=y.device), x * y)


@rules.pointwise.formula(mul_no_nan)
def _mul_no_nan_terms(terms: Any, op: Any, x: int, y: int) -> int:
    return terms.step_of("SELECT", terms.step_of("EQUAL", y, terms.number(0.0)), terms.number(0.0), terms.step_of("MUL", x, y))


@mul_no_nan.gradient
def _mul_no_nan_gradient(op, grad):
    x, y = (conj(t) for t in op.inputs)
    return both(op, mul_no_nan(grad, y), mul_no_nan(x, grad))


def _remainder(name: str, kernel: Callable) -> OpDef:
    made = binary(name, kernel, "real")
    made.kernel(_checked(kernel), types=INTEGERS)
    made.kernel(_checked(unsigned.remainder), types=unsigned.TYPES)
    return made


mod_op = _remainder("Mod", torch.fmod)
truncate_mod = _remainder("TruncateMod", torch.fmod)
floor_mod = _remainder("FloorMod", torch.remainder)
rules.numbers.text.update({floor_div_op: "{} // nonzero({})", floor_mod: "{} % nonzero({})"})
rules.regions.each.update({floor_div_op: "FLOOR_DIV", floor_mod: "FLOOR_MOD"})
rules.regions.each.update(dict.fromkeys([div_op, real_div, truncate_div], "TRUNCATE_DIV"))
rules.regions.each.update(dict.fromkeys([mod_op, truncate_mod], "TRUNCATE_MOD"))


@floor_mod.gradient
def _floor_mod_gradient(op, grad):
    x, y = op.inputs
    return both(op, grad, -grad * floor_div_op(x, y))


# -- public functions -------------------------------------------------------------------------------------------------
TRUEDIV = {dtypes.uint8: dtypes.float32, dtypes.int8: dtypes.float32, dtypes.uint16: dtypes.float32,
           dtypes.int16: dtypes.float32, dtypes.int32: dtypes.float64, dtypes.int64: dtypes.float64,
           dtypes.uint32: dtypes.float64, dtypes.uint64: dtypes.float64,
           dtypes.bfloat16: None, dtypes.float16: None, dtypes.float32: None, dtypes.float64: None,
           dtypes.complex64: None, dtypes.complex128: None}


def pair(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Two operands as tensors of the same dtype; a Python value takes that of the other."""
    if not isinstance(x, Tensor) and isinstance(y, Tensor) and not hasattr(x, "dtype"):
        x = convert(x, y.dtype.base_dtype, "x")
    x = convert(x, name="x")
    y = convert(y, name="y", dtype=None if hasattr(y, "dtype") else x.dtype.base_dtype)
    if x.dtype.base_dtype != y.dtype.base_dtype:
        raise TypeError(f"x and y must have the same dtype, got {x.dtype.base_dtype!r} != {y.dtype.base_dtype!r}")
    return x, y


def true_divide(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y as in Python 3: integers produce floats."""
    with name_scope(name, "truediv", [x, y]) as scope:
        return real_div(*_fractional(x, y, "__truediv__"), name=scope)


def _fractional(x: Any, y: Any, operation: str) -> tuple[Tensor, Tensor]:
    """Operands of a division whose result has fractions: integers as floats."""
    x, y = pair(x, y)
    if x.dtype.base_dtype not in TRUEDIV:
        raise TypeError(f"Invalid dtype {x.dtype.base_dtype!r} in {operation}")
    wider = TRUEDIV[x.dtype.base_dtype]
    return (x, y) if wider is None else (get("Cast")(x, DstT=wider), get("Cast")(y, DstT=wider))


@export("math.truediv", "truediv")
@dispatched
def truediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y as in Python 3: integers produce floats.

    Args:
        x: Tensor of numbers.
        y: Tensor of the type of `x`; shapes broadcast.
        name: Name of the operation.

    Returns:
        A tensor of floats.

    >>> tf.truediv(3, 2).numpy()
    np.float64(1.5)
    """
    return true_divide(x, y, name)


@export("math.divide", "divide")
@dispatched
def divide(x: Any, y: Any, name: str | None = None) -> Any:
    """x / y as in Python.

    Args:
        x: Tensor of numbers.
        y: Tensor of the type of `x`; shapes broadcast.
        name: Name of the operation.

    Returns:
        A tensor; of floats, if `x` and `y` are integers.

    >>> tf.divide([7, 8], 2).numpy()
    array([3.5, 4. ])
    """
    if name is not None or not (hasattr(x, "__div__") or hasattr(y, "__rdiv__")):
        return true_divide(x, y, name)
    return x / y


@export(v1=["div"])
@dispatched
def div(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y as in Python 2: integers are rounded down.

    Args:
        x: Tensor of numbers.
        y: Tensor of the type of `x`; shapes broadcast.
        name: Name of the operation.

    Returns:
        A tensor of the type of `x`.

    >>> tf.div([7, 8], 2).numpy()
    array([3, 4], dtype=int32)
    """
    with name_scope(name, "div", [x, y]) as scope:
        x, y = pair(x, y)
        if x.dtype.is_floating or x.dtype.is_complex:
            return real_div(x, y, name=scope)
        return floor_div_op(x, y, name=scope)


@export("math.divide_no_nan", v1=["div_no_nan"])
@dispatched
def div_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y, and 0 where y is 0.

    Args:
        x: Tensor of numbers.
        y: Tensor of the same type; shapes broadcast.
        name: Name of the operation.

    Returns:
        x / y, and 0 where `y` is 0; of floats, if `x` and `y` are integers.

    >>> tf.math.divide_no_nan([1., 1.], [2., 0.]).numpy().tolist()
    [0.5, 0.0]
    """
    with name_scope(name, "div_no_nan", [x, y]) as scope:
        return div_no_nan_op(*_fractional(x, y, "tf.math.divide_no_nan"), name=scope)


@export("math.multiply_no_nan", v1=["math.multiply_no_nan"])
@dispatched
def multiply_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x * y, and 0 where y is 0, even if x is infinite or not a number.

    Args:
        x: Tensor of floating point numbers.
        y: Tensor of the same type; shapes broadcast.
        name: Name of the operation.

    Returns:
        x * y, and 0 where `y` is 0, even if `x` is infinite or NaN.

    >>> tf.math.multiply_no_nan([float("inf")], [0.]).numpy().tolist()
    [0.0]
    """
    with name_scope(name, "multiply_no_nan", [x, y]) as scope:
        x, y = pair(x, y)
        return mul_no_nan(x, y, name=scope)


@export("math.reciprocal_no_nan", v1=["math.reciprocal_no_nan"])
@dispatched
def reciprocal_no_nan(x: Any, name: str | None = None) -> Tensor:
    """1 / x, and 0 where x is 0.

    Args:
        x: Tensor of floating point numbers.
        name: Name of the operation.

    Returns:
        1 / x, and 0 where `x` is 0.

    >>> tf.math.reciprocal_no_nan([2., 0.]).numpy().tolist()
    [0.5, 0.0]
    """
    with name_scope(name, "reciprocal_no_nan", [x]) as scope:
        x = convert(x, name="x")
        return div_no_nan_op(convert(1, x.dtype.base_dtype, "one"), x, name=scope)


@export("math.floordiv", v1=["floordiv"])
@dispatched
def floordiv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y rounded down.

    Args:
        x: Tensor.
        y: Tensor of the same type, whose shape broadcasts with that of `x`.
        name: Name of the operation.

    Returns:
        A tensor of the type of `x`, of the broadcast shape.

    >>> tf.math.floordiv([7, -7], 2).numpy()
    array([ 3, -4], dtype=int32)
    """
    with name_scope(name, "floordiv", [x, y]) as scope:
        return floor_div_op(x, y, name=scope)


function(real_div, "realdiv", doc="x / y of real numbers.")
function(floor_div_op, v1=("floor_div",), doc="""x / y rounded down.

    >>> tf.floor_div([7, -7], 2).numpy()
    array([ 3, -4], dtype=int32)
    """)
function(truncate_div, "truncatediv", doc="""x / y rounded towards zero.

    >>> tf.truncatediv([7, -7], 2).numpy()
    array([ 3, -3], dtype=int32)
    """)
function(truncate_mod, "truncatemod", doc="The remainder of division rounded towards zero: it has the sign of x.")
function(floor_mod, "math.mod", "math.floormod", v1=("mod", "floormod"),
         doc="""The remainder of division rounded down: it has the sign of y.

    >>> tf.math.floormod([7, -7], 3).numpy()
    array([1, 2], dtype=int32)
    """)
