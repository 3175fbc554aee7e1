"""tf.data: datasets, iterators and optionals as users hold them, in terms of the ops of `ops.dataset*`.

Loaded when one of its names is first asked for: see `data.datasets.api`.
"""
