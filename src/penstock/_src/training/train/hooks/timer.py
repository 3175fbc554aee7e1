"""Timers of hooks: every so many steps, or every so many seconds."""
from __future__ import annotations

import time
from typing import Any

from penstock._src.base.api import export


class _HookTimer:
    """Fires at the first step; subclasses decide when it fires again."""

    def __init__(self) -> None:
        self._last_triggered_step: int | None = None

    def reset(self) -> None:
        """Resets the state."""
        self._last_triggered_step = None

    def should_trigger_for_step(self, step: int) -> bool:
        """Whether it is time."""
        raise NotImplementedError

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Records that it fired at `step`; returns the seconds and steps since the last time, or (None, None)."""
        raise NotImplementedError

    def last_triggered_step(self) -> int | None:
        """The step at which it fired last."""
        return self._last_triggered_step


@export(v1=["train.SecondOrStepTimer", "estimator.SecondOrStepTimer"], v2=["estimator.SecondOrStepTimer"])
class SecondOrStepTimer(_HookTimer):
    """Fires every `every_secs` seconds or every `every_steps` steps."""

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None):
        super().__init__()
        if every_secs is None and every_steps is None:
            raise ValueError("Either every_secs or every_steps should be provided.")
        if every_secs is not None and every_steps is not None:
            raise ValueError("Pass every_secs or every_steps, not both.")
        self._every_secs, self._every_steps = every_secs, every_steps
        self.reset()

    def reset(self) -> None:
        """Resets the last time and step."""
        super().reset()
        self._last_triggered_time: float | None = None

    def should_trigger_for_step(self, step: int) -> bool:
        """Whether it is time; never twice for one step."""
        if self._last_triggered_step is None:
            return True
        if self._last_triggered_step == step:
            return False
        if self._every_secs is not None:
            return time.monotonic() >= self._last_triggered_time + self._every_secs       # type: ignore[operator]
        return step >= self._last_triggered_step + self._every_steps                 # type: ignore[operator]

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Records the time; returns the elapsed seconds and steps."""
        now, before = time.monotonic(), self._last_triggered_time
        passed = (None, None) if before is None else (now - before, step - self._last_triggered_step)   # type: ignore
        self._last_triggered_time, self._last_triggered_step = now, step
        return passed


class NeverTriggerTimer(_HookTimer):
    """Never fires."""

    def should_trigger_for_step(self, step: int) -> bool:
        """False."""
        return False

    def update_last_triggered_step(self, step: int) -> tuple[None, None]:
        """Nothing has elapsed."""
        return None, None


def step_if_due(timer: _HookTimer, session: Any, stale: int, steps_per_run: int, step_tensor: Any) -> int | None:
    """The global step, if a timer is to trigger at it; None otherwise. `stale`: the step before the run that has ended."""
    if not timer.should_trigger_for_step(stale + steps_per_run):
        return None
    step = int(session.run(step_tensor))
    return step if timer.should_trigger_for_step(step) else None
