"""Variables: the objects that programs hold, scopes that name and share them, initializers, and collections of them.

The run-time side, where values live, is `ops.state.state`.
"""
from penstock._src.state.variables import (  # noqa: F401
    collections,
    creators,
    functions,
    initializers,
    orthogonal,
    partitioned,
    scope,
    template,
)
