"""Reads pickles of data sets (.npz files of lists, batches of CIFAR): the unpickler creates only arrays and lists."""
from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from penstock._src.io import archives


class Plain(pickle.Unpickler):
    """Makes numpy arrays of objects, lists and numbers; anything else is an error."""

    _allowed = {("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct"), ("numpy", "ndarray"),
                ("numpy", "dtype"), ("numpy.core.multiarray", "scalar"), ("numpy._core.multiarray", "scalar"),
                ("_codecs", "encode")}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._allowed:
            raise ValueError(f"The file would create a {module}.{name}; only arrays of lists of numbers are read.")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def load(path: Any) -> dict[str, Any]:
    """The arrays of an .npz by name."""
    made: dict[str, Any] = {}
    with archives.opened(path) as archive:
        for member in archive.namelist():
            archives.check(archive.getinfo(member))
            name = member.removesuffix(".npy")
            with archive.open(member) as f:
                version = np.lib.format.read_magic(f)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(f)
                if dtype.hasobject:
                    made[name] = np.asarray(Plain(f, encoding="latin1").load(), dtype=object)
                else:
                    count = int(np.prod(shape))
                    made[name] = np.frombuffer(f.read(count * dtype.itemsize), dtype=dtype).reshape(shape)
    return made
