"""tf.contrib.quantize: graphs rewritten in place, so that training sees what 8-bit numbers will do to it.

`batch_norms.py` moves the scale of batch normalizations into the weights before them; `rewrite.py` finds layers and puts
`ranges.py` (a fake quantization whose range is a variable) behind their weights and activations.
"""
from penstock._src.compat.contrib.quantize import rewrite  # noqa: F401
