"""RaggedTensorValue: what fetching a ragged tensor returns."""
from __future__ import annotations

from typing import Any

import numpy as np

from penstock._src.base.api import export


@export(v1=["ragged.RaggedTensorValue"])
class RaggedTensorValue:
    """A ragged tensor as numpy arrays: values and row_splits; values may themselves be ragged."""

    _values: Any                        # a numpy array or a RaggedTensorValue
    _row_splits: Any                    # a numpy array

    def __init__(self, values: Any, row_splits: Any):
        if not (isinstance(row_splits, (np.ndarray, np.generic)) and row_splits.dtype in (np.int64, np.int32)
                and row_splits.ndim == 1):
            raise TypeError("row_splits must be a 1D int32 or int64 numpy array")
        if not isinstance(values, (np.ndarray, np.generic, RaggedTensorValue)):
            raise TypeError("values must be a numpy array or a RaggedTensorValue")
        if isinstance(values, RaggedTensorValue) and row_splits.dtype != values.row_splits.dtype:
            raise ValueError("row_splits and values.row_splits must have the same dtype")
        self._values, self._row_splits = values, row_splits

    row_splits = property(lambda self: self._row_splits, doc="Where the rows begin, and the end of the last one.")
    values = property(lambda self: self._values, doc="The concatenated rows.")
    dtype = property(lambda self: self._values.dtype, doc="The numpy dtype of the values.")

    @property
    def flat_values(self) -> Any:
        """The innermost values."""
        v = self._values
        while isinstance(v, RaggedTensorValue):
            v = v.values
        return v

    @property
    def nested_row_splits(self) -> tuple:
        """The row_splits of all ragged dimensions, outermost first."""
        v: Any = self
        out = []
        while isinstance(v, RaggedTensorValue):
            out.append(v.row_splits)
            v = v.values
        return tuple(out)

    @property
    def ragged_rank(self) -> int:
        """The number of ragged dimensions."""
        return len(self.nested_row_splits)

    @property
    def shape(self) -> tuple:
        """The shape, None for ragged dimensions."""
        return (self._row_splits.shape[0] - 1, None, *self._values.shape[1:])

    def to_list(self) -> list:
        """Nested Python lists."""
        values = self._values.to_list() if isinstance(self._values, RaggedTensorValue) else self._values.tolist()
        return [values[a:b] for a, b in zip(self._row_splits[:-1], self._row_splits[1:], strict=True)]

    @staticmethod
    def _dispatch(fn: Any, args: tuple, kwargs: dict) -> Any:
        from penstock._src.library.ragged.dispatch import dispatch
        return dispatch(fn, args, kwargs)

    def __str__(self) -> str:
        return f"<tf.RaggedTensorValue {self.to_list()}>"

    def __repr__(self) -> str:
        return f"tf.RaggedTensorValue(values={self._values!r}, row_splits={self._row_splits!r})"
