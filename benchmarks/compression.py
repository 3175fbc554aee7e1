"""Bytes sent and accuracy of each way to compress gradients, on the digits and on a small recurrent language model.

    .venv/bin/python benchmarks/compression.py [--tasks digits,words] [--seeds 3] [--json out.json]

A worker computes the gradients; a parameter server, in a process of its own, has the variables and applies them. Bytes are
counted twice: by the optimizer, of the tensors that its codec made when they were there, and by the links of the worker's
server, of all that it sent to the parameter server. Accuracies are means over seeds, with the same data and initial values
for each scheme.

The language model predicts the next character of the pages in docs/: an embedding, an LSTM, a softmax over characters.
"""
from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import pathlib
import socket
import sys

import numpy as np

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))
os.environ["PENSTOCK_SHARED_MEMORY"] = "0"          # all tensors go over the links, which count

SCHEMES = {                                  # name: (codec, options of the wrapper)
    "dense": ("none", {}),
    "bfloat16": ("bfloat16", {}),
    "float16": ("float16", {}),
    "8 bits": ("int8", {}),
    "ternary": ("ternary", {}),
    "1 bit, momentum correction": ("one_bit", {"momentum": 0.9}),
    "1 bit, no feedback": ("one_bit", {"error_feedback": False}),
    "top 1%": ("top_k", {}),
    "top 1%, momentum correction": ("top_k", {"momentum": 0.9}),
    "top 1%, no feedback": ("top_k", {"error_feedback": False}),
    "threshold": ({"kind": "threshold", "config": {"threshold": 0.05}}, {}),
    "threshold, momentum correction": ({"kind": "threshold", "config": {"threshold": 0.1}}, {"momentum": 0.9}),
}


def serve(spec: dict, job: str, index: int) -> None:
    """A task of the cluster."""
    import penstock.compat.v1 as tf
    tf.train.Server(spec, job, index).join()


class Cluster:
    """A parameter server in a process of its own, and a worker in this one."""

    def __enter__(self) -> Cluster:
        import penstock.compat.v1 as tf
        socks = [socket.socket() for _ in range(2)]
        for s in socks:
            s.bind(("127.0.0.1", 0))
        ports = [s.getsockname()[1] for s in socks]
        for s in socks:
            s.close()
        spec = {"ps": [f"127.0.0.1:{ports[0]}"], "worker": [f"127.0.0.1:{ports[1]}"]}
        self._ps = multiprocessing.get_context("spawn").Process(target=serve, args=(spec, "ps", 0), daemon=True)
        self._ps.start()
        self.worker = tf.train.Server(spec, "worker", 0)
        return self

    def sent(self) -> int:
        """Bytes that the worker has sent to other tasks."""
        return sum(link.sent for link in self.worker._peers.links())

    def __exit__(self, *exc: object) -> None:
        self._ps.terminate()
        self._ps.join(10)
        self.worker.stop()


class Digits:
    """A convolutional network on the digits."""

    rate, batch, epochs = 0.05, 32, 12

    def __init__(self) -> None:
        from penstock import digits
        self.train, self.test = digits.load()

    def build(self, tf):
        x = tf.placeholder(tf.float32, [None, 8, 8, 1])
        y = tf.placeholder(tf.int64, [None])
        hidden = tf.layers.conv2d(x, 16, 3, activation=tf.nn.relu)
        hidden = tf.layers.dense(tf.layers.flatten(hidden), 64, activation=tf.nn.relu)
        logits = tf.layers.dense(hidden, 10)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        return x, y, loss, tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), y), tf.float32))


