"""A step, from what is asked to something that runs: place, optimize, partition, compile."""
