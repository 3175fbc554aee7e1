"""State that outlives a step: variables, checkpoints, saved models, modules."""
