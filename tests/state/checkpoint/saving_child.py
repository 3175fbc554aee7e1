"""A program that saves in a loop until it is killed; run in a process of its own by test_crash.py."""
from __future__ import annotations

import numpy as np

import penstock.compat.v1 as tf

SIZES = [(1,), (300, 70), (1000,), (64, 64, 3)]


def build(sharded):
    """Variables that all hold the step, and a saver for them."""
    with tf.Graph().as_default() as graph:
        variables = []
        for i, shape in enumerate(SIZES):
            with tf.device("/cpu:0" if sharded and i % 2 else None):      # shards by device
                variables.append(tf.get_variable(f"v{i}", shape, tf.float32, initializer=tf.zeros_initializer()))
        step = tf.placeholder(tf.float32, [])
        update = tf.group(*[v.assign(tf.fill(v.shape, step)) for v in variables])
        return graph, variables, step, update, tf.global_variables_initializer(), tf.train.Saver(sharded=sharded, max_to_keep=3)


def restored(folder, sharded):
    """The step that the newest checkpoint holds; None without one. AssertionError if it is not whole."""
    graph, variables, _, _, _, saver = build(sharded)
    path = tf.train.latest_checkpoint(folder)
    if path is None:
        return None
    with tf.Session(graph=graph) as sess:
        saver.restore(sess, path)
        values = sess.run(variables)
    found = {float(x) for v in values for x in np.unique(v)}
    assert len(found) == 1, f"{path} mixes {found}"
    step = int(found.pop())
    assert path.endswith(f"-{step}") or path.endswith("same"), path
    return step


def save_forever(folder, sharded, asynchronous, same_name, started):
    """Goes on from the newest checkpoint, and saves step after step."""
    tf.disable_v2_behavior()
    first = restored(folder, sharded) or 0
    graph, _, step, update, init, saver = build(sharded)
    with tf.Session(graph=graph) as sess:
        sess.run(init)
        started.set()
        for i in range(first + 1, first + 100000):
            sess.run(update, {step: i})
            if same_name:
                saver.save(sess, f"{folder}/same", write_meta_graph=False, asynchronous=asynchronous)
            else:
                saver.save(sess, f"{folder}/model", global_step=i, write_meta_graph=False, asynchronous=asynchronous)
