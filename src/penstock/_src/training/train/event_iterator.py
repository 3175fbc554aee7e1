"""tf.train.summary_iterator."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock._src.base.api import export
from penstock._src.io.events import read_events


@export(v1=["train.summary_iterator"])
def summary_iterator(path: Any) -> Iterator[Any]:
    """The Event messages of an event file.

    Args:
        path: Event file.

    Returns:
        An iterator of `Event` messages.

    >>> values = [v.simple_value for e in tf.train.summary_iterator(path) for v in e.summary.value if v.tag == "loss"]
    """
    return read_events(path)
