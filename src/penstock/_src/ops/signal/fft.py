"""Fourier transforms over the innermost one, two or three dimensions.

Complex transforms keep their shape. Real ones (RFFT, IRFFT) take the transform's length as an input, hold only the
frequencies 0 to n // 2 of the last dimension, and ignore input beyond the length. Gradients are again
transforms; frequencies that represent two (themselves and their negatives) count twice.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import as_shape, rank_at_least, rank_is
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import get, op

_SUFFIX = {1: "", 2: "2D", 3: "3D"}


def _check_rank(x: torch.Tensor, rank: int) -> None:
    if x.dim() < rank:
        raise errors.invalid(f"Input must have rank of at least {rank} but got: {list(x.shape)}")


# -- complex transforms -----------------------------------------------------------------------------------------------
def _size(x: Tensor, rank: int, dtype: Any) -> Any:
    """The number of points of a transform: a number if the shape is known, else a tensor."""
    if x.static_dims is not None and None not in x.static_dims[-rank:]:
        return float(np.prod(x.static_dims[-rank:]))
    return get("Cast")(get("Prod")(get("Shape")(x)[-rank:], [0]), DstT=dtype)


def _complex_transform(name: str, rank: int, transform: Callable, inverse: bool) -> Any:
    public = name.lower()
    made = op(name, "input: Tcomplex -> output: Tcomplex", "Tcomplex: type in {complex} = complex64",
              export_as=f"signal.{public}", v1_as=f"spectral.{public} {public}")
    made.shape(lambda input: rank_at_least(input, rank))

    @made.kernel
    def _made_kernel(input):
        _check_rank(input, rank)
        return transform(input, dim=tuple(range(-rank, 0))) if input.numel() else input
    other = ("" if inverse else "I") + "FFT" + _SUFFIX[rank]

    @made.gradient
    def _made_gradient(op, grad):
        size = _size(grad, rank, grad.dtype)
        return get(other)(grad) / size if inverse else get(other)(grad) * size
    return made


def _batch_transform(name: str, rank: int) -> None:
    """Old names of the transforms."""
    old = op(f"Batch{name}", "input: complex64 -> output: complex64")
    old.shape(lambda input: rank_at_least(input, rank))
    old.kernel(get(name).kernels["any"].fn)


for _rank, _dims in _SUFFIX.items():
    _complex_transform("FFT" + _dims, _rank, torch.fft.fftn, inverse=False)
    _complex_transform("IFFT" + _dims, _rank, torch.fft.ifftn, inverse=True)
    _batch_transform("FFT" + _dims, _rank)
    _batch_transform("IFFT" + _dims, _rank)
    rules.batching.leading.update({get("FFT" + _dims): (0,), get("IFFT" + _dims): (0,)})


# -- real transforms --------------------------------------------------------------------------------------------------
def _real_shape(rank: int, forward: bool) -> Callable:
    def rule(input: Any, fft_length: Any, *, c: Any) -> Any:
        rank_at_least(input, rank)
        count, = rank_is(fft_length, 1)
        if count not in (None, rank):
            raise ValueError(f"Dimension must be {rank} but is {count}")
        if input is None:
            return None
        lengths = c.const("fft_length")
        if lengths is None:
            return input[:-rank] + (None,) * rank
        sizes = [int(n) for n in lengths]
        if forward and sizes[-1]:
            sizes[-1] = sizes[-1] // 2 + 1
        return input[:-rank] + tuple(sizes)
    return rule


def _lengths(x: torch.Tensor, fft_length: torch.Tensor, rank: int, forward: bool) -> list[int]:
    """The checked lengths of a real transform of `x`."""
    _check_rank(x, rank)
    if tuple(fft_length.shape) != (rank,):
        raise errors.invalid(f"fft_length must have shape [{rank}]")
    lengths = fft_length.tolist()
    for i, n in enumerate(lengths):
        if n < 0:
            raise errors.invalid(f"fft_length must >= 0, but got: {lengths}")
        needed = n if forward or i < rank - 1 else n // 2 + 1
        at = x.dim() - rank + i
        if 0 < x.shape[at] < needed:
            raise errors.invalid(f"Input dimension {at} must have length of at least {needed} but got: {x.shape[at]}")
    return lengths


_REAL = "Treal: type in {float32 float64} = float32, Tcomplex: type in {complex} = complex64"


def _real_transform(rank: int) -> None:
    axes = tuple(range(-rank, 0))
    forward = op("RFFT" + _SUFFIX[rank], "input: Treal, fft_length: int32 -> output: Tcomplex", _REAL)
    rules.batching.leading[forward] = (0,)
    forward.shape(_real_shape(rank, True))
    backward = op("IRFFT" + _SUFFIX[rank], "input: Tcomplex, fft_length: int32 -> output: Treal", _REAL)
    rules.batching.leading[backward] = (0,)
    backward.shape(_real_shape(rank, False))

    @forward.kernel
    def _forward_kernel(input, fft_length, *, Tcomplex):
        n = _lengths(input, fft_length, rank, True)
        if not input.numel() or not all(n):
            sizes = n[:-1] + [n[-1] // 2 + 1 if n[-1] else 0]
            return torch.zeros(*input.shape[:-rank], *sizes, dtype=Tcomplex.torch, device=input.device)
        return torch.fft.rfftn(input, s=n, dim=axes).to(Tcomplex.torch)

    @backward.kernel
    def _backward_kernel(input, fft_length, *, Treal):
        n = _lengths(input, fft_length, rank, False)
        if not input.numel() or not all(n):
            return torch.zeros(*input.shape[:-rank], *n, dtype=Treal.torch, device=input.device)
        return torch.fft.irfftn(input, s=n, dim=axes).to(Treal.torch)

    @forward.gradient
    def _forward_gradient(op, grad):
        weighted = grad * _weights(op.inputs[1], 0.5, grad.dtype)
        whole = backward(weighted, op.inputs[1], Treal=op.attrs["Treal"])
        return _padded_to(whole * _points(op.inputs[1], op.attrs["Treal"]), op.inputs[0]), None

    @backward.gradient
    def _backward_gradient(op, grad):
        spectrum = forward(grad, op.inputs[1], Tcomplex=op.attrs["Tcomplex"])
        scale = _points(op.inputs[1], op.attrs["Tcomplex"])
        return _padded_to(spectrum * _weights(op.inputs[1], 2.0, spectrum.dtype) / scale, op.inputs[0]), None
    _real_functions(forward, backward, rank)


def _points(fft_length: Tensor, dtype: Any) -> Any:
    """The number of points of a real transform."""
    lengths = constant_value(fft_length)
    if lengths is not None:
        return float(np.prod(lengths))
    return get("Cast")(get("Prod")(fft_length, [0]), DstT=dtype)


def _weights(fft_length: Tensor, paired: float, dtype: Any) -> Tensor:
    """A vector over frequencies: `paired` for those that represent two, 1 for frequency 0 and for n / 2."""
    lengths = constant_value(fft_length)
    if lengths is not None:
        n: Any = int(lengths[-1])
        k: Any = np.arange(n // 2 + 1)
        return convert(np.where((k == 0) | (2 * k == n), 1.0, paired).astype(dtype.as_numpy_dtype))
    n = fft_length[-1]
    k = get("Range")(0, get("FloorDiv")(n, 2) + 1, 1)
    single = get("LogicalOr")(get("Equal")(k, 0), get("Equal")(k * 2, n))
    ones = get("OnesLike")(get("Cast")(k, DstT=dtypes.float32))
    return get("Cast")(get("SelectV2")(single, ones, ones * paired), DstT=dtype)


def _padded_to(x: Tensor, like: Tensor) -> Tensor:
    """`x` padded with zeros where the transform truncated `like`."""
    if x.static_dims is not None and x.static_dims == like.static_dims and None not in x.static_dims:
        return x
    shape = get("Shape")
    missing = shape(like) - shape(x)
    return get("Pad")(x, get("Pack")([get("ZerosLike")(missing), missing], axis=1))


# -- public functions of real transforms ------------------------------------------------------------------------------
def _default_length(x: Tensor, rank: int, forward: bool) -> Tensor:
    dims = None if x.static_dims is None else x.static_dims[-rank:]
    if dims is not None and None not in dims:
        last = dims[-1] if forward else max(0, 2 * (dims[-1] - 1))
        return convert([*dims[:-1], last], dtypes.int32)
    sizes = get("Shape")(x)[-rank:]
    if forward:
        return sizes
    return get("ConcatV2")([sizes[:-1], get("Maximum")(0, 2 * (sizes[-1:] - 1))], 0)


def _padded(x: Tensor, fft_length: Tensor, rank: int, forward: bool) -> Tensor:
    """`x` with zeros up to the length that the op needs."""
    lengths = constant_value(fft_length)
    if x.static_dims is not None and 0 in x.static_dims:
        return x
    if lengths is not None and lengths.shape == (rank,) and x.static_dims is not None and None not in x.static_dims[-rank:]:
        needed = [int(n) for n in lengths]
        if not forward:
            needed[-1] = needed[-1] // 2 + 1
        missing = [max(n - d, 0) for n, d in zip(needed, x.static_dims[-rank:], strict=True)]
        if not any(missing):
            return x
        return get("Pad")(x, [[0, 0]] * (len(x.static_dims) - rank) + [[0, m] for m in missing])
    if lengths is not None and lengths.shape != (rank,):
        return x                                          # the op raises the error
    if not forward:
        fft_length = get("ConcatV2")([fft_length[:-1], get("FloorDiv")(fft_length[-1:], 2) + 1], 0)
    sizes = get("Shape")(x)
    missing = get("Maximum")(0, fft_length - sizes[-rank:])
    missing = get("ConcatV2")([get("ZerosLike")(sizes[:-rank]), missing], 0)
    return get("Pad")(x, get("Pack")([get("ZerosLike")(missing), missing], axis=1))


def _real_functions(forward: Any, backward: Any, rank: int) -> None:
    def rfft(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
        return _call(forward, input_tensor, fft_length, rank, True, dtypes.float32, name)

    def irfft(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
        return _call(backward, input_tensor, fft_length, rank, False, dtypes.complex64, name)
    for fn, what in ((rfft, "Fourier transform of a real signal: frequencies 0 to fft_length // 2"),
                     (irfft, "Real signal of a Fourier transform that holds frequencies 0 to fft_length // 2")):
        fn.__name__ = fn.__qualname__ = fn.__name__ + _SUFFIX[rank].lower()
        fn.__doc__ = f"{what}, over the last {rank} dimension{'s' * (rank > 1)}; zeros are added up to `fft_length`."
        export.value(fn, f"signal.{fn.__name__}", v1=[f"spectral.{fn.__name__}"])


def _call(opdef: Any, x: Any, fft_length: Any, rank: int, forward: bool, preferred: Any, name: str | None) -> Tensor:
    with name_scope(name, opdef.name.lower(), [x, fft_length]) as name:
        x = convert(x, preferred_dtype=preferred)
        if x.dtype.base_dtype not in (preferred, dtypes.float64 if forward else dtypes.complex128):
            x = convert(x, preferred)
        as_shape(x.shape).with_rank_at_least(rank)
        wide = x.dtype.base_dtype in (dtypes.float64, dtypes.complex128)
        kind = {"Tcomplex": dtypes.complex128 if wide else dtypes.complex64} if forward else \
            {"Treal": dtypes.float64 if wide else dtypes.float32}
        length = _default_length(x, rank, forward) if fft_length is None else convert(fft_length, dtypes.int32)
        as_shape(length.shape).with_rank(1)
        return opdef(_padded(x, length, rank, forward), length, name=name, **kind)


for _rank in _SUFFIX:
    _real_transform(_rank)


# -- shifts -----------------------------------------------------------------------------------------------------------
def _shift(x: Any, axes: Any, sign: int, name: str | None, scope: str) -> Tensor:
    with name_scope(name, scope, [x]) as name:
        x = convert(x)
        rank = x.shape.rank
        if axes is None:
            axes = list(range(rank)) if rank is not None else get("Range")(0, get("Rank")(x), 1)
        if isinstance(axes, (int, list, tuple)) and rank is not None and None not in x.static_dims:
            shift: Any = [sign * (x.static_dims[a] // 2) for a in (axes if not isinstance(axes, int) else [axes])]
            shift = shift[0] if isinstance(axes, int) else np.array(shift, np.int32)
            axes = axes if isinstance(axes, int) else np.array(axes, np.int32)
        else:
            sizes = get("GatherV2")(get("Shape")(x), axes, 0)
            shift = get("FloorDiv")(sizes, 2) * sign
        return get("Roll")(x, shift, axes, name=name)


@export("signal.fftshift")
@dispatched
def fftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """Moves frequency 0 to the middle.

    >>> tf.signal.fftshift([0., 1., 2., -2., -1.])
    """
    return _shift(x, axes, 1, name, "fftshift")


@export("signal.ifftshift")
@dispatched
def ifftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """Undoes fftshift."""
    return _shift(x, axes, -1, name, "ifftshift")
