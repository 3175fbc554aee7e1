"""Samples of convolutions, with a reference that follows the definition window by window."""
import itertools

import numpy as np

from tests.registry.sample import f, sample


def pads(sizes, window, strides, rates, padding):
    """(before, after) of each axis."""
    if padding == "VALID":
        return [(0, 0)] * len(sizes)
    if padding != "SAME":
        return padding
    total = [max(0, (-(-n // s) - 1) * s + (k - 1) * r + 1 - n)
             for n, k, s, r in zip(sizes, window, strides, rates, strict=True)]
    return [(t // 2, t - t // 2) for t in total]


def convolve(x, w, strides=(1, 1), rates=(1, 1), padding="VALID", depthwise=False):
    """A convolution of channels-last x with w [*window, in, out] in any number of dimensions."""
    n = w.ndim - 2
    space = x.shape[1:-1]
    x = np.pad(x, [(0, 0), *pads(space, w.shape[:n], strides, rates, padding), (0, 0)])
    reach = [(k - 1) * r + 1 for k, r in zip(w.shape[:n], rates, strict=True)]
    count = [(size - k) // s + 1 for size, k, s in zip(x.shape[1:-1], reach, strides, strict=True)]
    channels = w.shape[n] * w.shape[n + 1] if depthwise else w.shape[n + 1]
    out = np.zeros((x.shape[0], *count, channels), x.dtype)
    axes = list(range(1, n + 1)), list(range(n))
    for at in itertools.product(*map(range, count)):
        part = tuple(slice(i * s, i * s + k, r) for i, s, k, r in zip(at, strides, reach, rates, strict=True))
        view = x[(slice(None), *part)]
        if depthwise:
            value = np.einsum("nhwc,hwcm->ncm", view, w).reshape(len(x), -1)
        else:
            value = np.tensordot(view, w, ([*axes[0], n + 1], [*axes[1], n]))
        out[(slice(None), *at)] = value
    return out


_x, _w = f(2, 5, 6, 3), f(3, 2, 3, 4)
for _s, _r, _p in (((1, 1), (1, 1), "SAME"), ((2, 3), (1, 1), "SAME"), ((2, 1), (1, 1), "VALID"),
                   ((1, 1), (2, 2), "SAME")):
    sample("Conv2D", _x, _w, strides=[1, *_s, 1], dilations=[1, *_r, 1], padding=_p,
           expect=lambda x, w, s=_s, r=_r, p=_p: convolve(x, w, s, r, p))
sample("Conv2D", _x, _w, strides=[1, 2, 1, 1], padding="EXPLICIT", explicit_paddings=[0, 0, 1, 3, 0, 2, 0, 0],
       expect=lambda x, w: convolve(x, w, (2, 1), (1, 1), [(1, 3), (0, 2)]))
_nchw = "NCHW"
sample("Conv2D", np.moveaxis(_x, 3, 1), _w, strides=[1, 1, 2, 1], padding="SAME", data_format=_nchw,
       expect=lambda x, w: np.moveaxis(convolve(np.moveaxis(x, 1, 3), w, (2, 1), (1, 1), "SAME"), 3, 1))
sample("Conv2D", f(1, 4, 4, 2, dtype=np.float16), f(2, 2, 2, 2, dtype=np.float16), strides=[1, 1, 1, 1],
       padding="VALID", expect=convolve, rtol=1e-2, atol=1e-2)
sample("Conv2D", f(1, 4, 4, 2, dtype=np.float64), f(1, 1, 2, 2, dtype=np.float64), strides=[1, 1, 1, 1],
       padding="VALID", expect=convolve)
sample("Conv2DBackpropInput", np.array([2, 5, 6, 3], np.int32), _w, f(2, 3, 6, 4), strides=[1, 2, 1, 1],
       padding="SAME")
sample("Conv2DBackpropFilter", _x, np.array([3, 2, 3, 4], np.int32), f(2, 3, 6, 4), strides=[1, 2, 1, 1],
       padding="SAME")

_x3, _w3 = f(1, 4, 5, 3, 2), f(2, 3, 1, 2, 3)
sample("Conv3D", _x3, _w3, strides=[1, 1, 2, 1, 1], padding="SAME",
       expect=lambda x, w: convolve(x, w, (1, 2, 1), (1, 1, 1), "SAME"))
sample("Conv3D", _x3, _w3, strides=[1, 1, 1, 1, 1], padding="VALID",
       expect=lambda x, w: convolve(x, w, (1, 1, 1), (1, 1, 1), "VALID"))
sample("Conv3DBackpropInputV2", np.array([1, 4, 5, 3, 2], np.int32), _w3, f(1, 4, 3, 3, 3),
       strides=[1, 1, 2, 1, 1], padding="SAME")
sample("Conv3DBackpropFilterV2", _x3, np.array([2, 3, 1, 2, 3], np.int32), f(1, 4, 3, 3, 3),
       strides=[1, 1, 2, 1, 1], padding="SAME")
sample("Conv3DBackpropInput", _x3, _w3, f(1, 4, 3, 3, 3), strides=[1, 1, 2, 1, 1], padding="SAME")
sample("Conv3DBackpropFilter", _x3, _w3, f(1, 4, 3, 3, 3), strides=[1, 1, 2, 1, 1], padding="SAME")

_wd = f(3, 2, 3, 2)
sample("DepthwiseConv2dNative", _x, _wd, strides=[1, 1, 1, 1], padding="SAME",
       expect=lambda x, w: convolve(x, w, (1, 1), (1, 1), "SAME", depthwise=True))
sample("DepthwiseConv2dNative", _x, _wd, strides=[1, 2, 2, 1], padding="VALID",
       expect=lambda x, w: convolve(x, w, (2, 2), (1, 1), "VALID", depthwise=True))
sample("DepthwiseConv2dNativeBackpropInput", np.array([2, 5, 6, 3], np.int32), _wd, f(2, 3, 3, 6),
       strides=[1, 2, 2, 1], padding="SAME")
sample("DepthwiseConv2dNativeBackpropFilter", _x, np.array([3, 2, 3, 2], np.int32), f(2, 3, 3, 6),
       strides=[1, 2, 2, 1], padding="SAME")
sample("DepthwiseConv2dNative", _x, _wd, strides=[1, 1, 1, 1], padding="EXPLICIT", explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0],
       expect=lambda x, w: convolve(np.pad(x, [(0, 0), (1, 2), (0, 1), (0, 0)]), w, (1, 1), (1, 1), "VALID", depthwise=True))
_whole = np.arange(2 * 5 * 6 * 3, dtype=np.int32).reshape(2, 5, 6, 3) - 40
_window = np.arange(24, dtype=np.int32).reshape(2, 2, 3, 2) - 9
sample("Conv2D", _whole, _window, strides=[1, 2, 1, 1], padding="VALID",
       expect=lambda x, w: convolve(x, w, (2, 1), (1, 1), "VALID").astype(np.int32))
