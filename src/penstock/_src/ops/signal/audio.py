"""Audio: reading and writing WAV files, spectrograms, and mel-frequency cepstral coefficients.

Sizes in a file's header are checked against the length of the data before anything is allocated.
"""
from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.base import static_shape as shapes
from penstock._src.kernels import strings
from penstock._src.ops.registry import op

_ONE = 32768.0                                 # what 16 bits have for 1.0
_HEADER = struct.Struct("<4sI4s4sIHHIIHH4sI")
_FORMAT = struct.Struct("<HHIIHH")             # coding, channels, frames per second, bytes per second and frame, bits
_FLOOR = 1e-12                                 # of what a logarithm is taken of

decode_wav = op("DecodeWav", "contents: string -> audio: float32, sample_rate: int32",
                "desired_channels: int = -1, desired_samples: int = -1", export_as="audio.decode_wav",
                doc="""Decodes a WAV file of 16 bits per sample to floats between -1 and 1: (audio, sample_rate).

    Missing channels repeat the last one, missing samples are zero.

        audio, rate = tf.audio.decode_wav(tf.io.read_file("a.wav"), desired_channels=1)
    """).no_gradient()
encode_wav = op("EncodeWav", "audio: float32, sample_rate: int32 -> contents: string", export_as="audio.encode_wav",
                doc="""Encodes audio [samples, channels], between -1 and 1, as a WAV file of 16 bits per sample.

        contents = tf.audio.encode_wav(tf.sin(tf.range(8000.0) / 10)[:, None], sample_rate=8000)
    """).no_gradient()
spectrogram = op("AudioSpectrogram", "input: float32 -> spectrogram: float32",
                 "window_size: int, stride: int, magnitude_squared: bool = False")
mfcc = op("Mfcc", "spectrogram: float32, sample_rate: int32 -> output: float32",
          "upper_frequency_limit: float = 4000.0, lower_frequency_limit: float = 20.0, filterbank_channel_count: int = 40, "
          "dct_coefficient_count: int = 13")


# -- WAV files --------------------------------------------------------------------------------------------------------
@decode_wav.shape
def _decode_wav_shape(contents, *, desired_channels, desired_samples):
    shapes.rank_is(contents, 0)
    for n, what in ((desired_channels, "channels"), (desired_samples, "samples")):
        if n < -1:
            raise ValueError(f"{what} must be non-negative, got {n}")
    return [tuple(None if n == -1 else n for n in (desired_samples, desired_channels)), ()]


@decode_wav.kernel(device="cpu")
def _decode_wav_kernel(contents, *, desired_channels, desired_samples):
    if min(desired_channels, desired_samples) < -1:
        raise errors.invalid(f"channels and samples must be non-negative, got {desired_channels} and {desired_samples}")
    samples, rate = _decoded(strings.scalar(contents, "contents"))
    frames, channels = samples.shape
    wanted = channels if desired_channels == -1 else desired_channels
    length = frames if desired_samples == -1 else desired_samples
    strings.check_bytes(4 * wanted * length, "DecodeWav")
    kept = samples[:length, torch.arange(wanted).clamp(max=channels - 1)]
    audio = torch.nn.functional.pad(kept, (0, 0, 0, length - kept.shape[0]))
    return audio, torch.tensor(rate).to(torch.int32)


def _take(data: bytes, start: int, size: int) -> bytes:
    if start + size > len(data):
        raise errors.invalid("Data too short when trying to read string")
    return data[start:start + size]


def _expect(data: bytes, start: int, text: bytes) -> None:
    found = _take(data, start, len(text))
    if found != text:
        raise errors.invalid(f"Header mismatch: Expected {text.decode()} but found {strings.show(found)}")


def _decoded(data: bytes) -> tuple[torch.Tensor, int]:
    """The samples [frames, channels] of a WAV file, and its frames per second."""
    _expect(data, 0, b"RIFF")
    _take(data, 4, 4)
    _expect(data, 8, b"WAVE")
    _expect(data, 12, b"fmt ")
    size, = struct.unpack("<I", _take(data, 16, 4))
    if size not in (16, 18):
        raise errors.invalid(f"Bad file size for WAV: Expected 16 or 18, but got {size}")
    coding, channels, rate, per_second, per_frame, bits = _FORMAT.unpack(_take(data, 20, _FORMAT.size))
    _check_format(coding, channels, rate, per_second, per_frame, bits)
    found = _data_chunk(data, 20 + size, per_frame)
    values = np.frombuffer(found, "<i2").astype(np.float32) / np.float32(_ONE)
    return torch.from_numpy(values).reshape(-1, channels), rate


