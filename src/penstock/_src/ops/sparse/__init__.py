"""Sparse and ragged tensors, sets."""
