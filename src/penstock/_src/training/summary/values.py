"""tf.summary.scalar, histogram, image, audio and text of the 2.x API: tensors with the metadata of TensorBoard's plugins."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.library.image.color import convert_image_dtype
from penstock._src.ops.control.map_fn import map_rows
from penstock._src.ops.registry import get
from penstock._src.training.summary.writers import summary_scope, write

_BUCKETS = 30


def _cast(value: Any, dtype: Any) -> Any:
    return value if value.dtype == dtype else get("Cast")(value, DstT=dtype)


@export(v2=["summary.scalar"])
def scalar(name: str, data: Any, step: Any = None, description: str | None = None) -> Any:
    """Writes one number.

    >>> tf.summary.scalar("loss", loss, step=10)
    """
    from tensorboard.plugins.scalar import metadata
    with summary_scope(name, "scalar_summary", [data, step]) as (tag, _):
        value = convert(data)
        if value.shape.rank not in (0, None):
            raise ValueError(f"a scalar summary needs a scalar, got shape {value.shape}")
        return write(tag, _cast(value, dtypes.float32), step, metadata.create_summary_metadata(None, description))


@export(v2=["summary.histogram"])
def histogram(name: str, data: Any, step: Any = None, buckets: int | None = None, description: str | None = None) -> Any:
    """Writes how values are distributed, in `buckets` of equal width."""
    from tensorboard.plugins.histogram import metadata
    with summary_scope(name, "histogram_summary", [data, buckets, step]) as (tag, _):
        return write(tag, lambda: _counted(convert(data), _BUCKETS if buckets is None else buckets), step,
                     metadata.create_summary_metadata(None, description))


def _counted(data: Any, buckets: int) -> Any:
    """Rows (left edge, right edge, count), [buckets, 3]. Equal values are in the last bucket of width one around them."""
    values = get("Reshape")(_cast(data, dtypes.float64), [-1])
    zero = convert(0.0, dtypes.float64)
    count = get("Cast")(get("Size")(values), DstT=dtypes.float64)
    some = get("Greater")(count, zero)
    low = get("Select")(some, get("Min")(values, [0]), zero)
    high = get("Select")(some, get("Max")(values, [0]), zero)
    spread = get("Sub")(high, low)
    flat = get("LessEqual")(spread, zero)
    half = convert(0.5, dtypes.float64)
    low = get("Select")(flat, get("Sub")(low, half), low)
    high = get("Select")(flat, get("Add")(high, half), high)
    width = get("RealDiv")(get("Sub")(high, low), convert(float(max(buckets, 1)), dtypes.float64))
    at = get("Cast")(get("Floor")(get("RealDiv")(get("Sub")(values, low), width)), DstT=dtypes.int32)
    at = get("Maximum")(get("Minimum")(at, buckets - 1), 0)
    counts = get("UnsortedSegmentSum")(get("OnesLike")(values), at, buckets)
    steps = get("Cast")(get("Range")(0, buckets + 1, 1), DstT=dtypes.float64)
    edges = get("Add")(low, get("Mul")(steps, width))
    left, right = get("Slice")(edges, [0], [buckets]), get("Slice")(edges, [1], [buckets])
    return get("Pack")([left, right, counts], axis=1)


@export(v2=["summary.image"])
def image(name: str, data: Any, step: Any = None, max_outputs: int = 3, description: str | None = None) -> Any:
    """Writes the first images of a batch, [n, height, width, channels]; floats are in [0, 1]."""
    from tensorboard.plugins.image import metadata
    with summary_scope(name, "image_summary", [data, max_outputs, step]) as (tag, _):
        return write(tag, lambda: _encoded(convert(data), max_outputs), step,
                     metadata.create_summary_metadata(None, description))


def _encoded(data: Any, max_outputs: int) -> Any:
    """Width and height as text, then the images as PNG."""
    if data.shape.rank not in (4, None):
        raise ValueError(f"an image summary needs a batch of rank 4, got shape {data.shape}")
    pixels = convert_image_dtype(data, dtypes.uint8, saturate=True)
    pixels = get("StridedSlice")(pixels, [0], [max_outputs], [1], begin_mask=1)
    size = get("AsString")(get("StridedSlice")(get("Shape")(data), [1], [3], [1]))
    both = get("ReverseV2")(size, [0])
    return get("ConcatV2")([both, get("EncodePng")(pixels)], 0)


@export(v2=["summary.audio"])
def audio(name: str, data: Any, sample_rate: Any, step: Any = None, max_outputs: int = 3, encoding: str | None = None,
          description: str | None = None) -> Any:
    """Writes the first clips of a batch, [n, frames, channels], as WAV."""
    from tensorboard.plugins.audio import metadata
    if encoding not in (None, "wav"):
        raise ValueError(f"Unknown encoding: {encoding!r}")
    kind = metadata.Encoding.Value("WAV")
    with summary_scope(name, "audio_summary", [data, sample_rate, max_outputs, step]) as (tag, _):
        return write(tag, lambda: _wav(convert(data, dtypes.float32), convert(sample_rate, dtypes.int32), max_outputs), step,
                     metadata.create_summary_metadata(None, description, kind))


def _wav(data: Any, rate: Any, max_outputs: int) -> Any:
    """Rows (clip as WAV, label)."""
    clips = get("StridedSlice")(data, [0], [max_outputs], [1], begin_mask=1)
    encoded = map_rows(lambda clip: get("EncodeWav")(clip, rate), clips, dtype=dtypes.string)
    return get("Pack")([encoded, get("Fill")(get("Shape")(encoded), "")], axis=1)


@export(v2=["summary.text"])
def text(name: str, data: Any, step: Any = None, description: str | None = None) -> Any:
    """Writes text, in Markdown."""
    from tensorboard.plugins.text import metadata
    with summary_scope(name, "text_summary", [data, step]) as (tag, _):
        value = convert(data)
        if value.dtype != dtypes.string:
            raise ValueError(f"a text summary needs strings, got {value.dtype}")
        return write(tag, value, step, metadata.create_summary_metadata(None, description))
