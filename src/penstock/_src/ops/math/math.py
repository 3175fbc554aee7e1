"""Arithmetic of two operands with broadcasting, and the shared part of their gradients.

`unbroadcast` brings the gradient of a broadcast result back to the shape of an operand; every gradient of a
broadcasting op, here and in other families, ends with it. Functions of one operand are in `elementwise`,
division in `division`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export, with_sections
from penstock._src.graph.convert import convert
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import unsigned
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import Known, OpDef, get, op

# -- gradients of broadcasting ----------------------------------------------------------------------------------------
broadcast_gradient_args = op("BroadcastGradientArgs", "s0: T, s1: T -> r0: T, r1: T",
                             "T: type in {int32 int64} = int32").no_gradient()


@broadcast_gradient_args.shape
def _broadcast_gradient_args_shape(s0, s1, *, c):
    a, b = c.dims("s0"), c.dims("s1")
    if a is None or b is None or None in a or None in b:
        return [(None,), (None,)]
    rank = max(len(a), len(b))
    return [(sum(d == 1 for d in dims) + rank - len(dims),) for dims in (a, b)]


@broadcast_gradient_args.kernel
def _broadcast_gradient_args_kernel(s0, s1):
    a, b = s0.tolist(), s1.tolist()
    if a == b and 1 not in a:
        return torch.empty(0, dtype=s0.dtype), torch.empty(0, dtype=s0.dtype)
    rank = max(len(a), len(b))
    a, b = [1] * (rank - len(a)) + a, [1] * (rank - len(b)) + b
    for x, y in zip(a, b):
        if x != y and 1 not in (x, y):
            raise errors.invalid(f"Incompatible shapes: [{_join(s0)}] vs. [{_join(s1)}]")
    reduced = ([i for i in range(rank) if sizes[i] == 1] for sizes in (a, b))
    return tuple(torch.tensor(axes, dtype=s0.dtype) for axes in reduced)


def _join(shape: torch.Tensor) -> str:
    return ",".join(map(str, shape.tolist()))


def unbroadcast(grad: Any, x: Tensor, like: Tensor, trailing: int = 0) -> Any:
    """The gradient of a broadcast result, summed down to the shape of the operand `x`.

    `like` is the other operand (or anything whose shape together with that of `x` broadcasts to the result's).
    The last `trailing` axes take no part in broadcasting, as in a batch of matrices.
    """
    if isinstance(grad, IndexedSlices):
        grad = convert(grad)
    axes = _broadcast_axes(*(_leading(t.static_dims, trailing) for t in (x, like, grad)))
    if axes is None:
        shape, other = get("Shape")(x), get("Shape")(like)
        reduce, _ = broadcast_gradient_args(*(s[:-trailing] if trailing else s for s in (shape, other)))
        return get("Reshape")(get("Sum")(grad, reduce), shape)
    dropped, kept = axes
    if not dropped and not kept:
        return grad
    total = get("Sum")(grad, _axes(dropped + kept), keep_dims=not dropped)
    if dropped and kept:
        dims = x.static_dims
        total = get("Reshape")(total, convert(np.array(dims, np.int32)) if None not in dims else get("Shape")(x))
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
    rules.algebra.elementwise.add(made)
    if kernel is not None:
        made.kernel(kernel)
        if wide is not None:
            made.kernel(wide(kernel), types=unsigned.TYPES)
    return made


_ARGUMENTS = """\
Args:
    x: Tensor.
    y: Tensor of the type of `x`; shapes broadcast.
    name: Name of the operation.

Returns:
    A tensor of the broadcast shape.

Raises:
    ValueError: if the shapes do not broadcast."""


def function(definition: OpDef, *names: str, v1: tuple = (), v2: tuple = (), doc: str) -> Callable:
    """A public function of two operands over a binary op."""
    def call(*args: Any, **kwargs: Any) -> Any:
        return definition(*args, **kwargs)
    call.__name__ = call.__qualname__ = names[0].rsplit(".")[-1] if names else v1[0]
    call.__doc__ = with_sections(doc, _ARGUMENTS)
    call.__signature__ = definition.__signature__  # type: ignore[attr-defined]
    public = dispatched(call)
    export.value(public, *names, v1=v1, v2=v2)
    return public


# -- sums and products ------------------------------------------------------------------------------------------------
add_v1 = binary("Add", torch.add, "numeric string", wide=unsigned.wrapping)
# of scalars, add returns bytes
add_v1.kernel(lambda x, y: np.asarray(np.add(x, y, dtype=object), dtype=object), types="string")
add_v2 = binary("AddV2", torch.add, "numeric", commutative=True, wide=unsigned.wrapping)
sub = binary("Sub", torch.sub, "numeric", wide=unsigned.wrapping)
for _op in (add_v1, add_v2):
    rules.program.overwrites(_op, 0, torch.Tensor.add_)
    rules.program.overwrites(_op, 1, lambda x, y: y.add_(x))
rules.program.overwrites(sub, 0, torch.Tensor.sub_)
rules.program.overwrites(sub, 1, lambda x, y: torch.sub(x, y, out=y))
mul = binary("Mul", torch.mul, "numeric", commutative=True, wide=unsigned.wrapping)
rules.numbers.text[add_v1] = rules.numbers.text[add_v2] = "{} + {}"
rules.algebra.sums.update((add_v1, add_v2))
rules.numbers.text.update({sub: "{} - {}", mul: "{} * {}"})
rules.program.overwrites(mul, 0, torch.Tensor.mul_)
rules.program.overwrites(mul, 1, lambda x, y: y.mul_(x))
rules.algebra.multiplies.add(mul)
rules.small.text[add_v1] = rules.small.text[add_v2] = "{} + {}"
rules.small.text.update({sub: "{} - {}", mul: "{} * {}"})
rules.pointwise.instruction[add_v1] = rules.pointwise.instruction[add_v2] = "ADD"
rules.pointwise.instruction.update({sub: "SUB", mul: "MUL"})
rules.regions.each.update({add_v1: "ADD", add_v2: "ADD", sub: "SUB", mul: "MUL"})
rules.arithmetic.neutral.update({sub: {1: 0.0}, mul: {0: 1, 1: 1}})
squared_difference = binary("SquaredDifference", None, "floating int32 int64", commutative=True)
rules.pointwise.instruction[squared_difference] = rules.regions.each[squared_difference] = "SQUARED_DIFFERENCE"

add_v1.gradient(lambda op, grad: both(op, grad, grad))
add_v2.gradient(lambda op, grad: both(op, grad, grad))
sub.gradient(lambda op, grad: both(op, grad, -grad))


@mul.gradient
def _mul_gradient(op, grad):
    x, y = op.inputs
    return both(op, grad * conj(y), grad * conj(x))


@squared_difference.kernel
def _squared_difference_kernel(x, y):
    d = torch.sub(x, y)
    return d * d.conj() if d.is_complex() else torch.square(d)


@squared_difference.gradient
def _squared_difference_gradient(op, grad):
    x, y = op.inputs
    g = grad * (x - y) * 2
    return both(op, g, -g)


@export("math.add", "add")
@dispatched
def add(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x + y, elementwise with broadcasting; strings are concatenated.

    Args:
        x: Tensor of numbers or strings.
        y: Tensor of the type of `x`; shapes broadcast.
        name: Name of the operation.

    Returns:
        A tensor of the type of `x`.

    >>> tf.add([1, 2], 3).numpy()
    array([4, 5], dtype=int32)
    """
    if _is_text(x):
        return add_v1(x, convert(y, name="y", preferred_dtype=dtypes.string), name=name)
    return add_v2(x, y, name=name or "Add")


def _is_text(value: Any) -> bool:
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    dtype = getattr(value, "dtype", None)
    return isinstance(value, (str, bytes)) or dtype is not None and dtypes.as_dtype(dtype).base_dtype == dtypes.string


subtract = function(sub, "math.subtract", "subtract", doc="""x - y, elementwise with broadcasting.

    >>> tf.subtract([5, 6], [1, 2]).numpy()
    array([4, 4], dtype=int32)
    """)
multiply = function(mul, "math.multiply", "multiply", doc="""x * y, elementwise with broadcasting.

    >>> tf.multiply([1, 2], 3).numpy()
    array([3, 6], dtype=int32)
    """)
function(squared_difference, "math.squared_difference", v1=("squared_difference",), v2=("math.squared_difference",),
         doc="""(x - y) squared (conjugate square for complex types), elementwise.

    >>> tf.math.squared_difference([1., 2.], [4., 4.]).numpy()
    array([9., 4.], dtype=float32)
    """)


def _scale(scalar: Any, x: Any, name: str | None) -> Any:
    scalar = convert(scalar, dtypes.as_dtype(x.dtype).base_dtype, "scalar")
    if scalar.shape.rank != 0:
        raise ValueError(f"scalar_mul needs a scalar, got shape {scalar.shape}")
    if isinstance(x, IndexedSlices):
        return IndexedSlices(mul(scalar, x.values, name=name), x.indices, x.dense_shape)
    return mul(scalar, x, name=name)


@export(v1=["math.scalar_mul", "scalar_mul"])
@dispatched
def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Any:
    """A scalar times a tensor or IndexedSlices."""
    return _scale(scalar, x, name)


@export(v2=["math.scalar_mul", "scalar_mul"])
@dispatched
def scalar_mul_v2(scalar: Any, x: Any, name: str | None = None) -> Any:
    """A scalar times a tensor or IndexedSlices.

    Args:
        scalar: A scalar.
        x: Tensor or IndexedSlices.
        name: Name of the operation.

    Returns:
        The product, of the kind of `x`.

    Raises:
        ValueError: if `scalar` is not a scalar.

    >>> tf.scalar_mul(2, tf.constant([1, 2])).numpy().tolist()
    [2, 4]
    """
    with name_scope(name, "scalar_mul", [x]) as scope:
        return _scale(scalar, x, scope)


# -- powers, extrema, angles ------------------------------------------------------------------------------------------
pow_op = binary("Pow", torch.pow, "floating integer")
rules.regions.functions[pow_op] = "POWER"


@pow_op.kernel(types="int8 int16 int32 int64")
def _pow_kernel_typed(x, y):
    if bool(torch.any(y < 0)):
        raise errors.invalid("Integers to negative integer powers are not allowed")
    return torch.pow(x, y)


@pow_op.kernel(types=unsigned.TYPES)
def _pow_kernel_unsigned(x, y):
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


rules.arithmetic.neutral[pow_op] = {1: 1}


@rules.fusion.fuse(pow_op)
def _fuse_power(op, fusing):
    """Squares, cubes, fourth powers and reciprocals as ops that may become parts of larger kernels."""
    exponent = fusing.constant(op.inputs[1]) if op.inputs[0].dtype.base_dtype.is_floating else None
    kind = {"T": op.attrs["T"]}
    if exponent is None or exponent not in (2, 3, 4, -1):
        return None
    if exponent == -1:
        return fusing.make("Reciprocal", op.inputs[:1], kind, op)
    square = fusing.make("Square", op.inputs[:1], kind, op)
    if exponent == 2:
        return square
    found = fusing.add(square)
    return fusing.make("Square", found, kind, op) if exponent == 4 else fusing.make("Mul", [*found, op.inputs[0]], kind, op)


@rules.program.prepare(pow_op)
def _prepare_pow(known: Known) -> Callable | None:
    """A constant power, for which ATen multiplies: the general kernel is tens of times slower."""
    exponent = known.const(1)
    if exponent is None or exponent.ndim or exponent.dtype.kind != "f" or exponent.item() not in (2.0, 3.0):
        return None
    number = exponent.item()
    return lambda x, y: torch.pow(x, number)


@pow_op.gradient
def _pow_gradient(op, grad):
    x, y, z = conj(op.inputs[0]), conj(op.inputs[1]), conj(op.outputs[0])
    one = convert(1, x.dtype.base_dtype)
    # log(x) is taken only where x**y is differentiable in y; 0**y has derivative 0 there
    mask = get("NotEqual")(x, get("ZerosLike")(x)) if x.dtype.is_complex else get("Greater")(x, get("ZerosLike")(x))
    log = get("Select")(mask, get("Log")(get("Select")(mask, x, get("OnesLike")(x))), get("ZerosLike")(x))
    return both(op, grad * y * pow_op(x, y - one), grad * z * log)


maximum = binary("Maximum", torch.maximum, "real", commutative=True, wide=unsigned.ordered)
minimum = binary("Minimum", torch.minimum, "real", commutative=True, wide=unsigned.ordered)
rules.numbers.text.update({maximum: "max({}, {})", minimum: "min({}, {})"})
rules.pointwise.instruction.update({maximum: "MAXIMUM", minimum: "MINIMUM"})
rules.regions.each.update({maximum: "MAXIMUM", minimum: "MINIMUM"})


def _selected(op, grad, compare: str) -> tuple:
    x, y = op.inputs
    mask = get(compare)(x, y)
    zeros = get("ZerosLike")(grad)
    return both(op, get("Select")(mask, grad, zeros), get("Select")(mask, zeros, grad))


maximum.gradient(lambda op, grad: _selected(op, grad, "GreaterEqual"))
minimum.gradient(lambda op, grad: _selected(op, grad, "LessEqual"))

atan2 = binary("Atan2", torch.atan2, "float", "y: T, x: T -> z: T")


@atan2.gradient
def _atan2_gradient(op, grad):
    y, x = op.inputs
    scaled = grad / (get("Square")(x) + get("Square")(y))
    return both(op, x * scaled, -y * scaled)


def _where_nonzero(compute: Callable) -> Callable:
    """x * f(y), and 0 where x is 0, for any y."""
    return lambda x, y: torch.where(x == 0, torch.zeros((), dtype=x.dtype, device=x.device), compute(x, y))


xdivy = binary("Xdivy", _where_nonzero(torch.true_divide), "floating")
xlogy = binary("Xlogy", _where_nonzero(lambda x, y: x * torch.log(y)), "floating")
xlog1py = binary("Xlog1py", _where_nonzero(lambda x, y: x * torch.log1p(y)), "floating")


@rules.pointwise.formula(xdivy, xlogy, xlog1py)
def _where_nonzero_terms(terms: Any, op: Any, x: int, y: int) -> int:
    zero = terms.number(0.0)
    found = terms.step_of("DIV", x, y) if op.opdef is xdivy else terms.step_of(
        "MUL", x, terms.step_of("LOG" if op.opdef is xlogy else "LOG1P", y))
    return terms.step_of("SELECT", terms.step_of("EQUAL", x, zero), zero, found)


def _is_nonzero(x: Tensor) -> Tensor:
    return get("Cast")(get("NotEqual")(x, convert(0, x.dtype.base_dtype)), DstT=x.dtype.base_dtype)


@xdivy.gradient
def _xdivy_gradient(op, grad):
    x, y = op.inputs
    return both(op, grad * xdivy(_is_nonzero(x), y), grad * xdivy(-x, get("Square")(y)))


@xlogy.gradient
def _xlogy_gradient(op, grad):
    x, y = op.inputs
    return both(op, grad * xlogy(_is_nonzero(x), y), grad * xdivy(x, y))


@xlog1py.gradient
def _xlog1py_gradient(op, grad):
    x, y = op.inputs
    return both(op, grad * xlog1py(_is_nonzero(x), y), grad * xdivy(x, y + convert(1, y.dtype.base_dtype)))


next_after = op("NextAfter", "x1: T, x2: T -> output: T", "T: type in {float64 float32} = float32",
                export_as="math.nextafter")
rules.batching.elementwise.add(next_after)
next_after.shape(shapes.broadcast)
next_after.kernel(torch.nextafter)
next_after.gradient(lambda op, grad: both(op, grad, get("ZerosLike")(grad)))

function(pow_op, "math.pow", "pow", doc="""x to the power y, elementwise.

    >>> tf.pow([2, 3], [3, 2]).numpy()
    array([8, 9], dtype=int32)
    """)
function(maximum, "math.maximum", "maximum", doc="""The larger of x and y, elementwise.

    >>> tf.maximum([1, 5], [3, 2]).numpy()
    array([3, 5], dtype=int32)
    """)
function(minimum, "math.minimum", "minimum", doc="""The smaller of x and y, elementwise.

    >>> tf.minimum([1, 5], [3, 2]).numpy()
    array([1, 2], dtype=int32)
    """)
function(atan2, "math.atan2", "atan2", doc="The angle of the point (x, y), in (-pi, pi].")
function(xdivy, "math.xdivy", doc="x / y, and 0 where x is 0.")
function(xlogy, "math.xlogy", doc="x log(y), and 0 where x is 0.")
function(xlog1py, "math.xlog1py", doc="x log(1 + y), and 0 where x is 0.")
