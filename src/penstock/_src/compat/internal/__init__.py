"""tf.__internal__: the part of TensorFlow's API for libraries of its ecosystem (Keras, TensorFlow Probability).

Most of these names are exported beside their functions. The modules of this folder have those that only libraries use.
"""
