"""When to recreate a lost session, without clocks: at once, and after failures with growing pauses."""
from __future__ import annotations

FIRST, LONGEST = 0.05, 1.0          # seconds


class Recovery:
    """The attempts to make one session. `training/train/monitored_session.py` sleeps for the pauses, simulators schedule them.

    >>> recovery = Recovery()
    >>> recovery.failed(), recovery.failed(), recovery.made(), recovery.failed()
    (0.05, 0.1, None, 0.05)
    """

    __slots__ = ("_pause",)

    def __init__(self) -> None:
        self._pause = FIRST

    def failed(self) -> float:
        """An attempt has failed because a task was lost: returns the seconds to wait before the next."""
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST)
        return pause

    def made(self) -> None:
        """A session was created."""
        self._pause = FIRST
