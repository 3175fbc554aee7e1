"""Of `training.basic_session_run_hooks`: how many steps a call of `session.run` makes."""
from __future__ import annotations

from typing import Any

import penstock.compat.v1 as tf

_COLLECTION = "basic_session_run_hooks_steps_per_run"


def get_or_create_steps_per_run_variable() -> Any:
    """The graph's variable of the steps in a run, which hooks divide by; made with the value 1."""
    graph = tf.get_default_graph()
    found = graph.get_collection(_COLLECTION)
    if found:
        return found[0]
    with graph.as_default(), tf.variable_scope("basic_session_run_hooks", reuse=tf.AUTO_REUSE):
        return tf.get_variable("steps_per_run", [], tf.int32, tf.ones_initializer(), trainable=False, use_resource=True,
                               collections=[_COLLECTION, tf.GraphKeys.LOCAL_VARIABLES])
