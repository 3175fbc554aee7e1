"""Dispatch of public functions to ragged tensors.

Functions of one or two operands act on the innermost values; the others have specific ragged versions. The table is
keyed by public name; functions are found through the export tables (see ops/composite.py for the calling side).
"""
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import TABLES
from penstock._src.graph import context
from penstock._src.graph.node import Tensor
from penstock._src.library.ragged import (
    array,
    counting,
    functional,
    gather,
    gather_nd,
    images,
    linear,
    math,
    partition,
    shape,
    splitting,
    strings,
)
from penstock._src.library.ragged.broadcasting import aligned, with_partitions
from penstock._src.library.ragged.tensor import RaggedTensor, convert_to_tensor_or_ragged_tensor, match_row_splits_dtypes
from penstock._src.library.ragged.value import RaggedTensorValue
from penstock._src.ops.composite import ASSERTIONS, BINARY, UNARY
from penstock.compat import v1 as tf

BINARY_TOO = ("scalar_mul", "sigmoid_cross_entropy_with_logits", "eq", "ne")      # whose operands have other names
UNARY_TOO = ("bitcast", "dropout", "dropout_v2", "stateless_dropout", "general_dropout")
OWN: dict[str, Callable] = {
    "concat": array.concat,
    "expand_dims": lambda input, axis=None, name=None, dim=None: array.expand_dims(input, dim if axis is None else axis, name),
    "tile": array.tile, "size": lambda input, name=None, out_type=None: array.size(input, out_type or tf.int32, name),
    "squeeze": lambda input, axis=None, name=None, squeeze_dims=None: array.squeeze(
        input, squeeze_dims if axis is None else axis, name),
    "rank": array.rank, "boolean_mask": lambda tensor, mask, name="boolean_mask", axis=None: array.boolean_mask(
        tensor, mask, name),
    "where": array.where, "where_v2": array.where_v2, "stack": array.stack,
    "gather": gather.gather, "batch_gather": gather.batch_gather,
    "gather_nd": gather_nd.gather_nd,
    "reduce_sum": math.reduce_sum, "reduce_prod": math.reduce_prod, "reduce_min": math.reduce_min,
    "reduce_max": math.reduce_max, "reduce_mean": math.reduce_mean, "reduce_all": math.reduce_all,
    "reduce_any": math.reduce_any, "reduce_join": strings.reduce_join, "string_format": strings.string_format,
    "unsorted_segment_sum": math.segment_sum, "unsorted_segment_prod": math.segment_prod,
    "unsorted_segment_min": math.segment_min, "unsorted_segment_max": math.segment_max,
    "unsorted_segment_mean": math.segment_mean, "unsorted_segment_sqrt_n": math.segment_sqrt_n,
    "map_fn": functional.map_rows,
    "split": splitting.split, "reverse": array.reverse, "matmul": linear.matmul, "softmax": math.softmax,
    "bincount": counting.bincount, "reduce_variance": math.reduce_variance, "reduce_std": math.reduce_std,
    "reduce_logsumexp": math.reduce_logsumexp, "cumsum": math.cumsum,
    "reshape": shape.reshape, "broadcast_to": shape.broadcast_to,
    "shape": lambda input, name=None, out_type=None: shape.DynamicRaggedShape.from_tensor(input, out_type),
    "dynamic_partition": partition.dynamic_partition, "one_hot": array.one_hot, "bitcast": array.bitcast,
}
_found: dict[int, Callable] = {}


