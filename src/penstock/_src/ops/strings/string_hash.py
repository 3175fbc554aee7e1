"""Strings to hash buckets, and fingerprints. Trained models depend on the values, so they must not change."""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock._src.kernels import hashing, strings
from penstock._src.kernels.bridge import to_numpy
from penstock._src.ops import rules
from penstock._src.ops.arguments import renamed
from penstock._src.ops.composite import dispatched
from penstock._src.ops.registry import op

to_hash_bucket_op = op("StringToHashBucket", "string_tensor: string -> output: int64",
                       "num_buckets: int >= 1").no_gradient()
to_hash_bucket_fast_op = op("StringToHashBucketFast", "input: string -> output: int64",
                            "num_buckets: int >= 1").no_gradient()
to_hash_bucket_strong_op = op("StringToHashBucketStrong", "input: string -> output: int64",
                              "num_buckets: int >= 1, key: list(int)").no_gradient()
to_hash_bucket_op.shape(lambda string_tensor: string_tensor)
to_hash_bucket_fast_op.shape(lambda input: input)
to_hash_bucket_strong_op.shape(lambda input: input)


def bucket(hashes: np.ndarray, count: int) -> torch.Tensor:
    """Hash values as int64 bucket numbers."""
    return torch.from_numpy((hashes % np.uint64(count)).astype(np.int64))


@to_hash_bucket_op.kernel(device="cpu")
def _to_hash_bucket_kernel(string_tensor, *, num_buckets):
    return bucket(hashing.murmur64(string_tensor.ravel().tolist()), num_buckets).reshape(string_tensor.shape)


@to_hash_bucket_fast_op.kernel(device="cpu")
def _to_hash_bucket_fast_kernel(input, *, num_buckets):
    return bucket(hashing.fingerprint64(input.ravel().tolist()), num_buckets).reshape(input.shape)


@to_hash_bucket_strong_op.kernel(device="cpu")
def _to_hash_bucket_strong_kernel(input, *, num_buckets, key):
    if len(key) != 2:
        raise errors.invalid("Key must have 2 elements")
    return bucket(hashing.siphash(input.ravel().tolist(), tuple(key)), num_buckets).reshape(input.shape)


for _hash in (to_hash_bucket_op, to_hash_bucket_fast_op, to_hash_bucket_strong_op):
    rules.columns.rows[_hash] = _hash.kernel_for("cpu")


@export(v1=["strings.to_hash_bucket", "string_to_hash_bucket"])
@dispatched
def to_hash_bucket(string_tensor: Any = None, num_buckets: int | None = None, name: str | None = None,
                   input: Any = None) -> Tensor:
    """Strings to bucket numbers below `num_buckets`, by the older hash; prefer to_hash_bucket_fast."""
    input = renamed("input", input, "string_tensor", string_tensor)
    return to_hash_bucket_op(input, num_buckets=num_buckets, name=name)


@export(v2=["strings.to_hash_bucket"])
@dispatched
def to_hash_bucket_v2(input: Any, num_buckets: int, name: str | None = None) -> Tensor:
    """Strings to bucket numbers below `num_buckets`, by the older hash; prefer to_hash_bucket_fast."""
    return to_hash_bucket_op(input, num_buckets=num_buckets, name=name)


@export("strings.to_hash_bucket_fast", v1=["string_to_hash_bucket_fast"])
@dispatched
def to_hash_bucket_fast(input: Any, num_buckets: int, name: str | None = None) -> Tensor:
    """Strings to bucket numbers, the same in every process and on every machine.

    Args:
        input: Strings of any shape.
        num_buckets: The number of buckets, at least 1.
        name: A name for the op.

    Returns:
        int64 numbers from 0 to `num_buckets - 1`, of the shape of `input`.

    >>> tf.strings.to_hash_bucket_fast(["Hello", "TensorFlow"], 3).numpy().tolist()
    [0, 2]
    """
    return to_hash_bucket_fast_op(input, num_buckets=num_buckets, name=name)


@export("strings.to_hash_bucket_strong", v1=["string_to_hash_bucket_strong"])
@dispatched
def to_hash_bucket_strong(input: Any, num_buckets: int, key: Any, name: str | None = None) -> Tensor:
    """Strings to bucket numbers below `num_buckets`, by a keyed hash that cannot be predicted without the key."""
    return to_hash_bucket_strong_op(input, num_buckets=num_buckets, key=key, name=name)


fingerprint_op = op("Fingerprint", "data: T, method: string -> fingerprint: uint8", "T: type").no_gradient()


@fingerprint_op.shape
def _fingerprint_shape(data, method):
    shapes.rank_is(method, 0)
    shapes.rank_at_least(data, 1)
    return (None if data is None else data[0], 8)


@fingerprint_op.kernel(device="cpu")
def _fingerprint_kernel(data, method):
    if strings.scalar(method, "method") != b"farmhash64":
        raise errors.invalid(f"Unsupported data fingerprint method: {strings.show(method.item())}")
    if data.ndim < 1:
        raise errors.invalid("Data must have at least one dimension.")
    return torch.from_numpy(hashing.fingerprint64(_rows(data)).astype("<u8").view(np.uint8).reshape(-1, 8))


def _rows(data: Any) -> list[bytes]:
    """The bytes of each row; for rows of several strings, those of the strings' own fingerprints."""
    n = data.shape[0]
    if not isinstance(data, np.ndarray):
        array = np.ascontiguousarray(to_numpy(data))
        return [row.tobytes() for row in array]
    if data.ndim == 1:
        return data.tolist()
    prints = hashing.fingerprint64(data.ravel().tolist()).reshape(n, -1)
    return [row.astype("<u8").tobytes() for row in prints]


@export("fingerprint")
@dispatched
def fingerprint(data: Any, method: Any = "farmhash64", name: str | None = None) -> Tensor:
    """A 64-bit fingerprint, as 8 bytes, of each row of `data`."""
    return fingerprint_op(data, method, name=name)
