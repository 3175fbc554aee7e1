"""Samples of fractional pooling."""
import numpy as np

from tests.registry.sample import f, sample
from tests.registry.samples.pool import distinct

_x = distinct(2, 7, 6, 2)
_rows, _cols = np.array([0, 2, 3, 5, 7], np.int64), np.array([0, 1, 3, 4, 6], np.int64)


def _regions(x, rows, cols, reduce, overlap=0):
    out = np.zeros((x.shape[0], len(rows) - 1, len(cols) - 1, x.shape[3]), x.dtype)
    for i in range(len(rows) - 1):
        for j in range(len(cols) - 1):
            out[:, i, j] = reduce(x[:, rows[i]:rows[i + 1] + overlap, cols[j]:cols[j + 1] + overlap], axis=(1, 2))
    return out


for _name in ("FractionalMaxPool", "FractionalAvgPool"):
    for _pseudo in (False, True):
        sample(_name, _x, pooling_ratio=[1.0, 1.5, 1.4, 1.0], pseudo_random=_pseudo, overlapping=_pseudo,
               deterministic=True, seed=3, seed2=4)
    sample(_name, _x, pooling_ratio=[1.0, 1.5, 1.4, 1.0], random=True)

for _overlapping in (False, True):
    _y = _regions(_x, _rows, _cols, np.max, int(_overlapping))
    sample("FractionalMaxPoolGrad", _x, _y, f(*_y.shape), _rows, _cols, overlapping=_overlapping)
    sample("FractionalAvgPoolGrad", np.array(_x.shape, np.int64), f(*_y.shape), _rows, _cols, overlapping=_overlapping)
