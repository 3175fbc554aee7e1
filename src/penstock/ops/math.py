"""Arithmetic of two operands with broadcasting, sums of many tensors, and what their gradients share.

`unbroadcast` brings the gradient of a broadcast result back to the shape of an operand; every gradient of a
broadcasting op, here and in other families, ends with it. Functions of one operand are in `elementwise`.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock import dtypes, errors
from penstock import shape as shapes
from penstock.api import export
from penstock.graph import context
from penstock.graph.convert import convert
from penstock.graph.indexed_slices import IndexedSlices
from penstock.graph.node import Tensor
from penstock.graph.scopes import name_scope
from penstock.kernels import unsigned
from penstock.ops.composite import dispatched
from penstock.ops.registry import OpDef, get, op

INTEGERS = "int8 int16 int32 int64 uint8"


# -- gradients of broadcasting ----------------------------------------------------------------------------------------
broadcast_gradient_args = op("BroadcastGradientArgs", "s0: T, s1: T -> r0: T, r1: T",
                             "T: type in {int32 int64} = int32").no_gradient()
broadcast_gradient_args.shape(lambda s0, s1: [(None,), (None,)])


@broadcast_gradient_args.kernel
def _(s0, s1):
    a, b = s0.tolist(), s1.tolist()
    rank = max(len(a), len(b))
    a, b = [1] * (rank - len(a)) + a, [1] * (rank - len(b)) + b
    for x, y in zip(a, b):
        if x != y and 1 not in (x, y):
            raise errors.invalid(f"Incompatible shapes: [{_join(s0)}] vs. [{_join(s1)}]")
    both = [i for i in range(rank) if a[i] == b[i] == 1]
    r0 = sorted(both + [i for i in range(rank) if a[i] == 1 != b[i]])
    r1 = sorted(both + [i for i in range(rank) if b[i] == 1 != a[i]])
    return torch.tensor(r0, dtype=s0.dtype), torch.tensor(r1, dtype=s0.dtype)


def _join(shape: torch.Tensor) -> str:
    return ",".join(map(str, shape.tolist()))


def unbroadcast(grad: Any, x: Tensor, like: Tensor, trailing: int = 0) -> Any:
    """The gradient of a broadcast result, summed down to the shape of the operand `x`.

    `like` is the other operand (or anything whose shape together with that of `x` broadcasts to the result's).
    The last `trailing` axes take no part in broadcasting, as in a batch of matrices.
    """
    if isinstance(grad, IndexedSlices):
        grad = convert(grad)
    axes = _broadcast_axes(*(_leading(t._dims, trailing) for t in (x, like, grad)))
    if axes is None:
        shape, other = get("Shape")(x), get("Shape")(like)
        reduce, _ = broadcast_gradient_args(*(s[:-trailing] if trailing else s for s in (shape, other)))
        return get("Reshape")(get("Sum")(grad, reduce), shape)
    dropped, kept = axes
    if not dropped and not kept:
        return grad
    total = get("Sum")(grad, _axes(dropped + kept), keep_dims=not dropped)
    if dropped and kept:
        total = get("Reshape")(total, convert(np.array(x._dims, np.int32)) if None not in x._dims else get("Shape")(x))
    return total


def _leading(dims: tuple | None, trailing: int) -> tuple | None:
    return dims if dims is None or not trailing else dims[:-trailing]


def _axes(axes: list[int]) -> Tensor:
    return convert(np.array(axes, np.int32), name="axes")


def _broadcast_axes(x: tuple | None, other: tuple | None, grad: tuple | None) -> tuple[list, list] | None:
    """The axes of a gradient to sum over: those `x` does not have, and those where it has size 1; None if unknown."""
    if x is None or (other is None and grad is None):
        return None
    rank = len(grad) if grad is not None else max(len(x), len(other))  # type: ignore[arg-type]
    lead = rank - len(x)
    if lead < 0:
        return None
    kept = []
    for i, d in enumerate(x):
        full = grad[lead + i] if grad is not None else None
        behind = len(x) - i
        against = (None if other is None else other[len(other) - behind] if behind <= len(other) else 1)
        if d == 1:
            if full != 1 and against != 1:
                kept.append(lead + i)
        elif d is None and against != 1:
            return None
    return list(range(lead)), kept


def both(op: Any, gx: Any, gy: Any) -> tuple:
    """The gradients of a binary op, summed down to the shapes of its operands (None stays None)."""
    x, y = op.inputs[0], op.inputs[1]
    return (None if gx is None else unbroadcast(gx, x, y), None if gy is None else unbroadcast(gy, y, x))


def conj(x: Tensor) -> Tensor:
    """The conjugate of a complex tensor; real tensors are their own."""
    return get("Conj")(x) if x.dtype.is_complex else x


def binary(name: str, kernel: Callable | None, types: str, args: str = "x: T, y: T -> z: T", *,
           commutative: bool = False, wide: Callable | None = None) -> OpDef:
    """Declares a broadcasting binary op; `wide` adapts the kernel to the wide unsigned types."""
    made = op(name, args, f"T: type in {{{types}}}", commutative=commutative)
    made.shape(shapes.broadcast)
    if kernel is not None:
        made.kernel(kernel)
        if wide is not None:
            made.kernel(wide(kernel), types=unsigned.TYPES)
    return made


def function(definition: OpDef, *names: str, v1: tuple = (), v2: tuple = (), doc: str) -> Callable:
    """A public function of two operands over a binary op."""
    first, second = definition.input_names

    def call(*args: Any, **kwargs: Any) -> Any:
        return definition(*args, **kwargs)
    call.__name__ = call.__qualname__ = names[0].rsplit(".")[-1] if names else v1[0]
    call.__doc__ = doc
    call.__signature__ = definition.__signature__  # type: ignore[attr-defined]
    public = dispatched(call)
    export.value(public, *names, v1=v1, v2=v2)
    return public


# -- sums and products ------------------------------------------------------------------------------------------------
add_v1 = binary("Add", torch.add, "numeric string", wide=unsigned.wrapping)
add_v1.kernel(lambda x, y: np.add(x, y, dtype=object), types="string")
add_v2 = binary("AddV2", torch.add, "numeric", commutative=True, wide=unsigned.wrapping)
sub = binary("Sub", torch.sub, "numeric", wide=unsigned.wrapping)
mul = binary("Mul", torch.mul, "numeric", commutative=True, wide=unsigned.wrapping)
squared_difference = binary("SquaredDifference", None, "floating int32 int64", commutative=True)

add_v1.gradient(lambda op, grad: both(op, grad, grad))
add_v2.gradient(lambda op, grad: both(op, grad, grad))
sub.gradient(lambda op, grad: both(op, grad, -grad))


@mul.gradient
def _(op, grad):
    x, y = op.inputs
    return both(op, grad * conj(y), grad * conj(x))


@squared_difference.kernel
def _(x, y):
    d = torch.sub(x, y)
    return d * d.conj() if d.is_complex() else torch.square(d)


@squared_difference.gradient
def _(op, grad):
    x, y = op.inputs
    g = grad * (x - y) * 2
    return both(op, g, -g)


@export("math.add", "add")
@dispatched
def add(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x + y, elementwise with broadcasting; strings are concatenated.

    >>> tf.add([1, 2], 3)
    [4, 5]
    """
    if dtype_of(x, y) == dtypes.string:
        return add_v1(x, y, name=name)
    return add_v2(x, y, name=name or "Add")


def dtype_of(*values: Any) -> Any:
    """The dtype of the first value that has one, or of the first Python value."""
    for v in values:
        if hasattr(v, "dtype"):
            return dtypes.as_dtype(v.dtype).base_dtype
    flat = np.asarray(values[0]).dtype if not isinstance(values[0], (list, tuple)) or _plain(values[0]) else None
    return dtypes.string if flat is not None and flat.kind in "US" else None


def _plain(value: Any) -> bool:
    return all(isinstance(v, (str, bytes)) for v in value) and bool(value)


subtract = function(sub, "math.subtract", "subtract", doc="x - y, elementwise with broadcasting.")
multiply = function(mul, "math.multiply", "multiply", doc="x * y, elementwise with broadcasting.")
function(squared_difference, "math.squared_difference", v1=("squared_difference",), v2=("math.squared_difference",),
         doc="(x - y) squared (conjugate square for complex types), elementwise.")


def _scale(scalar: Any, x: Any, name: str | None) -> Any:
    scalar = convert(scalar, x.dtype.base_dtype, "scalar")
    if scalar.shape.rank not in (0, None):
        raise ValueError(f"Only scalar multiply works, got shape {scalar.shape}")
    if scalar.shape.rank is None:
        raise ValueError("Only scalar multiply works, got a scalar of unknown rank")
    if isinstance(x, IndexedSlices):
        return IndexedSlices(mul(scalar, x.values, name=name), x.indices, x.dense_shape)
    return mul(scalar, x, name=name)


@export(v1=["math.scalar_mul", "scalar_mul"])
def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Any:
    """A scalar times a tensor or IndexedSlices."""
    return _scale(scalar, x, name)


@export(v2=["math.scalar_mul", "scalar_mul"])
def scalar_mul_v2(scalar: Any, x: Any, name: str | None = None) -> Any:
    """A scalar times a tensor or IndexedSlices."""
    with name_scope(name, "scalar_mul", [x]) as scope:
        return _scale(scalar, x, scope)


# -- quotients --------------------------------------------------------------------------------------------------------
def _nonzero(y: torch.Tensor) -> None:
    if not bool(torch.all(y)):
        raise errors.invalid("Integer division by zero")


def _checked(kernel: Callable) -> Callable:
    """An integer kernel that refuses to divide by zero."""
    @functools.wraps(kernel)
    def run(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        _nonzero(y)
        return kernel(x, y)
    return run


def _truncated(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """x / y rounded towards zero. The lowest integer by -1 traps in ATen's truncating division, not in its flooring."""
    if bool(torch.any(y == -1)):
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
floor_div_op = _quotient("FloorDiv", lambda x, y: torch.floor(torch.true_divide(x, y)), _floored, "real")
truncate_div = _quotient("TruncateDiv", lambda x, y: torch.trunc(torch.true_divide(x, y)), _truncated, "real")


def _divide_gradient(op, grad):
    x, y = (conj(t) for t in op.inputs)
    return both(op, grad / y, grad * ((-x / y) / y))


@div_op.gradient
@real_div.gradient
def _(op, grad):
    return _divide_gradient(op, grad)


floor_div_op.gradient(lambda op, grad: (None, None))
truncate_div.gradient(lambda op, grad: (None, None))

div_no_nan_op = binary("DivNoNan", None, "floating")


@div_no_nan_op.kernel
def _(x, y):
    zero = y == 0
    return torch.true_divide(x, y.masked_fill(zero, 1)).masked_fill(zero, 0)


@div_no_nan_op.gradient
def _(op, grad):
    x, y = (conj(t) for t in op.inputs)
    return both(op, div_no_nan_op(grad, y), grad * div_no_nan_op(div_no_nan_op(-x, y), y))


mul_no_nan = binary("MulNoNan", None, "floating")


@mul_no_nan.kernel
def _(x, y):
    return torch.where(y == 0, torch.zeros((), dtype=y.dtype, device=y.device), x * y)


@mul_no_nan.gradient
def _(op, grad):
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


@floor_mod.gradient
def _(op, grad):
    x, y = op.inputs
    return both(op, grad, -grad * floor_div_op(x, y))


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
    """x / y as Python 3 divides: integers give floats."""
    with name_scope(name, "truediv", [x, y]) as scope:
        x, y = pair(x, y)
        if x.dtype.base_dtype not in TRUEDIV:
            raise TypeError(f"Invalid dtype {x.dtype.base_dtype!r} in __truediv__")
        wider = TRUEDIV[x.dtype.base_dtype]
        if wider is not None:
            x, y = get("Cast")(x, DstT=wider), get("Cast")(y, DstT=wider)
        return real_div(x, y, name=scope)


@export("math.truediv", "truediv")
@dispatched
def truediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y as Python 3 divides: integers give floats.

    >>> tf.truediv(3, 2)
    1.5
    """
    return true_divide(x, y, name)


@export("math.divide", "divide")
@dispatched
def divide(x: Any, y: Any, name: str | None = None) -> Any:
    """x / y as Python divides them."""
    if name is not None:
        return true_divide(x, y, name)
    return x / y


@export("div", v1=["div"])
@dispatched
def div(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y as Python 2 divided them: integers are rounded down."""
    with name_scope(name, "div", [x, y]) as scope:
        x, y = pair(x, y)
        if x.dtype.is_floating or x.dtype.is_complex:
            return real_div(x, y, name=scope)
        return floor_div_op(x, y, name=scope)


@export("math.divide_no_nan", v1=["div_no_nan"])
@dispatched
def div_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y, and 0 where y is 0."""
    with name_scope(name, "div_no_nan", [x, y]) as scope:
        x, y = pair(x, y)
        return div_no_nan_op(x, y, name=scope)


@export("math.multiply_no_nan", v1=["math.multiply_no_nan"])
@dispatched
def multiply_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x * y, and 0 where y is 0, even if x is infinite or not a number."""
    with name_scope(name, "multiply_no_nan", [x, y]) as scope:
        x, y = pair(x, y)
        return mul_no_nan(x, y, name=scope)


@export("math.reciprocal_no_nan", v1=["math.reciprocal_no_nan"])
@dispatched
def reciprocal_no_nan(x: Any, name: str | None = None) -> Tensor:
    """1 / x, and 0 where x is 0."""
    with name_scope(name, "reciprocal_no_nan", [x]) as scope:
        x = convert(x, name="x")
        return div_no_nan_op(convert(1, x.dtype.base_dtype, "one"), x, name=scope)


@export("math.floordiv", v1=["floordiv"], v2=["floordiv"])
@dispatched
def floordiv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y rounded down."""
    with name_scope(name, "floordiv", [x, y]) as scope:
        return floor_div_op(x, y, name=scope)


function(real_div, "realdiv", doc="x / y of real numbers.")
function(floor_div_op, "floor_div", doc="x / y rounded down.")
function(truncate_div, "truncatediv", doc="x / y rounded towards zero.")
function(truncate_mod, "truncatemod", doc="The remainder of division rounded towards zero: it has the sign of x.")
function(floor_mod, "math.mod", "mod", "math.floormod", "floormod",
         doc="The remainder of division rounded down: it has the sign of y.")


# -- powers, extrema, angles ------------------------------------------------------------------------------------------
pow_op = binary("Pow", torch.pow, "floating integer")


@pow_op.kernel(types="int8 int16 int32 int64")
def _(x, y):
    if bool(torch.any(y < 0)):
        raise errors.invalid("Integers to negative integer powers are not allowed")
    return torch.pow(x, y)


@pow_op.kernel(types=unsigned.TYPES)
def _(x, y):
    if x.dtype is torch.uint64:
        return _power_by_squaring(x, y)
    return torch.pow(x.to(torch.int64), y.to(torch.int64)).to(x.dtype)


def _power_by_squaring(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    base, exponent = torch.broadcast_tensors(unsigned.signed(x), unsigned.signed(y))
    out = torch.ones_like(base)
    for bit in range(64):
        out = torch.where((exponent >> bit) & 1 == 1, out * base, out)
        base = base * base
    return unsigned.unsigned(out)


@pow_op.gradient
def _(op, grad):
    x, y, z = conj(op.inputs[0]), conj(op.inputs[1]), conj(op.outputs[0])
    one = convert(1, x.dtype.base_dtype)
    # log(x) is taken only where x**y is differentiable in y; 0**y has derivative 0 there
    mask = get("NotEqual")(x, get("ZerosLike")(x)) if x.dtype.is_complex else get("Greater")(x, get("ZerosLike")(x))
    log = get("Select")(mask, get("Log")(get("Select")(mask, x, get("OnesLike")(x))), get("ZerosLike")(x))
    return both(op, grad * y * pow_op(x, y - one), grad * z * log)


maximum = binary("Maximum", torch.maximum, "real", commutative=True, wide=unsigned.ordered)
minimum = binary("Minimum", torch.minimum, "real", commutative=True, wide=unsigned.ordered)


def _selected(op, grad, compare: str) -> tuple:
    x, y = op.inputs
    mask = get(compare)(x, y)
    zeros = get("ZerosLike")(grad)
    return both(op, get("Select")(mask, grad, zeros), get("Select")(mask, zeros, grad))


maximum.gradient(lambda op, grad: _selected(op, grad, "GreaterEqual"))
minimum.gradient(lambda op, grad: _selected(op, grad, "LessEqual"))

atan2 = binary("Atan2", torch.atan2, "float", "y: T, x: T -> z: T")


@atan2.gradient
def _(op, grad):
    y, x = op.inputs
    scaled = grad / (get("Square")(x) + get("Square")(y))
    return both(op, x * scaled, -y * scaled)


def _where_nonzero(compute: Callable) -> Callable:
    """x * f(y), and 0 where x is 0, whatever y is."""
    return lambda x, y: torch.where(x == 0, torch.zeros((), dtype=x.dtype, device=x.device), compute(x, y))


xdivy = binary("Xdivy", _where_nonzero(torch.true_divide), "floating")
xlogy = binary("Xlogy", _where_nonzero(lambda x, y: x * torch.log(y)), "floating")
xlog1py = binary("Xlog1py", _where_nonzero(lambda x, y: x * torch.log1p(y)), "floating")


def _is_nonzero(x: Tensor) -> Tensor:
    return get("Cast")(get("NotEqual")(x, convert(0, x.dtype.base_dtype)), DstT=x.dtype.base_dtype)


@xdivy.gradient
def _(op, grad):
    x, y = op.inputs
    return both(op, grad * xdivy(_is_nonzero(x), y), grad * xdivy(-x, get("Square")(y)))


@xlogy.gradient
def _(op, grad):
    x, y = op.inputs
    return both(op, grad * xlogy(_is_nonzero(x), y), grad * xdivy(x, y))


@xlog1py.gradient
def _(op, grad):
    x, y = op.inputs
    return both(op, grad * xlog1py(_is_nonzero(x), y), grad * xdivy(x, y + convert(1, y.dtype.base_dtype)))


next_after = op("NextAfter", "x1: T, x2: T -> output: T", "T: type in {float64 float32} = float32",
                export_as="math.nextafter")
next_after.shape(shapes.broadcast)
next_after.kernel(torch.nextafter)
next_after.gradient(lambda op, grad: both(op, grad, get("ZerosLike")(grad)))

function(pow_op, "math.pow", "pow", doc="x to the power y, elementwise.")
function(maximum, "math.maximum", "maximum", doc="The larger of x and y, elementwise.")
function(minimum, "math.minimum", "minimum", doc="The smaller of x and y, elementwise.")
function(atan2, "math.atan2", "atan2", doc="The angle of the point (x, y), in (-pi, pi].")
function(xdivy, "math.xdivy", doc="x / y, and 0 where x is 0.")
function(xlogy, "math.xlogy", doc="x log(y), and 0 where x is 0.")
function(xlog1py, "math.xlog1py", doc="x log(1 + y), and 0 where x is 0.")


# -- sums of many tensors ---------------------------------------------------------------------------------------------
add_n_op = op("AddN", "inputs: N * T -> sum: T", "N: int >= 1, T: type in {numeric quantized variant}",
              commutative=True)
accumulate_nv2 = op("AccumulateNV2", "inputs: N * T -> sum: T",
                    "N: int >= 1, T: type in {numeric quantized}, shape: shape", commutative=True)


@add_n_op.shape
def _(inputs):
    return functools.reduce(shapes.merge, inputs)


@accumulate_nv2.shape
def _(inputs, *, shape):
    return functools.reduce(shapes.merge, inputs, shape._dims)


def _sum_tensors(inputs: list) -> torch.Tensor:
    first = inputs[0]
    for t in inputs[1:]:
        if t.shape != first.shape:
            raise errors.invalid(f"Inputs to operation must have the same size and shape. Input 0: "
                                 f"{list(first.shape)} != input: {list(t.shape)}")
    if len(inputs) == 1:
        return first
    total = torch.add(first, inputs[1])
    for t in inputs[2:]:
        total.add_(t)
    return total


add_n_op.kernel(_sum_tensors)
add_n_op.kernel(unsigned.wrapping(_sum_tensors), types=unsigned.TYPES)
accumulate_nv2.kernel(_sum_tensors)
accumulate_nv2.kernel(unsigned.wrapping(_sum_tensors), types=unsigned.TYPES)


@add_n_op.kernel(types="variant")
def _(inputs):
    return functools.reduce(_add_variants, inputs)


def _add_variants(a: Any, b: Any) -> Any:
    """Variants add as they know how to: lists of tensors element by element, numbers in messages as numbers."""
    if isinstance(a, np.ndarray):
        out = np.empty(a.shape, object)
        out[...] = np.frompyfunc(_add_variants, 2, 1)(a, b)
        return out
    if hasattr(a, "add"):
        return a.add(b)
    kind = {"int": np.int32, "float": np.float32, "double": np.float64}.get(getattr(a, "type_name", None))
    if kind is None or a.type_name != b.type_name:
        raise errors.invalid("No binary variant ADD function for these variants")
    total = np.frombuffer(a.metadata, kind) + np.frombuffer(b.metadata, kind)
    return type(a)(type_name=a.type_name, metadata=total.tobytes())


add_n_op.gradient(lambda op, grad: [grad] * len(op.inputs))
accumulate_nv2.gradient(lambda op, grad: [grad] * len(op.inputs))


@export("math.add_n", "add_n")
@dispatched
def add_n(inputs: Any, name: str | None = None) -> Tensor:
    """The sum of tensors (or IndexedSlices) of the same shape.

    >>> tf.add_n([a, b, c])
    """
    if not inputs or not isinstance(inputs, (list, tuple)):
        raise ValueError(_ADDENDS)
    inputs = [x if isinstance(x, (Tensor, IndexedSlices)) else _addend(x, inputs) for x in inputs]
    if len(inputs) == 1:
        value = convert(inputs[0]) if isinstance(inputs[0], IndexedSlices) else inputs[0]
        return get("Identity")(value, name=name) if name else value
    return add_n_op([convert(x) if isinstance(x, IndexedSlices) else x for x in inputs], name=name)


_ADDENDS = "inputs must be an iterable of at least one Tensor/IndexedSlices with the same dtype and shape"


def _addend(x: Any, inputs: Any) -> Tensor:
    wanted = next((t.dtype.base_dtype for t in inputs if isinstance(t, (Tensor, IndexedSlices))), None)
    try:
        return convert(x, wanted)
    except (TypeError, ValueError):
        raise ValueError(_ADDENDS) from None


@export("math.accumulate_n", v1=["accumulate_n"])
def accumulate_n(inputs: Any, shape: Any = None, tensor_dtype: Any = None, name: str | None = None) -> Tensor:
    """The sum of tensors of the same shape, which may become available one by one."""
    error = ValueError("inputs must be a list of at least one Tensor with the same dtype and shape")
    if not inputs or not isinstance(inputs, (list, tuple)):
        raise error
    try:
        inputs = [convert(x) for x in inputs]
    except (TypeError, ValueError):
        raise error from None
    if any(x.dtype != inputs[0].dtype for x in inputs):
        raise error
    dims = shapes.as_dims(shape)
    for x in inputs:
        dims = shapes.merge(dims, x._dims)
    if tensor_dtype is not None and dtypes.as_dtype(tensor_dtype) != inputs[0].dtype.base_dtype:
        raise TypeError(f"tensor_dtype is {dtypes.as_dtype(tensor_dtype).name}, but input is of type "
                        f"{inputs[0].dtype.name}")
    if len(inputs) == 1:
        return inputs[0] if name is None else get("Identity")(inputs[0], name=name)
    if context.executing_eagerly():
        return add_n(inputs, name=name)
    return accumulate_nv2(inputs, shape=dims, name=name)
