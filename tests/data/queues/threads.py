"""Threads of tests: they end, and what they raise is the test's failure."""
import contextlib
import threading
import time


class Worker(threading.Thread):
    """Runs a function; `result()` waits for it, and returns what it returned or raises what it raised."""

    def __init__(self, function, *args):
        super().__init__(daemon=True)
        self._function, self._args = function, args
        self._value = self._error = None
        self.start()

    def run(self):
        try:
            self._value = self._function(*self._args)
        except BaseException as e:
            self._error = e

    def result(self, timeout=60):
        self.join(timeout)
        assert not self.is_alive(), "a thread hangs"
        if self._error is not None:
            raise self._error
        return self._value

    def error(self, timeout=60):
        with contextlib.suppress(BaseException):
            self.result(timeout)
        assert not self.is_alive(), "a thread hangs"
        return self._error


def until(condition, timeout=60):
    """Waits for a condition that another thread makes true."""
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.005)


def waits(worker):
    """Whether a thread is still at it after a while."""
    worker.join(0.1)
    return worker.is_alive()
