"""Activation functions: rectifiers and their smooth relatives.

Each activation has a `…Grad` op, as in TensorFlow, whose kernel is ATen's fused backward if the results agree where the
function is not differentiable. These ops have gradients too (second derivatives).
"""
from __future__ import annotations

import math
from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export, with_sections
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import unsigned
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.nn import normalization, pool
from penstock._src.ops.registry import OpDef, get, op

aten = torch.ops.aten

_REAL = "T: type in {float32 float64 int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64}"
_FLOAT = "T: type in {half bfloat16 float32 float64}"

_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_SCALE_ALPHA = 1.7580993408473768599402175208123


_ARGUMENTS = """\
Args:
    features: Tensor.
    name: Name of the operation.

Returns:
    A tensor of the type and shape of `features`."""


def _activation(name: str, attrs: str, doc: str = "", **flags: Any) -> OpDef:
    made = op(name, "features: T -> activations: T", attrs, doc=with_sections(doc, _ARGUMENTS), **flags)
    rules.batching.elementwise.add(made)
    made.shape(lambda features: features)
    rules.memory.cheap.add(made)
    return made


def _activation_grad(name: str, attrs: str, second: str = "features") -> OpDef:
    made = op(name, f"gradients: T, {second}: T -> backprops: T", attrs)
    rules.batching.elementwise.add(made)
    made.shape(shapes.merge)
    return made


def check_same_shape(a: torch.Tensor, b: torch.Tensor) -> None:
    """Refuses a gradient whose shape differs from that of its value."""
    if a.shape != b.shape:
        raise errors.invalid(f"Inputs must have the same shape, but have {tuple(a.shape)} and {tuple(b.shape)}")


# -- Relu ------------------------------------------------------------------------------------------------------------
relu = _activation("Relu", _REAL.replace("uint64}", "uint64 qint8}"), """The rectifier max(features, 0).

    >>> tf.nn.relu([-1., 2.]).numpy()
    array([0., 2.], dtype=float32)
    """, export_as="nn.relu")
relu_grad = _activation_grad("ReluGrad", _REAL)
rules.pointwise.instruction.update({relu: "RELU", relu_grad: "RELU_GRAD"})


relu.kernel(torch.relu)
relu.kernel(lambda features: features, types=unsigned.TYPES)


@relu_grad.kernel
def _relu_grad_kernel(gradients, features):
    check_same_shape(gradients, features)
    return aten.threshold_backward(gradients, features, 0)


@relu_grad.kernel(types=unsigned.TYPES)
def _relu_grad_kernel_unsigned(gradients, features):
    check_same_shape(gradients, features)
    return unsigned.unsigned(torch.where(unsigned.signed(features) != 0, unsigned.signed(gradients), 0))


@rules.program.prepare(relu_grad)
def _relu_grad_prepare(known):
    if known.dims(0) is None or known.dims(0) != known.dims(1) or not known.floating():
        return None
    threshold_backward = aten.threshold_backward.default
    return lambda gradients, features: threshold_backward(gradients, features, 0)


rules.program.overwrites(relu, 0, torch.relu_)
rules.program.overwrites(relu_grad, 0, lambda gradients, features: aten.threshold_backward.grad_input(gradients, features, 0,
                                                                                       grad_input=gradients))


@rules.fusion.fuse(relu)
def _relu_fuse(op, f):
    """The last part of a fused product, convolution or normalization."""
    made = f.only(op.inputs[0], op)
    if made is None or made.attrs.get("fused_ops") != ["BiasAdd"]:
        return normalization.fuse_relu(op, f)
    return f.make(made.type, made.inputs, {**made.attrs, "fused_ops": ["BiasAdd", "Relu"]}, op, made.counts)


@rules.fusion.fuse(relu_grad)
def _relu_grad_fuse(op, f):
    return pool.fuse_relu_grad(op, f)


