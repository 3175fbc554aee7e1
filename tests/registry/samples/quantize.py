"""Samples of quantization."""
import numpy as np

from penstock._src.base import dtypes
from tests.registry.sample import f, sample

LOW, HIGH = np.float32(-2), np.float32(3)
X = f(3, 4, low=-3, high=4)
CHANNELS = (np.array([-1, -2, 0, -0.5], np.float32), np.array([1, 2, 3, 0], np.float32))

for _type in (dtypes.quint8, dtypes.qint8, dtypes.quint16, dtypes.qint16):
    for _mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
        sample("QuantizeV2", X, LOW, HIGH, T=_type, mode=_mode)
for _type in (np.uint8, np.int8):
    _values = np.array([0, 1, 100, 127]).astype(np.dtype([("q" + np.dtype(_type).name, _type)]))
    for _mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
        sample("Dequantize", _values, LOW, HIGH, mode=_mode)
sample("QuantizeAndDequantize", X, num_bits=4, range_given=True, input_min=-2.0, input_max=3.0, grad=False)
sample("QuantizeAndDequantizeV2", X, LOW, HIGH, num_bits=4, range_given=True, grad=False)
sample("QuantizeAndDequantizeV2", X, LOW, HIGH, num_bits=5, signed_input=False, round_mode="HALF_UP", grad=False)
sample("QuantizeAndDequantizeV3", X, LOW, HIGH, np.int32(4), narrow_range=True, grad=False)
sample("FakeQuantWithMinMaxArgs", X, min=-1.0, max=2.0, num_bits=5, grad=False)
sample("FakeQuantWithMinMaxArgsGradient", f(3, 4), X, min=-1.0, max=2.0, grad=False)
sample("FakeQuantWithMinMaxVars", X, LOW, HIGH, num_bits=4, narrow_range=True, grad=False)
sample("FakeQuantWithMinMaxVarsGradient", f(3, 4), X, np.float32(-1), np.float32(1), grad=False)
sample("FakeQuantWithMinMaxVarsPerChannel", X, *CHANNELS, num_bits=4, grad=False)
sample("FakeQuantWithMinMaxVarsPerChannelGradient", f(3, 4), X, *CHANNELS, grad=False)
for _bits, _narrow in ((2, False), (8, True), (16, False)):
    sample("FakeQuantWithMinMaxArgs", f(2, 5), min=-0.7, max=1.3, num_bits=_bits, narrow_range=_narrow, grad=False)
    sample("FakeQuantWithMinMaxArgsGradient", f(7), f(7), min=-0.7, max=1.3, num_bits=_bits, narrow_range=_narrow, grad=False)
    sample("FakeQuantWithMinMaxVars", f(2, 5), np.float32(0.5), np.float32(1.5), num_bits=_bits, narrow_range=_narrow,
           grad=False)
    sample("FakeQuantWithMinMaxVarsGradient", f(7), f(7), np.float32(-0.4), np.float32(1.1), num_bits=_bits,
           narrow_range=_narrow, grad=False)
    sample("FakeQuantWithMinMaxVarsPerChannel", f(2, 3, 4), f(4, low=-2, high=-0.1), f(4, low=0.1, high=2), num_bits=_bits,
           narrow_range=_narrow, grad=False)
    sample("FakeQuantWithMinMaxVarsPerChannelGradient", f(2, 3, 4), f(2, 3, 4), f(4, low=-2, high=-0.1), f(4, low=0.1, high=2),
           num_bits=_bits, narrow_range=_narrow, grad=False)
