"""A program that saves in a loop until it is killed; run in its own process by test_crash.py."""
from __future__ import annotations

import signal

import numpy as np
import torch

import penstock.compat.v1 as tf
from penstock._src.base import dtypes
from penstock._src.io import bundle

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
    """Continues from the newest checkpoint, and saves step after step."""
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


def save_often(folder, how, value, times):
    """Saves variables that all hold `value` to the prefix `m` of a folder, where others do the same."""
    tf.disable_v2_behavior()
    if how == "weights":
        _save_weights_often(folder, value, times)
        return
    graph, _, step, update, init, saver = build(how == "shards")
    version = tf.train.SaverDef.V1 if how == "old" else tf.train.SaverDef.V2
    with graph.as_default(), tf.Session() as sess:
        saver = tf.train.Saver(write_version=version) if how == "old" else saver
        sess.run(init)
        sess.run(update, {step: value})
        for i in range(times):
            saver.save(sess, f"{folder}/m", write_meta_graph=False, write_state=False, asynchronous=how == "shards" and i % 2)
        saver.wait()


def _save_weights_often(folder, value, times):
    model = tf.keras.Sequential([tf.keras.layers.Dense(5, input_shape=(4,)), tf.keras.layers.Dense(2)])
    model.set_weights([np.full_like(w, value) for w in model.get_weights()])
    for _ in range(times):
        model.save_weights(f"{folder}/m.weights.h5")


def hold_a_save(prefix, sharded, ready):
    """Writes the data of a checkpoint, and stops before it is there."""
    prefix = f"{prefix}_temp_{'0123456789abcdef' * 2}/part-00000-of-00002" if sharded else prefix
    writer = bundle.BundleWriter(prefix)
    writer.add("v", torch.ones(100), dtypes.float32)
    if sharded:
        writer.finish()
    ready.set()
    signal.pause()
