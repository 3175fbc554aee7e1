"""The ops that parse tf.SequenceExample messages: a batch of them, or one.

A message has a context, which is like an Example, and feature lists: for each key a sequence of features. The scanner of
`io.examples` parses them, if it was compiled; protobuf parses the rest. The public functions
are in `ops.strings.parsing`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import LazyModule
from penstock._src.io.example_columns import BYTES, KINDS, MISSING, NAMES, Column, packed
from penstock._src.io.examples import read_maps, scan_sequences, step_places
from penstock._src.kernels import arrays, strings
from penstock._src.ops.registry import op
from penstock._src.ops.strings import parse_example as examples

messages = LazyModule("penstock._src.graph.messages")

_VALUE = "list(type) in {float32 int64 string} >= 0 = []"
_TYPES = (f"context_sparse_types: {_VALUE}, Tcontext_dense: {_VALUE}, feature_list_dense_types: {_VALUE}, "
          f"context_dense_shapes: list(shape) >= 0 = [], feature_list_sparse_types: {_VALUE}, "
          "feature_list_dense_shapes: list(shape) >= 0 = []")
_COUNTS = ("Ncontext_sparse: int >= 0 = 0, Ncontext_dense: int >= 0 = 0, Nfeature_list_sparse: int >= 0 = 0, "
           "Nfeature_list_dense: int >= 0 = 0")
_OUT = ("context_sparse_indices: Ncontext_sparse * int64, context_sparse_values: context_sparse_types, context_sparse_shapes: "
        "Ncontext_sparse * int64, context_dense_values: Tcontext_dense, feature_list_sparse_indices: Nfeature_list_sparse * "
        "int64, feature_list_sparse_values: feature_list_sparse_types, feature_list_sparse_shapes: Nfeature_list_sparse * "
        "int64, feature_list_dense_values: feature_list_dense_types")
_KEYS = ("feature_list_dense_missing_assumed_empty: list(string) >= 0, context_sparse_keys: list(string) >= 0, "
         "context_dense_keys: list(string) >= 0, feature_list_sparse_keys: list(string) >= 0, feature_list_dense_keys: "
         "list(string) >= 0")

parse_sequence = op(
    "ParseSequenceExample", f"serialized: string, debug_name: string, context_dense_defaults: Tcontext_dense -> {_OUT}, "
    "feature_list_dense_lengths: Nfeature_list_dense * int64", f"{_KEYS}, {_COUNTS}, {_TYPES}").no_gradient()
parse_single_sequence = op(
    "ParseSingleSequenceExample", "serialized: string, feature_list_dense_missing_assumed_empty: string, context_sparse_keys: "
    "Ncontext_sparse * string, context_dense_keys: Ncontext_dense * string, feature_list_sparse_keys: Nfeature_list_sparse * "
    "string, feature_list_dense_keys: Nfeature_list_dense * string, context_dense_defaults: Tcontext_dense, debug_name: "
    f"string -> {_OUT}", f"{_COUNTS}, {_TYPES}").no_gradient()
_SPLITS = "list(type) in {int32 int64} >= 0 = []"
parse_sequence_v2 = op(
    "ParseSequenceExampleV2", "serialized: string, debug_name: string, context_sparse_keys: string, context_dense_keys: "
    "string, context_ragged_keys: string, feature_list_sparse_keys: string, feature_list_dense_keys: string, "
    "feature_list_ragged_keys: string, feature_list_dense_missing_assumed_empty: bool, context_dense_defaults: Tcontext_dense "
    "-> context_sparse_indices: Ncontext_sparse * int64, context_sparse_values: context_sparse_types, context_sparse_shapes: "
    "Ncontext_sparse * int64, context_dense_values: Tcontext_dense, context_ragged_values: context_ragged_value_types, "
    "context_ragged_row_splits: context_ragged_split_types, feature_list_sparse_indices: Nfeature_list_sparse * int64, "
    "feature_list_sparse_values: feature_list_sparse_types, feature_list_sparse_shapes: Nfeature_list_sparse * int64, "
    "feature_list_dense_values: feature_list_dense_types, feature_list_dense_lengths: Nfeature_list_dense * int64, "
    "feature_list_ragged_values: feature_list_ragged_value_types, feature_list_ragged_outer_splits: "
    "feature_list_ragged_split_types, feature_list_ragged_inner_splits: feature_list_ragged_split_types",
    f"Ncontext_sparse: int >= 0 = 0, Tcontext_dense: {_VALUE}, context_sparse_types: {_VALUE}, "
    f"context_ragged_value_types: {_VALUE}, context_ragged_split_types: {_SPLITS}, context_dense_shapes: list(shape) >= 0 = "
    f"[], Nfeature_list_sparse: int >= 0 = 0, Nfeature_list_dense: int >= 0 = 0, feature_list_dense_types: {_VALUE}, "
    f"feature_list_sparse_types: {_VALUE}, feature_list_ragged_value_types: {_VALUE}, feature_list_ragged_split_types: "
    f"{_SPLITS}, feature_list_dense_shapes: list(shape) >= 0 = []").no_gradient()


def _shapes(batch: tuple, given: dict) -> list:
    """The shapes of all outputs but the lengths."""
    rank, n, m = len(batch), len(given["context_sparse_types"]), len(given["feature_list_sparse_types"])

    def dense(name: str, *more: Any) -> list:
        return [None if s.static_dims is None else (*batch, *more, *s.static_dims) for s in given[name]]
    return [*[(None, rank + 1)] * n, *[(None,)] * n, *[(rank + 1,)] * n, *dense("context_dense_shapes"),
            *[(None, rank + 2)] * m, *[(None,)] * m, *[(rank + 2,)] * m, *dense("feature_list_dense_shapes", None)]


@parse_sequence.shape
def _parse_sequence_shape(serialized, debug_name, context_dense_defaults, *, context_sparse_types, feature_list_sparse_types,
                          context_dense_shapes, feature_list_dense_shapes):
    batch = shapes.rank_is(serialized, 1) or (None,)
    return [*_shapes(batch, {"context_sparse_types": context_sparse_types, "context_dense_shapes": context_dense_shapes,
                             "feature_list_sparse_types": feature_list_sparse_types,
                             "feature_list_dense_shapes": feature_list_dense_shapes}),
            *[batch] * len(feature_list_dense_shapes)]


@parse_single_sequence.shape
def _parse_single_sequence_shape(serialized, feature_list_dense_missing_assumed_empty, context_sparse_keys,
                                 context_dense_keys, feature_list_sparse_keys,
                                 feature_list_dense_keys, context_dense_defaults, debug_name, *, context_sparse_types,
                                 feature_list_sparse_types, context_dense_shapes, feature_list_dense_shapes):
    shapes.rank_is(serialized, 0)
    return _shapes((), {"context_sparse_types": context_sparse_types, "context_dense_shapes": context_dense_shapes,
                        "feature_list_sparse_types": feature_list_sparse_types,
                        "feature_list_dense_shapes": feature_list_dense_shapes})


@parse_sequence_v2.shape
def _parse_sequence_v2_shape(serialized, debug_name, context_sparse_keys, context_dense_keys, context_ragged_keys,
                             feature_list_sparse_keys, feature_list_dense_keys, feature_list_ragged_keys,
                             feature_list_dense_missing_assumed_empty, context_dense_defaults, *, context_sparse_types,
                             feature_list_sparse_types, context_dense_shapes, feature_list_dense_shapes,
                             context_ragged_value_types, feature_list_ragged_value_types):
    n, m, dense = len(context_ragged_value_types), len(feature_list_ragged_value_types), len(feature_list_dense_shapes)
    if serialized is None:
        sparse = 3 * (len(context_sparse_types) + len(feature_list_sparse_types))
        return [None] * (sparse + len(context_dense_shapes) + 2 * n + 2 * dense + 3 * m)
    if len(serialized) > 1:
        raise ValueError(f"Shape must be a scalar or a vector, but is {serialized} for serialized.")
    known = _shapes(tuple(serialized), {"context_sparse_types": context_sparse_types,
                                        "context_dense_shapes": context_dense_shapes,
                                        "feature_list_sparse_types": feature_list_sparse_types,
                                        "feature_list_dense_shapes": feature_list_dense_shapes})
    context = 3 * len(context_sparse_types) + len(context_dense_shapes)
    splits = (None if serialized[0] is None else serialized[0] + 1,) if serialized else ()
    return [*known[:context], *[(None,)] * n, *[splits] * n, *known[context:], *[tuple(serialized)] * dense,
            *[(None,)] * m, *[splits] * m, *[(None,)] * m]


class _Wanted(NamedTuple):
    """The features that an op requests."""
    context_lists: list[tuple[bytes, Any]]
    context_dense: list[examples.Dense]
    defaults: list
    lists: list[tuple[bytes, Any]]
    dense: list[examples.Dense]
    assumed_empty: set[bytes]


class _Sequences(NamedTuple):
    """A feature list in all rows: steps per row (MISSING without the list), values per step, and all values."""
    steps: np.ndarray
    counts: np.ndarray
    flat: Any


# -- reading ----------------------------------------------------------------------------------------------------------
def _messages(rows: list[bytes], names: list[bytes]) -> list:
    out = []
    for i, row in enumerate(rows):
        try:
            out.append(messages.SequenceExample.FromString(row))
        except messages.DecodeError:
            raise errors.invalid(f"Name: {_name(names, i)}, Could not parse example input, value: "
                                 f"'{strings.show(row[:200])}'") from None
    return out


def _name(names: list[bytes], row: int) -> str:
    return strings.show(names[row]) if names else "<unknown>"


def _sequences(messages: list, key: bytes, dtype: Any, names: list[bytes], empty_steps: bool) -> _Sequences:
    """One feature list of all messages; a step without a kind is empty, if that is allowed."""
    wanted, text = examples.KIND[dtype], key.decode("utf-8", "replace")
    steps, counts, flat = np.full(len(messages), MISSING, np.int64), [], []
    for row, message in enumerate(messages):
        lists = message.feature_lists.feature_list
        if text not in lists:
            continue
        found = lists[text].feature
        steps[row] = len(found)
        for t, feature in enumerate(found):
            field = feature.WhichOneof("kind")
            if field is None and empty_steps:
                counts.append(0)
                continue
            if field is None or KINDS[field] != wanted:
                kind = NAMES[wanted]
                raise errors.invalid(f"Name: {_name(names, row)}, Feature list: {text}, Index: {t}.  Data types don't match. "
                                     f"Expected type: {'string' if kind == 'bytes' else kind}  Feature is: "
                                     f"{str(feature)[:100]}")
            values = getattr(feature, field).value
            counts.append(len(values))
            flat.extend(values)
    return _Sequences(steps, np.array(counts, np.int64), packed(wanted, flat))


def _values(rows: list[bytes], names: list[bytes], wanted: _Wanted, request: examples.Request) -> tuple[list, list]:
    """The values of the context's features, and of the feature lists: those of `wanted.lists`, then of `wanted.dense`."""
    columns = (*(Column(k, examples.KIND[t], None) for k, t in wanted.lists),
               *(Column(f.key, examples.KIND[f.dtype], None) for f in wanted.dense))
    scanned = scan_sequences(request.columns, columns, rows)
    if scanned is not None:
        return scanned[0], [_Sequences(*found) for found in scanned[1]]
    messages = _messages(rows, names)
    context = read_maps(request.columns, ((i, m.context.feature) for i, m in enumerate(messages)), len(rows), request.fail)
    return context, [*(_sequences(messages, k, t, names, True) for k, t in wanted.lists),
                     *(_sequences(messages, f.key, f.dtype, names, False) for f in wanted.dense)]


