"""Tests that walk the op registry: every op with a sample gets the same checks."""
