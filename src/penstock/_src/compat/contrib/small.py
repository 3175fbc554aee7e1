"""Packages of tf.contrib that are a few names each: staging, stateless, memory_stats, util, checkpoint, nn, compiler,
resampler, cluster_resolver, saved_model, deprecated, hooks, feature_column."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from penstock._src.base.api import export, resolve
from penstock._src.graph.node import Tensor
from penstock._src.ops.state import staging
from penstock._src.state import containers
from penstock.compat import v1 as tf


def _moved(**names: str) -> None:
    """Exports old names of moved functions; two underscores represent a dot."""
    for old, new in names.items():
        api, _, path = new.rpartition(":")
        export.later(lambda api=api, path=path: resolve(api or "v1", path), v1=["contrib." + old.replace("__", ".")])


_moved(
    stateless__stateless_random_uniform="random.stateless_uniform",
    stateless__stateless_random_normal="random.stateless_normal",
    stateless__stateless_truncated_normal="random.stateless_truncated_normal",
    stateless__stateless_multinomial="random.stateless_multinomial", util__constant_value="get_static_value",
    nn__sampled_softmax_loss="nn.sampled_softmax_loss", checkpoint__Checkpointable="v2:Module",
    proto__decode_proto="io.decode_proto",
    proto__encode_proto="io.encode_proto", hooks__ProfilerHook="train.ProfilerHook",
    checkpoint__CheckpointManager="train.CheckpointManager", nn__conv1d_transpose="nn.conv1d_transpose",
    layers__recompute_grad="recompute_grad",
    lookup__string_to_index_table_from_tensor="contrib.lookup.index_table_from_tensor",
    lookup__string_to_index_table_from_file="contrib.lookup.index_table_from_file",
    cluster_resolver__UnionClusterResolver="distribute.cluster_resolver.UnionResolver",
    saved_model__save_keras_model="keras.experimental.export_saved_model",
    saved_model__load_keras_model="keras.experimental.load_from_saved_model",
    deprecated__audio_summary="summary.audio", deprecated__histogram_summary="summary.histogram",
    deprecated__image_summary="summary.image", deprecated__merge_all_summaries="summary.merge_all",
    deprecated__merge_summary="summary.merge", deprecated__scalar_summary="summary.scalar",
    **{f"cluster_resolver__{n}": f"distribute.cluster_resolver.{n}" for n in (
        "ClusterResolver", "GCEClusterResolver", "KubernetesClusterResolver", "SimpleClusterResolver", "SlurmClusterResolver",
        "TFConfigClusterResolver")},
    **{f"feature_column__{n}": f"feature_column.{n}" for n in (
        "sequence_categorical_column_with_hash_bucket", "sequence_categorical_column_with_identity",
        "sequence_categorical_column_with_vocabulary_file", "sequence_categorical_column_with_vocabulary_list",
        "sequence_numeric_column")},
)


@export(v1=["contrib.staging.StagingArea"])
class StagingArea(staging.StagingArea):
    """A place for the values of the next step: `put` them, `get` them later.

    >>> area = tf.contrib.staging.StagingArea([tf.float32], shapes=[[2]])
    """


export.later(lambda: containers.List, v1=["contrib.checkpoint.List"])
export.later(lambda: containers.Mapping, v1=["contrib.checkpoint.Mapping"])
export.later(lambda: containers.NoDependency, v1=["contrib.checkpoint.NoDependency"])


@export(v1=["contrib.memory_stats.BytesInUse"])
def BytesInUse() -> Tensor:
    """The bytes that the GPU's allocator has returned; 0 without a GPU."""
    return tf.py_func(lambda: _memory("memory_allocated"), [], tf.int64)


@export(v1=["contrib.memory_stats.MaxBytesInUse"])
def MaxBytesInUse() -> Tensor:
    """The peak of these bytes."""
    return tf.py_func(lambda: _memory("max_memory_allocated"), [], tf.int64)


@export(v1=["contrib.memory_stats.BytesLimit"])
def BytesLimit() -> Tensor:
    """The limit of these bytes."""
    import torch
    return tf.constant(torch.cuda.get_device_properties(0).total_memory if torch.cuda.is_available() else 0, tf.int64)


def _memory(what: str) -> Any:
    import numpy as np
    import torch
    return np.int64(getattr(torch.cuda, what)() if torch.cuda.is_initialized() else 0)


@export(v1=["contrib.compiler.jit.experimental_jit_scope"])
@contextlib.contextmanager
def experimental_jit_scope(compile_ops: Any = True, separate_compiled_gradients: bool = False) -> Iterator[None]:
    """Accepted and ignored: steps are always compiled."""
    yield


