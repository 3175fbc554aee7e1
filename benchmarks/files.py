"""Queues, checkpoints, records, examples and input pipelines, here and in real TensorFlow, in one interleaved run.

    python benchmarks/files.py --tf .oracle/bin/python [--mb 200] [--rounds 5] [--only pipeline]

The same program runs in both systems, one process each, turn by turn on the same disk; the best of the rounds counts.
Exit code 1 if anything is slower here than in TensorFlow by more than `--slack` (a tenth: the noise of a shared machine).
"""
from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

ROWS = 4096


def timed(function, times: int = 1) -> float:
    """Seconds of a call: the shortest of some, since a machine that others use stops us now and then."""
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best


class Work:
    """The tasks in one system. Each returns seconds per unit; what it needs is created once."""

    def __init__(self, tf, mb: int):
        self.tf, self.v1, self.mb = tf, tf.compat.v1, mb
        self.folder = tempfile.mkdtemp()
        self.rng = np.random.RandomState(0)
        self._made: dict = {}

    def once(self, key, make):
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    # -- queues: elements -----------------------------------------------------------------------------------------
    def queue_one_by_one(self):
        def make():
            with self.tf.Graph().as_default():
                queue = self.v1.FIFOQueue(100, [self.tf.float32], [[]])
                enqueue, dequeue = queue.enqueue([1.0]), queue.dequeue()
                return self.v1.Session(graph=self.tf.compat.v1.get_default_graph()), enqueue, dequeue
        sess, enqueue, dequeue = self.once("queue", make)

        def go():
            for _ in range(10):
                sess.run(enqueue)
                sess.run(dequeue)
        return timed(go, 50) / 10

    def queue_of_batches(self):
        def make():
            with self.tf.Graph().as_default():
                queue = self.v1.RandomShuffleQueue(5000, 1000, [self.tf.float32], [[8]])
                rows = self.tf.constant(self.rng.rand(128, 8).astype(np.float32))
                enqueue, dequeue = queue.enqueue_many([rows]), queue.dequeue_many(128)
                sess = self.v1.Session(graph=self.v1.get_default_graph())
            for _ in range(20):
                sess.run(enqueue)
            return sess, enqueue, dequeue
        sess, enqueue, dequeue = self.once("shuffle queue", make)

        def go():
            sess.run(enqueue)
            sess.run(dequeue)
        return timed(go, 200) / 128

    # -- checkpoints: MB ------------------------------------------------------------------------------------------
    def _saver(self):
        def make():
            with self.tf.Graph().as_default():
                values = [self.rng.rand(self.mb // 8, 1 << 18).astype(np.float32) for _ in range(8)]
                variables = [self.v1.get_variable(f"v{i}", initializer=v) for i, v in enumerate(values)]
                sess = self.v1.Session(graph=self.v1.get_default_graph())
                sess.run(self.v1.global_variables_initializer())
                return sess, self.v1.train.Saver(variables, max_to_keep=2)
        return self.once("saver", make)

    def _save(self, sess, saver):
        with sess.graph.as_default():
            saver.save(sess, f"{self.folder}/model", write_meta_graph=False)

    def save(self):
        sess, saver = self._saver()
        return timed(lambda: self._save(sess, saver)) / self.mb

    def restore(self):
        sess, saver = self._saver()
        self.once("saved", lambda: self._save(sess, saver))
        with sess.graph.as_default():
            return timed(lambda: saver.restore(sess, f"{self.folder}/model")) / self.mb

    # -- records: MB ----------------------------------------------------------------------------------------------
    def _write(self, size: int) -> float:
        record, count = self.rng.bytes(size), self.mb * 250_000 // size

        def go():
            with self.tf.io.TFRecordWriter(f"{self.folder}/{size}") as w:
                for _ in range(count):
                    w.write(record)
        return timed(go, 2) / (self.mb / 4)

    def _read(self, size: int) -> float:
        self.once(("records", size), lambda: self._write(size))

        def go():
            if sum(len(r) for r in self.v1.io.tf_record_iterator(f"{self.folder}/{size}")) != self.mb * 250_000 // size * size:
                raise AssertionError("records were lost")
        return timed(go, 3) / (self.mb / 4)

    def write_records_1kb(self):
        return self._write(1000)

    def read_records_1kb(self):
        return self._read(1000)

    def write_records_100kb(self):
        return self._write(100_000)

    def read_records_100kb(self):
        return self._read(100_000)

    # -- examples: rows -------------------------------------------------------------------------------------------
    def _feature(self, value):
        train = self.tf.train
        if isinstance(value[0], bytes):
            return train.Feature(bytes_list=train.BytesList(value=value))
        if isinstance(value[0], float):
            return train.Feature(float_list=train.FloatList(value=value))
        return train.Feature(int64_list=train.Int64List(value=value))

    def _features(self, values):
        return self.tf.train.Features(feature={k: self._feature(v) for k, v in values.items()})

    def _row(self, kind: str) -> bytes:
        rng, train = np.random.RandomState(self.rng.randint(1 << 30)), self.tf.train
        floats = lambda n: rng.rand(n).tolist()
        ints = lambda n: rng.randint(0, 100_000, n).tolist()
        if kind == "sequences":
            lists = {"tokens": [self._feature(ints(1)) for _ in range(rng.randint(1, 12))]}
            return train.SequenceExample(context=self._features({"id": ints(1)}), feature_lists=train.FeatureLists(
                feature_list={k: train.FeatureList(feature=v) for k, v in lists.items()})).SerializeToString()
        values = {"scalars": lambda: {"a": ints(1), "b": floats(1), "c": ints(1), "d": floats(1)},
                  "strings": lambda: {"a": ints(1), "s": [rng.bytes(rng.randint(5, 30))], "t": [rng.bytes(8)]},
                  "lists": lambda: {"a": ints(1), "ids": ints(rng.randint(1, 20)), "w": floats(rng.randint(1, 20))},
                  "images": lambda: {"x": floats(784), "y": ints(1)}}[kind]()
        return train.Example(features=self._features(values)).SerializeToString()

    def _rows(self, kind: str) -> list:
        return self.once(("rows", kind), lambda: [self._row(kind) for _ in range(ROWS)])

    def _wanted(self, kind: str) -> dict:
        tf = self.tf
        fixed = lambda dtype, *shape: tf.io.FixedLenFeature(shape, dtype)
        return {"scalars": {"a": fixed(tf.int64), "b": fixed(tf.float32), "c": fixed(tf.int64), "d": fixed(tf.float32)},
                "strings": {"a": fixed(tf.int64), "s": fixed(tf.string), "t": fixed(tf.string)},
                "lists": {"a": fixed(tf.int64), "ids": tf.io.VarLenFeature(tf.int64), "w": tf.io.VarLenFeature(tf.float32)},
                "images": {"x": fixed(tf.float32, 784), "y": fixed(tf.int64)}}[kind]

    def _parse(self, kind: str, batch: int = 512) -> float:
        """Parsing alone: the rows are in a variable, and a number that needs every tensor is fetched."""
        tf, v1 = self.tf, self.v1

        def make():
            with tf.Graph().as_default():
                rows = v1.Variable(np.array(self._rows(kind)[:batch], object), use_resource=True, validate_shape=False,
                                   shape=tf.TensorShape([None]))
                if kind == "sequences":
                    parsed = tf.io.parse_sequence_example(rows, {"id": tf.io.FixedLenFeature([], tf.int64)},
                                                          {"tokens": tf.io.VarLenFeature(tf.int64)})[:2]
                else:
                    parsed = v1.io.parse_example(rows, self._wanted(kind))
                total = tf.add_n([tf.size(t) for t in tf.nest.flatten(parsed, expand_composites=True)])
                sess = v1.Session()
                sess.run(rows.initializer)
                return sess.make_callable(total)
        run = self.once(("parse", kind), make)
        run()
        return timed(run, 50) / batch

    def parse_scalars(self):
        return self._parse("scalars")

    def parse_strings(self):
        return self._parse("strings")

    def parse_lists(self):
        return self._parse("lists")

    def parse_images(self):
        return self._parse("images")

    def parse_sequences(self):
        return self._parse("sequences")

    # -- pipelines: rows ------------------------------------------------------------------------------------------
    def _consume(self, dataset) -> float:
        seen = 0

        def go():
            nonlocal seen
            seen = sum(int(self.tf.nest.flatten(batch)[0].shape[0]) for batch in dataset)
        return timed(go, 5) / seen

    def _record_file(self, kind: str) -> str:
        def make():
            path = f"{self.folder}/{kind}.tfrecord"
            with self.tf.io.TFRecordWriter(path) as w:
                for row in self._rows(kind):
                    w.write(row)
            return path
        return self.once(("file", kind), make)

    def _record_pipeline(self, kind: str, one_by_one: bool) -> float:
        tf = self.tf
        wanted, path = self._wanted(kind), self._record_file(kind)

        def make():
            records = tf.data.TFRecordDataset(path)
            if one_by_one:
                return records.map(lambda r: tf.io.parse_single_example(r, wanted)).batch(128)
            return records.batch(128).map(lambda r: tf.io.parse_example(r, wanted))
        return self._consume(self.once(("pipeline", kind, one_by_one), make))

    def pipeline_records_batch_parse(self):
        return self._record_pipeline("scalars", False)

    def pipeline_records_parse_batch(self):
        return self._record_pipeline("scalars", True)

    def pipeline_images_batch_parse(self):
        return self._record_pipeline("images", False)

    def pipeline_images_parse_batch(self):
        return self._record_pipeline("images", True)

    def pipeline_arrays(self):
        def make():
            x, y = self.rng.rand(20_000, 32).astype(np.float32), self.rng.randint(0, 10, 20_000)
            return self.tf.data.Dataset.from_tensor_slices((x, y)).shuffle(5000).map(lambda a, b: (a * 2.0 - 1.0, b)).batch(128)
        return self._consume(self.once("arrays", make))

    def pipeline_csv(self):
        def make():
            path = f"{self.folder}/lines.csv"
            with open(path, "w") as f:
                f.writelines(",".join(f"{x:.4f}" for x in row) + ",7\n" for row in self.rng.rand(10_000, 6))
            defaults = [[0.0]] * 6 + [[0]]
            return self.tf.data.TextLineDataset(path).batch(128).map(lambda line: self.tf.io.decode_csv(line, defaults))
        return self._consume(self.once("csv", make))


UNITS = {"queue": "elements", "save": "MB", "restore": "MB", "write": "MB", "read": "MB", "parse": "rows", "pipeline": "rows"}
TASKS = [name for name in vars(Work) if name.split("_")[0] in UNITS]


def worker(system: str, mb: int) -> None:
    """Answers one line per task: its seconds per unit."""
    if system == "penstock":
        import penstock as tf
    else:
        import tensorflow as tf
    work = Work(tf, mb)
    try:
        for line in sys.stdin:
            print(json.dumps(getattr(work, line.strip())()), flush=True)
    finally:
        shutil.rmtree(work.folder)


def main() -> int:
    """Prints one line per task."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tf", help="python of an environment with tensorflow")
    parser.add_argument("--mb", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="tasks whose name contains this")
    parser.add_argument("--slack", type=float, default=0.1)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        worker(args.work, args.mb)
        return 0
    sides = {"penstock": sys.executable, **({"tensorflow": args.tf} if args.tf else {})}
    running = {name: subprocess.Popen([python, os.path.abspath(__file__), "--work", name, "--mb", str(args.mb)],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
               for name, python in sides.items()}
    slow = []
    for task in (t for t in TASKS if args.only in t):
        best = {name: float("inf") for name in sides}
        for _ in range(args.rounds):
            for name, p in running.items():
                p.stdin.write(task + "\n")
                p.stdin.flush()
                best[name] = min(best[name], json.loads(p.stdout.readline()))
        ratio = best["penstock"] / best.get("tensorflow", float("nan"))
        unit = UNITS[task.split("_")[0]]
        speeds = "  ".join(f"{name} {1 / seconds:12,.0f}" for name, seconds in best.items())
        print(f"{task.replace('_', ' '):30}{speeds}  {unit}/s  time {ratio:.2f} of TensorFlow's", flush=True)
        if ratio > 1 + args.slack:
            slow.append(task)
    for p in running.values():
        p.stdin.close()
        p.wait(timeout=60)
    if slow:
        print("slower than TensorFlow:", ", ".join(slow))
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
