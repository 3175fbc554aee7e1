"""tf.profiler: the parameters of a graph, the float operations of a step, and the run times of its ops.

`counts.py` counts per op, `views.py` sums up over name scopes, inputs, kinds of ops or lines of the program, `options.py` says
what is shown. Times and bytes are from RunMetadata of a session.
"""
from __future__ import annotations

from penstock._src.training.profiler.options import ProfileOptionBuilder
from penstock._src.training.profiler.session import Profiler, advise, profile, write_op_log

__all__ = ["ProfileOptionBuilder", "Profiler", "advise", "profile", "write_op_log"]
