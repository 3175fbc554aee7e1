"""Files, checkpoints and summaries."""
