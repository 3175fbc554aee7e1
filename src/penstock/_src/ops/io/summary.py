"""Summaries as serialized messages: scalars, histograms, images, audio and tensors, and their merging.

The functions of tf.summary (`summary/`) add these to graphs; the results are written to event files (`io/events.py`).
"""
from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.graph.message_names import message_class
from penstock._src.graph.tensor_proto import make_tensor_proto
from penstock._src.kernels import bridge, strings
from penstock._src.ops.image.codec import _png
from penstock._src.ops.registry import OPS, op

_REAL = "T: type in {real}"
_RED = np.array([255, 0, 0, 255], np.uint8)


def _summary() -> Any:
    return message_class("Summary")()


def _out(summary: Any) -> np.ndarray:
    return strings.pack([summary.SerializeToString()], ())


def _show(shape: Any) -> str:
    return f"[{','.join(map(str, shape))}]"


# -- scalars ---------------------------------------------------------------------------------------------------------
scalar_summary = op("ScalarSummary", "tags: string, values: T -> summary: string", _REAL).no_gradient()
scalar_summary.shape(lambda tags, values: ())


@scalar_summary.kernel
def _scalar_summary_kernel(tags, values):
    if tags.shape != tuple(values.shape) and not tags.size == values.numel() == 1:
        hint = f" (tag '{strings.show(tags.item())}')" if tags.size == 1 else ""
        raise errors.invalid(f"tags and values not the same shape: {_show(tags.shape)} != {_show(values.shape)}{hint}")
    out = _summary()
    for tag, value in zip(tags.ravel().tolist(), values.reshape(-1).to(torch.float64).tolist()):
        out.value.add(tag=strings.show(tag), simple_value=value)
    return _out(out)


# -- histograms ------------------------------------------------------------------------------------------------------
@functools.cache
def histogram_limits() -> np.ndarray:
    """The upper limits of the buckets: each 1.1 times as large as the one before, on both sides of zero."""
    limits, v = [], 1e-12
    while v < 1e20:
        limits.append(v)
        v *= 1.1
    limits.append(sys.float_info.max)
    return np.array([*(-x for x in reversed(limits)), 0.0, *limits])


def fill_histogram(values: np.ndarray, out: Any) -> None:
    """Fills a HistogramProto from values. Sorting them is faster than finding the bucket of each."""
    values = np.sort(values.ravel()).astype(np.float64)
    counts = np.diff(np.searchsorted(values, histogram_limits()), prepend=0).astype(np.float64)
    low, high = (values[0], values[-1]) if values.size else (sys.float_info.max, -sys.float_info.max)
    write_histogram(counts, low, high, values.sum(), (values * values).sum(), out)


def write_histogram(counts: np.ndarray, low: float, high: float, total: float, squares: float, out: Any) -> None:
    """Fills a HistogramProto from the counts of the buckets; runs of empty buckets become one."""
    limits = histogram_limits()
    out.min, out.max, out.num, out.sum, out.sum_squares = low, high, counts.sum(), total, squares
    empty = counts == 0
    kept = ~empty | ~np.append(empty[1:], False)           # an empty bucket stays if the next one is not empty
    out.bucket_limit.extend(limits[kept].tolist())
    out.bucket.extend(counts[kept].tolist())


histogram_summary = op("HistogramSummary", "tag: string, values: T -> summary: string", _REAL + " = float32").no_gradient()
histogram_summary.shape(lambda tag, values: ())


@histogram_summary.kernel
def _histogram_summary_kernel(tag, values):
    return _out(histogram_message(strings.show(strings.scalar(tag, "tags")), values))


def histogram_message(tag: str, values: torch.Tensor) -> Any:
    """The Summary of a histogram; InvalidArgumentError for values that are not finite."""
    array = (values if values.dtype is torch.float32 else values.to(torch.float64)).cpu().numpy()
    if not np.isfinite(array).all():
        raise errors.invalid(f"{'Nan' if np.isnan(array).any() else 'Infinity'} in summary histogram for: {tag}")
    out = _summary()
    fill_histogram(array, out.value.add(tag=tag).histo)
    return out


# -- images ----------------------------------------------------------------------------------------------------------
image_summary = op("ImageSummary", "tag: string, tensor: T -> summary: string",
                   "max_images: int >= 1 = 3, T: type in {uint8 float32 half float64} = float32, bad_color: tensor = None",
                   ).no_gradient()
image_summary.shape(lambda tag, tensor: ())


@image_summary.kernel
def _image_summary_kernel(tag, tensor, *, max_images, bad_color):
    color = _RED if bad_color is None else bridge.to_numpy(bad_color)
    return _out(image_message(strings.show(strings.scalar(tag, "tags")), tensor, max_images, color))


def image_message(tag: str, tensor: torch.Tensor, max_images: int, bad_color: Any = None) -> Any:
    """The Summary of the first images of a batch."""
    if tensor.ndim != 4 or tensor.shape[3] not in (1, 3, 4):
        raise errors.invalid(f"Images must have rank 4 and 1, 3 or 4 channels, not {_show(tensor.shape)}")
    channels = tensor.shape[3]
    color = np.resize(_RED if bad_color is None else np.asarray(bad_color, np.uint8).ravel(), 4)[:channels]
    out = _summary()
    for i, image in enumerate(tensor[:max_images]):
        array = image.numpy() if image.dtype is torch.uint8 else _as_pixels(image.float().numpy(), color)
        value = out.value.add(tag=f"{tag}/image/{i}" if max_images > 1 else f"{tag}/image")
        value.image.height, value.image.width, value.image.colorspace = array.shape
        value.image.encoded_image_string = _png(array, {})
    return out


