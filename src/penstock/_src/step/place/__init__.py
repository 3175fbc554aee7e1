"""Deciding where operations run: device names and, above them, the placers."""
