"""Functions of one operand, element by element: roots, exponentials, trigonometry, rounding, tests for nan.

The `*Grad` ops at the end are the derivatives of functions whose derivative is computed from the result. Functions that need
more than an ATen call (gamma, beta, zeta ...) are in `special`.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from penstock._src.base import static_shape as shapes
from penstock._src.base.api import called, export, with_sections
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import unsigned
from penstock._src.kernels.pointwise import by_instruction
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.math.math import conj
from penstock._src.ops.registry import OpDef, get, op


def unary(name: str, kernel: Callable, types: str, names: str = "", v1: str = "", doc: str = "",
          out: str = "T") -> OpDef:
    """Declares an op of one operand, and its public function under `names` (both APIs) and `v1`."""
    made = op(name, f"x: T -> y: {out}", f"T: type in {{{types}}}")
    made.shape(lambda x: x)
    made.kernel(kernel)
    rules.algebra.elementwise.add(made)
    if names or v1:
        public = names.split()[0] if names else f"compat.v1.{v1.split()[0]}"
        export.value(_function(made, public, doc), *names.split(), v1=v1.split())
    return made


_ARGUMENTS = """\
Args:
    x: Tensor of numbers.
    name: Name of the operation.

Returns:
    A tensor of the shape of `x`."""


def _function(definition: OpDef, public: str, doc: str) -> Callable:
    def call(x: Any, name: str | None = None) -> Any:
        return definition(x, name=name)
    call.__doc__ = with_sections(doc, _ARGUMENTS)
    return dispatched(called(call, public))


def _one(x: Tensor) -> Tensor:
    return convert(1, x.dtype.base_dtype)


# -- sign, reciprocal, powers -----------------------------------------------------------------------------------------
abs_op = unary("Abs", torch.abs, "half bfloat16 float32 float64 int8 int16 int32 int64")
neg = unary("Neg", torch.neg, "floating int8 int16 int32 int64", "math.negative negative", doc="""-x.

    >>> tf.negative([1., -2.]).numpy()
    array([-1.,  2.], dtype=float32)
    """)
rules.arithmetic.involution.add(neg)
sign = unary("Sign", torch.sgn, "floating int8 int16 int32 int64", "math.sign sign",
             doc="""-1, 0 or 1 by the sign of x; x / |x| for complex x.

    >>> tf.sign([-2., 0., 3.]).numpy()
    array([-1.,  0.,  1.], dtype=float32)
    """)
inv = unary("Inv", torch.reciprocal, "floating")
reciprocal = unary("Reciprocal", torch.reciprocal, "floating", "math.reciprocal", "reciprocal", doc="1 / x.")
square = unary("Square", torch.square, "floating int8 int16 int32 int64 uint8 uint16 uint32 uint64",
               "math.square square", doc="""x squared.

    >>> tf.square([-2., 3.]).numpy()
    array([4., 9.], dtype=float32)
    """)
square.kernel(unsigned.wrapping(torch.square), types=unsigned.TYPES)
sqrt = unary("Sqrt", torch.sqrt, "floating", "math.sqrt sqrt", doc="""The square root of x.

    >>> tf.sqrt([4., 9.]).numpy()
    array([2., 3.], dtype=float32)
    """)
rules.small.text.update({abs_op: "abs({})", neg: "-{}"})
rsqrt = unary("Rsqrt", torch.rsqrt, "floating", "math.rsqrt", "rsqrt", doc="""1 over the square root of x.

    >>> tf.math.rsqrt([4., 16.]).numpy()
    array([0.5 , 0.25], dtype=float32)
    """)


@sign.kernel(types="half bfloat16 float32 float64")
def _sign_kernel_typed(x):
    return torch.where(torch.isnan(x), x, torch.sgn(x))


for _op, _over in ((abs_op, torch.abs_), (neg, torch.neg_), (square, torch.square_), (sqrt, torch.sqrt_),
                   (rsqrt, torch.rsqrt_), (reciprocal, torch.reciprocal_)):
    rules.program.overwrites(_op, 0, _over)

abs_op.gradient(lambda op, grad: grad * sign(op.inputs[0]))
neg.gradient(lambda op, grad: -grad)


@sign.gradient
def _sign_gradient(op, grad):
    """Zero; for complex numbers x / |x|, the part of the gradient across its direction, over |x|."""
    x, y = op.inputs[0], op.outputs[0]
    if not x.dtype.is_complex:
        return get("ZerosLike")(x)
    real = x.dtype.real_dtype
    along = get("Real")(grad * get("Conj")(y), Tout=real)
    size = get("ComplexAbs")(x, Tout=real)
    return get("DivNoNan")(grad - get("Cast")(along, DstT=x.dtype) * y, get("Cast")(size, DstT=x.dtype))

inv.gradient(lambda op, grad: reciprocal_grad(op.outputs[0], grad))
reciprocal.gradient(lambda op, grad: reciprocal_grad(op.outputs[0], grad))
square.gradient(lambda op, grad: grad * (convert(2, grad.dtype.base_dtype) * conj(op.inputs[0])))
sqrt.gradient(lambda op, grad: sqrt_grad(op.outputs[0], grad))
rsqrt.gradient(lambda op, grad: rsqrt_grad(op.outputs[0], grad))


@export("math.abs", "abs")
@dispatched
def abs(x: Any, name: str | None = None) -> Tensor:
    """The absolute value; for complex numbers, a real tensor of their magnitudes.

    Args:
        x: Tensor of numbers, or a SparseTensor.
        name: Name of the operation.

    Returns:
        A tensor of the shape of `x`.

    >>> tf.abs([-1., 2.]).numpy()
    array([1., 2.], dtype=float32)
    """
    with name_scope(name, "Abs", [x]) as scope:
        x = convert(x, name="x")
        if x.dtype.is_complex:
            return get("ComplexAbs")(x, Tout=x.dtype.real_dtype, name=scope)
        return abs_op(x, name=scope)


# -- exponentials -----------------------------------------------------------------------------------------------------
exp = unary("Exp", by_instruction("EXP", torch.exp), "floating", "math.exp exp", doc="""e to the power x.

    >>> tf.exp([0., 1.]).numpy()
    array([1.       , 2.7182817], dtype=float32)
    """)
expm1 = unary("Expm1", torch.expm1, "floating", "math.expm1", "expm1", doc="exp(x) - 1, exact for small x.")
log = unary("Log", by_instruction("LOG", torch.log), "floating", "math.log", "log", doc="""The natural logarithm of x.

    >>> tf.math.log([1., 2.]).numpy()
    array([0.       , 0.6931472], dtype=float32)
    """)
log1p = unary("Log1p", by_instruction("LOG1P", torch.log1p), "floating", "math.log1p", "log1p",
              doc="log(1 + x), exact for small x.")
sigmoid = unary("Sigmoid", torch.sigmoid, "floating", "math.sigmoid nn.sigmoid sigmoid", doc="""1 / (1 + exp(-x)).

    >>> tf.nn.sigmoid([0., 2.]).numpy()
    array([0.5     , 0.880797], dtype=float32)
    """)
tanh = unary("Tanh", by_instruction("TANH", torch.tanh), "floating", "math.tanh nn.tanh tanh",
             doc="""The hyperbolic tangent of x.

    >>> tf.nn.tanh([0., 1.]).numpy()
    array([0.       , 0.7615942], dtype=float32)
    """)
rules.regions.each.update({neg: "NEG", abs_op: "ABS", square: "SQUARE", sign: "SIGN"})
rules.pointwise.instruction.update({neg: "NEG", square: "SQUARE", sigmoid: "SIGMOID", tanh: "TANH"})
rules.pointwise.instruction.update({exp: "EXP", log: "LOG", log1p: "LOG1P", abs_op: "ABS"})
rules.pointwise.instruction.update({sqrt: "SQRT", rsqrt: "RSQRT", inv: "RECIPROCAL", reciprocal: "RECIPROCAL"})

for _op, _over in ((exp, by_instruction("EXP", torch.exp_, in_place=True)), (expm1, torch.expm1_),
                   (log, by_instruction("LOG", torch.log_, in_place=True)),
                   (log1p, by_instruction("LOG1P", torch.log1p_, in_place=True)), (sigmoid, torch.sigmoid_),
                   (tanh, by_instruction("TANH", torch.tanh_, in_place=True))):
    rules.program.overwrites(_op, 0, _over)

exp.gradient(lambda op, grad: grad * conj(op.outputs[0]))
expm1.gradient(lambda op, grad: grad * exp(conj(op.inputs[0])))
log.gradient(lambda op, grad: grad * reciprocal(conj(op.inputs[0])))
log1p.gradient(lambda op, grad: grad * reciprocal(_one(grad) + conj(op.inputs[0])))
sigmoid.gradient(lambda op, grad: sigmoid_grad(conj(op.outputs[0]), grad))
tanh.gradient(lambda op, grad: tanh_grad(conj(op.outputs[0]), grad))


@export("math.log_sigmoid", v1=["log_sigmoid"])
@dispatched
def log_sigmoid(x: Any, name: str | None = None) -> Tensor:
    """The logarithm of sigmoid(x), without overflow.

    Args:
        x: Tensor of floating point numbers.
        name: Name of the operation.

    Returns:
        log(1 / (1 + exp(-x))), also where that is close to 0.

    >>> round(float(tf.math.log_sigmoid(0.)), 3)
    -0.693
    """
    with name_scope(name, "LogSigmoid", [x]) as scope:
        return neg(get("Softplus")(-convert(x, name="x")), name=scope)


# -- trigonometry -----------------------------------------------------------------------------------------------------
def _trigonometric(name: str, kernel: Callable, doc: str) -> OpDef:
    return unary(name, kernel, "floating", f"math.{name.lower()} {name.lower()}", doc=doc)


sin = _trigonometric("Sin", torch.sin, """The sine of x, in radians.

    >>> tf.sin([0., 1.]).numpy()
    array([0.        , 0.84147096], dtype=float32)
    """)
cos = _trigonometric("Cos", torch.cos, """The cosine of x, in radians.

    >>> tf.cos([0., 1.]).numpy()
    array([1.        , 0.54030234], dtype=float32)
    """)
tan = _trigonometric("Tan", torch.tan, """The tangent of x, in radians.

    >>> tf.tan([0., 1.]).numpy()
    array([0.       , 1.5574077], dtype=float32)
    """)
asin = _trigonometric("Asin", torch.asin, "The inverse sine, in [-pi/2, pi/2].")
acos = _trigonometric("Acos", torch.acos, """The inverse cosine, in [0, pi].

    >>> tf.acos([1., 0.]).numpy()
    array([0.       , 1.5707964], dtype=float32)
    """)
atan = _trigonometric("Atan", torch.atan, "The inverse tangent, in [-pi/2, pi/2].")
sinh = _trigonometric("Sinh", torch.sinh, "The hyperbolic sine of x.")
cosh = _trigonometric("Cosh", torch.cosh, "The hyperbolic cosine of x.")
asinh = _trigonometric("Asinh", torch.asinh, "The inverse hyperbolic sine of x.")
acosh = _trigonometric("Acosh", torch.acosh, "The inverse hyperbolic cosine of x.")
atanh = _trigonometric("Atanh", torch.atanh, "The inverse hyperbolic tangent of x.")

sin.gradient(lambda op, grad: grad * cos(conj(op.inputs[0])))
cos.gradient(lambda op, grad: -grad * sin(conj(op.inputs[0])))
tan.gradient(lambda op, grad: grad * square(reciprocal(cos(conj(op.inputs[0])))))
asin.gradient(lambda op, grad: grad * reciprocal(_one_minus_square_root(op.inputs[0])))
acos.gradient(lambda op, grad: -grad * reciprocal(_one_minus_square_root(op.inputs[0])))
sinh.gradient(lambda op, grad: grad * cosh(conj(op.inputs[0])))
cosh.gradient(lambda op, grad: grad * sinh(conj(op.inputs[0])))
asinh.gradient(lambda op, grad: grad / cosh(conj(op.outputs[0])))
acosh.gradient(lambda op, grad: grad / sinh(conj(op.outputs[0])))


def _one_minus_square_root(x: Tensor) -> Tensor:
    x = conj(x)
    return sqrt(_one(x) - square(x))


@atan.gradient
def _atan_gradient(op, grad):
    x = conj(op.inputs[0])
    return grad * reciprocal(_one(x) + square(x))


@atanh.gradient
def _atanh_gradient(op, grad):
    x = conj(op.inputs[0])
    return grad * reciprocal(_one(x) - square(x))


# -- the error function -----------------------------------------------------------------------------------------------
erf = unary("Erf", torch.erf, "float", "math.erf", "erf", doc="The error function of x.")
erfc = unary("Erfc", torch.erfc, "float", "math.erfc", "erfc", doc="1 - erf(x).")
erfinv = unary("Erfinv", torch.erfinv, "float", "math.erfinv", doc="The inverse of the error function.")
ndtri = unary("Ndtri", torch.special.ndtri, "float", "math.ndtri", doc="The quantile of the normal distribution.")


@ndtri.kernel(types="half bfloat16")
def _ndtri_kernel_half_bfloat16(x):
    return torch.special.ndtri(x.to(torch.float32)).to(x.dtype)


def _scaled_gaussian(grad: Tensor, factor: float, exponent: Tensor) -> Tensor:
    return grad * convert(factor, grad.dtype.base_dtype) * exp(exponent)


rules.pointwise.instruction.update({erf: "ERF", erfc: "ERFC"})
erf.gradient(lambda op, grad: _scaled_gaussian(grad, 2 / math.sqrt(math.pi), -square(op.inputs[0])))
erfc.gradient(lambda op, grad: _scaled_gaussian(grad, -2 / math.sqrt(math.pi), -square(op.inputs[0])))
erfinv.gradient(lambda op, grad: _scaled_gaussian(grad, math.sqrt(math.pi) / 2, square(op.outputs[0])))
ndtri.gradient(lambda op, grad: _scaled_gaussian(
    grad, math.sqrt(2 * math.pi), square(op.outputs[0]) * convert(0.5, grad.dtype.base_dtype)))


@export("math.erfcinv")
@dispatched
def erfcinv(x: Any, name: str | None = None) -> Tensor:
    """The inverse of erfc."""
    with name_scope(name, "erfcinv", [x]):
        x = convert(x, name="start")
        half = convert(0.5, x.dtype.base_dtype)
        return neg(ndtri(half * x) * convert(math.sqrt(0.5), x.dtype.base_dtype))


# -- rounding and tests -----------------------------------------------------------------------------------------------
floor = unary("Floor", torch.floor, "float", "math.floor floor", doc="""The largest integer not above x.

    >>> tf.floor([1.7, -1.2]).numpy()
    array([ 1., -2.], dtype=float32)
    """)
ceil = unary("Ceil", torch.ceil, "float", "math.ceil", "ceil", doc="""The smallest integer not below x.

    >>> tf.math.ceil([1.2, -1.7]).numpy()
    array([ 2., -1.], dtype=float32)
    """)
round_op = unary("Round", torch.round, "float integer", doc="The nearest integer; halves go to the even one.")
rint = unary("Rint", torch.round, "float", "math.rint", "rint", doc="""The nearest integer; halves go to the even one.

    >>> tf.math.rint([0.5, 1.5, 2.6]).numpy()
    array([0., 2., 3.], dtype=float32)
    """)
round_op.kernel(lambda x: x, types="int8 int16 int32 int64 uint8 uint16 uint32 uint64")
for _op in (floor, ceil, round_op, rint):
    _op.gradient(lambda op, grad: None)

is_nan = unary("IsNan", torch.isnan, "float", "math.is_nan", "is_nan debugging.is_nan",
               "Whether x is not a number.", "bool")
is_inf = unary("IsInf", torch.isinf, "float", "math.is_inf", "is_inf debugging.is_inf",
               "Whether x is infinite.", "bool")
is_finite = unary("IsFinite", torch.isfinite, "float", "math.is_finite", "is_finite debugging.is_finite",
                  """Whether x is a finite number.

    >>> tf.math.is_finite([1., float("inf"), float("nan")]).numpy()
    array([ True, False, False])
    """, "bool")
rules.pointwise.instruction.update({sin: "SINE", cos: "COSINE", expm1: "EXPM1", floor: "ROUND_DOWN", ceil: "ROUND_UP",
                                    round_op: "ROUND_EVEN", rint: "ROUND_EVEN", sign: "SIGN"})
rules.regions.each.update({is_nan: "IS_NAN", is_inf: "IS_INF", is_finite: "IS_FINITE"})
for _op in (is_nan, is_inf, is_finite):
    _op.no_gradient()


@export("math.round", "round")
@dispatched
def round(x: Any, name: str | None = None) -> Tensor:
    """The nearest integer, halves to the even one; integers as they are.

    Args:
        x: Tensor of numbers.
        name: Name of the operation.

    Returns:
        A tensor of the type and shape of `x`.

    >>> tf.round([0.9, 2.5, -1.5]).numpy()
    array([ 1.,  2., -2.], dtype=float32)
    """
    x = convert(x, name="x")
    return x if x.dtype.is_integer else round_op(x, name=name)


# -- derivatives told from the result ---------------------------------------------------------------------------------
def _from_result(name: str, kernel: Callable) -> OpDef:
    made = op(name, "y: T, dy: T -> z: T", "T: type in {floating}")
    made.shape(shapes.merge)
    made.kernel(kernel)
    rules.algebra.elementwise.add(made)
    return made


def _unless_zero(dy: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """0 where the incoming gradient is 0, however steep the function is there."""
    return out.masked_fill(dy == 0, 0)


def _conj(y: torch.Tensor) -> torch.Tensor:
    return y.conj_physical() if y.is_complex() else y


_tanh_backward, _sigmoid_backward = torch.ops.aten.tanh_backward.default, torch.ops.aten.sigmoid_backward.default
tanh_grad: OpDef = _from_result("TanhGrad", lambda y, dy: _tanh_backward(dy, y) if _real_and_alike(y, dy) else dy * (1 - y * y))
sigmoid_grad: OpDef = _from_result("SigmoidGrad",
                            lambda y, dy: _sigmoid_backward(dy, y) if _real_and_alike(y, dy) else dy * y * (1 - y))
rules.loops.linear[tanh_grad] = rules.loops.linear[sigmoid_grad] = 1
rules.pointwise.instruction.update({tanh_grad: "TANH_GRAD", sigmoid_grad: "SIGMOID_GRAD"})
rules.program.prepare[tanh_grad] = lambda known: (lambda y, dy: _tanh_backward(dy, y)) if _alike(known) else None
rules.program.prepare[sigmoid_grad] = lambda known: (lambda y, dy: _sigmoid_backward(dy, y)) if _alike(known) else None


def _real_and_alike(y: torch.Tensor, dy: torch.Tensor) -> bool:
    return y.shape == dy.shape and y.is_floating_point()


def _alike(known: Any) -> bool:
    """Whether both inputs are real and of one shape."""
    return known.floating() and known.dims(0) is not None and known.dims(0) == known.dims(1)


rules.program.overwrites(tanh_grad, 1, lambda y, dy: torch.ops.aten.tanh_backward.grad_input(dy, y, grad_input=dy))
rules.program.overwrites(sigmoid_grad, 1, lambda y, dy: torch.ops.aten.sigmoid_backward.grad_input(dy, y, grad_input=dy))
inv_grad = _from_result("InvGrad", lambda y, dy: _unless_zero(dy, -dy * _conj(y).square()))
reciprocal_grad: OpDef = _from_result("ReciprocalGrad", lambda y, dy: _unless_zero(dy, -dy * _conj(y).square()))
sqrt_grad: OpDef = _from_result("SqrtGrad", lambda y, dy: _unless_zero(dy, dy * 0.5 / _conj(y)))
rsqrt_grad: OpDef = _from_result("RsqrtGrad", lambda y, dy: _unless_zero(dy, dy * -0.5 * _conj(y).pow(3)))


def _unless_zero_terms(terms: Any, dy: int, out: int) -> int:
    return terms.step_of("SELECT", dy, out, terms.number(0.0))


@rules.pointwise.formula(inv_grad, reciprocal_grad)
def _reciprocal_grad_terms(terms: Any, op: Any, y: int, dy: int) -> int:
    return _unless_zero_terms(terms, dy, terms.step_of("MUL", terms.step_of("NEG", dy), terms.step_of("SQUARE", y)))


@rules.pointwise.formula(sqrt_grad)
def _sqrt_grad_terms(terms: Any, op: Any, y: int, dy: int) -> int:
    return _unless_zero_terms(terms, dy, terms.step_of("DIV", terms.step_of("MUL", dy, terms.number(0.5)), y))


@rules.pointwise.formula(rsqrt_grad)
def _rsqrt_grad_terms(terms: Any, op: Any, y: int, dy: int) -> int:
    cube = terms.step_of("MUL", terms.step_of("SQUARE", y), y)
    return _unless_zero_terms(terms, dy, terms.step_of("MUL", terms.step_of("MUL", dy, terms.number(-0.5)), cube))


def _times(factor: float, x: Tensor) -> Tensor:
    return convert(factor, x.dtype.base_dtype) * x


@tanh_grad.gradient
def _tanh_grad_gradient(op, grad):
    y, dy = (conj(t) for t in op.inputs)
    return _times(-2.0, grad) * dy * y, tanh_grad(y, grad)


@sigmoid_grad.gradient
def _sigmoid_grad_gradient(op, grad):
    y, dy = (conj(t) for t in op.inputs)
    g = grad * dy
    return g - _times(2.0, g) * y, sigmoid_grad(y, grad)


@inv_grad.gradient
@reciprocal_grad.gradient
def _inv_grad_gradient(op, grad):
    y, dy = conj(op.inputs[0]), op.inputs[1]
    return _times(-2.0, conj(grad)) * dy * y, reciprocal_grad(y, grad)


@sqrt_grad.gradient
def _sqrt_grad_gradient(op, grad):
    g = grad / op.inputs[0]
    return -conj(g) * op.outputs[0], _times(0.5, g)


@rsqrt_grad.gradient
def _rsqrt_grad_gradient(op, grad):
    y, dy = conj(op.inputs[0]), op.inputs[1]
    return _times(-1.5, conj(grad)) * dy * square(y), rsqrt_grad(y, grad)
