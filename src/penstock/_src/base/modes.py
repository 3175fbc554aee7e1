"""The modes of the process: choices that hold for all threads, and that public functions change.

Every process-wide setting that alters the effect of a call is a field here, with the function that sets it. State of one thread
is in `graph/context.py` (`state`); settings of one session are its ConfigProto; environment variables are in
`base/switches.py`. `snapshot` and `restore` let tests leave the process as they found it.
"""
from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any


@dataclass(slots=True)
class Modes:
    """See `process`, the only instance."""
    eager: bool = True                  # ops execute immediately: enable_eager_execution, disable_eager_execution
    v2_control_flow: bool = True        # cond and while_loop build functional ops: enable_control_flow_v2
    resource_variables: bool = True     # variables are resources, not references: enable_resource_variables
    tensor_equality: bool = True        # == compares elements instead of identity: enable_tensor_equality
    v2_tensorshape: bool = True         # indexing a TensorShape returns int instead of Dimension: enable_v2_tensorshape
    seeds_required: bool = False        # random ops without a seed raise: config.experimental.enable_op_determinism
    tf32: bool = True                   # float32 products may round to TensorFloat-32: enable_tensor_float_32_execution
    device_policy: int = 2              # eager inputs on another device; see graph.context.SILENT: enable_eager_execution
    strategy: bool = False              # a strategy is set for the whole program: experimental_set_strategy
    watch: Any = None                   # f(op type, results) -> results, called for every op: debugging.enable_check_numerics
    default_graph: Any = None           # the graph of threads without one on their stack: reset_default_graph


process = Modes()


def snapshot() -> dict[str, Any]:
    """The current modes."""
    return {f.name: getattr(process, f.name) for f in fields(Modes)}


def restore(modes: dict[str, Any]) -> None:
    """Sets the modes to an earlier snapshot."""
    for name, value in modes.items():
        setattr(process, name, value)


@contextlib.contextmanager
def paused_collector() -> Iterator[None]:
    """Pauses the garbage collector, for work that makes many objects of which none is garbage, or that it must not disturb."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
