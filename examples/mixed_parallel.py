"""Data and model parallelism on one cluster: replicas are pipelines of two tasks, and variables are on parameter servers.

    penstock launch --ps 2 --workers 4 examples/mixed_parallel.py

Workers 0 and 1 are the stages of the first replica, workers 2 and 3 those of the second. Each replica takes its half of a batch
through its pipeline in micro-batches; the mean of the gradients is applied where the variables are: those of the first stage on
one parameter server, those of the second on the other. Worker 0 is also the client.
"""
import json
import os
import time
from typing import Any

import numpy as np

import penstock.compat.v1 as tf
from penstock import digits

STAGES, HIDDEN = 2, 64


def variables(places: Any) -> Any:
    """Weights and biases of each stage, each pair in its place."""
    made = []
    for stage, (rows, columns) in enumerate([(64, HIDDEN), (HIDDEN, 10)]):
        with tf.device(places[stage]):
            made.append([tf.get_variable(f"w{stage}", [rows, columns], initializer=tf.glorot_uniform_initializer(seed=stage)),
                         tf.get_variable(f"b{stage}", [columns], initializer=tf.zeros_initializer())])
    return made


def build(images: Any, labels: Any, replicas: list[list[str]], places: Any, micro_batches: int = 4) -> Any:
    """A training op and its loss. `replicas` has the devices of the stages of each; `places` those of the variables."""
    (w0, b0), (w1, b1) = own = variables(places)
    stages = [lambda x: tf.nn.relu(tf.matmul(x, w0) + b0), lambda h: tf.matmul(h, w1) + b1]

    def loss(logits: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    parts = list(zip(tf.split(images, len(replicas)), tf.split(labels, len(replicas)), strict=True))
    found = [tf.distribute.experimental.pipelined_gradients(stages, loss, x, y, micro_batches, devices, variables=own)
             for (x, y), devices in zip(parts, replicas, strict=True)]
    means = []
    for pairs in zip(*(pairs for pairs, _ in found), strict=True):
        with tf.colocate_with(pairs[0][1]):
            means.append((tf.add_n([g for g, _ in pairs]) / len(replicas), pairs[0][1]))
    train = tf.train.GradientDescentOptimizer(0.5).apply_gradients(means)
    return train, tf.add_n([value for _, value in found]) / len(replicas), own


def main() -> None:
    place = json.loads(os.environ["TF_CONFIG"])
    job, index, cluster = place["task"]["type"], place["task"]["index"], place["cluster"]
    server = tf.train.Server(cluster, job_name=job, task_index=index)
    with tf.device("/job:ps/task:0"):
        done = tf.get_variable("done", initializer=False, trainable=False)
    if job == "ps":
        server.join()
    elif index:
        wait(server, done)
    else:
        train_and_test(cluster, server, done)


def wait(server: tf.train.Server, done: Any) -> None:
    """Until the client says, in a variable, that it is done."""
    ready = tf.is_variable_initialized(done)
    with tf.Session(server.target) as sess:
        while not (sess.run(ready) and sess.run(done)):
            time.sleep(0.2)


def train_and_test(cluster: dict[str, Any], server: tf.train.Server, done: Any) -> Any:
    (x, y), (x_test, y_test) = digits.load()
    workers = [f"/job:worker/task:{i}" for i in range(len(cluster["worker"]))]
    replicas = [workers[i:i + STAGES] for i in range(0, len(workers), STAGES)]
    images, labels = tf.placeholder(tf.float32, [64, 64]), tf.placeholder(tf.int64, [64])
    train, loss, ((w0, b0), (w1, b1)) = build(images, labels, replicas, [f"/job:ps/task:{s}" for s in range(STAGES)])
    with tf.Session(server.target) as sess:
        sess.run(tf.global_variables_initializer())
        random = np.random.RandomState(0)
        for _ in range(200):
            some = random.randint(0, len(x), 64)
            sess.run(train, {images: x[some].reshape(64, 64), labels: y[some]})
        w0, b0, w1, b1 = sess.run([w0, b0, w1, b1])
        found = (np.maximum(x_test.reshape(-1, 64) @ w0 + b0, 0) @ w1 + b1).argmax(1)
        print(f"accuracy {np.mean(found == y_test):.3f}", flush=True)
        sess.run(done.assign(True))


if __name__ == "__main__":
    tf.disable_v2_behavior()
    main()
