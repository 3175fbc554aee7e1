"""Which rows of a dynamic_embedding variable stay when it is restricted to a number of them."""
from __future__ import annotations

from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export


@export("dynamic_embedding.RestrictPolicy")
class RestrictPolicy:
    """The base of policies. `status` returns a number for each key: the smallest leave first."""

    def __init__(self, var: Any):
        self.var = var

    def status(self, table: Any, keys: Any) -> Any:
        """The numbers of keys."""
        raise NotImplementedError

    def apply_restriction(self, num_reserved: int, **kwargs: Any) -> Any:
        """Removes rows until `num_reserved` are left, if there are more than `trigger` (by default `num_reserved`)."""
        count = len(self.var.tables)
        trigger = kwargs.get("trigger", num_reserved)
        return tf.cond(self.var.size() > tf.cast(trigger, tf.int64), lambda: tf.group(*[
            self._restrict(t, (num_reserved + count - 1 - i) // count) for i, t in enumerate(self.var.tables)]), tf.no_op)

    def _restrict(self, table: Any, kept: int) -> Any:
        keys = table.export()[0]
        leaving = tf.maximum(tf.size(keys) - kept, 0)
        order = tf.argsort(self.status(table, keys), stable=True)
        return table.remove(tf.gather(keys, order[:leaving]))


@export("dynamic_embedding.TimestampRestrictPolicy")
class TimestampRestrictPolicy(RestrictPolicy):
    """Keeps the rows that were updated last, by the step of the optimizer.

    >>> table = tf.dynamic_embedding.get_variable("users", dim=8, restrict_policy=tf.dynamic_embedding.TimestampRestrictPolicy)
    >>> table.restrict(1000, trigger=2000)
    """

    def status(self, table: Any, keys: Any) -> Any:
        """The steps of the last updates."""
        return table.versions_and_frequencies(keys)[0]


@export("dynamic_embedding.FrequencyRestrictPolicy")
class FrequencyRestrictPolicy(RestrictPolicy):
    """Keeps the rows that were looked up most often."""

    def status(self, table: Any, keys: Any) -> Any:
        """How often keys were looked up."""
        return table.versions_and_frequencies(keys)[1]
