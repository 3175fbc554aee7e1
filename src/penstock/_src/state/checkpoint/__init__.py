"""Checkpoints: savers by name, objects by their place in a graph of objects, and the state file of a directory."""
from penstock._src.state.checkpoint import checkpoint, initialize, options, reader, saver, state, warming  # noqa: F401
