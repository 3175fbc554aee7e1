"""TensorBoard: metrics, weights and the graph of a training run, as event files.

Events are written directly, so that it works the same in eager mode and in graphs. The files are in `train` and `validation`
below the log directory; the 1.x class (`TensorBoardV1`) takes more arguments, and has one file for everything.
"""
from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.base.dtypes import string
from penstock._src.graph import context
from penstock._src.graph.messages import Event, Summary
from penstock._src.io import paths
from penstock._src.io.events import EventsWriter
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.callbacks.base import Callback
from penstock._src.ops.io.summary import histogram_message, image_message, tensor_message
from penstock._src.training.profiler import sampling as profiler


def _scalar(tag: str, value: Any) -> Any:
    return Summary(value=[Summary.Value(tag=tag, simple_value=float(value))])


def _batch_range(profile_batch: Any) -> tuple[int, int]:
    """The first and the last batch to profile, from a number, a pair, or a text "first,last"; (0, 0) for none."""
    if isinstance(profile_batch, str):
        profile_batch = [int(word) for word in profile_batch.split(",")]
    found = tuple(profile_batch) if isinstance(profile_batch, (list, tuple)) else (profile_batch, profile_batch)
    if len(found) != 2 or not all(isinstance(n, int) for n in found) or not 0 <= found[0] <= found[1]:
        raise ValueError("`profile_batch` should be a non-negative integer or a pair of them, the smaller one first; received "
                         f"{profile_batch!r}")
    return found