relu.gradient(lambda op, grad: relu_grad(grad, op.outputs[0]))
relu_grad.gradient(lambda op, grad: (relu_grad(grad, op.inputs[1]), get("ZerosLike")(op.inputs[1])))


# -- Relu6 -----------------------------------------------------------------------------------------------------------
relu6_op = _activation("Relu6", _REAL)
relu6_grad = _activation_grad("Relu6Grad", _REAL)


relu6_op.kernel(lambda features: torch.clamp(features, 0, 6))
rules.program.overwrites(relu6_op, 0, lambda features: torch.clamp_(features, 0, 6))


@relu6_op.kernel(types=unsigned.TYPES)
def _relu6_kernel_unsigned(features):
    x = unsigned.signed(features)                    # large unsigned numbers appear negative
    return unsigned.unsigned(torch.where((x < 0) | (x > 6), 6, x))


@relu6_grad.kernel
def _relu6_grad_kernel(gradients, features):
    check_same_shape(gradients, features)
    if features.is_floating_point():
        return aten.hardtanh_backward(gradients, features, 0, 6)
    return torch.where((features > 0) & (features < 6), gradients, 0)


@relu6_grad.kernel(types=unsigned.TYPES)
def _relu6_grad_kernel_unsigned(gradients, features):
    check_same_shape(gradients, features)
    x = unsigned.signed(features)
    return unsigned.unsigned(torch.where((x > 0) & (x < 6), unsigned.signed(gradients), 0))


@rules.pointwise.formula(relu6_op)
def _relu6_terms(terms: Any, op: Any, x: int) -> int:
    return terms.step_of("MINIMUM", terms.step_of("RELU", x), terms.number(6.0))


@rules.pointwise.formula(relu6_grad)
def _relu6_grad_terms(terms: Any, op: Any, dy: int, x: int) -> int:
    below = terms.step_of("SELECT", terms.step_of("LESS", x, terms.number(6.0)), dy, terms.number(0.0))
    return _where_positive(terms, x, below, terms.number(0.0))


relu6_op.gradient(lambda op, grad: relu6_grad(grad, op.outputs[0]))
relu6_grad.gradient(lambda op, grad: (relu6_grad(grad, op.inputs[1]), get("ZerosLike")(op.inputs[1])))


@export("nn.relu6")
@dispatched
def relu6(features: Any, name: str | None = None) -> Tensor:
    """min(max(features, 0), 6).

    Args:
        features: Tensor of numbers.
        name: Name of the operation.

    Returns:
        A tensor of the type and shape of `features`.

    >>> tf.nn.relu6([-1., 3., 9.]).numpy()
    array([0., 3., 6.], dtype=float32)
    """
    with name_scope(name, "Relu6", [features]) as scope:
        return relu6_op(convert(features, name="features"), name=scope)


# -- LeakyRelu -------------------------------------------------------------------------------------------------------
_LEAKY = "alpha: float = 0.2, T: type in {half bfloat16 float32 float64} = float32"
leaky_relu_op = _activation("LeakyRelu", _LEAKY)
leaky_relu_grad = _activation_grad("LeakyReluGrad", _LEAKY)
leaky_relu_op.kernel(lambda features, *, alpha: aten.leaky_relu(features, alpha))


@leaky_relu_op.kernel(types="half bfloat16 float64")
def _leaky_relu_kernel_typed(features, *, alpha):
    return aten.leaky_relu(features, _alpha_of(alpha, features.dtype))


def _alpha_of(alpha: float, dtype: torch.dtype) -> float:
    """A float attribute has 32 bits; the kernel casts it to the type of the features."""
    return torch.tensor(alpha, dtype=torch.float32).to(dtype).item()


@leaky_relu_grad.kernel
def _leaky_relu_grad_kernel(gradients, features, *, alpha):
    check_same_shape(gradients, features)
    return aten.leaky_relu_backward(gradients, features, alpha, False)


