"""AutoGraph: Python control flow that depends on tensors, as control flow in the graph.

`tf.function` traces Python code, and a trace takes one way through it. Here a function is rewritten before it is traced, so
that `if`, `while`, `for`, `break`, `continue`, `return`, `and`, `or`, `not`, `assert` and conditional expressions check the
type of their condition at run time: a tensor of a graph becomes `If` and `While` ops, anything else stays Python.

The stages of a rewrite: `source.py` finds its syntax tree; `jumps.py` replaces break, continue and early return by flags;
`analysis.py` determines which names a block changes and which are read later; `transform.py` rewrites the tree; `convert.py`
compiles it under the user's file and line numbers, so that tracebacks and ops point at the user's code, and caches it.
The rewritten code calls `operators.py`, which decides, and `staged.py`, which builds the ops.
"""
