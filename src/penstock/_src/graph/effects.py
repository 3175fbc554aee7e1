"""What ops may change, as far as their declarations tell: asked before a read moves away from other ops."""
from __future__ import annotations

from collections.abc import Iterable

from penstock._src.base import dtypes
from penstock._src.graph.node import Operation, Tensor


def writes_nothing(ops: Iterable[Operation]) -> bool:
    """Whether ops leave all variables as they are."""
    return not any(op.opdef.client_code or op.opdef.calls or not op.opdef.reads and any(map(_is_state, op._inputs))
                   for op in ops)


def _is_state(t: Tensor) -> bool:
    return t._dtype.base_dtype == dtypes.resource or t._dtype._is_ref_dtype
