"""Effects of ops as declared. Passes check them before they move a read across other ops."""
from __future__ import annotations

from collections.abc import Iterable

from penstock._src.base import dtypes
from penstock._src.graph.node import AnyOp, AnyTensor


def writes_nothing(ops: Iterable[AnyOp]) -> bool:
    """Whether no op writes a variable."""
    return not any(op.opdef.client_code or op.opdef.calls or not op.opdef.reads and any(map(_is_state, op.inputs))
                   for op in ops)


def _is_state(t: AnyTensor) -> bool:
    return t.dtype.base_dtype == dtypes.resource or t.dtype._is_ref_dtype
