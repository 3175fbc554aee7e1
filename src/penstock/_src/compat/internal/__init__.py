"""tf.__internal__: what TensorFlow shows to libraries of its ecosystem (Keras, TensorFlow Probability) only.

Most of these names are exported beside what they name. The modules of this folder have what only libraries request.
"""
