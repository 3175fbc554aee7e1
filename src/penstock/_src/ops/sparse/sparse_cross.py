"""Feature crosses: for each row of a batch, every combination of one feature per input, as strings or as hashes."""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock._src.kernels import arrays, hashing, indexing, sparse, strings
from penstock._src.ops.registry import op
from penstock.compat import v1 as tf

_SEPARATOR = b"_X_"
_DEFAULT_KEY = 0xDECAFCAFFE

cross_op = op("SparseCross", "indices: N * int64, values: sparse_types, shapes: N * int64, dense_inputs: dense_types -> "
                             "output_indices: int64, output_values: out_type, output_shape: int64",
              "N: int >= 0, hashed_output: bool, num_buckets: int >= 0, hash_key: int, "
              "sparse_types: list(type) in {int64 string} >= 0, dense_types: list(type) in {int64 string} >= 0, "
              "out_type: type in {int64 string}, internal_type: type in {int64 string}").no_gradient()
cross_op.shape(lambda indices, values, shapes, dense_inputs: [(None, 2), (None,), (2,)])


@cross_op.kernel
def _cross_kernel(indices, values, shapes, dense_inputs, *, num_buckets, hash_key, out_type):
    rows = _batch_size(shapes, dense_inputs)
    columns = [_Column.sparse(i, v, s, rows, at)
               for at, (i, v, s) in enumerate(zip(indices, values, shapes, strict=True))]
    columns += [_Column.dense(d, rows, at) for at, d in enumerate(dense_inputs)]
    counts = np.ones(rows, object)                     # Python's integers: products of counts may be anything
    for c in columns:
        counts = counts * c.count.astype(object)
    total = int(counts.sum()) if rows and columns else 0
    strings.check_bytes(8 * total, "SparseCross")
    counts = counts.astype(np.int64) if columns else np.zeros(rows, np.int64)
    row = np.repeat(np.arange(rows), counts)
    place = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    features, rest = [], place
    for c in reversed(columns):                        # the last input goes round fastest
        features.append(c.start[row] + rest % c.count[row])
        rest = rest // c.count[row]
    picked = [(c.values, f) for c, f in zip(columns, reversed(features), strict=True)]
    found = _hashed(picked, total, num_buckets, hash_key) if out_type == dtypes.int64 else _joined(picked, total)
    shape = [rows, int(counts.max(initial=0))]
    return torch.from_numpy(np.stack([row, place], 1)), found, torch.tensor(shape, dtype=torch.int64)


def _batch_size(shapes: list, dense: list) -> int:
    if shapes:
        if tuple(shapes[0].shape) != (2,):
            raise errors.invalid(f"shape should imply a 2D tensor, but got {arrays.show(shapes[0].shape)} at position 0")
        return sparse.sizes(shapes[0])[0]
    if dense:
        return arrays.dims_of(dense[0])[0] if arrays.dims_of(dense[0]) else 0
    return 0


class _Column:
    """The features of one input: `values`, of which row i has those from start[i] on, count[i] of them."""

    def __init__(self, values: Any, start: np.ndarray, count: np.ndarray):
        self.values, self.start, self.count = values, start, count

    @staticmethod
    def sparse(indices: torch.Tensor, values: Any, shape: torch.Tensor, rows: int, at: int) -> _Column:
        """From a sparse matrix."""
        if indices.dim() != 2 or indices.shape[1] != 2:
            raise errors.invalid("Input indices should be a matrix with 2 columns but received shape "
                                 f"{arrays.show(indices.shape)} at position {at}")
        if tuple(shape.shape) != (2,):
            raise errors.invalid(f"shape should imply a 2D tensor, but got {arrays.show(shape.shape)} at position {at}")
        if arrays.dims_of(values) != (indices.shape[0],):
            raise errors.invalid(f"Expected size of values to be {indices.shape[0]} got "
                                 f"{arrays.show(arrays.dims_of(values))} at position {at}")
        if int(shape[0]) != rows:
            raise errors.invalid(f"Expected batch size {rows} got {int(shape[0])} at position {at}")
        indexing.check(indices[:, 0], rows)
        order = torch.argsort(indices[:, 0], stable=True)
        count = torch.bincount(indices[:, 0], minlength=rows).cpu().numpy()
        return _Column(sparse.take(values, order), np.cumsum(count) - count, count)

    @staticmethod
    def dense(matrix: Any, rows: int, at: int) -> _Column:
        """From a dense matrix: all of a row."""
        dims = arrays.dims_of(matrix)
        if len(dims) != 2:
            raise errors.invalid(f"Dense inputs should be a matrix but received shape {arrays.show(dims)} at position {at}")
        if dims[0] != rows:
            raise errors.invalid(f"Expected batch size {rows} got {dims[0]} at dense tensor {at}")
        return _Column(matrix.reshape(-1), np.arange(rows) * dims[1], np.full(rows, dims[1]))


