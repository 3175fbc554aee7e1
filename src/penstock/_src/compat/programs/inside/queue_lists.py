"""Of `ops.data_flow_ops`: arguments of queues and staging areas, as lists."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import penstock as tf


def _as_type_list(dtypes: Any) -> list:
    """One type as a list, or the list itself."""
    return list(dtypes) if isinstance(dtypes, (list, tuple)) else [dtypes]


def _as_shape_list(shapes: Any, dtypes: Sequence, unknown_dim_allowed: bool = False,
                   unknown_rank_allowed: bool = False) -> list | None:
    """A shape for each type; one shape is that of a single component."""
    if shapes is None:
        return None
    single = isinstance(shapes, tf.TensorShape) or not isinstance(shapes, (list, tuple)) or any(
        s is None or isinstance(s, int) for s in shapes)
    found = [tf.TensorShape(s) for s in ([shapes] if single else shapes)]
    if len(found) != len(dtypes):
        raise ValueError(f"There must be a shape for each type: {len(found)} shapes, {len(dtypes)} types")
    for s in found:
        if s.rank is None and not unknown_rank_allowed or s.rank and None in s.as_list() and not unknown_dim_allowed:
            raise ValueError(f"All shapes must be fully defined: {found}")
    return found


def _as_name_list(names: Any, dtypes: Sequence) -> list[str] | None:
    """A name for each type, or None."""
    if names is None:
        return None
    found = list(names) if isinstance(names, (list, tuple)) else [names]
    if len(found) != len(dtypes):
        raise ValueError(f"There must be a name for each type: {len(found)} names, {len(dtypes)} types")
    return found