def _context_dense(values: list, rows: int, wanted: _Wanted, names: list[bytes], request: examples.Request) -> list:
    """The dense tensors of the context, with a batch dimension."""
    def required(row: int, feature: examples.Dense) -> errors.OpError:
        return errors.invalid(f"Name: {_name(names, row)}, Context feature '{strings.show(feature.key)}' is required but could "
                              "not be found.")
    return [examples.fixed(request, f, v, d, rows, required)
            for f, v, d in zip(wanted.context_dense, values, wanted.defaults, strict=True)]


# -- tensors ----------------------------------------------------------------------------------------------------------
def _dense(feature: examples.Dense, found: _Sequences, names: list[bytes], assumed_empty: set[bytes]) -> tuple:
    """A feature list as [rows, longest, *shape], padded with zeros; and the lengths."""
    kind, key = examples.KIND[feature.dtype], strings.show(feature.key)
    if feature.key not in assumed_empty and (found.steps == MISSING).any():
        row = int(np.argmax(found.steps == MISSING))
        raise errors.invalid(f"Name: {_name(names, row)}, Feature list '{key}' is required but could not be found.  Did you "
                             "mean to include it in feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?")
    steps = np.maximum(found.steps, 0)
    wrong = found.counts != feature.size
    if wrong.any():
        at = int(np.argmax(wrong))
        row = int(np.searchsorted(np.cumsum(steps), at, side="right"))
        raise errors.invalid(f"Name: {_name(names, row)}, Key: {key}, Index: {at - int(steps[:row].sum())}.  Number of "
                             f"{NAMES[kind]} values != expected.  values size: {found.counts[at]} but output shape: "
                             f"{arrays.show(feature.dims)}")
    rows, longest = len(steps), int(steps.max()) if len(steps) else 0
    strings.check_elements(rows * longest * feature.size, "ParseSequenceExample: padded values")
    filled = np.full((rows, longest, feature.size), b"" if kind == BYTES else 0, dtype=object if kind == BYTES else
                     found.flat.dtype)
    mine = np.arange(longest) < steps[:, None]
    filled[mine] = found.flat.reshape(-1, feature.size)
    out = filled.reshape(rows, longest, *feature.dims)
    return (out if kind == BYTES else torch.from_numpy(out)), torch.from_numpy(steps)


