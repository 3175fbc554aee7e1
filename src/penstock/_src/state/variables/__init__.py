"""Variables: the public classes, scopes that name and share them, initializers, and collections.

The run-time side, where values live, is `ops.state.state`.
"""
from penstock._src.state.variables import creators  # noqa: F401  (the last creators of tf.Variable)
