"""Checkpoints: name-based savers, object-based checkpoints, and the state file of a directory."""
from penstock._src.state.checkpoint import checkpoint, initialize, options, reader, saver, state, warming  # noqa: F401
