"""Devices, modes of execution, iterators and variables."""
from __future__ import annotations

import contextlib
from collections.abc import Callable
from collections.abc import Iterator as Iterates
from typing import Any

from penstock._src.base.api import export
from penstock.compat import v1 as tf

SYNC, ASYNC = 0, 1
DEVICE_PLACEMENT_EXPLICIT, DEVICE_PLACEMENT_WARN, DEVICE_PLACEMENT_SILENT = 0, 1, 2


def _export(name: str) -> Callable:
    return export(v1=[f"contrib.eager.{name}", f"contrib.eager.python.tfe.{name}"])


for _name in ("SYNC", "ASYNC", "DEVICE_PLACEMENT_EXPLICIT", "DEVICE_PLACEMENT_WARN", "DEVICE_PLACEMENT_SILENT"):
    _export(_name)(globals()[_name])


@_export("Variable")
class Variable(tf.Variable):
    """A resource variable in every mode.

    >>> v = tfe.Variable(3.0, name="v")
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return tf.Variable(*args, **{**kwargs, "use_resource": True})


@_export("Iterator")
class Iterator:
    """Goes over the elements of a dataset, eagerly.

    Args:
        dataset: The dataset.

    >>> tfe = tf.contrib.eager
    >>> [int(x) for x in tfe.Iterator(tf.data.Dataset.range(3))]
    [0, 1, 2]
    """

    def __init__(self, dataset: Any):
        if not tf.executing_eagerly():
            raise RuntimeError("tf.contrib.eager.Iterator only supports eager execution. Use make_one_shot_iterator() or "
                               "make_initializable_iterator() in graphs.")
        self._dataset, self._elements = dataset, iter(dataset)

    def __iter__(self) -> Iterator:
        return self

    def __next__(self) -> Any:
        return next(self._elements)

    next = __next__

    def get_next(self, name: str | None = None) -> Any:
        """The next element; OutOfRangeError at the end."""
        try:
            return next(self._elements)
        except StopIteration:
            raise tf.errors.OutOfRangeError(None, None, "End of sequence") from None

    output_types = property(lambda self: tf.data.get_output_types(self._dataset))
    output_shapes = property(lambda self: tf.data.get_output_shapes(self._dataset))
    output_classes = property(lambda self: tf.data.get_output_classes(self._dataset))


@_export("num_gpus")
def num_gpus() -> int:
    """The number of GPUs.

    Returns:
        An integer.

    >>> isinstance(tf.contrib.eager.num_gpus(), int)
    True
    """
    return len(tf.config.experimental.list_logical_devices("GPU"))


@_export("list_devices")
def list_devices() -> list[str]:
    """The names of all devices."""
    return [device.name for device in tf.config.experimental.list_logical_devices()]


@_export("execution_mode")
@contextlib.contextmanager
def execution_mode(mode: int) -> Iterates[None]:
    """Accepted for compatibility: kernels run immediately in both modes; on GPUs they are not waited for."""
    if mode not in (SYNC, ASYNC):
        raise ValueError("Execution mode should be None/tfe.SYNC/tfe.ASYNC")
    yield


@_export("set_execution_mode")
def set_execution_mode(mode: int | None) -> None:
    """As `execution_mode`, for the whole program."""
    if mode not in (None, SYNC, ASYNC):
        raise ValueError("Execution mode should be None/tfe.SYNC/tfe.ASYNC")


@_export("async_wait")
def async_wait() -> None:
    """Waits for all kernels that were launched.

    >>> tf.contrib.eager.async_wait()
    """
    import torch
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


@_export("async_clear_error")
def async_clear_error() -> None:
    """Does nothing: errors are raised where they occur."""


@_export("run")
def run(main: Callable | None = None, argv: list[str] | None = None) -> None:
    """Runs a program eagerly."""
    tf.enable_eager_execution()
    tf.app.run(main, argv)
