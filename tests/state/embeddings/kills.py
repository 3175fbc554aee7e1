"""Kills a process that saves incremental checkpoints, again and again, and checks that nothing acknowledged is lost.

    PYTHONPATH=src python -m tests.state.embeddings.kills --rounds 100

A child trains a table and saves an increment after every step, a full checkpoint after every seventh; it writes the number of a
step to a pipe once the step is saved. The parent kills it with SIGKILL at a random moment, restores what is there and compares.
"""
import argparse
import os
import random
import select
import signal
import tempfile
import time

import numpy as np

import penstock as tf
from penstock.compat import v1

ROWS = 40


def _model():
    table = v1.get_embedding_variable("table", 8, initializer=v1.constant_initializer(0.0),
                                      partitioner=v1.fixed_size_partitioner(2))
    keys = v1.placeholder(tf.int64, [None])
    step = v1.train.get_or_create_global_step()
    loss = -tf.reduce_sum(v1.nn.embedding_lookup(table, keys))
    train = v1.train.GradientDescentOptimizer(1.0).minimize(loss, step)
    return table, keys, train, step, v1.train.IncrementalSaver(max_to_keep=2)


def _touched(step):
    """The keys of a step: key 0 always, and some that only this step and a few others touch."""
    return [0, *(step * 3 + i for i in range(1, 4)), step % ROWS + 10_000]


def _train(folder, pipe):
    """Trains from the last checkpoint on, until it is killed."""
    with v1.Graph().as_default(), v1.Session() as sess:
        _, keys, train, step, saver = _model()
        _restore(sess, saver, folder)
        at = int(sess.run(step))
        while True:
            sess.run(train, {keys: _touched(at)})
            at += 1
            if at % 7 == 1:
                saver.save(sess, os.path.join(folder, "model"), step, write_meta_graph=False)
            else:
                saver.incremental_save(sess)
            os.write(pipe, b"%d\n" % at)


def _restore(sess, saver, folder):
    latest = v1.train.latest_checkpoint(folder)
    if latest is None:
        sess.run(v1.global_variables_initializer())
    else:
        saver.restore(sess, latest)


def _check(folder, acknowledged):
    """The restored table is what training up to its step makes, and that is no earlier than what was acknowledged."""
    with v1.Graph().as_default(), v1.Session() as sess:
        table, _, _, step, saver = _model()
        _restore(sess, saver, folder)
        at = int(sess.run(step))
        assert at >= acknowledged, f"step {acknowledged} was acknowledged, but step {at} was restored"
        found_keys, rows = sess.run(table.export())
    expected: dict = {}
    for i in range(at):
        for key in _touched(i):
            expected[key] = expected.get(key, 0) + 1
    found = dict(zip(found_keys.tolist(), rows[:, 0].tolist(), strict=True))
    assert found == expected
    np.testing.assert_array_equal(rows, np.repeat(rows[:, :1], 8, 1))
    return at


def _round(folder, rng):
    """One child, killed after some acknowledged steps and some milliseconds; the last step that it acknowledged."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _train(folder, writing)
        finally:
            os._exit(1)
    os.close(writing)
    seen, wanted, data = 0, rng.randrange(1, 12), b""
    while seen < wanted and select.select([reading], [], [], 60)[0]:
        part = os.read(reading, 4096)
        if not part:
            raise AssertionError("the child failed")
        data += part
        seen = data.count(b"\n")
    time.sleep(rng.random() * 0.02)           # any moment of a save
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while part := os.read(reading, 4096):
        data += part
    os.close(reading)
    whole = [n for n in data.split(b"\n")[:-1] if n]
    return int(whole[-1]) if whole else 0


def main(arguments=None):
    """Runs the rounds; an AssertionError if something acknowledged was lost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    rng, last = random.Random(given.seed), 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(given.rounds):
            last = max(last, _round(folder, rng))
            at = _check(folder, last)
            print(f"round {number + 1}: acknowledged {last}, restored {at}", flush=True)
    print(f"{given.rounds} kills, nothing acknowledged was lost")


if __name__ == "__main__":
    main()