def _hashed(picked: list, total: int, num_buckets: int, hash_key: int) -> torch.Tensor:
    """The fingerprints of the combinations, modulo the number of buckets."""
    out = np.full(total, hash_key & (2 ** 64 - 1), np.uint64)
    for values, which in picked:
        codes = values.cpu().numpy().view(np.uint64) if arrays.is_torch(values) else hashing.fingerprint64(values.tolist())
        out = hashing.fingerprint_cat(out, codes[which])
    limit = num_buckets if num_buckets > 0 else np.iinfo(np.int64).max
    return torch.from_numpy((out % np.uint64(limit)).astype(np.int64))


def _joined(picked: list, total: int) -> np.ndarray:
    """The combinations as text."""
    columns = []
    for values, which in picked:
        texts = [b"%d" % v for v in values.tolist()] if arrays.is_torch(values) else values.tolist()
        columns.append([texts[i] for i in which.tolist()])
    return strings.pack([_SEPARATOR.join(combination) for combination in zip(*columns, strict=True)] if total else [])


# -- public functions ----------------------------------------------------------------------------------------------
@export("sparse.cross")
def sparse_cross(inputs: list, name: str | None = None) -> SparseTensor:
    """Every combination of one feature per input, row by row, as strings: "a_X_b".

    >>> tf.sparse.cross([colours, sizes]).values       # [b'red_X_small', ...]
    """
    return _crossed(inputs, False, 0, None, name)


@export("sparse.cross_hashed")
def sparse_cross_hashed(inputs: list, num_buckets: int = 0, hash_key: int | None = None, name: str | None = None
                        ) -> SparseTensor:
    """Every combination of one feature per input, row by row, hashed into `num_buckets` (0: all of int64)."""
    return _crossed(inputs, True, num_buckets, hash_key, name)


def _crossed(inputs: list, hashed: bool, num_buckets: int, hash_key: int | None, name: str | None) -> SparseTensor:
    if not isinstance(inputs, list):
        raise TypeError("Inputs must be a list")
    if not all(isinstance(i, (SparseTensor, Tensor)) for i in inputs):
        raise TypeError("All inputs must be SparseTensors or Tensors")
    thin = [i for i in inputs if isinstance(i, SparseTensor)]
    values = [_feature(i.values) for i in thin]
    dense = [_feature(i) for i in inputs if not isinstance(i, SparseTensor)]
    numbers = any(t.dtype.base_dtype != dtypes.string for t in (*values, *dense))
    return SparseTensor(*cross_op(
        [i.indices for i in thin], values, [i.dense_shape for i in thin], dense, hashed_output=hashed,
        num_buckets=num_buckets, hash_key=hash_key or _DEFAULT_KEY, out_type=dtypes.int64 if hashed else dtypes.string,
        internal_type=dtypes.int64 if numbers else dtypes.string, name=name))


def _feature(t: Tensor) -> Tensor:
    return t if t.dtype.base_dtype == dtypes.string else tf.cast(t, dtypes.int64)
