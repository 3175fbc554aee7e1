"""Arithmetic, comparisons, reductions and products."""
