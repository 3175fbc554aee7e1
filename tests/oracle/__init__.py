"""Differential tests against real TensorFlow: the same GraphDef, the same feeds, in both systems."""