def _sparse(dtype: Any, found: _Sequences) -> tuple:
    """A feature list as a sparse tensor [rows, steps, values]."""
    indices, dims = (torch.from_numpy(array) for array in step_places(found.steps, found.counts))
    return indices, examples.tensor(examples.KIND[dtype], found.flat, (-1,)), dims


def _parse(rows: list[bytes], names: list[bytes], wanted: _Wanted, sparse: int | None = None) -> tuple:
    """All outputs, with a batch dimension. Of the feature lists, the first `sparse` become sparse tensors (all, if None);
    the others are returned as they are."""
    examples.check_defaults(wanted.context_dense, wanted.defaults)
    request = examples.Request(wanted.context_lists, wanted.context_dense, lambda row, key, text: f"Name: "
                               f"{_name(names, row)}, Context feature: {strings.show(key)}.  {text}")
    context, found = _values(rows, names, wanted, request)
    n, m = len(wanted.context_lists), len(wanted.lists)
    sparse = m if sparse is None else sparse
    dense = _context_dense(context[n:], len(rows), wanted, names, request)
    lists = [*(_sparse(t, f) for (_, t), f in zip(wanted.lists[:sparse], found, strict=False)), *found[sparse:m]]
    made = [_dense(feature, f, names, wanted.assumed_empty) for feature, f in zip(wanted.dense, found[m:], strict=True)]
    return context[:n], dense, lists, made


