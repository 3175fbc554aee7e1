"""MethodNameUpdater: changes the method names of signatures in a SavedModel."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.io import paths
from penstock._src.state.saved_model.model_builder import write_saved_model
from penstock._src.state.saved_model.model_loader import parse_saved_model


@export(v1=["saved_model.signature_def_utils.MethodNameUpdater"])
class MethodNameUpdater:
    """Changes the method names of signatures in a SavedModel on disk.

    >>> updater = tf.saved_model.signature_def_utils.MethodNameUpdater(path)
    >>> updater.replace_method_name("f", "classify"); updater.save(new_path)
    """

    def __init__(self, export_dir: Any):
        self._export_dir = export_dir
        self._saved_model = parse_saved_model(export_dir)

    def replace_method_name(self, signature_key: str, method_name: str, tags: Any = None) -> None:
        """Sets the method name of a signature in the graphs with the tags (in all)."""
        if not signature_key or not method_name:
            raise ValueError("signature_key and method_name must be defined.")
        found = False
        for meta_graph in self._saved_model.meta_graphs:
            if (tags is None or set(tags) == set(meta_graph.meta_info_def.tags)) and signature_key in meta_graph.signature_def:
                meta_graph.signature_def[signature_key].method_name = method_name
                found = True
        if not found:
            raise ValueError(f"MetaGraphDef associated with tags {tags} and signature {signature_key} could not be found in "
                             "SavedModel.")

    def save(self, new_export_dir: Any = None) -> None:
        """Writes the SavedModel, to another directory if one is given."""
        if new_export_dir is not None and paths.exists(new_export_dir):
            raise AssertionError("Export directory already exists. Please specify a different export directory: "
                                 f"{new_export_dir}")
        write_saved_model(self._saved_model, new_export_dir or self._export_dir, False)
