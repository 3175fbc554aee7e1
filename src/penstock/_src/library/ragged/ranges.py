"""tf.ragged.range: one range per row."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.library.ragged.segments import repeat
from penstock._src.library.ragged.tensor import RaggedTensor
from penstock._src.ops.sparse.ragged import range_op
from penstock.compat import v1 as tf


@export("ragged.range")
def ragged_range(starts: Any, limits: Any = None, deltas: Any = 1, dtype: Any = None, name: str | None = None,
                 row_splits_dtype: Any = dtypes.int64) -> RaggedTensor:
    """One range per row.

    >>> tf.ragged.range([3, 5, 2])
    <tf.RaggedTensor [[0, 1, 2], [0, 1, 2, 3, 4], [0, 1]]>
    """
    if limits is None:
        starts, limits = 0, starts
    with tf.name_scope(name, "RaggedRange", [starts, limits, deltas]):
        starts = convert(starts, dtype, "starts")
        limits = convert(limits, dtype, "limits")
        deltas = convert(deltas, dtype, "deltas")
        if dtype is None:
            starts, limits, deltas = _widest(starts, limits, deltas)
        splits, values = range_op(starts, limits, deltas, Tsplits=dtypes.as_dtype(row_splits_dtype))
        return RaggedTensor.from_row_splits(values, splits, validate=False)


_ORDER = [dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64]


def _widest(*tensors: Any) -> list:
    for t in tensors:
        if t.dtype not in _ORDER:
            raise TypeError(f"ranges have int32, int64, float32 or float64 bounds, not {t.dtype.name}")
    wanted = max((t.dtype for t in tensors), key=_ORDER.index)
    return [tf.cast(t, wanted) for t in tensors]


def repeat_ranges(params: Any, splits: Any, repeats: Any) -> Any:
    """Repeats whole rows: row i of (params, splits) comes repeats[i] times in a row."""
    times = tf.ones([tf.shape(splits)[0] - 1], repeats.dtype) * repeats if repeats.shape.ndims == 0 else repeats
    starts, limits = repeat(splits[:-1], times), repeat(splits[1:], times)
    return tf.gather(params, ragged_range(starts, limits).flat_values)
