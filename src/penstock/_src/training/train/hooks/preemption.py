"""SIGTERM while a chief trains: the last step is saved before the process ends."""
from __future__ import annotations

import signal
import threading
from typing import Any

from penstock._src.base import tf_logging
from penstock._src.training.train.hooks.base import SessionRunHook


class PreemptionHook(SessionRunHook):
    """Makes the session's `should_stop()` true when the process gets SIGTERM, as before an eviction or a reboot.

    The loop ends, the hooks that save at the end save its last step, and the process exits with the status of an ended one, so
    that its supervisor starts it again. A second SIGTERM ends the process at once. A program with its own handler keeps it.
    Further steps are allowed, because the body of the loop may run several.
    """

    def __init__(self) -> None:
        self.requested = self._installed = False

    def begin(self) -> None:
        """Installs the handler, where Python allows it: on the main thread."""
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._request)
            self._installed = True

    def _request(self, number: int, frame: Any) -> None:
        self.requested = True
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        tf_logging.warning("Received SIGTERM: training ends with a checkpoint.")

    def leave(self, failed: bool) -> None:
        """Removes the handler when the session is closed; exits if that was requested, unless an error ends the process."""
        if self._installed:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._installed = False
        if self.requested and not failed:
            raise SystemExit(128 + signal.SIGTERM)
