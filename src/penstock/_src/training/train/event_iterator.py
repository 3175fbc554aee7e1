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

    >>> with tf.Graph().as_default(), tf.Session() as sess, tf.summary.FileWriter("log") as writer:
    ...     writer.add_summary(sess.run(tf.summary.scalar("loss", 0.5)), global_step=10)
    >>> path = tf.io.gfile.glob("log/*")[0]
    >>> [(event.step, v.simple_value) for event in tf.train.summary_iterator(path) for v in event.summary.value]
    [(10, 0.5)]
    """
    return read_events(path)
