"""Bytes sent and accuracy of each way to compress gradients, on the digits and on a small recurrent language model.

    .venv/bin/python benchmarks/compression.py [--tasks digits,words] [--ways servers,all_reduce] [--seeds 2] [--table PAGE.md]

`servers`: a worker computes the gradients; a parameter server, in its own process, has the variables and applies them.
`all_reduce`: two workers of a MultiWorkerMirroredStrategy, in their own processes, take half of each batch. Bytes are
counted twice: by the optimizer, of the tensors that its codec made, and by the links of the worker's server, of all tensors
that it sent to others (messages have heads, which neither counts). Accuracies are means over seeds, with the same data and
initial values for each scheme.

The language model predicts the next character of Python's own manual, as `pydoc_data.topics` has it: an embedding, an LSTM, a
softmax over characters. It learns from 20,000 characters and is tested on 28,000 others, of which it gets about half right.
`--table` writes the tables into a page, each with its command, what was trained and tested, and how sure the figures are.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pydoc_data.topics import topics

import numpy as np

ROOT = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]
import generated  # noqa: E402

os.environ["PENSTOCK_SHARED_MEMORY"] = "0"          # all tensors go over the links, which count
os.environ.setdefault("PENSTOCK_HEARTBEAT_SECONDS", "15")         # a busy machine does not make tasks look dead

LATE, SLOWLY = 5 / 6, 0.2                    # the last sixth of the epochs has a fifth of the rate: less chance in the end
SCHEMES = {                                  # name: (codec, options of the wrapper)
    "dense": ("none", {}),
    "bfloat16": ("bfloat16", {}),
    "float16": ("float16", {}),
    "8 bits": ("int8", {}),
    "ternary": ("ternary", {}),
    "1 bit": ("one_bit", {}),
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
    """A parameter server, in its own process unless there is one for all, and a worker in this one."""

    def __init__(self, one_process: bool):
        self._one = one_process

    def __enter__(self) -> Cluster:
        import penstock.compat.v1 as tf
        from penstock._src.cluster.launch import free_addresses
        ps, worker = free_addresses(2, "127.0.0.1")
        spec = {"ps": [ps], "worker": [worker]}
        if self._one:
            self._ps = tf.train.Server(spec, "ps", 0)
        else:
            self._ps = multiprocessing.get_context("spawn").Process(target=serve, args=(spec, "ps", 0), daemon=True)
            self._ps.start()
        self.worker = tf.train.Server(spec, "worker", 0)
        return self

    def sent(self) -> int:
        """Bytes that the worker has sent to other tasks."""
        return sum(link.sent for link in self.worker._peers.links())

    def __exit__(self, *exc: object) -> None:
        self.worker.stop()
        if self._one:
            self._ps.stop()
        else:
            self._ps.terminate()
            self._ps.join(10)


class Digits:
    """A convolutional network on the digits."""

    rate, batch, epochs = 0.05, 32, 12

    def __init__(self) -> None:
        from penstock import digits
        self.train, self.test = digits.load(test_fraction=0.4)             # 719 to test on: one is 0.14 points

    def build(self, tf):
        x = tf.placeholder(tf.float32, [None, 8, 8, 1])
        y = tf.placeholder(tf.int64, [None])
        hidden = tf.layers.conv2d(x, 16, 3, activation=tf.nn.relu)
        hidden = tf.layers.dense(tf.layers.flatten(hidden), 64, activation=tf.nn.relu)
        logits = tf.layers.dense(hidden, 10)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        return x, y, loss, tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), y), tf.float32))

    def keras(self, tf):
        layers = tf.keras.layers
        return tf.keras.Sequential([layers.Conv2D(16, 3, activation="relu", input_shape=(8, 8, 1)), layers.Flatten(),
                                    layers.Dense(64, activation="relu"), layers.Dense(10)])


class Words:
    """An LSTM that predicts the next character."""

    rate, batch, epochs, length = 0.5, 16, 36, 16
    learnt, tested = 20_000, 28_000                  # characters

    def __init__(self) -> None:
        text = "\n".join(topics[name] for name in sorted(topics))[:self.learnt + self.tested]
        self.characters = sorted(set(text), key=lambda c: (text.count(c), c), reverse=True)[:95]
        number = {c: i for i, c in enumerate(self.characters)}
        codes = np.array([number[c] for c in text if c in number], np.int32)
        rows = codes[:len(codes) // (self.length + 1) * (self.length + 1)].reshape(-1, self.length + 1)
        rows = np.random.default_rng(0).permutation(rows)
        cut = self.tested // (self.length + 1)
        self.test, self.train = (rows[:cut, :-1], rows[:cut, 1:]), (rows[cut:, :-1], rows[cut:, 1:])

    def build(self, tf):
        from penstock._src.compat.contrib.rnn.block import LSTMBlockFusedCell
        x = tf.placeholder(tf.int32, [None, self.length])
        y = tf.placeholder(tf.int32, [None, self.length])
        table = tf.get_variable("table", [len(self.characters), 16])
        out, _ = LSTMBlockFusedCell(64)(tf.nn.embedding_lookup(table, tf.transpose(x)), dtype=tf.float32)
        logits, wanted = tf.layers.dense(out, len(self.characters)), tf.transpose(y)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=wanted, logits=logits))
        right = tf.equal(tf.argmax(logits, 2, output_type=tf.int32), wanted)
        return x, y, loss, tf.reduce_mean(tf.cast(right, tf.float32))

    def keras(self, tf):
        layers = tf.keras.layers
        return tf.keras.Sequential([layers.Embedding(len(self.characters), 16, input_length=self.length),
                                    layers.LSTM(64, return_sequences=True), layers.Dense(len(self.characters))])


TASKS = {"digits": Digits, "words": Words}


def with_servers(cluster: Cluster, task, codec, options: dict, seed: int) -> tuple[float, int, int, int]:
    """Accuracy on the test data; bytes counted by the optimizer, by the links, and of the gradients as they were."""
    import penstock.compat.v1 as tf
    from penstock._src.models.compression import compress
    name = f"{type(task).__name__} {codec} {options} {seed}"        # the worker keeps what codecs left out: each run its own
    with tf.Graph().as_default(), tf.container("".join(c if c.isalnum() else "_" for c in name)):
        tf.set_random_seed(seed)
        with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:0")):
            x, y, loss, accuracy = task.build(tf)
            own, rate = 0.0 if options.get("momentum") else 0.9, tf.placeholder_with_default(task.rate, [])
            inner = tf.train.MomentumOptimizer(rate, own) if own else tf.train.GradientDescentOptimizer(rate)
            opt = compress(inner, codec, **options)
            pairs = opt.compute_gradients(loss)
            clipped, _ = tf.clip_by_global_norm([g for g, _ in pairs], 5.0)
            step = opt.apply_gradients(list(zip(clipped, [v for _, v in pairs], strict=True)))
        with tf.Session(cluster.worker.target) as sess:
            sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            before, random = cluster.sent(), np.random.default_rng(seed)
            for epoch in range(task.epochs):
                order, now = random.permutation(len(task.train[0])), task.rate * (SLOWLY if epoch >= LATE * task.epochs else 1)
                for at in range(0, len(order) - task.batch + 1, task.batch):
                    some = order[at:at + task.batch]
                    sess.run(step, {x: task.train[0][some], y: task.train[1][some], rate: now})
            wire = cluster.sent() - before
            counted, dense = sess.run([opt.compressor.counter(w) for w in ("sent", "dense")])
            return float(sess.run(accuracy, {x: task.test[0], y: task.test[1]})), int(counted), wire, int(dense)


def worker(task_name: str, scheme: str, seeds: int) -> None:
    """One of two processes that train together; prints its line of numbers for each seed."""
    import penstock as tf
    from penstock._src.models.compression import compress
    task, (codec, options) = TASKS[task_name](), SCHEMES[scheme]
    strategy = tf.distribute.MultiWorkerMirroredStrategy(
        communication_options=tf.distribute.experimental.CommunicationOptions(implementation="RING"))
    steps = task.epochs * (len(task.train[0]) // task.batch)
    sent = lambda: sum(link.sent for link in strategy.extended._server._peers.links())
    for seed in range(seeds):
        tf.random.set_seed(seed)
        with strategy.scope():
            model = task.keras(tf)
            rate = tf.keras.optimizers.schedules.PiecewiseConstantDecay([int(LATE * steps)], [task.rate, SLOWLY * task.rate])
            opt = compress(tf.keras.optimizers.SGD(rate, 0.0 if options.get("momentum") else 0.9), codec, **options)

        @tf.function
        def step(x, y, model=model, opt=opt):
            def replica(x, y):
                with tf.GradientTape() as tape:
                    loss = tf.keras.losses.sparse_categorical_crossentropy(y, model(x), from_logits=True)
                    loss = tf.reduce_mean(loss) / strategy.num_replicas_in_sync
                grads, _ = tf.clip_by_global_norm(tape.gradient(loss, model.trainable_variables), 5.0)
                opt.apply_gradients(zip(grads, model.trainable_variables, strict=True))
            strategy.run(replica, args=(x, y))
        random, half, first = np.random.default_rng(seed), task.batch // 2, strategy.extended._place.rank
        before = None
        for _ in range(task.epochs):
            order = random.permutation(len(task.train[0]))
            for at in range(0, len(order) - task.batch + 1, task.batch):
                some = order[at:at + task.batch][first * half:][:half]
                step(tf.constant(task.train[0][some]), tf.constant(task.train[1][some]))
                before = sent() if before is None else before           # the first step makes variables, which are broadcast
        moved = sent() - before
        right = np.argmax(model(tf.constant(task.test[0])).numpy(), -1) == task.test[1]
        counted, dense = (int(strategy.experimental_local_results(opt.compressor.counter(w))[0].numpy())
                          for w in ("sent", "dense"))
        print(json.dumps([float(right.mean()), counted, moved * steps / (steps - 1), dense]), flush=True)
    if first:
        threading.Event().wait(600)      # until it is killed: if it left, the link of the first would be gone, and its count
    os._exit(0)


def all_reduced(task_name: str, scheme: str, seeds: int) -> np.ndarray:
    """The first of two workers' numbers, a row for each seed."""
    from penstock._src.cluster.launch import free_addresses
    spec = {"worker": free_addresses(2, "127.0.0.1")}
    made = []
    for i in range(2):
        env = {**os.environ, "OMP_NUM_THREADS": "1", "TF_CONFIG": json.dumps({"cluster": spec,
                                                                              "task": {"type": "worker", "index": i}})}
        made.append(subprocess.Popen([sys.executable, __file__, "--worker", json.dumps([task_name, scheme, seeds])], env=env,
                                     stdout=subprocess.PIPE, text=True))
    try:
        rows = [json.loads(line) for line in made[0].communicate(timeout=3000)[0].splitlines()]
        if len(rows) != seeds:
            raise RuntimeError(f"{task_name}, {scheme}: {len(rows)} of {seeds} seeds were trained to the end")
        return np.array(rows)
    finally:
        for p in made:
            p.kill()
            p.wait()


