"""Moving averages of reference variables that live on another task, under a MonitoredTrainingSession."""
import numpy as np

import penstock.compat.v1 as tf
from penstock._src.cluster.ports import free_addresses


def test_average_of_reference_variables_on_a_server():
    ps, worker = free_addresses(2)
    cluster = tf.train.ClusterSpec({"ps": [ps], "worker": [worker]})
    servers = [tf.train.Server(cluster, job_name=job, task_index=0) for job in ("ps", "worker")]
    try:
        with tf.Graph().as_default(), tf.device(tf.train.replica_device_setter(cluster=cluster)):
            w = tf.get_variable("w", initializer=4.0, use_resource=False)
            step = tf.train.get_or_create_global_step()
            train = tf.train.GradientDescentOptimizer(1.0).minimize(w, global_step=step)
            average = tf.train.ExponentialMovingAverage(0.5)
            update = average.apply([w])
            shadow = average.average(w)
            assert w.dtype._is_ref_dtype and shadow.device == w.device == "/job:ps/task:0"
            with tf.train.MonitoredTrainingSession(servers[1].target, is_chief=True) as session:
                seen = []
                for _ in range(3):
                    session.run(train)
                    session.run(update)
                    seen.append(session.run([w, shadow]))
        np.testing.assert_allclose(seen, [[3, 3.5], [2, 2.75], [1, 1.875]], rtol=1e-6)
    finally:
        for server in servers:
            server.stop()
