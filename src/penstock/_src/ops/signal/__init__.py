"""Signals and audio."""
