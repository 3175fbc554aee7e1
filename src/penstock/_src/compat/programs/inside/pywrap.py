"""Of `pywrap_tfe` and `pywrap_tensorflow`: devices and event files, as in TensorFlow's C library."""
from __future__ import annotations

import socket
import time
from typing import Any

import penstock
from penstock._src.io import paths
from penstock._src.io.events import VERSION, event_class
from penstock._src.io.record import TFRecordWriter


class EventsWriter:
    """Writes an event file whose name begins with a prefix. The file is created by the first event."""

    def __init__(self, file_prefix: Any):
        self._prefix, self._suffix, self._name = paths.as_text(file_prefix), "", ""
        self._writer: Any = None

    def InitWithSuffix(self, suffix: Any) -> bool:  # noqa: N802
        """Creates the file, with an end of its name."""
        self._suffix = paths.as_text(suffix)
        return self.Init()

    def Init(self) -> bool:  # noqa: N802
        """Creates the file, if there is none."""
        if self._writer is None:
            self._name = f"{self._prefix}.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}{self._suffix}"
            self._writer = TFRecordWriter(self._name)
            self._writer.write(event_class()(wall_time=time.time(), file_version=VERSION).SerializeToString())
        return True

    def FileName(self) -> bytes:  # noqa: N802
        """The name of the file."""
        self.Init()
        return self._name.encode()

    def WriteEvent(self, event: Any) -> None:  # noqa: N802
        """Appends an Event message."""
        self._WriteSerializedEvent(event.SerializeToString())

    def _WriteSerializedEvent(self, event: bytes) -> None:  # noqa: N802
        self.Init()
        self._writer.write(event)

    def Flush(self) -> bool:  # noqa: N802
        """Writes buffered events to the file."""
        if self._writer is not None:
            self._writer.flush()
        return True

    def Close(self) -> bool:  # noqa: N802
        """Closes the file."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        return True


def TF_ListPhysicalDevices() -> list[bytes]:  # noqa: N802
    """The names of the physical devices."""
    return [d.name.encode() for d in penstock.config.list_physical_devices()]


def TF_ListPluggablePhysicalDevices() -> list[bytes]:  # noqa: N802
    """Devices of plugins: there are none."""
    return []
