"""tf.experimental.dtensor: names as types, for programs that ask whether a value is a DTensor. Making one raises."""
from __future__ import annotations

from typing import Any, NoReturn

from penstock._src.base import errors
from penstock._src.base.api import export

UNSHARDED, MATCH = "unsharded", "match"
export.value(UNSHARDED, v2=["experimental.dtensor.UNSHARDED"])
export.value(MATCH, v2=["experimental.dtensor.MATCH"])


class _Absent:
    """The base of what needs DTensors."""

    def __init__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise errors.UnimplementedError(None, None, "There are no DTensors here: use a tf.distribute.Strategy")


@export(v2=["experimental.dtensor.Mesh"])
class Mesh(_Absent):
    """A grid of devices."""


@export(v2=["experimental.dtensor.Layout"])
class Layout(_Absent):
    """How a tensor is spread over a mesh."""


@export(v2=["experimental.dtensor.DVariable"])
class DVariable(_Absent):
    """A variable that is spread over a mesh."""


@export(v2=["experimental.dtensor.DTensorDataset"])
class DTensorDataset(_Absent):
    """A dataset whose batches are spread over a mesh."""