@leaky_relu_grad.kernel(types="half bfloat16 float64")
def _leaky_relu_grad_kernel_typed(gradients, features, *, alpha):
    check_same_shape(gradients, features)
    return aten.leaky_relu_backward(gradients, features, _alpha_of(alpha, features.dtype), False)


@rules.pointwise.formula(leaky_relu_op)
def _leaky_relu_terms(terms: Any, op: Any, x: int) -> int:
    return _where_positive(terms, x, x, terms.step_of("MUL", x, terms.number(op.attrs["alpha"])))


@rules.pointwise.formula(leaky_relu_grad)
def _leaky_relu_grad_terms(terms: Any, op: Any, dy: int, x: int) -> int:
    return _where_positive(terms, x, dy, terms.step_of("MUL", dy, terms.number(op.attrs["alpha"])))


def _where_positive(terms: Any, x: int, yes: int, no: int) -> int:
    return terms.step_of("SELECT", terms.step_of("GREATER", x, terms.number(0.0)), yes, no)


leaky_relu_op.gradient(lambda op, grad: leaky_relu_grad(grad, op.inputs[0], alpha=op.attrs["alpha"]))
leaky_relu_grad.gradient(lambda op, grad: (leaky_relu_grad(grad, op.inputs[1], alpha=op.attrs["alpha"]),
                                           get("ZerosLike")(op.inputs[1])))


@export("nn.leaky_relu")
@dispatched
def leaky_relu(features: Any, alpha: float = 0.2, name: str | None = None) -> Tensor:
    """`features` where positive, `alpha * features` elsewhere; integers become float32.

    Args:
        features: Tensor of numbers.
        alpha: Slope for negative elements.
        name: Name of the operation.

    Returns:
        A tensor of the shape of `features`.

    >>> tf.nn.leaky_relu([-1., 2.]).numpy()
    array([-0.2,  2. ], dtype=float32)
    """
    with name_scope(name, "LeakyRelu", [features, alpha]) as scope:
        features = convert(features, name="features")
        if features.dtype.is_integer:
            features = get("Cast")(features, DstT="float32")
        if isinstance(alpha, Tensor):
            return get("Maximum")(alpha * features, features, name=scope)
        return leaky_relu_op(features, alpha=float(alpha), name=scope)


# -- Elu and Selu ----------------------------------------------------------------------------------------------------
elu = _activation("Elu", _FLOAT, """`features` where positive, exp(features) - 1 elsewhere.

    >>> tf.nn.elu([-1., 2.]).numpy()
    array([-0.63212055,  2.        ], dtype=float32)
    """, export_as="nn.elu")
elu_grad = _activation_grad("EluGrad", _FLOAT, "outputs")
elu.kernel(lambda features: aten.elu(features))


@elu_grad.kernel
def _elu_grad_kernel(gradients, outputs):
    check_same_shape(gradients, outputs)
    return aten.elu_backward(gradients, 1, 1, 1, True, outputs)


selu = _activation("Selu", _FLOAT, """The scaled exponential linear unit, which keeps mean 0 and variance 1 through layers.

    >>> tf.nn.selu([0., 1.]).numpy()
    array([0.      , 1.050701], dtype=float32)
    """,
                   export_as="nn.selu")
selu_grad = _activation_grad("SeluGrad", _FLOAT, "outputs")
selu.kernel(lambda features: torch.selu(features))


@selu_grad.kernel
def _selu_grad_kernel(gradients, outputs):
    check_same_shape(gradients, outputs)
    return gradients * torch.where(outputs < 0, outputs + _SELU_SCALE_ALPHA, _SELU_SCALE)


@rules.pointwise.formula(elu)
def _elu_terms(terms: Any, op: Any, x: int) -> int:
    return _where_positive(terms, x, x, terms.step_of("EXPM1", x))


@rules.pointwise.formula(elu_grad)
def _elu_grad_terms(terms: Any, op: Any, dy: int, y: int) -> int:
    return _where_positive(terms, y, dy, terms.step_of("MUL", dy, terms.step_of("ADD", y, terms.number(1.0))))


