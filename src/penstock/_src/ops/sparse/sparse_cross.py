"""Feature crosses: for each row of a batch, every combination of one feature per input, as strings or as hashes."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.text import shown_text
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
    row, place, counts, picked = _combined(_columns(indices, values, shapes, dense_inputs), _batch_size(shapes, dense_inputs))
    total = len(row)
    found = _hashed(picked, total, num_buckets, hash_key) if out_type == dtypes.int64 else _joined(picked, total)
    return _as_sparse(row, place, counts, found)


def _columns(indices: list, values: list, shapes: list, dense_inputs: list) -> list:
    rows = _batch_size(shapes, dense_inputs)
    columns = [_Column.sparse(i, v, s, rows, at) for at, (i, v, s) in enumerate(zip(indices, values, shapes, strict=True))]
    return columns + [_Column.dense(d, rows, at) for at, d in enumerate(dense_inputs)]


def _combined(columns: list, rows: int) -> tuple:
    """Every combination of one feature per input: its row, its place there, counts by row, and the features picked."""
    counts = np.ones(rows, object)                     # Python's integers: products of counts may be anything
    for c in columns:
        counts = counts * c.count.astype(object)
    total = int(counts.sum()) if rows and columns else 0
    strings.check_bytes(8 * total, "SparseCross")
    counts = counts.astype(np.int64) if columns else np.zeros(rows, np.int64)
    row = np.repeat(np.arange(rows), counts)
    place = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    features, rest = [], place
    for c in reversed(columns):                        # the last input varies fastest
        features.append(c.start[row] + rest % c.count[row])
        rest = rest // c.count[row]
    return row, place, counts, [(c.values, f) for c, f in zip(columns, reversed(features), strict=True)]


def _as_sparse(row: np.ndarray, place: np.ndarray, counts: np.ndarray, found: Any) -> tuple:
    shape = [len(counts), int(counts.max(initial=0))]
    return torch.from_numpy(np.stack([row, place], 1)), found, torch.tensor(shape, dtype=torch.int64)


cross_text_op = op("SparseCrossV2", "indices: N * int64, values: sparse_types, shapes: N * int64, dense_inputs: dense_types, "
                                    "sep: string -> output_indices: int64, output_values: string, output_shape: int64",
                   "N: int >= 0, sparse_types: list(type) in {int64 string} >= 0, "
                   "dense_types: list(type) in {int64 string} >= 0").no_gradient()
cross_text_op.shape(lambda indices, values, shapes, dense_inputs, sep: [(None, 2), (None,), (2,)])


@cross_text_op.kernel
def _cross_text_kernel(indices, values, shapes, dense_inputs, sep):
    if arrays.dims_of(sep):
        raise errors.invalid(f"Input separator should be a scalar. Received: {arrays.show(arrays.dims_of(sep))}")
    row, place, counts, picked = _combined(_columns(indices, values, shapes, dense_inputs), _batch_size(shapes, dense_inputs))
    return _as_sparse(row, place, counts, _joined(picked, len(row), bytes(np.asarray(sep).item())))


cross_hashed_op = op("SparseCrossHashed", "indices: N * int64, values: sparse_types, shapes: N * int64, "
                     "dense_inputs: dense_types, num_buckets: int64, strong_hash: bool, salt: int64 -> "
                     "output_indices: int64, output_values: int64, output_shape: int64",
                     "N: int >= 0, sparse_types: list(type) in {int64 string} >= 0, "
                     "dense_types: list(type) in {int64 string} >= 0").no_gradient()
cross_hashed_op.shape(lambda indices, values, shapes, dense_inputs, num_buckets, strong_hash, salt: [(None, 2), (None,), (2,)])


@cross_hashed_op.kernel
def _cross_hashed_kernel(indices, values, shapes, dense_inputs, num_buckets, strong_hash, salt):
    if salt.numel() != 2:
        raise errors.invalid(f'Input "salt" must have length 2 but has length {salt.numel()}')
    if num_buckets.dim() or strong_hash.dim():
        raise errors.invalid("num_buckets and strong_hash must be scalars")
    row, place, counts, picked = _combined(_columns(indices, values, shapes, dense_inputs), _batch_size(shapes, dense_inputs))
    key = tuple(int(v) & 2 ** 64 - 1 for v in salt.reshape(-1).tolist()) if bool(strong_hash) else None
    codes = [_codes(v, key, at < len(values))[which] for at, (v, which) in enumerate(picked)]
    found = functools.reduce(hashing.fingerprint_cat, codes) if codes else np.zeros(0, np.uint64)
    return _as_sparse(row, place, counts, _bucket(found, int(num_buckets)))


def _codes(values: Any, key: tuple | None, is_sparse: bool) -> np.ndarray:
    """A hash per feature. Integers of sparse inputs are hashed as four bytes, those of dense ones are used directly."""
    if arrays.is_torch(values):
        if key is None and not is_sparse:
            return values.cpu().numpy().view(np.uint64)
        items = [v.tobytes()[:4] for v in values.cpu().numpy().astype("<i8")]
    else:
        items = values.tolist()
    return hashing.fingerprint64(items) if key is None else hashing.siphash(items, key)


# -- ragged -----------------------------------------------------------------------------------------------------------
ragged_cross_op = op(
    "RaggedCross", "ragged_values: ragged_values_types, ragged_row_splits: ragged_splits_types, "
    "sparse_indices: Nsparse * int64, sparse_values: sparse_values_types, sparse_shape: Nsparse * int64, "
    "dense_inputs: dense_types -> output_values: out_values_type, output_row_splits: out_row_splits_type",
    "Nsparse: int >= 0, input_order: string, hashed_output: bool, num_buckets: int >= 0, hash_key: int, "
    "ragged_values_types: list(type) in {int64 string} >= 0, ragged_splits_types: list(type) in {int32 int64} >= 0, "
    "sparse_values_types: list(type) in {int64 string} >= 0, dense_types: list(type) in {int64 string} >= 0, "
    "out_values_type: type in {int64 string}, out_row_splits_type: type in {int32 int64}").no_gradient()


@ragged_cross_op.shape
def _ragged_cross_shape(ragged_values, ragged_row_splits, sparse_indices, sparse_values, sparse_shape, dense_inputs):
    rows = None
    sizes = [None if s is None or s[0] is None else s[0] - 1 for s in ragged_row_splits]
    sizes += [None if d is None else d[0] if d else None for d in dense_inputs]
    for n in sizes:
        if n is not None and rows is not None and n != rows:
            raise ValueError("inputs must all have the same batch dimension size")
        rows = n if rows is None else rows
    return [(None,), (None if rows is None else rows + 1,)]


@ragged_cross_op.kernel
def _ragged_cross_kernel(ragged_values, ragged_row_splits, sparse_indices, sparse_values, sparse_shape, dense_inputs, *,
                         input_order, hashed_output, num_buckets, hash_key, out_row_splits_type):
    order = shown_text(input_order)
    kinds: dict[str, list[tuple]] = {
        "R": list(zip(ragged_values, ragged_row_splits, strict=False)),
        "S": list(zip(sparse_indices, sparse_values, sparse_shape, strict=False)), "D": [(d,) for d in dense_inputs]}
    if len(sparse_indices) != len(sparse_values):
        raise errors.invalid("sparse indices and values must have the same length")
    if len(ragged_values) != len(ragged_row_splits):
        raise errors.invalid(f"ragged values and splits must have the same length, got {len(ragged_values)} and "
                             f"{len(ragged_row_splits)}")
    for letter, found in kinds.items():
        if order.count(letter) != len(found):
            raise errors.invalid(f"input_order={order!r} does not match the inputs")
    sizes = {len(s) - 1 for s in ragged_row_splits} | {int(s[0]) for s in sparse_shape if s.numel()}
    sizes |= {arrays.dims_of(d)[0] for d in dense_inputs if arrays.dims_of(d)}
    if any(len(arrays.dims_of(d)) != 2 for d in dense_inputs):
        raise errors.invalid("tf.ragged.cross only supports inputs with rank=2.")
    if len(sizes) > 1:
        raise errors.invalid("inputs must all have the same batch dimension size.")
    rows = sizes.pop() if sizes else 0
    make: dict[str, Callable[..., _Column]] = {
        "R": _Column.ragged, "S": lambda i, v, s: _Column.sparse(i, v, s, rows, 0),
        "D": lambda d: _Column.dense(d, rows, 0)}
    feeds = {letter: iter(found) for letter, found in kinds.items()}
    columns = [make[letter](*next(feeds[letter])) for letter in order]
    row, _, counts, picked = _combined(columns, rows)
    values = _hashed(picked, len(row), num_buckets, hash_key) if hashed_output else _joined(picked, len(row))
    splits = np.concatenate([[0], np.cumsum(counts)])
    return values, torch.from_numpy(splits).to(out_row_splits_type.torch)


def _batch_size(shapes: list, dense: list) -> int:
    if shapes:
        known = sparse.sizes(shapes[0].reshape(-1))
        return known[0] if known else 0           # the columns check what they are made of
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
        if indices.dim() != 2:
            raise errors.invalid(f"Input indices should be a matrix but received shape {arrays.show(indices.shape)} at "
                                 f"position {at}")
        if indices.shape[1] != 2:
            raise errors.invalid(f"Expected D2 of index to be 2 got {indices.shape[1]} at position {at}")
        if len(arrays.dims_of(values)) != 1:
            raise errors.invalid(f"Input values should be a vector but received shape {arrays.show(arrays.dims_of(values))} at "
                                 f"position {at}")
        if shape.dim() != 1:
            raise errors.invalid(f"Input shapes should be a vector but received shape {arrays.show(shape.shape)} at position "
                                 f"{at}")
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
    def ragged(values: Any, splits: torch.Tensor) -> _Column:
        """From a ragged matrix."""
        dims = arrays.dims_of(values)
        if len(dims) != 1:
            raise errors.invalid("tf.ragged.cross only supports inputs with rank=2.")
        ends = splits.cpu().numpy().astype(np.int64)
        if not len(ends) or ends[0] != 0:
            raise errors.invalid("Invalid ragged splits: must start with 0")
        if (np.diff(ends) < 0).any():
            raise errors.invalid("Invalid ragged splits: must be sorted in ascending order")
        if ends[-1] != dims[0]:
            raise errors.invalid(f"Invalid ragged splits: the last one must equal the number of values, {dims[0]}")
        return _Column(values, ends[:-1], np.diff(ends))

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
    return _bucket(out, num_buckets)


def _bucket(codes: np.ndarray, num_buckets: int) -> torch.Tensor:
    limit = num_buckets if num_buckets > 0 else np.iinfo(np.int64).max
    return torch.from_numpy((codes % np.uint64(limit)).astype(np.int64))


def _joined(picked: list, total: int, separator: bytes = _SEPARATOR) -> np.ndarray:
    """The combinations as text."""
    columns = []
    for values, which in picked:
        texts = [b"%d" % v for v in values.tolist()] if arrays.is_torch(values) else values.tolist()
        columns.append([texts[i] for i in which.tolist()])
    return strings.pack([separator.join(combination) for combination in zip(*columns, strict=True)] if total else [])


# -- public functions ----------------------------------------------------------------------------------------------
@export("sparse.cross")
def sparse_cross(inputs: list, name: str | None = None, separator: Any = None) -> SparseTensor:
    """Every combination of one feature per input, row by row, as strings: "a_X_b".

    >>> tf.sparse.cross([colours, sizes]).values       # [b'red_X_small', ...]
    """
    if separator is None:
        return _crossed(inputs, False, 0, None, name)
    thin, values, dense = _sorted(inputs)
    return SparseTensor(*cross_text_op([i.indices for i in thin], values, [i.dense_shape for i in thin], dense,
                                       tf.convert_to_tensor(separator, dtypes.string), name=name))


@export("sparse.cross_hashed")
def sparse_cross_hashed(inputs: list, num_buckets: int = 0, hash_key: int | None = None, name: str | None = None
                        ) -> SparseTensor:
    """Every combination of one feature per input, row by row, hashed into `num_buckets` (0: all of int64)."""
    return _crossed(inputs, True, num_buckets, hash_key, name)


def _sorted(inputs: Any) -> tuple[list, list, list]:
    """The sparse inputs, their values, and the dense inputs."""
    if not isinstance(inputs, list):
        raise TypeError("Inputs must be a list")
    if not all(isinstance(i, (SparseTensor, Tensor)) for i in inputs):
        raise TypeError("All inputs must be SparseTensors or Tensors")
    thin = [i for i in inputs if isinstance(i, SparseTensor)]
    return thin, [_feature(i.values) for i in thin], [_feature(i) for i in inputs if not isinstance(i, SparseTensor)]


def _crossed(inputs: list, hashed: bool, num_buckets: int, hash_key: int | None, name: str | None) -> SparseTensor:
    thin, values, dense = _sorted(inputs)
    numbers = any(t.dtype.base_dtype != dtypes.string for t in (*values, *dense))
    return SparseTensor(*cross_op(
        [i.indices for i in thin], values, [i.dense_shape for i in thin], dense, hashed_output=hashed,
        num_buckets=num_buckets, hash_key=hash_key or _DEFAULT_KEY, out_type=dtypes.int64 if hashed else dtypes.string,
        internal_type=dtypes.int64 if numbers else dtypes.string, name=name))


def _feature(t: Tensor) -> Tensor:
    return t if t.dtype.base_dtype == dtypes.string else tf.cast(t, dtypes.int64)
