"""Devices: one file per kind, their names and their configuration."""
