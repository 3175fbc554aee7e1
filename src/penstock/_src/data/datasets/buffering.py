"""Methods of tf.data.Dataset that keep elements in memory or in files."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes
from penstock._src.data.datasets.arguments import AUTOTUNE, int64
from penstock._src.data.datasets.dataset_base import DatasetBase, methods
from penstock._src.graph.convert import convert


class Buffering(DatasetBase):
    """Transformations that compute elements ahead, or only once."""

    def prefetch(self, buffer_size: Any, name: str | None = None) -> Any:
        """A dataset whose elements a background thread computes ahead of the program.

        Args:
            buffer_size: How many elements may wait, or `tf.data.AUTOTUNE`.
            name: Name of the operation; not used.

        Returns:
            A dataset of the same elements.

        >>> print(*tf.data.Dataset.range(3).prefetch(tf.data.AUTOTUNE).as_numpy_iterator())
        0 1 2
        """
        return self._then("PrefetchDataset", int64(AUTOTUNE if buffer_size is None else buffer_size, "buffer_size"))

    def cache(self, filename: Any = "", name: str | None = None) -> Any:
        """A dataset that keeps its elements after the first complete iteration.

        Args:
            filename: Path of files to keep them in; in memory by default.
            name: Name of the operation; not used.

        Returns:
            A dataset of the same elements.

        >>> data = tf.data.Dataset.range(3).cache()
        >>> print(*data.as_numpy_iterator(), *data.as_numpy_iterator())
        0 1 2 0 1 2
        """
        return self._then("CacheDataset", convert(filename, dtypes.string, "filename"))

    def save(self, path: str, compression: str | None = None, shard_func: Callable | None = None,
             checkpoint_args: Any = None) -> Any:
        """Writes the elements into a folder, from which `load` reads them; in graphs, an op that does so.

        >>> tf.data.Dataset.range(3).save("/tmp/three")
        >>> list(tf.data.Dataset.load("/tmp/three").as_numpy_iterator())
        [0, 1, 2]
        """
        return methods().save(self, path, compression, shard_func, checkpoint_args)

    @staticmethod
    def load(path: str, element_spec: Any = None, compression: str | None = None, reader_func: Callable | None = None,
             wait: bool = False) -> Any:
        """Loads a dataset that `save` has written to a folder."""
        made = methods().load(path, element_spec, compression, reader_func)
        made._kind = "_LoadDataset"
        return made

    def snapshot(self, path: str, compression: str | None = "AUTO", reader_func: Callable | None = None,
                 shard_func: Callable | None = None, name: str | None = None) -> Any:
        """A dataset that caches its elements in a folder: the first complete iteration writes them, later ones read them."""
        return methods().snapshot(path, compression, reader_func, shard_func)(self)
