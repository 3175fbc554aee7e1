"""Strings, and values parsed from strings."""
