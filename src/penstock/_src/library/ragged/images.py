"""tf.image.resize of a batch of images of different sizes."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes
from penstock._src.graph.type_spec import TensorSpec
from penstock._src.library.ragged.functional import map_rows
from penstock._src.library.ragged.tensor import RaggedTensor
from penstock.compat import v1 as tf


def resize(fn: Callable, images: Any, size: Any, *args: Any, **kwargs: Any) -> Any:
    """The images [n, (h), (w), c], each resized to `size` by `fn`, as a dense tensor."""
    if images.shape.rank != 4:
        raise ValueError(f"The rank must be 4 where images are ragged, got shape {images.shape}.")
    size = tf.convert_to_tensor(size, dtypes.int32)
    known = tf.get_static_value(size)
    dims = [None, None] if known is None else known.tolist()
    method = kwargs.get("method", args[0] if args else None)
    spec = TensorSpec([*dims, images.shape[-1]], images.dtype if method in (1, "nearest") else dtypes.float32)

    def one(image: Any) -> Any:
        return fn(image.to_tensor() if isinstance(image, RaggedTensor) else image, size, *args, **kwargs)

    def none() -> Any:
        channels = tf.shape(images.flat_values)[-1:]
        return tf.ensure_shape(tf.zeros(tf.concat([[0], size, channels], axis=0), spec.dtype), [None, *spec.shape])
    rows = images.shape[:1].as_list()[0]
    if rows is None:
        return tf.cond(tf.equal(images.nrows(), 0), none, lambda: map_rows(one, images, spec))
    return map_rows(one, images, spec) if rows else none()
