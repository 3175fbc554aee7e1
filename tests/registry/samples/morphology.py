"""Samples of grayscale morphology."""
import numpy as np

from tests.registry.sample import f, sample
from tests.registry.samples.conv import pads
from tests.registry.samples.pool import distinct


def dilate(x, w, strides, rates, padding):
    """The maximum of x + w in each window, by the definition."""
    space = x.shape[1:3]
    around = pads(space, w.shape[:2], strides, rates, padding)
    x = np.pad(x, [(0, 0), *around, (0, 0)], constant_values=-1e9)
    reach = [(k - 1) * r + 1 for k, r in zip(w.shape[:2], rates, strict=True)]
    count = [(n - k) // s + 1 for n, k, s in zip(x.shape[1:3], reach, strides, strict=True)]
    out = np.zeros((x.shape[0], *count, x.shape[3]), x.dtype)
    for i in range(count[0]):
        for j in range(count[1]):
            y, z = i * strides[0], j * strides[1]
            out[:, i, j] = (x[:, y:y + reach[0]:rates[0], z:z + reach[1]:rates[1]] + w).max((1, 2))
    return out


_x, _w = distinct(2, 6, 5, 2), f(2, 3, 2, low=0, high=0.05)
for _s, _r, _p in (((1, 1), (1, 1), "SAME"), ((2, 1), (1, 2), "SAME"), ((1, 2), (2, 1), "VALID")):
    _attrs = {"strides": [1, *_s, 1], "rates": [1, *_r, 1], "padding": _p}
    _y = dilate(_x, _w, _s, _r, _p)
    sample("Dilation2D", _x, _w, **_attrs, expect=lambda x, w, s=_s, r=_r, p=_p: dilate(x, w, s, r, p))
    sample("Dilation2DBackpropInput", _x, _w, f(*_y.shape), **_attrs)
    sample("Dilation2DBackpropFilter", _x, _w, f(*_y.shape), **_attrs)
sample("Dilation2D", (_x * 10).astype(np.int32), (_w * 100).astype(np.int32), strides=[1, 1, 1, 1], rates=[1, 1, 1, 1],
       padding="SAME", expect=lambda x, w: dilate(x, w, (1, 1), (1, 1), "SAME"))
