"""The example models of tf.contrib.eager, which programs and benchmarks import as a library.

`compat/programs/reach_in.py` maps the modules of `tensorflow.contrib.eager.python.examples` to those here.
"""
