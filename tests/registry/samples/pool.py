"""Samples of pooling. Elements differ by more than a numeric gradient moves them."""
import itertools

import numpy as np

from tests.registry.sample import f, sample
from tests.registry.samples.conv import pads


def distinct(*shape, dtype=np.float32):
    """Numbers of a shape, in random order, 0.1 apart."""
    rng = np.random.RandomState(11)
    return (rng.permutation(int(np.prod(shape))) * 0.1 - 3).reshape(shape).astype(dtype)


def pool(x, window, strides, padding, reduce):
    """Pooling of a channels-last array, window by window."""
    space = x.shape[1:-1]
    before = pads(space, window, strides, [1] * len(space), padding)
    count = [-(-n // s) if padding == "SAME" else (n - k) // s + 1
             for n, k, s in zip(space, window, strides, strict=True)]
    out = np.zeros((x.shape[0], *count, x.shape[-1]), x.dtype)
    for at in itertools.product(*map(range, count)):
        part = tuple(slice(max(0, i * s - b), min(n, i * s - b + k))
                     for i, s, (b, _), n, k in zip(at, strides, before, space, window, strict=True))
        view = x[(slice(None), *part)]
        out[(slice(None), *at)] = reduce(view.reshape(len(x), -1, x.shape[-1]), axis=1)
    return out


_x = distinct(2, 5, 6, 3)
_CASES = (((2, 2), (2, 2), "VALID"), ((3, 3), (2, 2), "SAME"), ((2, 2), (1, 1), "SAME"), ((1, 2), (3, 2), "SAME"))
for _k, _s, _p in _CASES:
    _attrs = {"ksize": [1, *_k, 1], "strides": [1, *_s, 1], "padding": _p}
    sample("MaxPool", _x, **_attrs, expect=lambda x, k=_k, s=_s, p=_p: pool(x, k, s, p, np.max))
    sample("AvgPool", _x, **_attrs, expect=lambda x, k=_k, s=_s, p=_p: pool(x, k, s, p, np.mean))
    _y = pool(_x, _k, _s, _p, np.max)
    sample("MaxPoolGrad", _x, _y, f(*_y.shape), **_attrs, grad=[2])
    sample("MaxPoolGradGrad", _x, _y, f(*_x.shape), **_attrs, grad=[2])
    sample("AvgPoolGrad", np.array(_x.shape, np.int32), f(*_y.shape), **_attrs)
    _window = np.array([1, *_k, 1], np.int32), np.array([1, *_s, 1], np.int32)
    sample("MaxPoolV2", _x, *_window, padding=_p, expect=lambda x, k, s, p=_p: pool(x, k[1:3], s[1:3], p, np.max))
    sample("MaxPoolGradV2", _x, _y, f(*_y.shape), *_window, padding=_p, grad=[2])
    sample("MaxPoolGradGradV2", _x, _y, f(*_x.shape), *_window, padding=_p, grad=[2])
    sample("MaxPoolWithArgmax", _x, **_attrs)
    sample("MaxPoolWithArgmax", _x, **_attrs, include_batch_in_index=True, Targmax="int32")

sample("MaxPool", np.moveaxis(_x, 3, 1), ksize=[1, 1, 2, 2], strides=[1, 1, 2, 2], padding="SAME", data_format="NCHW",
       expect=lambda x: np.moveaxis(pool(np.moveaxis(x, 1, 3), (2, 2), (2, 2), "SAME", np.max), 3, 1))
sample("MaxPool", distinct(2, 4, 4, 6), ksize=[1, 1, 1, 3], strides=[1, 1, 1, 3], padding="SAME", grad=False,
       expect=lambda x: x.reshape(2, 4, 4, 2, 3).max(-1))
sample("MaxPool", (distinct(1, 4, 4, 2) * 10).astype(np.int32), ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1],
       padding="VALID", expect=lambda x: pool(x, (2, 2), (2, 2), "VALID", np.max))

_at = np.array([0, 3, 14, 5], np.int64).reshape(1, 1, 2, 2)
_argmax = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
sample("MaxPoolGradWithArgmax", distinct(1, 2, 4, 2), f(1, 1, 2, 2), _at, **_argmax, grad=[1])
sample("MaxPoolGradGradWithArgmax", distinct(1, 2, 4, 2), f(1, 2, 4, 2), _at, **_argmax, grad=[1])

_x3 = distinct(1, 4, 5, 3, 2)
for _k, _s, _p in (((2, 2, 2), (2, 2, 2), "VALID"), ((2, 3, 1), (1, 2, 1), "SAME"), ((2, 2, 2), (1, 1, 1), "SAME")):
    _attrs = {"ksize": [1, *_k, 1], "strides": [1, *_s, 1], "padding": _p}
    sample("MaxPool3D", _x3, **_attrs, expect=lambda x, k=_k, s=_s, p=_p: pool(x, k, s, p, np.max))
    sample("AvgPool3D", _x3, **_attrs, expect=lambda x, k=_k, s=_s, p=_p: pool(x, k, s, p, np.mean))
    _y = pool(_x3, _k, _s, _p, np.max)
    sample("MaxPool3DGrad", _x3, _y, f(*_y.shape), **_attrs, grad=[2])
    sample("MaxPool3DGradGrad", _x3, _y, f(*_x3.shape), **_attrs, grad=False)
    sample("AvgPool3DGrad", np.array(_x3.shape, np.int32), f(*_y.shape), **_attrs)
sample("AvgPool3D", _x3.astype(np.float16), ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding="VALID",
       expect=lambda x: pool(x, (2, 2, 2), (2, 2, 2), "VALID", np.mean), rtol=1e-2, atol=1e-2)
