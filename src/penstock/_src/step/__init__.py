"""Compiles a step: place, optimize, partition, compile."""