def _features(keys: Sequence[bytes], types: Sequence[Any], given: Sequence[Any]) -> list[examples.Dense]:
    return [examples.dense_feature(k, t, s.static_dims) for k, t, s in zip(keys, types, given, strict=True)]


@parse_sequence.kernel(device="cpu")
def _parse_sequence_kernel(serialized, debug_name, context_dense_defaults, *, feature_list_dense_missing_assumed_empty,
                           context_sparse_keys,
                           context_dense_keys, feature_list_sparse_keys, feature_list_dense_keys, context_sparse_types,
                           Tcontext_dense, feature_list_dense_types, context_dense_shapes, feature_list_sparse_types,
                           feature_list_dense_shapes):
    if serialized.ndim != 1:
        raise errors.invalid(f"Expected serialized to be a vector, got shape: {arrays.show(serialized.shape)}")
    if debug_name.size and debug_name.shape != serialized.shape:
        raise errors.invalid(f"Expected debug_name to have the shape of serialized, got shape: {arrays.show(debug_name.shape)}")
    raw = strings.raw
    wanted = _Wanted(list(zip(map(raw, context_sparse_keys), context_sparse_types, strict=True)),
                     _features([*map(raw, context_dense_keys)], Tcontext_dense, context_dense_shapes), context_dense_defaults,
                     list(zip(map(raw, feature_list_sparse_keys), feature_list_sparse_types, strict=True)),
                     _features([*map(raw, feature_list_dense_keys)], feature_list_dense_types, feature_list_dense_shapes),
                     set(map(raw, feature_list_dense_missing_assumed_empty)))
    rows = serialized.tolist()
    context, dense, lists, found = _parse(rows, debug_name.ravel().tolist(), wanted)
    made = [examples.listed(v, t) for v, t in zip(context, context_sparse_types, strict=True)]
    return (*examples.parts(made), dense, *examples.parts(lists), [f for f, _ in found], [n for _, n in found])


