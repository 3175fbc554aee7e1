"""Exporters, which train_and_evaluate calls after an evaluation."""
from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export


@export("estimator.Exporter")
class Exporter:
    """Exports a model, when its own conditions hold. Subclasses define `name` and `export`."""

    @property
    def name(self) -> str:
        """The name of its directory."""
        raise NotImplementedError(f"{type(self).__name__} has to define name")

    def export(self, estimator: Any, export_path: str, checkpoint_path: str, eval_result: Any,
               is_the_final_export: bool) -> Any:
        """Exports the model to a directory; its path, or None if it was not."""
        raise NotImplementedError(f"{type(self).__name__} has to define export")


class _SavedModelExporter(Exporter):
    """The base of the three exporters."""

    def __init__(self, name: str, serving_input_receiver_fn: Any, assets_extra: Any = None, as_text: bool = False):
        self._name, self._receiver, self._assets_extra, self._as_text = name, serving_input_receiver_fn, assets_extra, as_text

    name = property(lambda self: self._name, doc="The name of its directory.")

    def _write(self, estimator: Any, path: str, checkpoint: str) -> Any:
        tf.gfile.MakeDirs(path)
        return estimator.export_saved_model(path, self._receiver, self._assets_extra, self._as_text, checkpoint)


@export("estimator.FinalExporter")
class FinalExporter(_SavedModelExporter):
    """Exports the model once, at the end."""

    def export(self, estimator: Any, export_path: str, checkpoint_path: str, eval_result: Any,
               is_the_final_export: bool) -> Any:
        """Exports the model, if this is the end."""
        return self._write(estimator, export_path, checkpoint_path) if is_the_final_export else None


@export("estimator.LatestExporter")
class LatestExporter(_SavedModelExporter):
    """Exports after each evaluation, and keeps the newest few."""

    def __init__(self, name: str, serving_input_receiver_fn: Any, assets_extra: Any = None, as_text: bool = False,
                 exports_to_keep: int | None = 5):
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)
        if exports_to_keep is not None and exports_to_keep <= 0:
            raise ValueError("`exports_to_keep`, if provided, must be positive number")
        self._keep = exports_to_keep

    def export(self, estimator: Any, export_path: str, checkpoint_path: str, eval_result: Any,
               is_the_final_export: bool) -> Any:
        """Exports the model."""
        made = self._write(estimator, export_path, checkpoint_path)
        _forget_oldest(export_path, self._keep)
        return made


def _forget_oldest(folder: str, keep: int | None) -> None:
    if keep is None:
        return
    kept = sorted((d.rstrip("/") for d in tf.gfile.ListDirectory(folder) if d.rstrip("/").isdigit()), key=int)
    for old in kept[:-keep]:
        tf.gfile.DeleteRecursively(os.path.join(folder, old))


def _loss_smaller(best_eval_result: Any, current_eval_result: Any) -> bool:
    for name, result in (("best_eval_result", best_eval_result), ("current_eval_result", current_eval_result)):
        if not result or "loss" not in result:
            raise ValueError(f"{name} cannot be empty or no loss is found in it.")
    return best_eval_result["loss"] > current_eval_result["loss"]


@export("estimator.BestExporter")
class BestExporter(_SavedModelExporter):
    """Exports a model that is better than all before; `compare_fn` decides which is better."""

    def __init__(self, name: str = "best_exporter", serving_input_receiver_fn: Any = None,
                 event_file_pattern: str | None = "eval/*.tfevents.*", compare_fn: Callable = _loss_smaller,
                 assets_extra: Any = None, as_text: bool = False, exports_to_keep: int | None = 5):
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)
        if compare_fn is None:
            raise ValueError("`compare_fn` must not be None.")
        if exports_to_keep is not None and exports_to_keep <= 0:
            raise ValueError("`exports_to_keep`, if provided, must be a positive number.")
        self._compare, self._keep, self._pattern, self._best = compare_fn, exports_to_keep, event_file_pattern, None

    def export(self, estimator: Any, export_path: str, checkpoint_path: str, eval_result: Any,
               is_the_final_export: bool) -> Any:
        """Exports the model, if it is the best so far."""
        if self._best is None:
            self._best = self._known(estimator.model_dir)
        if self._best is not None and not self._compare(best_eval_result=self._best, current_eval_result=eval_result):
            return None
        self._best = eval_result
        made = self._write(estimator, export_path, checkpoint_path)
        _forget_oldest(export_path, self._keep)
        return made

    def _known(self, model_dir: str) -> Any:
        """The best result in the event files of evaluations before."""
        if not self._pattern:
            return None
        best = None
        for file in tf.gfile.Glob(os.path.join(str(model_dir), self._pattern)):
            for event in tf.train.summary_iterator(file):
                found = {v.tag: v.simple_value for v in event.summary.value if v.HasField("simple_value")}
                if found and (best is None or self._compare(best, found)):
                    best = found
        return best


