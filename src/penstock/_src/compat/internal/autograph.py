"""`tf.__internal__.autograph`: converting functions as the caller is converted."""
from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.eager.autograph.convert import converted, do_not_convert
from penstock._src.graph import context


class Status(enum.Enum):
    """Whether AutoGraph converts called functions at this point."""
    UNSPECIFIED = 0
    ENABLED = 1
    DISABLED = 2


class ControlStatusCtx:
    """The status, as a context to enter."""

    def __init__(self, status: Status, options: Any = None):
        self.status, self.options = status, options

    def __enter__(self) -> ControlStatusCtx:
        self._entered = context.autograph(converted if self.status is Status.ENABLED else None)
        self._entered.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._entered.__exit__(*exc)


@export("__internal__.autograph.control_status_ctx")
def control_status_ctx() -> ControlStatusCtx:
    """The status of the code that calls this."""
    return ControlStatusCtx(Status.ENABLED if context.state.autograph else Status.DISABLED)


@export("__internal__.autograph.tf_convert")
def tf_convert(f: Callable, ctx: ControlStatusCtx, convert_by_default: bool = True, user_requested: bool = False) -> Callable:
    """`f` as it runs under a status: rewritten, or kept from being rewritten."""
    enabled = ctx.status is Status.ENABLED or ctx.status is Status.UNSPECIFIED and convert_by_default
    return converted(f) if enabled else do_not_convert(f)