@export(v1=["contrib.nn.alpha_dropout"])
def alpha_dropout(x: Any, keep_prob: Any, noise_shape: Any = None, seed: int | None = None, name: str | None = None) -> Tensor:
    """Dropout that keeps mean and variance of self-normalizing networks (https://arxiv.org/abs/1706.02515)."""
    with tf.name_scope(name, "alpha_dropout", [x]):
        x = tf.convert_to_tensor(x, name="x")
        if isinstance(keep_prob, float) and not 0 < keep_prob <= 1.0:
            raise ValueError(f"keep_prob must be a scalar tensor or a float in the range (0, 1], got {keep_prob:g}")
        alpha = -1.7580993408473766
        keep = tf.convert_to_tensor(keep_prob, dtype=x.dtype)
        kept = tf.floor(keep + tf.random_uniform(tf.shape(x) if noise_shape is None else noise_shape, seed=seed, dtype=x.dtype))
        a = tf.rsqrt(keep + alpha**2 * keep * (1.0 - keep))
        b = -a * alpha * (1.0 - keep)
        return a * (x * kept + alpha * (1 - kept)) + b


@export(v1=["contrib.resampler.resampler"])
def resampler(data: Any, warp: Any, name: str = "resampler") -> Tensor:
    """The values of images at points `warp` (x, y), between pixels by linear interpolation, zero outside."""
    with tf.name_scope(name, "resampler", [data, warp]):
        data, warp = tf.convert_to_tensor(data), tf.convert_to_tensor(warp)
        height, width = tf.shape(data)[1], tf.shape(data)[2]
        x, y = warp[..., 0], warp[..., 1]
        x0, y0 = tf.floor(x), tf.floor(y)
        rows = tf.reshape(tf.range(tf.shape(data)[0]), [-1, *[1] * (warp.shape.ndims - 2)]) * tf.ones_like(x, dtype=tf.int32)
        total = 0.0
        for dx in (0, 1):
            for dy in (0, 1):
                cx, cy = tf.cast(x0, tf.int32) + dx, tf.cast(y0, tf.int32) + dy
                inside = (cx >= 0) & (cx < width) & (cy >= 0) & (cy < height)
                weight = (1.0 - tf.abs(x - x0 - dx)) * (1.0 - tf.abs(y - y0 - dy)) * tf.cast(inside, data.dtype)
                where = tf.stack([rows, tf.clip_by_value(cy, 0, height - 1), tf.clip_by_value(cx, 0, width - 1)], -1)
                total = total + tf.gather_nd(data, where) * weight[..., tf.newaxis]
        return total


@export(v1=["contrib.nn.nth_element"])
def nth_element(input: Any, n: Any, reverse: bool = False, name: str | None = None) -> Tensor:
    """The n-th smallest value (with `reverse`, the n-th largest) of the last dimension, counted from zero."""
    return resolve("v1", "raw_ops.NthElement")(input=input, n=n, reverse=reverse, name=name)


@export(v1=["contrib.nn.scaled_softplus"])
def scaled_softplus(x: Any, alpha: Any, clip: Any = None, name: str | None = None) -> Tensor:
    """The softplus of `x / alpha`, times alpha; at most `clip`."""
    with tf.name_scope(name, "scaled_softplus", [x, alpha]):
        y = alpha * tf.nn.softplus(x / alpha)
        return y if clip is None else tf.minimum(y, clip)


def _flipped(kind: str) -> None:
    def loss(logits: Any, *args: Any, **kwargs: Any) -> Tensor:
        labels = kwargs.pop("labels" if "labels" in kwargs else "targets") if not args else args[0]
        more = dict(zip(("dim", "name") if kind == "softmax" else ("name",), args[1:], strict=False))
        return getattr(tf.nn, f"{kind}_cross_entropy_with_logits")(labels=labels, logits=logits, **more, **kwargs)
    loss.__name__ = f"deprecated_flipped_{kind}_cross_entropy_with_logits"
    loss.__doc__ = f"tf.nn.{kind}_cross_entropy_with_logits with logits in front of labels."
    export(v1=[f"contrib.nn.{loss.__name__}"])(loss)


for _kind in ("sigmoid", "softmax", "sparse_softmax"):
    _flipped(_kind)


@export(v1=["contrib.lookup.string_to_index"])
def string_to_index(tensor: Any, mapping: Any, default_value: int = -1, name: str | None = None) -> Tensor:
    """The positions of strings in a vector of strings. `tf.tables_initializer` must have run."""
    return tf.contrib.lookup.index_table_from_tensor(mapping, default_value=default_value, name=name).lookup(tensor)


@export(v1=["contrib.lookup.index_to_string"])
def index_to_string(tensor: Any, mapping: Any, default_value: str = "UNK", name: str | None = None) -> Tensor:
    """The strings at positions in a vector of strings. `tf.tables_initializer` must have run."""
    return tf.contrib.lookup.index_to_string_table_from_tensor(mapping, default_value, name).lookup(tensor)
