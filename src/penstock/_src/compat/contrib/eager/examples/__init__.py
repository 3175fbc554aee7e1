"""The example models of tf.contrib.eager, which programs and benchmarks import as a library.

`compat/programs/reach_in.py` says which module here represents which of `tensorflow.contrib.eager.python.examples`.
"""
