"""`tensorflow.python.debug`: the command-line debugger. It is not implemented; the error names the alternatives."""
from __future__ import annotations

from typing import Any

from penstock._src.base import errors


class LocalCLIDebugWrapperSession:
    """Raises: there is no command-line debugger."""

    def __init__(self, *args: Any, **kwargs: Any):
        raise errors.UnimplementedError(
            None, None, "penstock has no command-line debugger (tfdbg). session.explain(fetches) shows the program of a step, "
            "RunOptions(trace_level=FULL_TRACE) what it ran, and tf.add_check_numerics_ops() finds the first NaN.")


TensorBoardDebugWrapperSession = DumpingDebugWrapperSession = LocalCLIDebugHook = DumpingDebugHook = LocalCLIDebugWrapperSession


def has_inf_or_nan(datum: Any, tensor: Any) -> bool:
    """Whether an array has a value that is not finite: a filter for the debugger."""
    import numpy as np
    return isinstance(tensor, np.ndarray) and tensor.dtype.kind in "fc" and not bool(np.isfinite(tensor).all())