@parse_single_sequence.kernel(device="cpu")
def _parse_single_sequence_kernel(serialized, feature_list_dense_missing_assumed_empty, context_sparse_keys,
                                  context_dense_keys, feature_list_sparse_keys,
                                  feature_list_dense_keys, context_dense_defaults, debug_name, *, context_sparse_types,
                                  Tcontext_dense, feature_list_dense_types, context_dense_shapes, feature_list_sparse_types,
                                  feature_list_dense_shapes):
    def keys(given: list, what: str) -> list[bytes]:
        return [strings.scalar(k, what) for k in given]
    wanted = _Wanted(
        list(zip(keys(context_sparse_keys, "context_sparse_keys"), context_sparse_types, strict=True)),
        _features(keys(context_dense_keys, "context_dense_keys"), Tcontext_dense, context_dense_shapes), context_dense_defaults,
        list(zip(keys(feature_list_sparse_keys, "feature_list_sparse_keys"), feature_list_sparse_types, strict=True)),
        _features(keys(feature_list_dense_keys, "feature_list_dense_keys"), feature_list_dense_types,
                  feature_list_dense_shapes), set(feature_list_dense_missing_assumed_empty.ravel().tolist()))
    row, name = strings.scalar(serialized, "serialized"), strings.scalar(debug_name, "debug_name")
    context, dense, lists, found = _parse([row], [name] if name else [], wanted)
    made = [examples.listed(v, t, batched=False) for v, t in zip(context, context_sparse_types, strict=True)]
    return (*examples.parts(made), [arrays.part(d, (0,)) for d in dense],
            *examples.parts([(i[:, 1:], v, s[1:]) for i, v, s in lists]), [arrays.part(f, (0,)) for f, _ in found])