def caption(task: Digits | Words, seeds: int, accuracy: float) -> str:
    """The sentence above a table: its command, what was trained and tested, and how far chance goes."""
    tested = task.test[1].size
    error = 100 * (accuracy * (1 - accuracy) / tested) ** 0.5
    return (f"`{generated.command()}`: {task.epochs} epochs in batches of {task.batch}, rate {task.rate}, "
            + (f"means of {seeds} seeds, ± the standard error over seeds; " if seeds > 1 else "one seed; ")
            + f"{tested:,} predictions are tested, which leaves an accuracy a standard error of {error:.2f} points.")


def row(scheme: str, runs: np.ndarray, dense: np.ndarray) -> str:
    """A line of the table, of a row of numbers for each seed; seeds are compared with the same seed of the dense gradients."""
    accuracy, counted, wire, _ = runs.mean(0)
    points = 100 * (runs - dense)[:, 0]
    doubt = f" ± {points.std(ddof=1) / len(points) ** 0.5:.2f}" if len(points) > 1 and runs is not dense else ""
    return (f"| {scheme} | {accuracy:.4f} | {round(points.mean(), 2) + 0:+.2f}{doubt} | {counted / 1e6:.2f} | "
            f"{100 * counted / dense[:, 1].mean():.2f}% | {wire / 1e6:.2f} |")