class Words:
    """An LSTM that predicts the next character."""

    rate, batch, epochs, length = 1.0, 32, 40, 16

    def __init__(self) -> None:
        text = "\n".join(p.read_text() for p in sorted((ROOT / "docs").glob("*.md")))[:30_000]
        self.characters = sorted(set(text), key=text.count, reverse=True)[:95]
        number = {c: i for i, c in enumerate(self.characters)}
        codes = np.array([number[c] for c in text if c in number], np.int32)
        rows = codes[:len(codes) // (self.length + 1) * (self.length + 1)].reshape(-1, self.length + 1)
        rows = np.random.default_rng(0).permutation(rows)
        cut = len(rows) // 10
        self.test, self.train = (rows[:cut, :-1], rows[:cut, 1:]), (rows[cut:, :-1], rows[cut:, 1:])

    def build(self, tf):
        x = tf.placeholder(tf.int32, [None, self.length])
        y = tf.placeholder(tf.int32, [None, self.length])
        table = tf.get_variable("table", [len(self.characters), 32])
        cell = tf.nn.rnn_cell.BasicLSTMCell(96)
        out, _ = tf.nn.dynamic_rnn(cell, tf.nn.embedding_lookup(table, x), dtype=tf.float32)
        logits = tf.layers.dense(out, len(self.characters))
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        return x, y, loss, tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 2, output_type=tf.int32), y), tf.float32))


def trained(cluster: Cluster, task, codec, options: dict, seed: int) -> tuple[float, int, int, int]:
    """Accuracy on the test data; bytes counted by the optimizer, by the links, and of the gradients as they were."""
    import penstock.compat.v1 as tf
    from penstock.distribute.compression import compress
    with tf.Graph().as_default():
        tf.set_random_seed(seed)
        with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:0")):
            x, y, loss, accuracy = task.build(tf)
            own = 0.0 if options.get("momentum") else 0.9
            inner = tf.train.MomentumOptimizer(task.rate, own) if own else tf.train.GradientDescentOptimizer(task.rate)
            opt = compress(inner, codec, **options)
            pairs = opt.compute_gradients(loss)
            clipped, _ = tf.clip_by_global_norm([g for g, _ in pairs], 5.0)
            step = opt.apply_gradients(list(zip(clipped, [v for _, v in pairs], strict=True)))
        with tf.Session(cluster.worker.target) as sess:
            sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            before, random = cluster.sent(), np.random.default_rng(seed)
            for _ in range(task.epochs):
                order = random.permutation(len(task.train[0]))
                for at in range(0, len(order) - task.batch + 1, task.batch):
                    some = order[at:at + task.batch]
                    sess.run(step, {x: task.train[0][some], y: task.train[1][some]})
            wire = cluster.sent() - before
            counted, dense = sess.run([opt.compressor.counter(w) for w in ("sent", "dense")])
            return float(sess.run(accuracy, {x: task.test[0], y: task.test[1]})), int(counted), wire, int(dense)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tasks", default="digits,words")
    parser.add_argument("--schemes", default=",".join(SCHEMES).replace(", ", "; "))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    rows = []
    with Cluster() as cluster:
        for name in args.tasks.split(","):
            task = {"digits": Digits, "words": Words}[name]()
            print(f"\n| {name} | accuracy | to dense, points | MB encoded | of dense | MB sent to the server |")
            print("|---|---|---|---|---|---|", flush=True)
            reference, all_of_it = None, 1.0
            for scheme in args.schemes.split(","):
                scheme = scheme.replace("; ", ", ")
                codec, options = SCHEMES[scheme]
                runs = np.array([trained(cluster, task, codec, options, seed) for seed in range(args.seeds)])
                accuracy, counted, wire, dense = runs.mean(0)
                if reference is None:
                    reference, all_of_it = accuracy, counted
                rows.append({"task": name, "scheme": scheme, "accuracy": accuracy, "counted": counted,
                             "wire": wire, "dense": dense})
                print(f"| {scheme} | {accuracy:.4f} | {100 * (accuracy - reference):+.2f} | {counted / 1e6:.2f} | "
                      f"{100 * counted / all_of_it:.2f}% | {wire / 1e6:.2f} |", flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
