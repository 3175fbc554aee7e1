"""Optimize: passes over the ops of one step, between place and partition.

`pipeline.optimize` copies the pruned ops (`step.StepGraph`) and runs the passes that the options ask for, one file each.
A pass knows ops only through the fields of their declarations. It never changes a result beyond rounding: ops with state or
side effects are not folded, merged or dropped, fed tensors stay what they are, and an operation that was requested runs.
"""
