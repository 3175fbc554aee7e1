"""What outlives a step: variables, checkpoints, saved models, modules."""
