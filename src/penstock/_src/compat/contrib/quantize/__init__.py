"""tf.contrib.quantize: rewrites graphs in place, so that training simulates 8-bit arithmetic.

`batch_norms.py` moves the scale of batch normalizations into the weights before them; `rewrite.py` finds layers and puts
`ranges.py` (a fake quantization whose range is a variable) behind their weights and activations.
"""
from penstock._src.compat.contrib.quantize import rewrite  # noqa: F401
