"""Each test of contrib builds its own graph."""
import numpy as np
import pytest

import penstock.compat.v1 as tf


@pytest.fixture(autouse=True)
def graph(request):
    if "eager" in request.node.name:
        yield None
        return
    with tf.Graph().as_default() as made:
        tf.set_random_seed(1)
        yield made


@pytest.fixture
def run():
    """Runs fetches after initialization; the first result is a table of all variables."""
    def step(*fetches, feed=None):
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer(), tf.tables_initializer()])
            variables = tf.global_variables()
            values = {v.op.name: np.asarray(x) for v, x in zip(variables, session.run(variables), strict=True)}
            return [values, *session.run(list(fetches), feed)]
    return step
