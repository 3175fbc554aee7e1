"""Input pipelines at run time, independent of ops: stages (datasets as values) and cursors (positions in them).

`base` defines both, and how elements are passed, one by one or in blocks; every other module has some kinds of stages.
The ops that create stages and iterators are in `ops.data`; the public classes are in `data.datasets`.
"""