@export(v2=["keras.callbacks.TensorBoard"])
class TensorBoard(Callback):
    """Writes event files for TensorBoard: metrics of epochs, or of every `update_freq` batches; histograms and images of
    weights every `histogram_freq` epochs; the model's graph; embeddings every `embeddings_freq` epochs.

    >>> model.fit(x, y, callbacks=[tf.keras.callbacks.TensorBoard("/tmp/log")])

    `profile_batch` is the batch, or the first and the last batch, of which `tf.profiler.experimental` writes a trace into
    `plugins/profile` below the log directory; batches are counted from 1 over all epochs, and 0 is none.
    """

    _train = "train"                # where the files of training are, below the log directory

    def __init__(self, log_dir: Any = "logs", histogram_freq: int = 0, write_graph: bool = True, write_images: bool = False,
                 update_freq: Any = "epoch", profile_batch: Any = 0, embeddings_freq: int = 0, embeddings_metadata: Any = None,
                 **kwargs: Any):
        super().__init__()
        self._check(kwargs)
        self.log_dir, self.histogram_freq, self.write_graph = os.fspath(log_dir), histogram_freq, write_graph
        self.write_images, self.update_freq, self.profile_batch = write_images, update_freq, profile_batch
        self.embeddings_freq, self.embeddings_metadata = embeddings_freq, embeddings_metadata
        self._writers: dict[str, EventsWriter] = {}
        self._steps = 0
        self._profiled = _batch_range(profile_batch)
        self._batches, self._profiling = 0, False

    def _check(self, kwargs: dict[str, Any]) -> None:
        for known in ("batch_size", "write_grads", "embeddings_layer_names", "embeddings_data", "write_steps_per_second"):
            if kwargs.pop(known, None) is not None:
                logging.warning("`%s` is no longer needed in the `TensorBoard` Callback.", known)
        if kwargs:
            raise ValueError("Unrecognized arguments in `TensorBoard` Callback: " + str(kwargs))

    def _writer(self, run: str) -> EventsWriter:
        if run not in self._writers:
            self._writers[run] = EventsWriter(os.path.join(self.log_dir, run) if run else self.log_dir)
        return self._writers[run]

    def set_model(self, model: Any) -> None:
        """Takes the model, and writes its graph."""
        self.model = model
        if self.write_graph:
            self._write_graph()
        if self.embeddings_freq:
            self._configure_embeddings()

    def _write_graph(self) -> None:
        graph: Any = getattr(self.model, "graph", None) if context.eager_outside_functions() else K.get_graph()
        if hasattr(graph, "as_graph_def"):
            self._writer("train").add(Event(graph_def=graph.as_graph_def(add_shapes=True).SerializeToString()))
        if getattr(self.model, "_is_graph_network", False) or type(self.model).__name__ == "Sequential":
            self._write_config()

    def _write_config(self) -> None:
        """The model's configuration, from which TensorBoard draws the layers."""
        try:
            text = self.model.to_json()
        except (NotImplementedError, TypeError, ValueError) as e:
            logging.warning("The model's configuration is not written for TensorBoard: %s", e)
            return
        value = Summary.Value(tag="keras")
        value.metadata.plugin_data.plugin_name, value.metadata.plugin_data.content = "graph_keras_model", b"1"
        tensor_message(value, np.array(text.encode(), dtype=object), string)
        self._writer("train").add_summary(Summary(value=[value]), 0)

    def on_train_begin(self, logs: Any = None) -> None:
        """Resets the count of batches."""
        self._steps, self._seen = 0, 0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Starts the profiler before the first batch of `profile_batch`."""
        self._batches += 1
        if self._batches == self._profiled[0]:
            try:
                profiler.start(self.log_dir)
                self._profiling = True
            except errors.AlreadyExistsError as e:
                logging.error("Failed to start the profiler for `profile_batch`: %s", e.message)

    def _stop_profiler(self, at: int) -> None:
        """Writes the profile when batch `at` is the last of `profile_batch` or later."""
        if self._profiling and at >= self._profiled[1]:
            self._profiling = False
            profiler.stop()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Writes the metrics of a batch, and the profile, if it is time."""
        self._stop_profiler(self._batches)
        if self.update_freq == "epoch":
            return
        self._steps += 1
        every = 1 if self.update_freq == "batch" else self.update_freq
        if self._steps % every == 0:
            for name, value in self._metrics(logs):
                self._writer("train").add_summary(_scalar("batch_" + name, value), self._steps)

    @staticmethod
    def _metrics(logs: Any) -> list[tuple[str, Any]]:
        return [(k, v) for k, v in (logs or {}).items() if k not in ("batch", "size", "num_steps") and np.size(v) == 1]

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Writes the metrics of an epoch, and the weights if it is time."""
        self._write_epoch(epoch, logs)
        if self.histogram_freq and epoch % self.histogram_freq == 0:
            self._write_weights(epoch)
        if self.embeddings_freq and epoch % self.embeddings_freq == 0:
            self.model.save_weights(os.path.join(self.log_dir, self._train, f"keras_embedding.ckpt-{epoch}"))
        for writer in self._writers.values():
            writer.flush()

    def _write_epoch(self, epoch: int, logs: Any) -> None:
        for name, value in self._metrics(logs):
            run, name = ("validation", name[4:]) if name.startswith("val_") else ("train", name)
            self._writer(run).add_summary(_scalar("epoch_" + name, value), epoch)

    def _write_weights(self, epoch: int) -> None:
        for layer in self.model.layers:
            for weight, value in zip(layer.weights, layer.get_weights(), strict=True):
                name = weight.name.replace(":", "_")
                found = torch.from_numpy(np.array(value, dtype="float64" if value.dtype == np.float64 else "float32"))
                self._writer("train").add_summary(histogram_message(name, found), epoch)
                if self.write_images:
                    image = _as_image(value)
                    if image is not None:
                        self._writer("train").add_summary(image_message(name, image, 3), epoch)

    def _configure_embeddings(self) -> None:
        """Writes the projector's configuration: which weights are embeddings, and their metadata files."""
        lines = []
        for layer in self.model.layers:
            if type(layer).__name__ != "Embedding":
                continue
            name = "layer_with_weights-" + str([x for x in self.model.layers if x.weights or not x.built].index(layer)) \
                + "/embeddings/.ATTRIBUTES/VARIABLE_VALUE"
            given = self.embeddings_metadata
            metadata = given.get(layer.name) if isinstance(given, dict) else given
            lines += ["embeddings {", f'  tensor_name: "{name}"']
            lines += [f'  metadata_path: "{metadata}"'] if metadata is not None else []
            lines.append("}")
        unknown = set(self.embeddings_metadata or ()) - {x.name for x in self.model.layers} \
            if isinstance(self.embeddings_metadata, dict) else set()
        if unknown:
            raise ValueError("The model has no Embedding layers with the names "
                             f"{sorted(unknown)}")
        folder = os.path.join(self.log_dir, self._train)
        paths.makedirs(folder)
        paths.write_atomically(paths.join(folder, "projector_config.pbtxt"), ("\n".join(lines) + "\n").encode())

    def on_train_end(self, logs: Any = None) -> None:
        """Closes the files, and ends a profile that is still being taken."""
        self._stop_profiler(self._profiled[1])
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()