@rules.pointwise.formula(selu)
def _selu_terms(terms: Any, op: Any, x: int) -> int:
    below = terms.step_of("MUL", terms.step_of("EXPM1", x), terms.number(_SELU_SCALE_ALPHA))
    return _where_positive(terms, x, terms.step_of("MUL", x, terms.number(_SELU_SCALE)), below)


@rules.pointwise.formula(selu_grad)
def _selu_grad_terms(terms: Any, op: Any, dy: int, y: int) -> int:
    below = terms.step_of("ADD", y, terms.number(_SELU_SCALE_ALPHA))
    slope = terms.step_of("SELECT", terms.step_of("LESS", y, terms.number(0.0)), below, terms.number(_SELU_SCALE))
    return terms.step_of("MUL", dy, slope)


elu.gradient(lambda op, grad: elu_grad(grad, op.outputs[0]))
selu.gradient(lambda op, grad: selu_grad(grad, op.outputs[0]))


def _where_negative(y: Any, value: Any) -> Any:
    """`value` where y < 0, zero elsewhere."""
    zeros = get("ZerosLike")(y)
    return get("Select")(get("Less")(y, zeros), value, zeros)


elu_grad.gradient(lambda op, grad: (elu_grad(grad, op.inputs[1]),
                                    _where_negative(op.inputs[1], grad * op.inputs[0])))
selu_grad.gradient(lambda op, grad: (selu_grad(grad, op.inputs[1]),
                                     _where_negative(op.inputs[1], grad * op.inputs[0])))


# -- Softplus and Softsign -------------------------------------------------------------------------------------------
softplus = _activation("Softplus", _FLOAT, """log(1 + exp(features)), a smooth rectifier.

    >>> tf.nn.softplus([0., 10.]).numpy()
    array([ 0.6931472, 10.000046 ], dtype=float32)
    """, export_as="math.softplus nn.softplus")
softplus_grad = _activation_grad("SoftplusGrad", _FLOAT)


_LINEAR = 20.0


def _linear_from(dtype: torch.dtype | None) -> float:
    """Where log(1 + exp(x)) is x in a type."""
    return 40.0 if dtype is torch.float64 else _LINEAR


softplus.kernel(lambda features: aten.softplus(features, 1, _linear_from(features.dtype)))


@softplus_grad.kernel
def _softplus_grad_kernel(gradients, features):
    check_same_shape(gradients, features)
    return aten.softplus_backward(gradients, features, 1, _linear_from(features.dtype))


@rules.pointwise.formula(softplus)
def _softplus_terms(terms: Any, op: Any, x: int) -> int:
    near = terms.step_of("LOG1P", terms.step_of("EXP", x))
    return terms.step_of("SELECT", terms.step_of("GREATER", x, terms.number(_linear_from(op.inputs[0].dtype.torch))), x, near)


@rules.pointwise.formula(softplus_grad)
def _softplus_grad_terms(terms: Any, op: Any, dy: int, x: int) -> int:
    return terms.step_of("MUL", dy, terms.step_of("SIGMOID", x))


softplus.gradient(lambda op, grad: softplus_grad(grad, op.inputs[0]))


@softplus_grad.gradient
def _softplus_grad_gradient(op, grad):
    dy, x = op.inputs
    exp = get("Exp")
    return softplus_grad(grad, x), grad * dy / (exp(-x) + 2.0 + exp(x))


softsign = _activation("Softsign", _FLOAT, """features / (1 + |features|).

    >>> tf.nn.softsign([-1., 3.]).numpy()
    array([-0.5 ,  0.75], dtype=float32)
    """, export_as="nn.softsign math.softsign")
softsign_grad = _activation_grad("SoftsignGrad", _FLOAT)
softsign.kernel(lambda features: features / (features.abs() + 1))


@softsign_grad.kernel
def _softsign_grad_kernel(gradients, features):
    check_same_shape(gradients, features)
    return gradients / (features.abs() + 1).square()


