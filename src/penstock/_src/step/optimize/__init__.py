"""Optimize: passes over the ops of one step, between place and partition.

`pipeline.optimize` runs the passes that the options request, one file each, on the nodes of a step (`step/ir.py`). A pass uses
only the declarations of ops and its tables in `ops/rules.py`. It never changes a result beyond rounding: ops with state or side
effects are not folded, merged or removed, fed tensors are not replaced, and requested operations run.
"""
