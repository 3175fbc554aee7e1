"""In-graph replication: one client builds one graph, with a copy of the model on every worker and the variables on the servers.

    penstock launch --ps 1 --workers 2 examples/in_graph.py

Every process runs this program; worker 0 is also the client, the others only serve. (With Kubernetes and the like, TF_CONFIG
comes from there.)
"""
import json
import os
import time
from typing import Any

import penstock.compat.v1 as tf
from penstock import digits


def build(workers: int) -> Any:
    """An op that applies the mean of the gradients of all copies; the accuracy on the test digits."""
    (x, y), (x_test, y_test) = digits.load()
    with tf.device("/job:ps/task:0"):
        w = tf.get_variable("w", [64, 10], initializer=tf.zeros_initializer())
        b = tf.get_variable("b", [10], initializer=tf.zeros_initializer())
        opt = tf.train.GradientDescentOptimizer(0.5)
    grads = []
    for i in range(workers):
        with tf.device(f"/job:worker/task:{i}"):
            data = tf.data.Dataset.from_tensor_slices((x.reshape(-1, 64), y)).shard(workers, i).repeat().batch(64)
            images, labels = tf.data.make_one_shot_iterator(data).get_next()
            loss = tf.losses.sparse_softmax_cross_entropy(labels, tf.matmul(images, w) + b)
            grads.append([g for g, _ in opt.compute_gradients(loss, [w, b])])
    with tf.device("/job:ps/task:0"):
        means = [tf.add_n(parts) / workers for parts in zip(*grads, strict=True)]
        train = opt.apply_gradients(zip(means, [w, b], strict=True))
        test = tf.matmul(tf.constant(x_test.reshape(-1, 64)), w) + b
        return train, tf.reduce_mean(tf.cast(tf.equal(tf.argmax(test, 1), y_test), tf.float32))


def main() -> None:
    place = json.loads(os.environ["TF_CONFIG"])
    job, index, cluster = place["task"]["type"], place["task"]["index"], place["cluster"]
    server = tf.train.Server(cluster, job_name=job, task_index=index)
    if job == "worker" and index == 0:
        with tf.device("/job:ps/task:0"):
            done = tf.Variable(False, name="done", trainable=False)
        train, accuracy = build(len(cluster["worker"]))
        with tf.Session(server.target) as sess:
            sess.run(tf.global_variables_initializer())
            for _ in range(200):
                sess.run(train)
            print(f"accuracy {sess.run(accuracy):.3f}", flush=True)
            sess.run(done.assign(True))
        return
    if job == "ps":
        server.join()
    wait(server)


def wait(server: tf.train.Server) -> None:
    """Until the client says, in a variable, that it is done."""
    with tf.device("/job:ps/task:0"):
        done = tf.Variable(False, name="done", trainable=False)
    ready = tf.is_variable_initialized(done)
    with tf.Session(server.target) as sess:
        while not (sess.run(ready) and sess.run(done)):
            time.sleep(0.2)


if __name__ == "__main__":
    tf.disable_v2_behavior()
    main()
