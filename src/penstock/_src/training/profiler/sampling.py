"""tf.profiler.experimental: records a program as a trace for Chrome and TensorBoard."""
from __future__ import annotations

import atexit
import os
import pathlib
import socket
import tempfile
import time
from typing import Any, NamedTuple

import torch

from penstock._src.base import errors, marks
from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.io import paths
from penstock._src.training.profiler import advice


class ProfilerOptions(NamedTuple):
    """Options of a recording: `python_tracer_level=1` adds the stacks of Python; the other levels have no effect."""
    host_tracer_level: int = 2
    python_tracer_level: int = 0
    device_tracer_level: int = 1
    delay_ms: int | None = None


export.value(ProfilerOptions, v2=["profiler.experimental.ProfilerOptions"])


class _Running:
    profile: Any = None
    logdir = ""
    since = 0.0


@export(v2=["profiler.experimental.start"])
def start(logdir: Any, options: Any = None) -> None:
    """Starts to record; AlreadyExistsError while another recording runs.

    >>> tf.profiler.experimental.start("/tmp/logs"); train(); tf.profiler.experimental.stop()
    """
    if _Running.profile is not None:
        raise errors.AlreadyExistsError(None, None, "Another profiler is running.")
    _Running.profile = torch.profiler.profile(with_stack=bool(getattr(options, "python_tracer_level", 0)))
    _Running.logdir = os.fspath(logdir)
    _Running.profile.__enter__()
    _Running.since = time.monotonic()
    atexit.register(stop, save=False)            # a recording that is still running crashes when the process unloads it


@export(v2=["profiler.experimental.stop"])
def stop(save: bool = True) -> None:
    """Stops the recording, and writes it below the folder; UnavailableError if none runs."""
    if _Running.profile is None:
        raise errors.UnavailableError(None, None, "Cannot export profiling results. No profiler is running.")
    profile, _Running.profile = _Running.profile, None
    atexit.unregister(stop)
    seconds = time.monotonic() - _Running.since
    profile.__exit__(None, None, None)
    if save:
        folder = os.path.join(_Running.logdir, "plugins", "profile", time.strftime("%Y_%m_%d_%H_%M_%S"))
        _write(profile, seconds, folder)


def _write(profile: Any, seconds: float, folder: str) -> None:
    """Writes the trace, and beside it the advice derived from it."""
    paths.makedirs(folder)
    start = paths.join(folder, socket.gethostname())
    with tempfile.TemporaryDirectory() as scratch:
        trace = pathlib.Path(scratch, "trace.json.gz")
        profile.export_chrome_trace(str(trace))
        paths.write_atomically(f"{start}.trace.json.gz", trace.read_bytes())
    found = _advice(profile, seconds)
    paths.write_atomically(f"{start}.advice.txt", found.text().encode())
    logging.info("Profile in %s. %s", folder, " ".join(found.lines))


def _advice(profile: Any, seconds: float) -> advice.Advice:
    """The summary of a recording; its events are in microseconds."""
    waits, kernels, device = [], [], False
    for e in profile.events():
        span = (e.time_range.start / 1e6, e.time_range.end / 1e6)
        if e.device_type == torch.autograd.DeviceType.CUDA:
            device = True
            kernels.append(span)
        elif e.name == marks.GET_NEXT:
            waits.append(span)
    return advice.advise(0.0, seconds, waits, kernels if device else None)


@export(v2=["profiler.experimental.Profile"])
class Profile:
    """A block that is recorded."""

    def __init__(self, logdir: Any, options: Any = None):
        self._logdir, self._options = logdir, options

    def __enter__(self) -> None:
        start(self._logdir, self._options)

    def __exit__(self, *exc: Any) -> None:
        stop()


@export(v2=["profiler.experimental.Trace"])
class Trace:
    """A block that has a name in recordings.

    >>> with tf.profiler.experimental.Trace("train", step_num=step): train_step()
    """

    def __init__(self, name: str, **kwargs: Any):
        self._metadata = dict(kwargs)
        self._name = name
        self._block: Any = None

    def set_metadata(self, **kwargs: Any) -> None:
        """Adds metadata to the block."""
        self._metadata.update(kwargs)

    def __enter__(self) -> Trace:
        if _Running.profile is not None:
            text = ",".join(f"{k}={v}" for k, v in self._metadata.items())
            self._block = torch.profiler.record_function(f"{self._name}#{text}#" if text else self._name)
            self._block.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        if self._block is not None:
            self._block.__exit__(*exc)
            self._block = None
