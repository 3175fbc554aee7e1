"""Training: optimizers, hooks and sessions, summaries, profiles."""