def _as_pixels(image: np.ndarray, bad_color: np.ndarray) -> np.ndarray:
    """Floats as bytes: from [0, max] to [0, 255], or, with negative values, so that 0 becomes 128."""
    finite = np.isfinite(image).all(axis=2)
    if not finite.any():
        return np.broadcast_to(bad_color, image.shape)
    low, high = image[finite].min(), image[finite].max()
    top = max(abs(low), abs(high)) if low < 0 else high
    scale = np.float32(0 if top < 1e-6 else (127 if low < 0 else 255) / top)
    with np.errstate(invalid="ignore"):
        out = (image * scale + np.float32(128 if low < 0 else 0)).astype(np.uint8)
    out[~finite] = bad_color
    return out


# -- audio -----------------------------------------------------------------------------------------------------------
_AUDIO = "max_outputs: int >= 1 = 3"
audio_summary = op("AudioSummary", "tag: string, tensor: float32 -> summary: string", f"sample_rate: float, {_AUDIO}",
                   ).no_gradient()
audio_summary_v2 = op("AudioSummaryV2", "tag: string, tensor: float32, sample_rate: float32 -> summary: string", _AUDIO,
                      ).no_gradient()
audio_summary.shape(lambda tag, tensor: ())
audio_summary_v2.shape(lambda tag, tensor, sample_rate: ())


@audio_summary.kernel
def _audio_summary_kernel(tag, tensor, *, sample_rate, max_outputs):
    return _out(audio_message(strings.show(strings.scalar(tag, "tag")), tensor, sample_rate, max_outputs))


@audio_summary_v2.kernel
def _audio_summary_v2_kernel(tag, tensor, sample_rate, *, max_outputs):
    if sample_rate.numel() != 1:
        raise errors.invalid("sample_rate must be scalar")
    return _out(audio_message(strings.show(strings.scalar(tag, "tag")), tensor, float(sample_rate), max_outputs))


def audio_message(tag: str, tensor: torch.Tensor, sample_rate: float, max_outputs: int) -> Any:
    """The Summary of the first clips of a batch, as WAV."""
    if tensor.ndim not in (2, 3):
        raise errors.invalid(f"Tensor must be 3-D or 2-D, got: {_show(tensor.shape)}")
    encode = OPS["EncodeWav"].kernel_for("cpu").fn
    clips = tensor if tensor.ndim == 3 else tensor[:, :, None]
    out = _summary()
    for i, clip in enumerate(clips[:max_outputs]):
        audio = out.value.add(tag=f"{tag}/audio/{i}" if max_outputs > 1 else f"{tag}/audio").audio
        audio.sample_rate, audio.num_channels, audio.length_frames = sample_rate, clip.shape[1], clip.shape[0]
        audio.content_type = "audio/wav"
        audio.encoded_audio_string = encode(clip, torch.tensor(max(round(sample_rate), 1), dtype=torch.int32)).item()
    return out


# -- tensors ---------------------------------------------------------------------------------------------------------
tensor_summary = op("TensorSummary", "tensor: T -> summary: string",
                    "T: type, description: string = '', labels: list(string) = [], display_name: string = ''").no_gradient()
tensor_summary_v2 = op("TensorSummaryV2", "tag: string, tensor: T, serialized_summary_metadata: string -> summary: string",
                       "T: type").no_gradient()
tensor_summary.shape(lambda tensor: ())
tensor_summary_v2.shape(lambda tag, tensor, serialized_summary_metadata: ())


def tensor_message(value: Any, tensor: Any, dtype: Any) -> None:
    """Fills a Summary.Value with a tensor: numbers as bytes, strings one by one."""
    array = bridge.to_numpy(tensor, dtype)
    if array.dtype == object:
        value.tensor.CopyFrom(make_tensor_proto(array, dtype=dtype))
        return
    value.tensor.dtype = dtype.as_datatype_enum
    value.tensor.tensor_shape.SetInParent()
    for size in array.shape:
        value.tensor.tensor_shape.dim.add(size=size)
    value.tensor.tensor_content = array.tobytes()


@tensor_summary.kernel
def _tensor_summary_kernel(tensor, *, T, node):
    out = _summary()
    tensor_message(out.value.add(node_name=node.name), tensor, T)
    return _out(out)


@tensor_summary_v2.kernel
def _tensor_summary_v2_kernel(tag, tensor, serialized_summary_metadata, *, T):
    out = _summary()
    value = out.value.add(tag=strings.show(strings.scalar(tag, "tag")))
    tensor_message(value, tensor, T)
    parse_metadata(strings.scalar(serialized_summary_metadata, "serialized_summary_metadata"), value)
    return _out(out)


def parse_metadata(data: bytes, value: Any) -> None:
    """Sets the metadata of a Summary.Value from their serialized form."""
    from google.protobuf.message import DecodeError
    try:
        value.metadata.ParseFromString(data)
    except DecodeError:
        raise errors.invalid("the summary metadata cannot be parsed") from None


# -- merging ---------------------------------------------------------------------------------------------------------
merge_summary = op("MergeSummary", "inputs: N * string -> summary: string", "N: int >= 1").no_gradient()
merge_summary.shape(lambda inputs: ())


@merge_summary.kernel
def _merge_summary_kernel(inputs):
    out, seen = _summary(), set()
    for text in (t for array in inputs for t in array.ravel().tolist()):
        try:
            part = type(out).FromString(text)
        except Exception:
            raise errors.invalid("Could not parse one of the summary inputs") from None
        for value in part.value:
            if value.tag and value.tag in seen:
                raise errors.invalid(f"Duplicate tag {value.tag} found in summary inputs")
            seen.add(value.tag)
        out.MergeFrom(part)
    return _out(out)


