"""Shapes, slices, and moving elements around."""
