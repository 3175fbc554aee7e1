"""The end of the process while other threads compute: pipelines, queue runners, threads of programs.

Programs end without closing sessions and iterators, and their daemon threads run until the process is gone. That must not turn
a successful exit into a failure (see `_exiting.c`). Without a compiler at installation, threads that compile steps are asked to
end, and joined.
"""
from __future__ import annotations

import atexit
import ctypes
import importlib
import threading
import weakref

_ENDING = 30                            # seconds that a thread has to end
_working: weakref.WeakSet[threading.Thread] = weakref.WeakSet()

try:
    atexit.register(importlib.import_module("penstock._src.kernels._exiting").install)
    AVAILABLE = True
except ImportError:                     # installed without a compiler
    AVAILABLE = False


def start(thread: threading.Thread) -> None:
    """Starts a daemon thread that spends its time inside of C++ code. At the end of the process it is waited for, if nothing
    else lets it wait."""
    if not AVAILABLE:
        if not _working:
            atexit.register(end)
        _working.add(thread)
    thread.start()


def end() -> None:
    """Ends these threads: each raises SystemExit as soon as it runs Python code, and is waited for."""
    for thread in list(_working):
        for _ in range(_ENDING):
            if not thread.is_alive():
                break
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
            thread.join(1.0)
        _working.discard(thread)
