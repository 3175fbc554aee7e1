"""tf.data: datasets, iterators and optionals as users hold them, in terms of the ops of `penstock.ops.dataset*`.

Loaded when one of its names is first asked for: see `penstock.data.api`.
"""