@parse_sequence_v2.kernel(device="cpu")
def _parse_sequence_v2_kernel(serialized, debug_name, context_sparse_keys, context_dense_keys, context_ragged_keys,
                              feature_list_sparse_keys, feature_list_dense_keys, feature_list_ragged_keys,
                              feature_list_dense_missing_assumed_empty, context_dense_defaults, *, context_sparse_types,
                              Tcontext_dense, context_ragged_value_types, context_ragged_split_types, context_dense_shapes,
                              feature_list_dense_types, feature_list_sparse_types, feature_list_ragged_value_types,
                              feature_list_ragged_split_types, feature_list_dense_shapes):
    if serialized.ndim > 1:
        raise errors.invalid(f"Expected serialized to be a scalar or a vector, got shape: {arrays.show(serialized.shape)}")
    single, n, m = serialized.ndim == 0, len(context_sparse_types), len(feature_list_sparse_types)
    dense_keys = feature_list_dense_keys.ravel().tolist()
    assumed = feature_list_dense_missing_assumed_empty.ravel().tolist()
    if len(assumed) != len(dense_keys):
        raise errors.invalid(f"Expected len(feature_list_dense_missing_assumed_empty) == len(feature_list_dense_keys). Got: "
                             f"{len(assumed)} vs. {len(dense_keys)}")
    wanted = _Wanted(
        [*_typed("context_sparse", context_sparse_keys, context_sparse_types),
         *_typed("context_ragged", context_ragged_keys, context_ragged_value_types)],
        _features([k for k, _ in _typed("context_dense", context_dense_keys, Tcontext_dense)], Tcontext_dense,
                  context_dense_shapes), context_dense_defaults,
        [*_typed("feature_list_sparse", feature_list_sparse_keys, feature_list_sparse_types),
         *_typed("feature_list_ragged", feature_list_ragged_keys, feature_list_ragged_value_types)],
        _features([k for k, _ in _typed("feature_list_dense", feature_list_dense_keys, feature_list_dense_types)],
                  feature_list_dense_types, feature_list_dense_shapes),
        {k for k, empty in zip(dense_keys, assumed, strict=True) if empty})
    rows, names = serialized.reshape(-1).tolist(), debug_name.ravel().tolist()
    context, dense, lists, found = _parse(rows, names if len(names) == len(rows) else [], wanted, m)
    flat = [examples.listed(v, t, not single) for v, t in zip(context, context_sparse_types, strict=False)]
    ragged = [examples.split(v, t, s) for v, t, s in zip(context[n:], context_ragged_value_types, context_ragged_split_types,
                                                         strict=True)]
    steps = [_ragged(f, t, s) for f, t, s in zip(lists[m:], feature_list_ragged_value_types, feature_list_ragged_split_types,
                                                 strict=True)]

    def one(value: Any) -> Any:
        return arrays.part(value, (0,)) if single else value
    return (*examples.parts(flat), [one(d) for d in dense], [v for v, _ in ragged], [_outer(s, single) for _, s in ragged],
            *examples.parts([(i[:, 1:], v, s[1:]) if single else (i, v, s) for i, v, s in lists[:m]]),
            [one(f) for f, _ in found], [one(c) for _, c in found], [v for v, *_ in steps],
            [_outer(s, single) for _, s, _ in steps], [s for *_, s in steps])


def _typed(what: str, keys: Any, types: Sequence[Any]) -> list[tuple[bytes, Any]]:
    """Keys with their types; there must be as many of both."""
    if keys.size != len(types):
        raise errors.invalid(f"Expected len({what}_keys) == len({what}_types). Got: {keys.size} vs. {len(types)}")
    return list(zip(keys.ravel().tolist(), types, strict=True))


def _ragged(found: _Sequences, dtype: Any, split_type: Any) -> tuple:
    """A feature list as a ragged tensor: values, splits of the rows into steps, and of the steps into values."""
    outer = np.concatenate([[0], np.cumsum(np.maximum(found.steps, 0))])
    inner = np.concatenate([[0], np.cumsum(found.counts)])
    return (examples.tensor(examples.KIND[dtype], found.flat, (-1,)), torch.from_numpy(outer).to(split_type.torch),
            torch.from_numpy(inner.astype(np.int64)).to(split_type.torch))


def _outer(splits: torch.Tensor, single: bool) -> torch.Tensor:
    """Row splits of a batch; those of a single message are an unused scalar."""
    return torch.zeros((), dtype=splits.dtype) if single else splits
