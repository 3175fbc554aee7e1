"""Stand-ins for variables in recorded runs: they record operations, and leave the variable unchanged.

A recorded run (step/compile/recorder.py) and a trace (step/tiers/lower.py) pass these to kernels instead of variables. They
have the same methods, so kernels need not know about recording.
"""
from __future__ import annotations

from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.ops.state.state import VariableResource


class _Lock:
    """The lock of a stand-in."""

    def __init__(self, of: StandIn):
        self.of = of

    def __enter__(self) -> None:
        self.of.happens("lock")

    def __exit__(self, *error: Any) -> None:
        self.of.happens("unlock")


class StandIn(VariableResource):
    """Takes the place of a variable. `now` is its current value."""

    __slots__ = ("at", "recorder", "first", "now", "fixed", "_seen")

    def __init__(self, real: VariableResource, at: str, recorder: Any, fixed: bool = False):
        self.name, self.dtype, self.dims, self.order = real.name, real.dtype, real.dims, real.order
        self.at, self.recorder, self.fixed = at, recorder, fixed
        self.first = self.now = real.settled()
        self.lock = _Lock(self)                              # type: ignore[assignment]
        self._seen: Any = None                               # the result of the last read, until an update

    def happens(self, kind: str, *args: Any, value: torch.Tensor | None = None) -> Any:
        """Records an operation on the variable."""
        self._seen = None
        return self.recorder.happened(kind, self.at, args, value, self.fixed)

    @property
    def value(self) -> Any:                                  # type: ignore[override]
        """The variable's value."""
        if self.fixed:
            return self.first
        if self._seen is None:
            self._seen = self.happens("read", value=self.now)
        return self._seen

    def read(self) -> Any:
        """The same."""
        return self.value

    def writable(self) -> Any:
        """The tensor to be updated: a copy here."""
        self.now = self.now.clone()
        return self.happens("writable", value=self.now)

    def assign(self, value: Any) -> None:
        """Sets the value."""
        self.happens("assign", value)
        self.now = self.recorder.inner(value).clone()

    def add(self, value: Any, alpha: float) -> None:
        """Adds to the value."""
        self.happens("add", value, alpha)
        self.now = torch.add(self.now, self.recorder.inner(value), alpha=alpha)

    def add_product(self, a: Any, b: Any, alpha: float) -> None:
        """Adds a product."""
        self.happens("add_product", a, b, alpha)
        self.now = torch.addmm(self.now, self.recorder.inner(a), self.recorder.inner(b), alpha=alpha)

    def copy_in(self, copies: dict[int, tuple[StandIn, VariableResource]]) -> VariableResource:
        """A variable with a copy of the value, for a kernel that may change it; one for each stand-in."""
        if id(self) not in copies:
            copies[id(self)] = self, self.beside(self.now)
        return copies[id(self)][1]

    def becomes(self, value: torch.Tensor) -> None:
        """The value that a kernel has left."""
        if self.fixed:
            raise self.recorder.changes(self.at)
        self.now, self._seen = value, None

    def dissolve(self) -> None:
        """Releases the variable's tensor at once: while it is referenced, it is not updated in place."""
        self.first = self.now = self._seen = self.lock = self.recorder = None    # type: ignore[assignment]

    def arrange(self, order: tuple[int, ...]) -> None:
        """Not supported inside of a step."""
        raise errors.InternalError(None, None, "A variable is arranged while its step is recorded.")


class Shadow(VariableResource):
    """Takes the place of a variable in a trace. An update makes a new value: the old one may still be read."""

    __slots__ = ("first",)

    def __init__(self, real: VariableResource, value: torch.Tensor):
        super().__init__(real.name, real.dtype, real.dims, value)
        self.first = value

    def writable(self) -> torch.Tensor:
        """The tensor to update in place: a copy, which the compiler removes."""
        value = self.value = self.read().clone()
        return value

    def assign(self, value: Any) -> None:
        """Sets the value."""
        self.value = value.clone()

    def add(self, value: torch.Tensor, alpha: float) -> None:
        """Adds `alpha` times `value`."""
        self.value = torch.add(self.read(), value, alpha=alpha)

    def add_product(self, a: torch.Tensor, b: torch.Tensor, alpha: float) -> None:
        """Adds `alpha` times a product."""
        self.add(torch.mm(a, b), alpha)

    def arrange(self, order: tuple[int, ...]) -> None:
        """The layout of the variable is not changed by a trace."""
