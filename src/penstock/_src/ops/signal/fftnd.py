"""Fourier transforms over any axes: tf.signal.fftnd and its relatives."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import op

_KINDS = {
    "FFTND": ("input: Tcomplex, fft_length: int32, axes: int32 -> output: Tcomplex", "Tcomplex: type in {complex} = complex64",
              torch.fft.fftn),
    "IFFTND": ("input: Tcomplex, fft_length: int32, axes: int32 -> output: Tcomplex", "Tcomplex: type in {complex} = complex64",
               torch.fft.ifftn),
    "RFFTND": ("input: Treal, fft_length: int32, axes: int32 -> output: Tcomplex",
               "Treal: type in {float32 float64} = float32, Tcomplex: type in {complex} = complex64", torch.fft.rfftn),
    "IRFFTND": ("input: Tcomplex, fft_length: int32, axes: int32 -> output: Treal",
                "Treal: type in {float32 float64} = float32, Tcomplex: type in {complex} = complex64", torch.fft.irfftn),
}


def _shape(input: Any, fft_length: Any, axes: Any, *, c: Any) -> Any:
    return None if input is None else (None,) * len(input)


def _transform(name: str) -> Any:
    args, attrs, function = _KINDS[name]
    made = op(name, args, attrs, host="fft_length axes").no_gradient()
    made.shape(_shape)

    @made.kernel
    def _kernel(input, fft_length, axes):
        lengths, dims = fft_length.reshape(-1).tolist(), axes.reshape(-1).tolist()
        if len(lengths) != len(dims) or len(set(dims)) != len(dims):
            raise errors.invalid(f"fft_length {lengths} must have one length for each of the axes {dims}")
        if any(not -input.dim() <= d < input.dim() for d in dims) or any(n < 1 for n in lengths):
            raise errors.invalid(f"axes {dims} and lengths {lengths} do not match an input of shape {list(input.shape)}")
        if max(lengths, default=1) > 2**31 // max(input.numel(), 1):
            raise errors.ResourceExhaustedError(None, None, f"a transform of lengths {lengths} is too large")
        return function(input, s=lengths, dim=dims)
    return made


_OPS = {name: _transform(name) for name in _KINDS}


def _public(name: str, inverse_of_real: bool, real: bool) -> Callable:
    def call(input_tensor: Any, fft_length: Any = None, axes: Any = None, norm: str | None = None,
             name: str | None = None) -> Tensor:
        with name_scope(name, title, [input_tensor]):
            x = convert(input_tensor)
            if x.shape.rank is None or not x.shape.is_fully_defined() and fft_length is None:
                raise ValueError(f"{title} needs an input of known shape, or fft_length")
            if norm not in (None, "backward"):
                raise ValueError(f"{title} has norm None or 'backward', not {norm!r}")
            rank = x.shape.rank
            dims = list(range(rank)) if axes is None else [int(a) for a in axes]
            sizes = [x.shape.static_dims[d] for d in dims]
            if inverse_of_real and fft_length is None:
                sizes[-1] = 2 * (sizes[-1] - 1)
            kinds = {}
            if real or inverse_of_real:
                wide = x.dtype.name in ("float64", "complex128")
                kinds = {"Treal": "float64" if wide else "float32", "Tcomplex": "complex128" if wide else "complex64"}
                kinds = {k: v for k, v in kinds.items() if (k == "Tcomplex") == real}
            return _OPS[title.upper()](x, sizes if fft_length is None else fft_length, dims, **kinds)
    title = name.lower()
    call.__name__ = call.__qualname__ = title
    call.__doc__ = f"The {title} transform over `axes`, by default all of them."
    return dispatched(call)


for _name in _KINDS:
    _title = _name.lower()
    export.value(_public(_name, _name == "IRFFTND", _name == "RFFTND"), f"signal.{_title}", v2=[_title])
