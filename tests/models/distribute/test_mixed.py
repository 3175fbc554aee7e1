"""Data and model parallelism on one cluster: two replicas, each a pipeline over two tasks, follow a single device."""
import importlib.util
import pathlib

import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock import digits
from tests.cluster.conftest import cluster  # noqa: F401

pytestmark = pytest.mark.distributed


@pytest.fixture
def example():
    path = pathlib.Path(__file__).parents[3] / "examples" / "mixed_parallel.py"
    found = importlib.util.spec_from_file_location("mixed_parallel", path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def losses(example, replicas, places, micro_batches, target="", steps=20):
    (x, y), _ = digits.load()
    with tf.Graph().as_default():
        images, labels = tf.placeholder(tf.float32, [64, 64]), tf.placeholder(tf.int64, [64])
        train, loss, own = example.build(images, labels, replicas, places, micro_batches)
        with tf.Session(target) as sess:
            sess.run(tf.global_variables_initializer())
            found = [sess.run([loss, train], {images: x[i * 64:i * 64 + 64].reshape(64, 64), labels: y[i * 64:i * 64 + 64]})[0]
                     for i in range(steps)]
            return found, sess.run([v for stage in own for v in stage]), [v.device for stage in own for v in stage]


def test_two_pipelines_on_four_tasks_follow_one_device(cluster, example):  # noqa: F811
    servers = cluster(ps=2, worker=4)
    tasks = [f"/job:worker/task:{i}" for i in range(4)]
    mixed, values, devices = losses(example, [tasks[:2], tasks[2:]], ["/job:ps/task:0", "/job:ps/task:1"], 4,
                                    servers["worker", 0].target)
    alone, expected, _ = losses(example, [["", ""]], ["", ""], 1)
    assert [d[:14] for d in devices] == ["/job:ps/task:0"] * 2 + ["/job:ps/task:1"] * 2
    assert mixed[-1] < mixed[0] / 2
    np.testing.assert_allclose(mixed, alone, rtol=1e-4)
    for a, b in zip(values, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
