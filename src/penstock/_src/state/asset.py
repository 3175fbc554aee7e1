"""Asset: a file that belongs to a SavedModel."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.convert import constant, convert, register_tensor_conversion_function
from penstock._src.graph.scopes import init_scope
from penstock._src.graph.trackable import Trackable
from penstock._src.io import paths


@export("saved_model.Asset", v1=["saved_model.experimental.Asset"])
class Asset(Trackable):
    """A file that belongs to a SavedModel.

    >>> root.vocabulary = tf.saved_model.Asset("/tmp/words.txt")
    """

    def __init__(self, path: Any):
        with init_scope():
            self._path = constant(paths.as_text(path) if not hasattr(path, "dtype") else path, dtype=dtypes.string)
            self._path._by_reference = True

    @property
    def asset_path(self) -> Any:
        """The path, as a tensor; where the file is now."""
        return self._path


register_tensor_conversion_function(Asset, lambda value, dtype=None, name=None, as_ref=False: convert(value.asset_path, dtype))