def _check_format(coding: int, channels: int, rate: int, per_second: int, per_frame: int, bits: int) -> None:
    if coding != 1:
        raise errors.invalid(f"Bad audio format for WAV: Expected 1 (PCM), but got {coding}")
    if channels < 1:
        raise errors.invalid(f"Bad number of channels for WAV: Expected at least 1, but got {channels}")
    if bits != 16:
        raise errors.invalid(f"Can only read 16-bit WAV files, but received {bits}")
    if per_frame != 2 * channels:
        raise errors.invalid(f"Bad bytes per sample in WAV header: Expected {2 * channels} but got {per_frame}")
    if per_second != per_frame * rate % 2 ** 32:
        raise errors.invalid(f"Bad bytes per second in WAV header: Expected {per_frame * rate} but got {per_second} "
                             f"(sample_rate={rate}, bytes_per_sample={per_frame})")


def _data_chunk(data: bytes, place: int, per_frame: int) -> bytes:
    """The complete frames of the data chunk; other chunks are skipped."""
    found = None
    while place < len(data):
        name = _take(data, place, 4)
        size, = struct.unpack("<I", _take(data, place + 4, 4))
        if size >= 2 ** 31:
            raise errors.invalid(f"WAV data chunk '{strings.show(name)}' is too large: {size} bytes, but the limit is "
                                 f"{2 ** 31 - 1}")
        place += 8
        if name == b"data":
            if found is not None:
                raise errors.invalid("More than one data chunk found in WAV")
            found = _take(data, place, size // per_frame * per_frame)
            size = len(found)
        place += size
    if found is None:
        raise errors.invalid("No data chunk found in WAV")
    return found


@encode_wav.shape
def _encode_wav_shape(audio, sample_rate):
    shapes.rank_is(audio, 2)
    shapes.rank_is(sample_rate, 0)
    return ()


@encode_wav.kernel(device="cpu")
def _encode_wav_kernel(audio, sample_rate):
    if audio.ndim != 2:
        raise errors.invalid(f"audio must be 2-dimensional, got shape {list(audio.shape)}")
    rate = _rate(sample_rate)
    frames, channels = audio.shape
    if not 0 < rate:
        raise errors.invalid(f"sample_rate must be in (0, 2^32), got: {rate}")
    if not 0 < channels < 2 ** 16:
        raise errors.invalid(f"num_channels must be in (0, 2^16), got: {channels}")
    if frames == 0:
        raise errors.invalid("num_frames must be positive.")
    size = 2 * frames * channels
    if max(size + _HEADER.size, 2 * channels * rate) >= 2 ** 32:
        raise errors.invalid("Provided channels and frames cannot be encoded as a WAV.")
    header = _HEADER.pack(b"RIFF", _HEADER.size + size - 8, b"WAVE", b"fmt ", 16, 1, channels, rate, 2 * channels * rate,
                          2 * channels, 16, b"data", size)
    scaled = torch.nan_to_num(audio.double() * _ONE)
    rounded = torch.trunc(scaled + torch.copysign(torch.full_like(scaled, 0.5), scaled)).clamp(-_ONE, _ONE - 1)
    return strings.pack([header + rounded.numpy().astype("<i2").tobytes()], ())


def _rate(sample_rate: torch.Tensor) -> int:
    if sample_rate.ndim != 0:
        raise errors.invalid(f"Input sample_rate should be a scalar tensor, got {list(sample_rate.shape)} instead.")
    return int(sample_rate)


# -- spectra ----------------------------------------------------------------------------------------------------------
def _bins(window_size: int) -> int:
    """The number of frequencies of a window, which is padded with zeros to a power of two."""
    return 1 + (1 << max(window_size - 1, 0).bit_length()) // 2


def _windows(samples: int, window_size: int, stride: int) -> int:
    return 0 if samples < window_size else 1 + (samples - window_size) // stride


@spectrogram.shape
def _spectrogram_shape(input, *, window_size, stride):
    samples, channels = shapes.rank_is(input, 2)
    _check_window(window_size, stride, ValueError)
    return (channels, None if samples is None else _windows(samples, window_size, stride), _bins(window_size))


def _check_window(window_size: int, stride: int, error: Any) -> None:
    if window_size < 2 or stride < 1 or window_size > 2 ** 24:
        raise error(f"Spectrogram initialization failed for window size {window_size} and stride {stride}")


@spectrogram.kernel
def _spectrogram_kernel(input, *, window_size, stride, magnitude_squared):
    _check_window(window_size, stride, errors.invalid)
    if input.ndim != 2:
        raise errors.invalid(f"input must be 2-dimensional, got shape {list(input.shape)}")
    bins, samples = _bins(window_size), input.shape[0]
    if samples < window_size or input.shape[1] == 0:
        return input.new_zeros(input.shape[1], _windows(samples, window_size, stride), bins)
    strings.check_bytes(8 * input.shape[1] * _windows(samples, window_size, stride) * 2 * bins, "AudioSpectrogram")
    window = torch.hann_window(window_size, periodic=True, dtype=torch.float64, device=input.device)
    frames = input.t().double().unfold(1, window_size, stride) * window
    squared = torch.fft.rfft(frames, n=2 * (bins - 1)).abs().square().float()
    return squared if magnitude_squared else squared.sqrt()


@mfcc.shape
def _mfcc_shape(spectrogram, sample_rate, *, dct_coefficient_count):
    shapes.rank_is(sample_rate, 0)
    return (*shapes.rank_is(spectrogram, 3)[:2], dct_coefficient_count)


@mfcc.kernel
def _mfcc_kernel(spectrogram, sample_rate, *, upper_frequency_limit, lower_frequency_limit, filterbank_channel_count,
                 dct_coefficient_count):
    if spectrogram.ndim != 3:
        raise errors.invalid(f"spectrogram must be 3-dimensional, got shape {list(spectrogram.shape)}")
    rate, bins, bands = _rate(sample_rate), spectrogram.shape[2], filterbank_channel_count
    if not (rate > 0 and bins > 1 and 0 <= lower_frequency_limit < upper_frequency_limit
            and 1 <= dct_coefficient_count <= bands <= 2 ** 16):
        raise errors.invalid(f"Mfcc initialization failed for channel count {bins} and sample rate {rate}")
    if upper_frequency_limit / (0.5 * rate / (bins - 1)) >= bins:
        raise errors.invalid(f"The upper frequency limit {upper_frequency_limit} is above what {bins} bins at sample rate "
                             f"{rate} hold")
    filters = _mel_filters(bins, rate, bands, lower_frequency_limit, upper_frequency_limit)
    mel = spectrogram.double().sqrt() @ filters.to(spectrogram.device)
    angles = torch.outer(torch.arange(bands, dtype=torch.float64) + 0.5, torch.arange(dct_coefficient_count).double())
    cosines = math.sqrt(2.0 / bands) * torch.cos(angles * (math.pi / bands))
    return (mel.clamp(min=_FLOOR).log() @ cosines.to(mel.device)).float()


def _mel(frequency: Any) -> Any:
    return 1127.0 * np.log1p(frequency / 700.0)


def _mel_filters(bins: int, rate: float, bands: int, low: float, high: float) -> torch.Tensor:
    """The weight [bin, band] of each frequency in each band: triangles that overlap by half, evenly spaced in mel."""
    edges = np.linspace(_mel(low), _mel(high), bands + 2)
    width = 0.5 * rate / (bins - 1)
    used = np.arange(int(1.5 + low / width), int(high / width) + 1)       # never the constant part
    mel = _mel(used * width)
    before = np.clip(np.searchsorted(edges[1:-1], mel, side="left"), 0, bands)       # edges[before] < mel <= the next one
    falling = (edges[before + 1] - mel) / (edges[before + 1] - edges[before])
    out = np.zeros((bins, bands + 2))
    out[used, before] = falling
    out[used, before + 1] = 1 - falling
    return torch.from_numpy(out[:, 1:-1].copy())