@rules.pointwise.formula(softsign)
def _softsign_terms(terms: Any, op: Any, x: int) -> int:
    return terms.step_of("DIV", x, terms.step_of("ADD", terms.step_of("ABS", x), terms.number(1.0)))


@rules.pointwise.formula(softsign_grad)
def _softsign_grad_terms(terms: Any, op: Any, dy: int, x: int) -> int:
    size = terms.step_of("ADD", terms.step_of("ABS", x), terms.number(1.0))
    return terms.step_of("DIV", dy, terms.step_of("SQUARE", size))


softsign.gradient(lambda op, grad: softsign_grad(grad, op.inputs[0]))


@softsign_grad.gradient
def _softsign_grad_gradient(op, grad):
    dy, x = op.inputs
    slope = get("Sign")(x) * -2.0 / (get("Abs")(x) + 1.0)
    first = softsign_grad(grad, x)
    return first, first * dy * slope


# -- compositions ----------------------------------------------------------------------------------------------------
@export("nn.swish", "nn.silu")
@dispatched
def swish(features: Any, beta: Any = 1.0, name: str | None = None) -> Tensor:
    """features * sigmoid(beta * features).

    Args:
        features: Tensor of floats.
        beta: Factor inside of the sigmoid.
        name: Name of the operation.

    Returns:
        Tensor of the shape of `features`.

    >>> tf.nn.silu([-1., 0., 1.]).numpy().round(3).tolist()
    [-0.269, 0.0, 0.731]
    """
    with name_scope(name, "swish", [features]):
        features = convert(features, name="features")
        scaled = features if isinstance(beta, (int, float)) and beta == 1 else beta * features
        return features * get("Sigmoid")(scaled)


@export(v2=["nn.gelu"])
@dispatched
def gelu(features: Any, approximate: bool = False, name: str | None = None) -> Tensor:
    """features * Φ(features), Φ the cumulative normal distribution; `approximate` uses a tanh instead of erf.

    Args:
        features: Tensor of floats.
        approximate: Whether to use a tanh instead of erf.
        name: Name of the operation.

    Returns:
        Tensor of the shape of `features`.

    >>> tf.nn.gelu([-1., 0., 1.]).numpy().round(3).tolist()
    [-0.159, 0.0, 0.841]
    """
    with name_scope(name, "Gelu", [features]):
        features = convert(features, name="features")
        if not features.dtype.is_floating:
            raise ValueError(f"`features.dtype` must be a floating point tensor. Received: {features.dtype.name}")
        if approximate:
            cubic = features + features * features * features * 0.044715
            return features * 0.5 * (get("Tanh")(cubic * math.sqrt(2 / math.pi)) + 1.0)
        return features * 0.5 * (get("Erf")(features * math.sqrt(0.5)) + 1.0)


def _crelu(features: Any, axis: Any, name: str | None) -> Tensor:
    with name_scope(name, "CRelu", [features]) as scope:
        features = convert(features, name="features")
        return relu(get("ConcatV2")([features, -features], axis), name=scope)


@export(v1=["nn.crelu"])
@dispatched
def crelu(features: Any, name: str | None = None, axis: Any = -1) -> Tensor:
    """The positive parts of `features` and of `-features`, side by side along `axis`."""
    return _crelu(features, axis, name)


@export(v2=["nn.crelu"])
@dispatched
def crelu_v2(features: Any, axis: Any = -1, name: str | None = None) -> Tensor:
    """The positive parts of `features` and of `-features`, side by side along `axis`.

    Args:
        features: Tensor of numbers.
        axis: Dimension that gets twice as long.
        name: Name of the operation.

    Returns:
        Tensor of the type of `features`.

    >>> tf.nn.crelu([[-1., 2.]]).numpy().tolist()
    [[0.0, 2.0, 1.0, 0.0]]
    """
    return _crelu(features, axis, name)
