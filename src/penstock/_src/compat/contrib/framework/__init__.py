"""tf.contrib.framework: arguments by scope, variables by name, values from checkpoints."""
from penstock._src.compat.contrib.framework import arguments, checkpoints, tensors, variables  # noqa: F401
