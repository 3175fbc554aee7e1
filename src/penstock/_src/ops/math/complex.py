"""Complex numbers: construction, and their parts."""
from __future__ import annotations

from typing import Any

import torch

from penstock._src.base import dtypes
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.math.math import both
from penstock._src.ops.registry import get, op

_PART = ("T: type in {complex64 complex128} = complex64, Tout: type in {float32 float64} = float32")

complex_op = op("Complex", "real: T, imag: T -> out: Tout",
                "T: type in {float32 float64} = float32, Tout: type in {complex64 complex128} = complex64")
complex_op.shape(shapes.broadcast)
complex_op.kernel(lambda real, imag, *, Tout: torch.complex(*torch.broadcast_tensors(real, imag)).to(Tout.torch))

real_op = op("Real", "input: T -> output: Tout", _PART)
imag_op = op("Imag", "input: T -> output: Tout", _PART)
angle_op = op("Angle", "input: T -> output: Tout", _PART)
complex_abs = op("ComplexAbs", "x: T -> y: Tout", _PART)
real_op.kernel(lambda input, *, Tout: input.real.to(Tout.torch))
imag_op.kernel(lambda input, *, Tout: input.resolve_conj().imag.to(Tout.torch))
angle_op.kernel(lambda input, *, Tout: torch.angle(input).to(Tout.torch))
complex_abs.kernel(lambda x, *, Tout: torch.abs(x).to(Tout.torch))
for _op in (real_op, imag_op, angle_op, complex_abs):
    _op.shape(lambda input: input)

conj_op = op("Conj", "input: T -> output: T", "T: type in {complex64 complex128 variant} = complex64")
rules.batching.elementwise.update((complex_op, real_op, imag_op, angle_op, complex_abs, conj_op))
rules.batching.broadcasts.add(complex_op)
conj_op.shape(lambda input: input)
conj_op.kernel(torch.conj_physical)
conj_op.kernel(lambda input: input.map(torch.conj_physical), types="variant")


def _complex(real: Any, imag: Any) -> Tensor:
    """A complex tensor of the type that belongs to the parts' type."""
    part = real if isinstance(real, Tensor) else imag
    out = dtypes.complex128 if part.dtype.base_dtype == dtypes.float64 else dtypes.complex64
    return complex_op(real, imag, Tout=out)


@complex_op.gradient
def _complex_gradient(op, grad):
    part = op.attrs["T"]
    return both(op, real_op(grad, Tout=part), imag_op(grad, Tout=part))


real_op.gradient(lambda op, grad: _complex(grad, convert(0, grad.dtype.base_dtype)))
imag_op.gradient(lambda op, grad: _complex(convert(0, grad.dtype.base_dtype), grad))
conj_op.gradient(lambda op, grad: conj_op(grad))


@angle_op.gradient
def _angle_gradient(op, grad):
    x = op.inputs[0]
    part = op.attrs["Tout"]
    swapped = complex_op(imag_op(x, Tout=part), real_op(x, Tout=part), Tout=op.attrs["T"])
    return -_complex(grad, convert(0, part)) * get("Reciprocal")(swapped)


@complex_abs.gradient
def _complex_abs_gradient(op, grad):
    zero = convert(0, op.attrs["Tout"])
    return get("DivNoNan")(_complex(grad, zero) * op.inputs[0], _complex(op.outputs[0], zero))


# -- public functions -------------------------------------------------------------------------------------------------
@export("complex", "dtypes.complex")
@dispatched
def complex(real: Any, imag: Any, name: str | None = None) -> Tensor:
    """A complex tensor from its real and imaginary parts, both float32 or both float64.

    Args:
        real: float32 or float64 tensor.
        imag: Tensor of the same type.
        name: Name of the operation.

    Returns:
        complex64 or complex128 tensor.

    >>> tf.complex([1.], [2.]).numpy().tolist()
    [(1+2j)]
    """
    real, imag = convert(real, name="real"), convert(imag, name="imag")
    with name_scope(name, "Complex", [real, imag]) as scope:
        kinds = (real.dtype.base_dtype, imag.dtype.base_dtype)
        if kinds == (dtypes.float64, dtypes.float64):
            return complex_op(real, imag, Tout=dtypes.complex128, name=scope)
        if kinds == (dtypes.float32, dtypes.float32):
            return complex_op(real, imag, Tout=dtypes.complex64, name=scope)
        raise TypeError(f"real and imag must both be float32 or float64: {real.dtype.name} {imag.dtype.name}")


@export("math.real", v1=["real"])
@dispatched
def real(input: Any, name: str | None = None) -> Tensor:
    """The real part; real tensors as they are.

    Args:
        input: Tensor of numbers.
        name: Name of the operation.

    Returns:
        The real parts; `input` itself if it is real.

    >>> tf.math.real([1. + 2.j]).numpy().tolist()
    [1.0]
    """
    with name_scope(name, "Real", [input]) as scope:
        input = convert(input, name="input")
        if input.dtype.is_complex:
            return real_op(input, Tout=input.dtype.real_dtype, name=scope)
        if not input.dtype.is_numeric:
            raise TypeError(f"input must be a numeric tensor, but got tensor with dtype {input.dtype!r}")
        return input


@export("math.imag", v1=["imag"])
@dispatched
def imag(input: Any, name: str | None = None) -> Tensor:
    """The imaginary part; zeros for real tensors.

    Args:
        input: Tensor of numbers.
        name: Name of the operation.

    Returns:
        The imaginary parts.

    >>> tf.math.imag([1. + 2.j]).numpy().tolist()
    [2.0]
    """
    with name_scope(name, "Imag", [input]) as scope:
        input = convert(input, name="input")
        if input.dtype.is_complex:
            return imag_op(input, Tout=input.dtype.real_dtype, name=scope)
        return get("ZerosLike")(input)


@export("math.angle", v1=["angle"])
@dispatched
def angle(input: Any, name: str | None = None) -> Tensor:
    """The argument of complex numbers, in radians; for real ones, 0 or pi by the sign.

    Args:
        input: Tensor of numbers.
        name: Name of the operation.

    Returns:
        The argument of each complex number, in radians; 0 or pi for real ones.

    >>> tf.math.angle([1. + 0.j]).numpy().tolist()
    [0.0]
    """
    with name_scope(name, "Angle", [input]) as scope:
        input = convert(input, name="input")
        if input.dtype.is_complex:
            return angle_op(input, Tout=input.dtype.real_dtype, name=scope)
        pi = get("Fill")(get("Shape")(input), convert(3.141592653589793, input.dtype.base_dtype))
        return get("Select")(get("Less")(input, get("ZerosLike")(input)), pi, get("ZerosLike")(input))


@export("math.conj", v1=["conj"])
@dispatched
def conj(x: Any, name: str | None = None) -> Tensor:
    """The complex conjugate; real tensors as they are.

    Args:
        x: Tensor of numbers.
        name: Name of the operation.

    Returns:
        The conjugates; `x` itself if it is real.

    >>> tf.math.conj([1. + 2.j]).numpy().tolist()
    [(1-2j)]
    """
    if isinstance(x, Tensor) and (x.dtype.is_floating or x.dtype.is_integer):
        return x
    with name_scope(name, "Conj", [x]) as scope:
        x = convert(x, name="x")
        if x.dtype.is_complex or x.dtype == dtypes.variant:
            return conj_op(x, name=scope)
        if x.dtype.is_floating or x.dtype.is_integer:
            return x
        raise TypeError(f"Expected numeric or variant tensor, got dtype {x.dtype!r}")
