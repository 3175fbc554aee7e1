"""HDF5Matrix: a dataset of an HDF5 file, read as an array where it is indexed."""
from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.io import hdf5_guard


@export("keras.utils.HDF5Matrix")
class HDF5Matrix:
    """Rows `start` to `end` of a dataset in an HDF5 file; `normalizer` is applied to what is read.

    >>> x = tf.keras.utils.HDF5Matrix("data.h5", "images", start=0, end=1000)
    """

    refs: dict[str, Any] = collections.defaultdict(int)

    def __init__(self, datapath: Any, dataset: str, start: int = 0, end: int | None = None, normalizer: Callable | None = None):
        import h5py
        if datapath not in self.refs:
            hdf5_guard.check(datapath)
            self.refs[datapath] = h5py.File(datapath, "r")
        self.data = self.refs[datapath][dataset]
        self.start, self.end = start, self.data.shape[0] if end is None else end
        self.normalizer = normalizer
        first = self.data[0:1]
        self._base_shape = (normalizer(first) if normalizer is not None else first).shape[1:]
        self._base_dtype = (normalizer(first) if normalizer is not None else first).dtype

    def __len__(self) -> int:
        return self.end - self.start

    def __getitem__(self, key: Any) -> Any:
        found = self.data[self._moved(key)]
        return found if self.normalizer is None else self.normalizer(found)

    def _moved(self, key: Any) -> Any:
        """Indices of the file for those of the matrix; IndexError if they are outside."""
        message = "out of range"
        if isinstance(key, slice):
            start, stop = (key.start or 0) + self.start, self.end if key.stop is None else key.stop + self.start
            if stop > self.end:
                raise IndexError(f"{stop - self.start} is {message}: the matrix has {len(self)} rows")
            return slice(start, stop)
        wanted = np.asarray(key) + self.start
        if wanted.size and wanted.max() >= self.end:
            raise IndexError(f"{wanted.max() - self.start} is {message}: the matrix has {len(self)} rows")
        return wanted.item() if wanted.ndim == 0 else wanted.tolist()

    shape = property(lambda self: (len(self), *self._base_shape), doc="The shape.")
    dtype = property(lambda self: self._base_dtype, doc="The numpy dtype.")
    ndim = property(lambda self: self.data.ndim, doc="The number of dimensions.")
    size = property(lambda self: int(np.prod(self.shape)), doc="The number of elements.")
