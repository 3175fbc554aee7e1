"""tf.test.create_local_cluster."""
import pytest

import penstock.compat.v1 as tf

pytestmark = pytest.mark.distributed


def test_tasks_of_one_process_work_together():
    workers, ps = tf.test.create_local_cluster(num_workers=2, num_ps=1)
    try:
        assert len({s.target for s in (*workers, *ps)}) == 3
        with tf.Graph().as_default():
            with tf.device("/job:ps/task:0"):
                v = tf.get_variable("v", initializer=1.0)
            with tf.device("/job:worker/task:1"):
                doubled = v * 2.0
            with tf.Session(workers[0].target) as sess:
                sess.run(v.initializer)
                assert sess.run(doubled) == 2.0
    finally:
        for server in (*workers, *ps):
            server.stop()
