"""When a lost session is made again, without clocks: at once, and after failures with pauses that grow."""
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
        """There is a session."""
        self._pause = FIRST
