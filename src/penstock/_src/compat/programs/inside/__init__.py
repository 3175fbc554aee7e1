"""Internals of TensorFlow that programs use: small functions for `reach_in.py`, one module for a few of TensorFlow's."""
