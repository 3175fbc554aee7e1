"""tf.ragged.cross: every combination of features, row by row."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.graph.sparse_tensor import SparseTensor, SparseTensorValue
from penstock._src.library.ragged.tensor import RaggedTensor, convert_to_tensor_or_ragged_tensor
from penstock._src.ops.sparse.sparse_cross import ragged_cross_op
from penstock.compat import v1 as tf

_DEFAULT_KEY = 0xDECAFCAFFE


@export("ragged.cross")
def cross(inputs: list, name: str | None = None) -> RaggedTensor:
    """Every combination of one value per input, row by row, as strings.

    >>> tf.ragged.cross([tf.ragged.constant([["a"], ["b", "c"]]), tf.ragged.constant([["d"], ["e"]])])
    <tf.RaggedTensor [[b'a_X_d'], [b'b_X_e', b'c_X_e']]>
    """
    return _crossed(inputs, False, 0, None, name)


@export("ragged.cross_hashed")
def cross_hashed(inputs: list, num_buckets: int = 0, hash_key: int | None = None, name: str | None = None) -> RaggedTensor:
    """Every combination of one value per input, row by row, hashed into `num_buckets` (0: all of int64)."""
    return _crossed(inputs, True, num_buckets, hash_key, name)


def _crossed(inputs: Any, hashed: bool, num_buckets: int, hash_key: int | None, name: str | None) -> RaggedTensor:
    if not isinstance(inputs, (list, tuple)):
        raise TypeError("Inputs must be a list")
    sparse: list[Any]
    ragged: list[Any]
    dense: list[Any]
    ragged, sparse, dense, order = [], [], [], ""
    with tf.name_scope(name, "RaggedCross", []):
        for i, given in enumerate(inputs):
            given = SparseTensor.from_value(given) if isinstance(given, SparseTensorValue) else given
            t = given if isinstance(given, SparseTensor) else convert_to_tensor_or_ragged_tensor(given)
            if t.dtype.is_integer:
                t = tf.cast(t, dtypes.int64)
            elif t.dtype != dtypes.string:
                raise ValueError(f"Unexpected dtype for inputs[{i}]: {t.dtype}")
            if t.shape.rank not in (None, 2) or isinstance(t, RaggedTensor) and t.ragged_rank != 1:
                wrong = errors.invalid if isinstance(t, RaggedTensor) else ValueError
                raise wrong(f"tf.ragged.cross only supports inputs with rank=2. Got shape {t.shape} at inputs[{i}].")
            kind = ragged if isinstance(t, RaggedTensor) else sparse if isinstance(t, SparseTensor) else dense
            kind.append(t)
            order += "RSD"[[id(ragged), id(sparse), id(dense)].index(id(kind))]
        splits = dtypes.int64 if any(t.row_splits.dtype == dtypes.int64 for t in ragged) or not ragged else dtypes.int32
        values, row_splits = ragged_cross_op(
            [t.values for t in ragged], [t.row_splits for t in ragged], [t.indices for t in sparse], [t.values for t in sparse],
            [t.dense_shape for t in sparse], dense, input_order=order, hashed_output=hashed, num_buckets=num_buckets,
            hash_key=_DEFAULT_KEY if hash_key is None else hash_key,
            out_values_type=dtypes.int64 if hashed else dtypes.string, out_row_splits_type=splits)
        return RaggedTensor.from_row_splits(values, row_splits, validate=False)
