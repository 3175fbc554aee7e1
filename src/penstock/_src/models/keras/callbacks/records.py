"""Callbacks that report the metrics of epochs elsewhere: to a CSV file, and to a server."""
from __future__ import annotations

import collections
import csv
import json
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.io import paths
from penstock._src.io.file_api import GFile
from penstock._src.models.keras.callbacks.base import Callback


@export("keras.callbacks.CSVLogger")
class CSVLogger(Callback):
    """Writes the metrics of each epoch as a line of a CSV file.

    Args:
        filename: Path of the file.
        separator: The character between columns.
        append: Whether to continue a file that is there.

    >>> log = tf.keras.callbacks.CSVLogger("training.csv", append=True)
    """

    def __init__(self, filename: Any, separator: str = ",", append: bool = False):
        super().__init__()
        self.filename, self.sep, self.append = filename, separator, append
        self.writer: Any = None
        self.keys: list[str] | None = None
        self.append_header = True
        self.csv_file: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Opens the file."""
        name = os.fspath(self.filename)
        if self.append and paths.exists(name):
            with GFile(name) as f:
                self.append_header = not f.readline()
        self.csv_file = GFile(name, "a" if self.append else "w")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Writes a line."""
        logs = dict(logs or {})
        if self.keys is None:
            self.keys = sorted(logs)
            if not any(k.startswith("val_") for k in self.keys):      # with `validation_freq`, they come in later epochs
                self.keys += [f"val_{k}" for k in self.keys]
        if getattr(self.model, "stop_training", False):       # validation may be missing from the last epoch
            logs = {k: logs.get(k, "NA") for k in self.keys}
        if self.writer is None:
            self.writer = csv.DictWriter(self.csv_file, fieldnames=["epoch", *self.keys], delimiter=self.sep,
                                         lineterminator="\n")
            if self.append_header:
                self.writer.writeheader()
        row: dict[str, Any] = collections.OrderedDict(epoch=epoch)
        row.update((k, _cell(logs.get(k, "NA"))) for k in self.keys)
        self.writer.writerow(row)
        self.csv_file.flush()

    def on_train_end(self, logs: Any = None) -> None:
        """Closes the file."""
        self.csv_file.close()
        self.writer = None


def _cell(value: Any) -> Any:
    """A value of a line: numbers as they are, several as a list in quotes."""
    if isinstance(value, str) or (isinstance(value, np.ndarray) and value.ndim == 0) or not isinstance(value, Iterable):
        return value
    return f"\"[{', '.join(map(str, value))}]\""


@export("keras.callbacks.RemoteMonitor")
class RemoteMonitor(Callback):
    """Posts the metrics of each epoch to a server, with the library `requests`.

    Args:
        root: Address of the server.
        path: Path on it.
        field: The form field that has the metrics as JSON.
        headers: Headers of the request.
        send_as_json: Whether the body is JSON itself, not a form.

    >>> monitor = tf.keras.callbacks.RemoteMonitor("http://localhost:9000", send_as_json=True)
    """

    def __init__(self, root: str = "http://localhost:9000", path: str = "/publish/epoch/end/", field: str = "data",
                 headers: Any = None, send_as_json: bool = False):
        super().__init__()
        self.root, self.path, self.field, self.headers, self.send_as_json = root, path, field, headers, send_as_json

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Posts the metrics; warns if the server cannot be reached."""
        try:
            import requests
        except ImportError:
            raise ImportError("RemoteMonitor requires the `requests` library.") from None
        send: dict[str, Any] = {"epoch": epoch, **{k: _plain(v) for k, v in (logs or {}).items()}}
        try:
            if self.send_as_json:
                requests.post(self.root + self.path, json=send, headers=self.headers)
            else:
                requests.post(self.root + self.path, {self.field: json.dumps(send)}, headers=self.headers)
        except requests.exceptions.RequestException:
            logging.warning("RemoteMonitor cannot reach the server at %s", self.root)


def _plain(value: Any) -> Any:
    """A number for JSON."""
    return value.item() if isinstance(value, (np.ndarray, np.generic)) and np.size(value) == 1 else value