def table(way: str, name: str, schemes: list[str], args: argparse.Namespace, cluster: Cluster | None) -> None:
    """Prints the rows of one task in one way, and writes those that are there into the page after each."""
    lines = [f"| {name}, {way} | accuracy | to dense, points | MB encoded | of dense | MB sent |", "|---|---|---|---|---|---|"]
    print("\n" + "\n".join(lines), flush=True)
    task, dense = TASKS[name](), None

    def run(scheme: str) -> np.ndarray:
        if cluster is None:
            return all_reduced(name, scheme, args.seeds)
        return np.array([with_servers(cluster, task, *SCHEMES[scheme], seed) for seed in range(args.seeds)])
    pool = ThreadPoolExecutor(1 if cluster else args.at_once)
    for scheme, runs in zip(schemes, pool.map(run, schemes), strict=True):
        dense = runs if dense is None else dense
        lines.append(row(scheme, runs, dense))
        print(lines[-1], flush=True)
        if args.table:
            generated.write(args.table, f"{name}, {way}", [caption(task, args.seeds, dense[:, 0].mean()), "", *lines])
    pool.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tasks", default="digits,words")
    parser.add_argument("--ways", default="servers,all_reduce")
    parser.add_argument("--schemes", default="; ".join(SCHEMES), help="separated by semicolons; the first is compared with")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--at-once", type=int, default=1, help="schemes that are all-reduced at the same time: what is counted "
                        "does not depend on how long it takes")
    parser.add_argument("--one-process", action="store_true", help="the parameter server is a thread: the same bytes, sooner")
    parser.add_argument("--table", type=pathlib.Path, help="a page of docs/ whose tables are replaced")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker(*json.loads(args.worker))
    for way in args.ways.split(","):
        with Cluster(args.one_process) if way == "servers" else contextlib.nullcontext() as cluster:
            for name in args.tasks.split(","):
                table(way.replace("_", "-"), name, args.schemes.split("; "), args, cluster)


if __name__ == "__main__":
    main()
