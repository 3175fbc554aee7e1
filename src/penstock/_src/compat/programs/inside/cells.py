"""Of `ops.rnn_cell_impl` and `ops.rnn`: building blocks of custom cells and loops."""
from __future__ import annotations

from typing import Any

from penstock._src.base import nest
from penstock._src.compat.contrib.rnn.linear import Linear as _Linear  # noqa: F401
from penstock._src.compat.contrib.rnn.linear import linear as _linear  # noqa: F401
from penstock._src.models.rnn.cell import assert_like_rnncell, joined_shape, joined_static_shape, zeros_of
from penstock._src.models.rnn.steps import batch_size_of as _best_effort_input_batch_size  # noqa: F401
from penstock._src.models.rnn.steps import state_dtype as _infer_state_dtype  # noqa: F401
from penstock._src.models.rnn.steps import transpose_batch_time as _transpose_batch_time  # noqa: F401

_WEIGHTS_VARIABLE_NAME, _BIAS_VARIABLE_NAME = "kernel", "bias"


def _concat(prefix: Any, suffix: Any, static: bool = False) -> Any:
    """One shape of two parts: a tensor, or with `static` what is known of it, as a list."""
    return joined_static_shape(prefix, suffix).as_list() if static else joined_shape(prefix, suffix)


def _zero_state_tensors(state_size: Any, batch_size: Any, dtype: Any) -> Any:
    """Zeros for a state, in the structure of its sizes."""
    return nest.map_structure(lambda size: zeros_of(batch_size, size, dtype), state_size)


def _like_rnncell(cell: Any) -> bool:
    """Whether something can be run as a recurrent cell."""
    try:
        assert_like_rnncell("cell", cell)
    except TypeError:
        return False
    return True
