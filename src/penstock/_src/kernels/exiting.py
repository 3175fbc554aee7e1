"""The end of the process while other threads compute: pipelines, queue runners, threads of programs.

Programs end without closing sessions and iterators, and their daemon threads go on until the process is gone. That must not
turn a program that has ended well into one that failed (see `_exiting.c`).
"""
from __future__ import annotations

import atexit
import importlib

try:
    atexit.register(importlib.import_module("penstock._src.kernels._exiting").install)
    AVAILABLE = True
except ImportError:                     # installed without a compiler
    AVAILABLE = False
