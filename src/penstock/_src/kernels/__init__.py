"""Kernels and run-time values: ATen, Triton and C kernels, conversions between numpy and torch, devices."""
