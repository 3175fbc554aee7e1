"""Samples of arithmetic on quantized tensors."""
import numpy as np

from penstock._src.base import dtypes
from tests.registry.sample import f, i, sample

LOW, HIGH = np.float32(-3), np.float32(5)
OTHER = (np.float32(0), np.float32(4))
QUINT8 = np.dtype([("quint8", np.uint8)])
QINT32 = np.dtype([("qint32", np.int32)])


def q(*shape):
    return i(*shape, low=0, high=256, dtype=np.uint8).astype(QUINT8)


WIDE = i(3, 4, low=-100000, high=100000).astype(QINT32)
WIDE_RANGE = (np.float32(-2000), np.float32(2000))

sample("QuantizedReshape", q(2, 3), np.array([3, 2], np.int32), LOW, HIGH)
sample("QuantizedConcat", np.int32(0), [q(2, 3), q(1, 3)], [LOW, OTHER[0]], [HIGH, OTHER[1]])
sample("QuantizedRelu", q(3, 4), LOW, HIGH)
sample("QuantizedRelu6", q(3, 4), np.float32(-10), np.float32(10))
sample("QuantizedReluX", q(3, 4), np.float32(2), LOW, HIGH)
sample("QuantizedAdd", q(3, 4), q(4), LOW, HIGH, *OTHER, rtol=1e-3)
sample("QuantizedMul", q(3, 4), q(4), LOW, HIGH, *OTHER)
sample("QuantizedBiasAdd", q(3, 4), q(4), LOW, HIGH, *OTHER, out_type=dtypes.qint32, rtol=1e-3)
sample("QuantizedMatMul", q(3, 4), q(4, 2), LOW, HIGH, *OTHER)
sample("QuantizedMatMul", q(4, 3), q(2, 4), LOW, HIGH, *OTHER, transpose_a=True, transpose_b=True)
sample("QuantizedConv2D", q(1, 5, 5, 2), q(3, 3, 2, 3), LOW, HIGH, *OTHER, strides=[1, 2, 2, 1], padding="SAME")
sample("QuantizedMaxPool", q(1, 4, 4, 2), LOW, HIGH, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
sample("QuantizedAvgPool", q(1, 4, 4, 2), LOW, HIGH, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
sample("Requantize", WIDE, *WIDE_RANGE, np.float32(-0.1), np.float32(0.1), out_type=dtypes.quint8)
sample("RequantizationRange", WIDE, *WIDE_RANGE)
sample("QuantizeDownAndShrinkRange", WIDE, *WIDE_RANGE, out_type=dtypes.quint8)

SIZE = np.array([5, 7], np.int32)
for _corners in ({}, {"align_corners": True}, {"half_pixel_centers": True}):
    sample("QuantizedResizeBilinear", q(2, 3, 4, 3), SIZE, LOW, HIGH, **_corners)
    sample("QuantizedResizeBilinear", i(1, 3, 4, 2, low=-100000, high=100000).astype(QINT32), SIZE, *WIDE_RANGE, **_corners)
sample("QuantizedResizeBilinear", f(1, 4, 5, 2), np.array([2, 3], np.int32), LOW, HIGH)
sample("QuantizedInstanceNorm", q(2, 3, 4, 3), LOW, HIGH)
sample("QuantizedInstanceNorm", q(1, 4, 4, 2), LOW, HIGH, output_range_given=True, given_y_min=-2.0, given_y_max=2.0)
for _scaled in (True, False):
    sample("QuantizedBatchNormWithGlobalNormalization", q(1, 2, 3, 4), LOW, HIGH, q(4), LOW, HIGH, q(4), *OTHER,
           q(4), LOW, HIGH, q(4), *OTHER, out_type=dtypes.qint32, variance_epsilon=0.1, scale_after_normalization=_scaled)
sample("QuantizedRelu", q(2, 3, 4), np.float32(0), np.float32(5))
sample("QuantizedRelu6", q(5), np.float32(-1), np.float32(8))
sample("QuantizedAdd", q(2, 1, 4), q(3, 4), LOW, HIGH, LOW, HIGH, rtol=1e-3)
sample("QuantizedMul", q(4), q(4), *OTHER, LOW, HIGH)
sample("QuantizedConv2D", q(2, 6, 5, 1), q(2, 2, 1, 4), *OTHER, LOW, HIGH, strides=[1, 1, 1, 1], padding="VALID")
sample("QuantizedMaxPool", q(2, 5, 5, 1), LOW, HIGH, ksize=[1, 3, 3, 1], strides=[1, 1, 1, 1], padding="SAME")
sample("QuantizedAvgPool", q(2, 5, 5, 1), LOW, HIGH, ksize=[1, 3, 3, 1], strides=[1, 1, 1, 1], padding="SAME")
sample("QuantizedConcat", np.int32(1), [q(2, 3), q(2, 1), q(2, 2)], [LOW, OTHER[0], LOW], [HIGH, OTHER[1], OTHER[1]])
sample("RequantizationRange", i(50, low=-7, high=3).astype(QINT32), *WIDE_RANGE)
sample("Requantize", WIDE, *WIDE_RANGE, np.float32(0), np.float32(0.05), out_type=dtypes.quint8)
