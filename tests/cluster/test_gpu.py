"""GPU tensors between tasks: copied through pinned memory at the sender, and to the GPU at the receiver."""
import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.cluster import shared

pytestmark = [pytest.mark.gpu, pytest.mark.distributed]


@pytest.mark.parametrize("memory", [0, 1 << 30])
def test_large_and_small_tensors_cross_from_gpu_to_gpu(cluster, monkeypatch, memory):
    monkeypatch.setattr(shared, "_MOST", memory)            # over the connection, in pieces, and through shared memory
    shared.host.cache_clear()
    tasks = cluster(ps=1, worker=1)
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 256])
        with tf.device("/job:ps/task:0/gpu:0"):
            y = tf.matmul(x, 2.0 * tf.eye(256))
        with tf.device("/job:worker/task:0/gpu:0"):
            z = y + 1.0
        with tf.device("/job:ps/task:0/gpu:0"):
            back = tf.reduce_sum(z, axis=1)
        with tf.Session(tasks["worker", 0].target) as sess:
            assert sum(d.device_type == "GPU" for d in sess.list_devices()) == 2
            for rows in (3, 5000, 20000, 7):
                given = np.random.RandomState(rows).normal(size=(rows, 256)).astype(np.float32)
                for _ in range(2):
                    got, total = sess.run([z, back], {x: given})
                    np.testing.assert_allclose(got, 2 * given + 1, rtol=1e-2, atol=1e-2)
                    np.testing.assert_allclose(total, got.sum(1), rtol=1e-3, atol=0.5)
    shared.host.cache_clear()


def test_what_goes_to_the_host_lands_in_pinned_memory():
    import torch

    from penstock._src.kernels.devices.cpu import to_host
    for size in (10, 1 << 20):
        value = torch.arange(size, dtype=torch.float32, device="cuda")
        got = to_host(value)
        assert got.is_cpu and torch.equal(got, value.cpu()) and got.is_pinned() == (got.nbytes >= 1 << 20)
