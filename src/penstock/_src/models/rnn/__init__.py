"""Recurrent networks of TensorFlow 1: cells (tf.nn.rnn_cell) and the functions that run them over sequences.

`cell.py` is the base class, `cells.py` the cells, `wrappers.py` what is put around them (`keras_wrappers.py` around Keras
cells); `dynamic.py` runs a cell in a loop,
`static.py` unrolls it.
"""
from penstock._src.models.rnn import cells, dynamic, static, wrappers  # noqa: F401