def _as_image(value: np.ndarray) -> Any:
    """Weights as grey images (number, height, width, 1); None if they cannot be shown as images."""
    w = np.squeeze(np.asarray(value, dtype="float32"))
    if w.ndim == 1:
        w = w.reshape(1, w.shape[0], 1, 1)
    elif w.ndim == 2:
        w = (w.T if w.shape[0] > w.shape[1] else w).reshape(1, *(w.T if w.shape[0] > w.shape[1] else w).shape, 1)
    elif w.ndim == 3:
        w = (np.transpose(w, (2, 0, 1)) if K.image_data_format() == "channels_last" else w)[..., None]
    return torch.from_numpy(np.ascontiguousarray(w)) if w.ndim == 4 and w.shape[-1] in (1, 3, 4) else None


@export(v1=["keras.callbacks.TensorBoard"])
class TensorBoardV1(TensorBoard):
    """TensorBoard with the arguments of 1.x, and its files: one in the log directory, where batches are counted from 0.

    >>> model.fit(x, y, callbacks=[tf.keras.callbacks.TensorBoard("/tmp/log", update_freq="batch")])
    """

    _train = ""

    def __init__(self, log_dir: Any = "./logs", histogram_freq: int = 0, batch_size: int = 32, write_graph: bool = True,
                 write_grads: bool = False, write_images: bool = False, embeddings_freq: int = 0,
                 embeddings_layer_names: Any = None, embeddings_metadata: Any = None, embeddings_data: Any = None,
                 update_freq: Any = "epoch", profile_batch: Any = 2, **kwargs: Any):
        super().__init__(log_dir, histogram_freq, write_graph, write_images, update_freq, profile_batch, embeddings_freq,
                         embeddings_metadata, **kwargs)
        self.batch_size, self.write_grads = batch_size, write_grads
        self.embeddings_layer_names, self.embeddings_data = embeddings_layer_names, embeddings_data
        self.update_freq = 1 if update_freq == "batch" else update_freq
        self.writer: Any = None
        self._seen = self._seen_at_last_write = 0                # samples

    def _writer(self, run: str) -> Any:
        if self.writer is None:
            self.writer = EventsWriter(self.log_dir)
        return self.writer

    def on_train_begin(self, logs: Any = None) -> None:
        """Batches and samples are counted over all calls of fit."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Writes the metrics of a batch, and the profile, if it is time."""
        self._stop_profiler(self._batches)
        self.on_batch_end(batch, logs)

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Writes the metrics of a batch, if `update_freq` samples have been seen since the last time."""
        if self.update_freq == "epoch":
            return
        self._seen += (self.params or {}).get("batch_size") or (logs or {}).get("size", 1)
        if self._seen - self._seen_at_last_write >= self.update_freq:
            for name, value in self._metrics(logs):
                self._writer("").add_summary(_scalar("batch_" + name, value), self._steps)
            self._seen_at_last_write = self._seen
        self._steps += 1

    def _write_epoch(self, epoch: int, logs: Any) -> None:
        for name, value in self._metrics(logs):
            self._writer("").add_summary(_scalar("epoch_" + name, value), epoch if self.update_freq == "epoch" else self._seen)
        if self.writer is not None:
            self.writer.flush()

    def on_train_end(self, logs: Any = None) -> None:
        """Closes the file, and ends a profile that is still being taken."""
        self._stop_profiler(self._profiled[1])
        if self.writer is not None:
            self.writer.close()
        if isinstance(self.writer, EventsWriter):
            self.writer = None
