"""tf.profiler: how many parameters a graph has, how many float operations a step takes, how long its ops ran.

`counts.py` counts per op, `views.py` sums up over name scopes, inputs, kinds of ops or lines of the program, `options.py` says
what is shown. Times and bytes come from RunMetadata that a session wrote.
"""
from __future__ import annotations

from penstock._src.training.profiler.options import ProfileOptionBuilder
from penstock._src.training.profiler.session import Profiler, advise, profile, write_op_log

__all__ = ["ProfileOptionBuilder", "Profiler", "advise", "profile", "write_op_log"]