def _last(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def _handler(fn: Callable) -> Callable | None:
    """The ragged version of a public function, by any of its names."""
    key = id(fn)
    if key not in _found:
        _found[key] = _find(fn) or _none
    found = _found[key]
    return None if found is _none else found


def _none() -> None:
    """Marks a function without a ragged version."""


def _find(fn: Callable) -> Callable | None:
    bare = inspect.unwrap(fn)

    def is_it(obj: Any) -> bool:
        return obj is fn or callable(obj) and inspect.unwrap(obj) is bare
    others: set[Any]
    names, others = {getattr(fn, "__name__", "")}, set()
    for table in TABLES.values():
        for n in [n for n, obj in list(table.items()) if is_it(obj)]:
            last = _last(n)
            (names if is_it(table.get(last, fn)) else others).add(last)       # strings.split differs from split
    for n in sorted(names, key=len, reverse=True):       # where_v2 before where
        base = n.removesuffix("_v1").removesuffix("_v2")
        if base in others:
            continue
        if n in OWN or base in OWN:
            return OWN[n if n in OWN else base]
        if base in UNARY or n in UNARY_TOO:
            return functools.partial(functional.map_flat_values, fn)
        if base in BINARY or base in BINARY_TOO:
            return functools.partial(_by_place, fn)
        if base in ASSERTIONS:
            return lambda x, y, *args, **kwargs: assertion(fn, x, y, *args, **kwargs)
        if base == "embedding_lookup":
            return lambda params, ids, *args, **kwargs: ids.with_flat_values(fn(params, ids.flat_values, *args, **kwargs))
        if base == "resize_images":
            return functools.partial(images.resize, fn)
        if base in ("add_n", "string_join", "accumulate_n"):
            return lambda inputs, *args, **kwargs: functional.map_flat_values(fn, list(inputs), *args, **kwargs)
    return None


def _dtype(value: Any) -> Any:
    """The dtype of a value that has one, of TensorFlow or of numpy."""
    found = getattr(value, "dtype", None)
    return None if found is None else dtypes.as_dtype(found)


def binary(fn: Callable, x: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of two operands, which are broadcast to each other as dense ones are."""
    x = convert_to_tensor_or_ragged_tensor(x, preferred_dtype=_dtype(y))
    y = convert_to_tensor_or_ragged_tensor(y, preferred_dtype=x.dtype)
    if isinstance(x, RaggedTensor) and isinstance(y, RaggedTensor) and x.ragged_rank == y.ragged_rank and _alike(x, y):
        x, y = match_row_splits_dtypes(x, y)
        partitions = functional.merged_partitions([x, y])                 # rows that differ are an error of these values
        return with_partitions(fn(x.flat_values, y.flat_values, *args, **kwargs), partitions)
    ragged, dense = (x, y) if isinstance(x, RaggedTensor) else (y, x)
    if dense.shape.ndims is None or dense.shape.ndims and ragged.shape.ndims is None:
        raise ValueError(f"Unable to broadcast: unknown rank, of shapes {x.shape} and {y.shape}")
    inner = ragged.flat_values.shape.ndims
    if not isinstance(dense, RaggedTensor) and (not dense.shape.ndims or inner is not None and dense.shape.ndims < inner):
        flat = (ragged.flat_values, dense) if ragged is x else (dense, ragged.flat_values)
        return ragged.with_flat_values(fn(*flat, *args, **kwargs))
    partitions, flats = aligned(x, y)
    return with_partitions(fn(*flats, *args, **kwargs), partitions)


def _alike(x: RaggedTensor, y: RaggedTensor) -> bool:
    """Whether no dimension is known to be repeated."""
    if x.shape.rank is None or y.shape.rank is None:
        return True
    return x.shape.rank == y.shape.rank and all((a == 1) == (b == 1) for a, b in zip(
        x.shape.as_list()[:x.ragged_rank + 1], y.shape.as_list()[:x.ragged_rank + 1], strict=True))


def _by_place(fn: Callable, *args: Any, **kwargs: Any) -> Any:
    """A function whose first two parameters are the operands, whatever they are called."""
    if len(args) > 1 and args[0] is not None:
        return binary(fn, *args, **kwargs)
    given = inspect.signature(fn).bind(*args, **kwargs).arguments
    first, second = [n for n in inspect.signature(fn).parameters if n != "_sentinel"][:2]
    x, y = given.pop(first), given.pop(second)
    return binary(lambda a, b: fn(**{first: a, second: b}, **given), x, y)


def assertion(fn: Callable, x: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
    """An assertion about two operands, ragged or dense: about their values, once rows are known to match."""
    checked: list = []

    def of_values(a: Any, b: Any) -> Any:
        checked.append(fn(a, b, *args, **kwargs))
        return a if isinstance(a, Tensor) and a.shape.rank else b
    binary(of_values, x, y)
    return checked[0]


def _as_tensor(argument: Any) -> Any:
    """An argument with the ragged tensor in place of each RaggedTensorValue."""
    if type(argument) in (list, tuple):
        return type(argument)(map(_as_tensor, argument))
    return convert_to_tensor_or_ragged_tensor(argument) if isinstance(argument, RaggedTensorValue) else argument


def _symbolic_graph(values: Any) -> Any:
    """The graph of a symbolic ragged tensor among eager arguments (see Graph.symbolic), where its ops belong; or None."""
    if not context.executing_eagerly():
        return None
    for v in values:
        if type(v) in (list, tuple):
            found = _symbolic_graph(v)
        else:
            found = v.flat_values.graph if isinstance(v, RaggedTensor) and not hasattr(v.flat_values, "_value") else None
        if found is not None:
            return found
    return None


def dispatch(fn: Callable, args: tuple, kwargs: dict) -> Any:
    """The ragged version of `fn` for these arguments, or NotImplemented."""
    handler = _handler(fn)
    if handler is None:
        return NotImplemented
    symbolic = _symbolic_graph((*args, *kwargs.values()))
    if symbolic is not None:
        with symbolic.as_default():
            return dispatch(fn, args, kwargs)
    args, kwargs = tuple(map(_as_tensor, args)), {k: _as_tensor(v) for k, v in kwargs.items()}
    if handler in OWN.values():                  # by name: v1 and v2 functions order their arguments differently
        given = inspect.signature(fn).bind(*args, **kwargs).arguments
        known = inspect.signature(handler).parameters
        return handler(**{k: v for k, v in given.items() if k in known})
    return handler(*args, **kwargs)
