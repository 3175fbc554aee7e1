"""Of `framework.dtypes`: tables of types by the numbers that protocol messages have for them."""
from penstock._src.base import dtypes

_WITHOUT_NUMPY = (dtypes.resource, dtypes.variant)
TF_VALUE_DTYPES = {d for d in dtypes._BY_ENUM.values() if not d._is_ref_dtype}
_TF_TO_NP = {enum: d.as_numpy_dtype for enum, d in dtypes._BY_ENUM.items() if d.base_dtype not in _WITHOUT_NUMPY}
_NP_TO_TF = dict(dtypes._BY_NUMPY)
