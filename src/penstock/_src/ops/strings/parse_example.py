"""The ops that parse tf.Example messages: ParseExample, ParseExampleV2 and ParseSingleExample.

`io.examples` returns the values of each feature, row after row; here they become dense, sparse and ragged tensors.
The public functions are in `ops.strings.parsing`.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base import static_shape as shapes
from penstock._src.io.example_columns import BYTES, FLOAT, INT64, MISSING, NAMES, Column, Values
from penstock._src.io.examples import ExampleParser, places
from penstock._src.kernels import arrays, strings
from penstock._src.ops import rules
from penstock._src.ops.registry import Kernel, op

_VALUE = "in {float32 int64 string} >= 0"
KIND = {dtypes.float32: FLOAT, dtypes.int64: INT64, dtypes.string: BYTES}
_SHOWN = {"bytes": "string"}                        # how messages name types

parse_example = op(
    "ParseExample", "serialized: string, names: string, sparse_keys: Nsparse * string, dense_keys: Ndense * string, "
    "dense_defaults: Tdense -> sparse_indices: Nsparse * int64, sparse_values: sparse_types, sparse_shapes: Nsparse * int64, "
    "dense_values: Tdense", f"Nsparse: int >= 0, Ndense: int >= 0, sparse_types: list(type) {_VALUE}, Tdense: list(type) "
    f"{_VALUE}, dense_shapes: list(shape) >= 0").no_gradient()
parse_example_v2 = op(
    "ParseExampleV2", "serialized: string, names: string, sparse_keys: string, dense_keys: string, ragged_keys: string, "
    "dense_defaults: Tdense -> sparse_indices: num_sparse * int64, sparse_values: sparse_types, sparse_shapes: num_sparse * "
    "int64, dense_values: Tdense, ragged_values: ragged_value_types, ragged_row_splits: ragged_split_types",
    f"Tdense: list(type) {_VALUE}, num_sparse: int >= 0, sparse_types: list(type) {_VALUE}, ragged_value_types: list(type) "
    f"{_VALUE}, ragged_split_types: list(type) in {{int32 int64}} >= 0, dense_shapes: list(shape) >= 0").no_gradient()
parse_single = op(
    "ParseSingleExample", "serialized: string, dense_defaults: Tdense -> sparse_indices: num_sparse * int64, sparse_values: "
    "sparse_types, sparse_shapes: num_sparse * int64, dense_values: Tdense", "num_sparse: int >= 0, sparse_keys: "
    f"list(string) >= 0, dense_keys: list(string) >= 0, sparse_types: list(type) {_VALUE}, Tdense: list(type) {_VALUE}, "
    "dense_shapes: list(shape) >= 0").no_gradient()


def _dense_shape(batch: tuple, shape: Any) -> Any:
    return None if shape.static_dims is None else (*batch, *shape.static_dims)


@parse_example.shape
def _parse_example_shape(serialized, names, sparse_keys, dense_keys, dense_defaults, *, sparse_types, dense_shapes):
    batch = shapes.rank_is(serialized, 1) or (None,)
    n = len(sparse_types)
    return [*[(None, 2)] * n, *[(None,)] * n, *[(2,)] * n, *(_dense_shape(batch, s) for s in dense_shapes)]


@parse_example_v2.shape
def _parse_example_v2_shape(serialized, names, sparse_keys, dense_keys, ragged_keys, dense_defaults, *, sparse_types,
                            dense_shapes, ragged_value_types):
    n, ragged = len(sparse_types), [(None,)] * len(ragged_value_types)
    rank = None if serialized is None else len(serialized)
    splits = [(serialized[0] + 1,)] * len(ragged) if rank == 1 and serialized[0] is not None else ragged
    dense = [None if serialized is None else _dense_shape(serialized, s) for s in dense_shapes]
    return [*[(None, None if rank is None else rank + 1)] * n, *[(None,)] * n, *[(None if rank is None else rank + 1,)] * n,
            *dense, *ragged, *splits]


@parse_single.shape
def _parse_single_shape(serialized, dense_defaults, *, sparse_types, dense_shapes):
    shapes.rank_is(serialized, 0)
    n = len(sparse_types)
    return [*[(None, 1)] * n, *[(None,)] * n, *[(1,)] * n, *(_dense_shape((), s) for s in dense_shapes)]


# -- what is requested ------------------------------------------------------------------------------------------------
class Dense(NamedTuple):
    """A dense feature: the shape of its values, of which the first dimension may vary (then `size` is of a stride)."""
    key: bytes
    dtype: Any
    dims: tuple
    varies: bool
    size: int


@functools.lru_cache(maxsize=1024)
def dense_feature(key: bytes, dtype: Any, dims: tuple | None) -> Dense:
    """A dense feature of a static shape."""
    if dims is None:
        raise errors.invalid(f"dense_shapes of {strings.show(key)} has unknown rank")
    varies = bool(dims) and dims[0] is None
    if None in dims[1:] or None in dims and not varies:
        raise errors.invalid(f"dense_shapes of {strings.show(key)} has unknown dimensions: {dims}")
    return Dense(key, dtype, dims, varies, math.prod(dims[1:] if varies else dims))


def check_defaults(features: Sequence[Dense], defaults: Sequence[Any]) -> None:
    """Raises InvalidArgumentError unless the defaults are valid."""
    if len(defaults) != len(features):
        raise errors.invalid(f"dense_defaults and dense_keys must have the same length: {len(defaults)} vs. {len(features)}")
    for d, (feature, default) in enumerate(zip(features, defaults, strict=True)):
        dims = tuple(default.shape)
        if not feature.varies and dims in ((0,), feature.dims):
            continue
        if feature.varies:
            if math.prod(dims) != 1:
                raise errors.invalid(f"dense_shape[{d}] is a variable length shape: {_show(feature.dims)}, therefore "
                                     f"def_value[{d}] must contain a single element (the padding element).  But its shape is: "
                                     f"{arrays.show(dims)}")
        elif math.prod(dims) > 0 and dims != feature.dims:
            raise errors.invalid(f"def_value[{d}].shape() == {arrays.show(dims)} is not compatible with dense_shapes_[{d}] == "
                                 f"{_show(feature.dims)}")


def _show(dims: tuple) -> str:
    return "[" + ",".join("?" if d is None else str(d) for d in dims) + "]"


@functools.lru_cache(maxsize=128)
def _parser(columns: tuple[Column, ...]) -> ExampleParser:
    """One parser for all ops with the same features: it caches the layout of rows."""
    return ExampleParser(columns)


@functools.lru_cache(maxsize=128)
def _columns(lists: tuple[tuple[bytes, Any], ...], dense: tuple[Dense, ...]) -> tuple[Column, ...]:
    columns = (*(Column(k, KIND[t], None) for k, t in lists),
               *(Column(d.key, KIND[d.dtype], None if d.varies else d.size) for d in dense))
    if len({c.key for c in columns}) != len(columns):
        raise errors.invalid("The keys of features must differ")
    return columns


class Request:
    """The features that an op needs, and the messages when rows do not have them."""

    def __init__(self, lists: Sequence[tuple[bytes, Any]], dense: Sequence[Dense], where: Callable[[int, bytes, str], str]):
        self._where, self.columns = where, _columns(tuple(lists), tuple(dense))

    def values(self, rows: list[bytes]) -> list[Values]:
        """The values of all columns: those of lists first, then those of dense features."""
        return _parser(self.columns).parse(rows, self.fail)

    def fail(self, row: int, column: int | None, what: str) -> errors.OpError:
        """The error of a row that cannot be read, or of a feature that has another kind of values."""
        if column is None:
            return errors.invalid(what)
        wanted = self.columns[column]
        kind = NAMES[wanted.kind]
        return self.error(row, wanted.key, f"Data types don't match. Data type: {_SHOWN.get(what, what)} but expected type: "
                          f"{_SHOWN.get(kind, kind)}")

    def error(self, row: int, key: bytes, text: str) -> errors.OpError:
        """The error of a feature in a row."""
        return errors.invalid(self._where(row, key, text))


def tensor(kind: int, flat: Any, dims: Sequence[int]) -> Any:
    """Values as a run-time tensor."""
    if kind == BYTES:
        return flat if len(dims) == 1 else flat.reshape(tuple(dims))
    made = torch.from_numpy(flat)
    return made if len(dims) == 1 else made.reshape(tuple(dims))


def fixed(request: Request, feature: Dense, values: Values, default: Any, rows: int, required: Callable) -> Any:
    """A dense feature of fixed shape, [rows, *shape]; rows without it have the default."""
    kind = KIND[feature.dtype]
    if values.counts is None or (values.counts == feature.size).all():
        return tensor(kind, values.flat, (rows, *feature.dims))
    counts = values.counts
    wrong = (counts != MISSING) & (counts != feature.size)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise request.error(row, feature.key, f"Number of {NAMES[kind]} values != expected.  Values size: {counts[row]} but "
                            f"output shape: {_show(feature.dims)}")
    given = arrays.dims_of(default)
    if math.prod(given) == 0 and feature.size:
        raise required(int(np.argmax(counts == MISSING)), feature)
    strings.check_elements(rows * feature.size, "ParseExample")
    have = counts != MISSING
    if kind == BYTES:
        out = np.empty((rows, *feature.dims), dtype=object)
        out[:] = default.reshape(feature.dims)
        out[have] = values.flat.reshape(-1, *feature.dims)
        return out
    filled = default.reshape(feature.dims).expand(rows, *feature.dims).clone()
    filled[torch.from_numpy(have)] = torch.from_numpy(values.flat).reshape(-1, *feature.dims)
    return filled


def padded(request: Request, feature: Dense, values: Values, padding: Any, rows: int) -> Any:
    """A dense feature whose first dimension varies, [rows, longest, *shape[1:]], padded with the default."""
    kind, counts = KIND[feature.dtype], np.maximum(values.counts, 0)
    if feature.size == 0 and counts.any() or feature.size and (counts % feature.size).any():
        row = int(np.argmax(counts % feature.size != 0)) if feature.size else int(np.argmax(counts))
        raise request.error(row, feature.key, f"Number of {NAMES[kind]} values is not a multiple of stride length. Saw "
                            f"{counts[row]} values but output shape is: {_show(feature.dims)}")
    longest = int(counts.max()) if rows else 0
    dims = (rows, longest // feature.size if feature.size else 0, *feature.dims[1:])
    if (counts == longest).all():
        return tensor(kind, values.flat, dims)
    strings.check_elements(rows * longest, "ParseExample: padded values")
    at = np.repeat(np.arange(rows) * longest - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
    if kind == BYTES:
        out = np.full(rows * longest, padding.reshape(()).item(), dtype=object)
        out[at] = values.flat
        return out.reshape(dims)
    filled = np.full(rows * longest, padding.reshape(()).item(), values.flat.dtype)
    filled[at] = values.flat
    return torch.from_numpy(filled).reshape(dims)


def listed(values: Values, dtype: Any, batched: bool = True) -> tuple:
    """The lists of a feature as a sparse tensor: indices, values, shape."""
    indices, dims = (torch.from_numpy(array) for array in places(values.counts))
    flat = tensor(KIND[dtype], values.flat, (-1,))
    return (indices, flat, dims) if batched else (indices[:, 1:], flat, dims[1:])


def split(values: Values, dtype: Any, split_type: Any) -> tuple:
    """The lists of a feature as a ragged tensor: values, row splits."""
    counts = np.maximum(values.counts, 0)
    splits = np.concatenate([[0], np.cumsum(counts)])
    return tensor(KIND[dtype], values.flat, (int(splits[-1]),)), torch.from_numpy(splits).to(split_type.torch)


# -- the kernels ------------------------------------------------------------------------------------------------------
def _required(names: Sequence[bytes] | None) -> Callable:
    def make(row: int, feature: Dense) -> errors.OpError:
        name = f"Name: {_name(names, row)}, " if names is not None else ""
        return errors.invalid(f"{name}Feature: {strings.show(feature.key)} (data type: {feature.dtype.name.rstrip('32')}) is "
                              "required but could not be found.")
    return make


def _name(names: Sequence[bytes] | None, row: int) -> str:
    return strings.show(names[row]) if names else "<unknown>"


def _batched(serialized: np.ndarray, names: np.ndarray, lists: list, dense: list[Dense], defaults: list) -> tuple:
    """Parses a batch; returns the values of lists, and dense tensors."""
    if names.size:
        if names.ndim != 1:
            raise errors.invalid(f"Expected names to be a vector, got shape: {arrays.show(names.shape)}")
        if names.size != serialized.size:
            raise errors.invalid(f"names and serialized must have the same length: {names.size} vs. {serialized.size}")
    if serialized.ndim != 1:
        raise errors.invalid(f"Expected serialized to be a vector, got shape: {arrays.show(serialized.shape)}")
    check_defaults(dense, defaults)
    called = names.ravel().tolist()
    request = Request(lists, dense, lambda row, key, text: f"Name: {_name(called, row)}, Key: {strings.show(key)}, Index: "
                      f"{row}.  {text}")
    rows = serialized.tolist()
    values = request.values(rows)
    found = []
    for feature, default, v in zip(dense, defaults, values[len(lists):], strict=True):
        found.append(padded(request, feature, v, default, len(rows)) if feature.varies else
                     fixed(request, feature, v, default, len(rows), _required(called)))
    return values[:len(lists)], found


def parts(made: list[tuple]) -> tuple[list, list, list]:
    """Sparse tensors as three lists: indices, values, shapes."""
    return [m[0] for m in made], [m[1] for m in made], [m[2] for m in made]


@parse_example.kernel(device="cpu")
def _parse_example_kernel(serialized, names, sparse_keys, dense_keys, dense_defaults, *, sparse_types, Tdense, dense_shapes):
    lists = [(strings.scalar(k, "sparse_keys"), t) for k, t in zip(sparse_keys, sparse_types, strict=True)]
    dense = [dense_feature(strings.scalar(k, "dense_keys"), t, s.static_dims)
             for k, t, s in zip(dense_keys, Tdense, dense_shapes, strict=True)]
    values, found = _batched(serialized, names, lists, dense, dense_defaults)
    return *parts([listed(v, t) for v, t in zip(values, sparse_types, strict=True)]), found


@parse_example_v2.kernel(device="cpu")
def _parse_example_v2_kernel(serialized, names, sparse_keys, dense_keys, ragged_keys, dense_defaults, *, sparse_types,
                             ragged_value_types, ragged_split_types, Tdense, dense_shapes):
    for what, keys, types in (("sparse", sparse_keys, sparse_types), ("dense", dense_keys, Tdense),
                              ("ragged", ragged_keys, ragged_value_types)):
        if keys.size != len(types):
            raise errors.invalid(f"Expected len({what}_keys) == len({what}_types). Got: {keys.size} vs. {len(types)}")
    if serialized.ndim > 1:
        raise errors.invalid(f"Expected serialized to be a scalar or vector, got shape: {arrays.show(serialized.shape)}")
    single, n = serialized.ndim == 0, len(sparse_types)
    lists = [*zip(sparse_keys.ravel().tolist(), sparse_types, strict=True),
             *zip(ragged_keys.ravel().tolist(), ragged_value_types, strict=True)]
    dense = [dense_feature(k, t, s.static_dims)
             for k, t, s in zip(dense_keys.ravel().tolist(), Tdense, dense_shapes, strict=True)]
    values, found = _batched(serialized.reshape(-1), names.reshape(-1), lists, dense, dense_defaults)
    ragged = [split(v, t, s) for v, t, s in zip(values[n:], ragged_value_types, ragged_split_types, strict=True)]
    return (*parts([listed(v, t, not single) for v, t in zip(values[:n], sparse_types, strict=True)]),
            [f[0] for f in found] if single else found, [v for v, _ in ragged],
            [torch.zeros(0, dtype=s.dtype) if single else s for _, s in ragged])


def _wanted_once(sparse_keys: Sequence, dense_keys: Sequence, sparse_types: Sequence, types: Sequence, given: Sequence,
                 defaults: list) -> tuple[list, list[Dense], Request]:
    """The features of ParseSingleExample: lists, dense features, and the request."""
    lists, dense, request = _request(tuple(sparse_keys), tuple(dense_keys), tuple(sparse_types), tuple(types),
                                     tuple([s.static_dims for s in given]))
    check_defaults(dense, defaults)
    return lists, dense, request


@functools.lru_cache(maxsize=64)
def _request(sparse_keys: tuple, dense_keys: tuple, sparse_types: tuple, types: tuple, given: tuple) -> tuple:
    """Created once: a dataset parses its examples one by one."""
    lists = [(strings.raw(k), t) for k, t in zip(sparse_keys, sparse_types, strict=True)]
    dense = [dense_feature(strings.raw(k), t, dims) for k, t, dims in zip(dense_keys, types, given, strict=True)]
    return lists, dense, Request(lists, dense, _where_in_one)


def _where_in_one(row: int, key: bytes, text: str) -> str:
    return f"Can't parse serialized Example, key {strings.show(key)}: Key: {strings.show(key)}.  {text}"


@parse_single.kernel(device="cpu")
def _parse_single_kernel(serialized, dense_defaults, *, sparse_keys, dense_keys, sparse_types, Tdense, dense_shapes):
    row = strings.scalar(serialized, "Expected serialized to be a scalar: it")
    lists, dense, request = _wanted_once(sparse_keys, dense_keys, sparse_types, Tdense, dense_shapes, dense_defaults)
    values = request.values([row])
    found = []
    for feature, default, v in zip(dense, dense_defaults, values[len(lists):], strict=True):
        made = padded(request, feature, v, default, 1) if feature.varies else \
            fixed(request, feature, v, default, 1, _required(None))
        found.append(arrays.part(made, (0,)))
    return *parts([listed(v, t, False) for v, t in zip(values, sparse_types, strict=False)]), found


def _parse_single_rows(serialized, dense_defaults, *, sparse_keys, dense_keys, sparse_types, Tdense, dense_shapes):
    lists, dense, request = _wanted_once(sparse_keys, dense_keys, sparse_types, Tdense, dense_shapes, dense_defaults)
    if lists or any(feature.varies for feature in dense):
        raise errors.UnimplementedError(None, None, "Rows of a column have different sizes")
    values = request.values(serialized.tolist())
    return [], [], [], [fixed(request, feature, v, default, len(serialized), _required(None))
                        for feature, default, v in zip(dense, dense_defaults, values, strict=True)]


rules.columns.rows[parse_single] = Kernel(_parse_single_rows)
