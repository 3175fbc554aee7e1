"""Input pipelines at run time, free of ops: stages (datasets as values) and cursors (positions in them).

`base` has the two nouns and how elements travel, one by one or many at a time; every other module has some kinds of
stages. The ops that make stages are in `ops.dataset*`, those of iterators in `ops.data.iterator`; the public
classes are in `penstock.data`.
"""
