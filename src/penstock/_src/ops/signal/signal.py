"""Framed signals: framing, overlap-add, short-time Fourier and modified cosine transforms, mel spectra."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import penstock as tf
from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.graph.constant import constant_value
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.ops.composite import dispatched
from penstock._src.ops.signal.signal_windows import hann_window, vorbis_window


def _scalar(value: Any, name: str) -> Tensor:
    value = convert(value, name=name)
    value.shape.assert_has_rank(0)
    if not value.dtype.is_integer:
        raise ValueError(f"{name} must be an integer. Got {value.dtype}")
    return value


def _or_tensor(value: Tensor) -> Any:
    """A Python number where the value is known."""
    known = constant_value(value)
    return value if known is None else int(known)


# -- frames -----------------------------------------------------------------------------------------------------------
@export("signal.frame")
@dispatched
def frame(signal: Any, frame_length: Any, frame_step: Any, pad_end: bool = False, pad_value: Any = 0, axis: Any = -1,
          name: str | None = None) -> Tensor:
    """Cuts an axis into frames that begin every `frame_step` samples.

    Args:
        signal: The tensor.
        frame_length: The samples of a frame.
        frame_step: How many samples apart frames begin.
        pad_end: Whether frames that extend past the end are padded, or dropped.
        pad_value: What they are padded with.
        axis: The axis.
        name: A name for the op.

    Returns:
        A tensor in which the axis is replaced by two: frames and their samples.

    >>> tf.signal.frame([1., 2., 3., 4., 5.], 3, 2).numpy().tolist()
    [[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]]
    """
    with name_scope(name, "frame", [signal, frame_length, frame_step, pad_value]):
        signal = convert(signal, name="signal")
        signal.shape.with_rank_at_least(1)
        length, step = _or_tensor(_scalar(frame_length, "frame_length")), _or_tensor(_scalar(frame_step, "frame_step"))
        if isinstance(step, int) and step == 0:
            raise errors.invalid("frame_step must not be 0: every frame would begin at the same sample")
        axis = _or_tensor(_scalar(axis, "axis"))
        samples, dims = _samples(signal, axis), signal.shape.static_dims
        if pad_end:
            convert(pad_value).shape.assert_has_rank(0)
            count = -(-samples // step)
            missing = length + step * (count - 1) - samples
            missing = max(0, missing) if isinstance(missing, int) else tf.maximum(0, missing)
            signal = _pad_axis(signal, axis, missing, pad_value)
        else:
            count = 1 + (samples - length) // step
            count = max(0, count) if isinstance(count, int) else tf.maximum(0, count)
        index = tf.expand_dims(tf.range(count) * step, 1) + tf.expand_dims(tf.range(length), 0)
        frames = tf.gather(signal, index, axis=axis)
        if dims is not None and isinstance(axis, int):
            cut = [n if isinstance(n, int) else None for n in (count, length)]
            frames.set_shape([*dims[:axis], *cut, *(dims[axis + 1:] if axis != -1 else ())])
        return frames


def _samples(signal: Tensor, axis: Any) -> Any:
    if isinstance(axis, int) and signal.shape.rank is not None and signal.shape.static_dims[axis] is not None:
        return signal.shape.static_dims[axis]
    return tf.shape(signal)[axis]


def _pad_axis(signal: Tensor, axis: Any, after: Any, value: Any) -> Tensor:
    """`signal` with `after` more elements at the end of an axis."""
    rank = tf.rank(signal) if signal.shape.rank is None else signal.shape.rank
    if isinstance(rank, int) and isinstance(axis, int) and isinstance(after, int):
        padding: Any = np.zeros((rank, 2), np.int32)
        padding[axis, 1] = after
    else:
        here = tf.one_hot(tf.math.floormod(axis, rank), rank, dtype=dtypes.int32)
        padding = tf.stack([tf.zeros_like(here), here * after], axis=1)
    return tf.pad(signal, padding, constant_values=tf.cast(value, signal.dtype))


@export("signal.overlap_and_add")
@dispatched
def overlap_and_add(signal: Any, frame_step: Any, name: str | None = None) -> Tensor:
    """Adds up frames [..., frames, frame_length], each `frame_step` samples after the one before.

    >>> tf.signal.overlap_and_add([[1., 1., 1.], [1., 1., 1.]], 2)
    """
    with name_scope(name, "overlap_and_add", [signal, frame_step]):
        signal = convert(signal, name="signal")
        signal.shape.with_rank_at_least(2)
        step = _or_tensor(_scalar(frame_step, "frame_step"))
        sizes = tf.shape(signal)
        known = signal.shape.static_dims
        frames, length = (sizes[i] if known is None or known[i] is None else known[i] for i in (-2, -1))
        total = length + step * (frames - 1)
        if step is length or isinstance(step, int) and isinstance(length, int) and step == length:
            return tf.reshape(signal, tf.concat([sizes[:-2], [total]], 0), name="fast_path")
        place = tf.reshape(tf.expand_dims(tf.range(frames) * step, 1) + tf.expand_dims(tf.range(length), 0), [-1])
        columns = tf.transpose(tf.reshape(signal, [-1, frames * length]))
        added = tf.transpose(tf.math.unsorted_segment_sum(columns, place, total))
        result = tf.reshape(added, tf.concat([sizes[:-2], [total]], 0))
        if known is not None:
            result.set_shape([*known[:-2], total if isinstance(total, int) else None])
        return result


# -- short-time Fourier transforms ------------------------------------------------------------------------------------
def _enclosing_power_of_two(value: Tensor) -> Tensor:
    known = constant_value(value)
    if known is not None:
        return tf.constant(1 << max(int(known) - 1, 0).bit_length(), value.dtype)
    power = tf.math.ceil(tf.math.log(tf.cast(value, dtypes.float64)) / np.log(2.0))
    return tf.cast(tf.round(tf.pow(tf.constant(2.0, dtypes.float64), power)), value.dtype)


def _fft_length(fft_length: Any, frame_length: Tensor) -> Tensor:
    return _enclosing_power_of_two(frame_length) if fft_length is None else _scalar(fft_length, "fft_length")


@export("signal.stft")
@dispatched
def stft(signals: Any, frame_length: Any, frame_step: Any, fft_length: Any = None,
         window_fn: Callable | None = hann_window, pad_end: bool = False, name: str | None = None) -> Tensor:
    """Fourier transforms of the windowed frames of signals.

    Args:
        signals: [..., samples].
        frame_length: The samples of a frame.
        frame_step: How many samples apart frames begin.
        fft_length: The length of the transforms; by default the smallest power of 2 that is not below `frame_length`.
        window_fn: Called with `frame_length` and `dtype=`, returns the window; None for none.
        pad_end: Whether frames that extend past the end are padded with zeros, or dropped.
        name: A name for the op.

    Returns:
        Complex numbers [..., frames, fft_length // 2 + 1].

    >>> tf.signal.stft(tf.ones([16000]), frame_length=400, frame_step=160).shape
    TensorShape([98, 257])
    """
    with name_scope(name, "stft", [signals, frame_length, frame_step]):
        signals = convert(signals, name="signals")
        signals.shape.with_rank_at_least(1)
        length = _scalar(frame_length, "frame_length")
        frames = frame(signals, length, frame_step, pad_end=pad_end)
        if window_fn is not None:
            frames = frames * window_fn(length, dtype=frames.dtype)
        return tf.signal.rfft(frames, [_fft_length(fft_length, length)])


@export("signal.inverse_stft_window_fn")
@dispatched
def inverse_stft_window_fn(frame_step: Any, forward_window_fn: Callable = hann_window,
                           name: str | None = None) -> Callable:
    """The window with which `inverse_stft` undoes an `stft` that used `forward_window_fn` (Griffin and Lim, 1984)."""
    step = _scalar(frame_step, "frame_step")

    def window_fn(frame_length: Any, dtype: Any) -> Tensor:
        with name_scope(name, "inverse_stft_window_fn", [frame_length]):
            length = _scalar(frame_length, "frame_length")
            forward = forward_window_fn(length, dtype=dtype)
            hops = -(-length // step)
            energy = tf.pad(tf.square(forward), [[0, hops * step - length]])
            overlapped = tf.reduce_sum(tf.reshape(energy, tf.stack([hops, step])), 0)
            return tf.math.divide_no_nan(forward, tf.tile(overlapped, [hops])[:length])
    return window_fn


@export("signal.inverse_stft")
@dispatched
def inverse_stft(stfts: Any, frame_length: Any, frame_step: Any, fft_length: Any = None,
                 window_fn: Callable | None = hann_window, name: str | None = None) -> Tensor:
    """The signal of short-time Fourier transforms; see `inverse_stft_window_fn` for the window that undoes `stft`."""
    with name_scope(name, "inverse_stft", [stfts]):
        stfts = convert(stfts, name="stfts")
        stfts.shape.with_rank_at_least(2)
        length = _scalar(frame_length, "frame_length")
        frames = tf.signal.irfft(stfts, [_fft_length(fft_length, length)])
        frames = _fit_last(frames, _or_tensor(length))
        if window_fn is not None:
            frames = frames * window_fn(length, dtype=stfts.dtype.real_dtype)
        return overlap_and_add(frames, frame_step)


def _fit_last(x: Tensor, length: Any) -> Tensor:
    """The first `length` elements of the last dimension, with zeros where there are fewer."""
    x = x[..., :length]
    missing = length - _samples(x, -1)
    return x if isinstance(missing, int) and missing == 0 else _pad_axis(x, -1, missing, 0)


# -- modified cosine transforms ---------------------------------------------------------------------------------------
@export("signal.mdct")
@dispatched
def mdct(signals: Any, frame_length: Any, window_fn: Callable | None = vorbis_window, pad_end: bool = False,
         norm: str | None = None, name: str | None = None) -> Tensor:
    """Modified cosine transforms of half-overlapping frames: [..., frames, frame_length // 2]."""
    with name_scope(name, "mdct", [signals, frame_length]):
        signals = convert(signals, name="signals")
        length = _frame_length_by_four(frame_length)
        frames = frame(signals, length, length // 2, pad_end=pad_end)
        frames = frames * (math.sqrt(0.5) if window_fn is None else window_fn(length, dtype=frames.dtype))
        a, b, c, d = tf.split(frames, 4, axis=-1)
        folded = tf.concat([-tf.reverse(c, [-1]) - d, a - tf.reverse(b, [-1])], axis=-1)
        return tf.signal.dct(folded, type=4, norm=norm)


@export("signal.inverse_mdct")
@dispatched
def inverse_mdct(mdcts: Any, window_fn: Callable | None = vorbis_window, norm: str | None = None,
                 name: str | None = None) -> Tensor:
    """The signal of modified cosine transforms, except for its first and last half frames."""
    with name_scope(name, "inverse_mdct", [mdcts]):
        mdcts = convert(mdcts, name="mdcts")
        half = _samples(mdcts, -1)
        if norm is None:
            folded = tf.signal.idct(mdcts, type=4) * (0.5 / tf.cast(half, mdcts.dtype))
        else:
            folded = tf.signal.idct(mdcts, type=4, norm=norm)
        first, second = tf.split(folded, 2, axis=-1)
        frames = tf.concat([second, -tf.reverse(second, [-1]), -tf.reverse(first, [-1]), -first], axis=-1)
        frames = frames * (math.sqrt(0.5) if window_fn is None else window_fn(half * 2, dtype=mdcts.dtype))
        return overlap_and_add(frames, half)


def _frame_length_by_four(frame_length: Any) -> Any:
    length = _or_tensor(_scalar(frame_length, "frame_length"))
    if isinstance(length, int) and length % 4:
        raise ValueError(f"The frame length must be a multiple of 4: got {length}")
    return length


# -- mel spectra ------------------------------------------------------------------------------------------------------
_MEL_BREAK_HERTZ, _MEL_Q = 700.0, 1127.0


def _hertz_to_mel(hertz: Tensor) -> Tensor:
    return _MEL_Q * tf.math.log(1.0 + hertz / _MEL_BREAK_HERTZ)


@export("signal.linear_to_mel_weight_matrix")
@dispatched
def linear_to_mel_weight_matrix(num_mel_bins: int = 20, num_spectrogram_bins: Any = 129, sample_rate: Any = 8000,
                                lower_edge_hertz: float = 125.0, upper_edge_hertz: float = 3800.0,
                                dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """A matrix [num_spectrogram_bins, num_mel_bins] that turns a spectrum over frequencies into one over mel bands.

    Each column is a triangle over three edges, equally spaced in mel; frequency 0 has no weight.
    """
    with name_scope(name, "linear_to_mel_weight_matrix") as name:
        dtype = dtypes.as_dtype(dtype)
        if isinstance(sample_rate, Tensor):
            known = constant_value(sample_rate)
            if known is None:
                raise ValueError("`sample_rate` was a non-constant Tensor. Must be a Python float or a constant Tensor.")
            sample_rate = float(known)
        _check_mel(num_mel_bins, sample_rate, lower_edge_hertz, upper_edge_hertz, dtype)
        zero = tf.zeros([], dtype)
        nyquist = tf.constant(sample_rate / 2.0, dtype)
        bins = tf.expand_dims(_hertz_to_mel(tf.linspace(zero, nyquist, num_spectrogram_bins)[1:]), 1)
        edges = tf.linspace(_hertz_to_mel(tf.constant(lower_edge_hertz, dtype)),
                            _hertz_to_mel(tf.constant(upper_edge_hertz, dtype)), num_mel_bins + 2)
        lower, center, upper = (tf.expand_dims(edges[i:num_mel_bins + i], 0) for i in range(3))
        rising = (bins - lower) / (center - lower)
        falling = (upper - bins) / (upper - center)
        return tf.pad(tf.maximum(zero, tf.minimum(rising, falling)), [[1, 0], [0, 0]], name=name)


def _check_mel(num_mel_bins: int, sample_rate: float, lower: float, upper: float, dtype: Any) -> None:
    if num_mel_bins <= 0:
        raise ValueError(f"num_mel_bins must be positive. Got: {num_mel_bins}")
    if sample_rate <= 0.0:
        raise ValueError(f"sample_rate must be positive. Got: {sample_rate}")
    if lower < 0.0:
        raise ValueError(f"lower_edge_hertz must be non-negative. Got: {lower}")
    if lower >= upper:
        raise ValueError(f"lower_edge_hertz {lower:.1f} >= upper_edge_hertz {upper:.1f}")
    if upper > sample_rate / 2:
        raise ValueError(f"upper_edge_hertz must not be larger than the Nyquist frequency (sample_rate / 2). Got: "
                         f"{upper} for sample_rate: {sample_rate}")
    if not dtype.is_floating:
        raise ValueError(f"dtype must be a floating point type. Got: {dtype}")


@export("signal.mfccs_from_log_mel_spectrograms")
@dispatched
def mfccs_from_log_mel_spectrograms(log_mel_spectrograms: Any, name: str | None = None) -> Tensor:
    """Mel-frequency cepstral coefficients, scaled as HTK does: a cosine transform of type II times sqrt(1 / 2N)."""
    with name_scope(name, "mfccs_from_log_mel_spectrograms", [log_mel_spectrograms]):
        spectra = convert(log_mel_spectrograms)
        bins = _samples(spectra, -1)
        if isinstance(bins, int) and bins == 0:
            raise ValueError(f"num_mel_bins must be positive. Got: {spectra}")
        return tf.signal.dct(spectra, type=2) * tf.math.rsqrt(tf.cast(bins, spectra.dtype) * 2.0)
