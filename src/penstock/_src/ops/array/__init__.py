"""Shapes, slices, and rearranging elements."""
