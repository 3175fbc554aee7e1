"""Samples of ops that TensorFlow 2 has added."""
import io

import numpy as np
from PIL import Image

from penstock._src.base import dtypes
from tests.registry.sample import f, i, sample

X = f(3, 4, low=-4.0, high=4.0)
INT8 = i(2, 3, low=-128, high=128, dtype=np.int8)
SEED = np.array([1, 2], np.int64)
Z = (f(2, 3, 4) + 1j * f(2, 3, 4)).astype(np.complex64)
PIXELS = i(4, 5, 3, low=0, high=256, dtype=np.uint8)


def _webp():
    data = io.BytesIO()
    Image.fromarray(PIXELS).save(data, "WEBP", lossless=True)
    return np.array(data.getvalue(), dtype=object)


def _top(x):
    order = np.argsort(-x, -1, kind="stable")[:, :2]
    return np.take_along_axis(x, order, -1), order.astype(np.int32)


sample("BatchMatMulV3", INT8, i(2, 3, 4, low=-128, high=128, dtype=np.int8), Tout=dtypes.int32, grad=False,
       expect=lambda x, y: np.matmul(x.astype(np.int32), y.astype(np.int32)))
sample("BatchMatMulV3", f(2, 3, 4), f(2, 3, 5), Tout=dtypes.float32, adj_x=True, grad=False,
       expect=lambda x, y: np.matmul(np.swapaxes(x, -1, -2), y))
sample("ApproxTopK", f(3, 8), k=2, grad=False, expect=_top)
for _name in ("Copy", "CopyHost", "DebugIdentity", "DebugGradientIdentity"):
    sample(_name, f(2, 3), expect=lambda x: x)
sample("DebugNanCount", f(3), expect=lambda x: np.array([0], np.int64))
sample("ToBool", np.float32(0.5), expect=lambda x: np.bool_(True))
sample("FFTND", Z, np.array([3, 4], np.int32), np.array([1, 2], np.int32), grad=False, rtol=1e-4, atol=1e-4,
       expect=lambda x, n, axes: np.fft.fftn(x, n, axes).astype(np.complex64))
sample("IFFTND", Z, np.array([2, 4], np.int32), np.array([0, 2], np.int32), grad=False, rtol=1e-4, atol=1e-4,
       expect=lambda x, n, axes: np.fft.ifftn(x, n, axes).astype(np.complex64))
sample("RFFTND", f(2, 3, 4), np.array([3, 4], np.int32), np.array([1, 2], np.int32), grad=False, rtol=1e-4, atol=1e-4,
       expect=lambda x, n, axes: np.fft.rfftn(x, n, axes).astype(np.complex64))
sample("QuantizeAndDequantizeV4Grad", f(3, 4), X, np.float32(-2), np.float32(3), grad=False,
       expect=lambda g, x, low, high: (np.where((x >= low) & (x <= high), g, 0), np.float32(0), np.float32(0)))
sample("QuantizeAndDequantizeV4", X, np.float32(-2), np.float32(2), num_bits=4, range_given=True, grad=False,
       expect=lambda x, low, high: (np.round(np.clip(x, -16 / 7, 2) * 3.5) / 3.5).astype(np.float32))
sample("DecodeWebP", _webp(), expect=lambda data: PIXELS[None])
sample("StatelessParameterizedTruncatedNormal", np.array([3, 2], np.int32), SEED, *np.float32([0, 1, -1, 2]), random=True)
sample("StatelessSampleDistortedBoundingBox", np.array([50, 60, 3], np.int32), np.array([[[0.1, 0.1, 0.9, 0.9]]], np.float32),
       np.float32(0.1), SEED, random=True)
sample("RandomIndexShuffle", np.int32(2), np.array([1, 2, 3], np.int32), np.int32(7), random=True)
