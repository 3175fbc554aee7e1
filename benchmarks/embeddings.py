"""Embeddings by key: lookups and updates per second, beside a dense variable and beside a dictionary with torch.

    python benchmarks/embeddings.py                       # the comparison
    python benchmarks/embeddings.py --bounded 1e9         # that many lookups and updates, with memory bounded by the capacity
    python benchmarks/embeddings.py --gpu                 # milliseconds of a step with rows on the host and on a GPU, --limit s
    python benchmarks/embeddings.py --bounded 1e9 --state run.npz --minutes 4       # four minutes of it; again to continue

All of them train the same model on the same keys: rows of a batch are looked up, and updated by Adagrad or gradient descent.
Times are CPU times of one thread, and the parts run in turns, so that other programs on the machine do not count. A lookup
and an update of one key count as one.
"""
from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

import penstock.compat.v1 as tf
from penstock._src.base import dtypes
from penstock._src.kernels.host_threads import compiled
from penstock._src.kernels.keyed import KeyedConfig, KeyedTable

_BEGAN = time.perf_counter()
_PLAIN_ROWS = 20_000                      # of --gpu without compiled kernels: making them takes 0.3 ms each


def _skewed(rng: np.random.Generator, size: int, keys: int) -> np.ndarray:
    """Keys as recommenders see them: a few are frequent, most are rare."""
    return (rng.random(size) ** 3 * keys).astype(np.int64)


class Session:
    """A training step of a session, on an embedding variable or on a dense one."""

    def __init__(self, keyed: bool, rows: int, dim: int, optimizer: str, storage: tf.StorageOption | None = None):
        with tf.Graph().as_default() as graph:
            if keyed:
                table = tf.get_embedding_variable("table", dim, initializer=tf.random_normal_initializer(0.0, 0.1),
                                                  ev_option=tf.EmbeddingVariableOption(storage_option=storage))
            else:
                table = tf.get_variable("table", [rows, dim], initializer=tf.random_normal_initializer(0.0, 0.1),
                                        use_resource=True)
            keys = tf.placeholder(tf.int64, [None])
            loss = tf.nn.l2_loss(tf.nn.embedding_lookup(table, keys))      # its gradient needs the rows
            made = tf.train.GradientDescentOptimizer(0.1) if optimizer == "sgd" else tf.train.AdagradOptimizer(0.1)
            train = made.minimize(loss)
            self._session = tf.Session(graph=graph)
            self._session.run(tf.global_variables_initializer())
            self._step = self._session.make_callable(train, [keys])
            if keyed:
                fill = tf.nn.embedding_lookup(table, keys)
                for at in range(0, rows, 1 << 16):
                    self._session.run(fill, {keys: np.arange(at, min(rows, at + (1 << 16)))})

    def step(self, keys: np.ndarray) -> None:
        """One training step."""
        self._step(keys)

    def close(self) -> None:
        """Frees the rows."""
        self._session.close()


class Dictionary:
    """The same with a Python dictionary of torch tensors: a row per key, and its optimizer state."""

    def __init__(self, dim: int, optimizer: str):
        self._rows: dict[int, torch.Tensor] = {}
        self._sums: dict[int, torch.Tensor] = {}
        self._dim, self._optimizer = dim, optimizer

    def step(self, keys: np.ndarray) -> None:
        """Looks rows up, and updates them by the sum of their gradients."""
        listed = keys.tolist()
        for key in listed:
            if key not in self._rows:
                self._rows[key], self._sums[key] = torch.randn(self._dim) * 0.1, torch.full((self._dim,), 0.1)
        rows = torch.stack([self._rows[k] for k in listed])
        grads: dict[int, torch.Tensor] = {}
        for key, grad in zip(listed, rows, strict=True):
            grads[key] = grads[key] + grad if key in grads else grad
        for key, grad in grads.items():
            if self._optimizer == "sgd":
                self._rows[key] -= 0.1 * grad
            else:
                self._sums[key] += grad * grad
                self._rows[key] -= 0.1 * grad / self._sums[key].sqrt()


def compare(rows: int, dim: int, batch: int, optimizer: str, rounds: int) -> dict[str, float]:
    """Lookups and updates per second of CPU time, by name."""
    rng = np.random.default_rng(0)
    parts = {"embedding variable": Session(True, rows, dim, optimizer), "dense variable": Session(False, rows, dim, optimizer),
             "dictionary and torch": Dictionary(dim, optimizer)}
    spent = dict.fromkeys(parts, 0.0)
    done = dict.fromkeys(parts, 0)
    for number in range(rounds + 3):
        keys = _skewed(rng, batch, rows)
        for name, part in parts.items():
            some = keys[:max(64, batch // 16)] if name.startswith("dictionary") else keys
            before = time.thread_time()
            part.step(some)
            if number >= 3:                   # the first steps are compiled
                spent[name] += time.thread_time() - before
                done[name] += len(some)
    return {name: done[name] / spent[name] for name in parts}


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _timed(part: Session, rows: int, batch: int, rounds: int, until: float) -> list[float]:
    """The seconds of steps: at least two, and none begins after a time."""
    rng, spent = np.random.default_rng(0), []
    while len(spent) < rounds and (len(spent) < 2 or time.perf_counter() < until):
        keys = _skewed(rng, batch, rows)
        before = time.perf_counter()
        part.step(keys)
        _synchronize()
        spent.append(time.perf_counter() - before)
    return spent


def on_gpu(rows: int, dim: int, batch: int, rounds: int, seconds: float, limit: float) -> Iterator[str]:
    """A line for each part: the seconds until its rows were there, and the milliseconds of a step. Rows are on the host, half
    or all of them on a GPU, or those of a dense variable there. A part makes no more steps after some seconds, and none begins
    that may end after the limit (seconds since the start of the program)."""
    tiers = {"on the host": None, "on the GPU": tf.StorageOption("HBM_DRAM", device_capacity=rows), "dense variable": None,
             "half on the GPU": tf.StorageOption("HBM_DRAM", device_capacity=rows // 2)}
    longest = 0.0
    for optimizer in ("sgd", "adagrad"):
        for name, storage in tiers.items():
            began = time.perf_counter()
            if began - _BEGAN + longest > limit:
                yield f"{optimizer:8} {name:18} not run: {began - _BEGAN:.0f} of {limit:.0f} s are over"
                continue
            part = Session(name != "dense variable", rows, dim, optimizer, storage)
            _synchronize()
            ready = time.perf_counter()
            spent = _timed(part, rows, batch, rounds, min(ready + seconds, _BEGAN + limit))
            part.close()
            took = 1e3 * float(np.median(spent[len(spent) // 2:]))
            yield f"{optimizer:8} {name:18} {took:8.3f} ms a step ({len(spent)} steps), ready after {ready - began:5.1f} s"
            longest = max(longest, time.perf_counter() - began)


def bounded(total: float, capacity: int, dim: int, batch: int, state: str, minutes: float) -> None:
    """Looks up and updates keys of an unbounded stream; prints the memory of the process as it goes. After some minutes it
    writes the rows and its counts to a file, and the next call continues."""
    table = KeyedTable("bounded", KeyedConfig(dim=dim, capacity=capacity), False, dtypes.float32)
    table.initialize(None)
    slot = table.add_slot("sums", 0.1)
    kept = _resume(table, state) if state and os.path.exists(state) else {"done": 0, "seconds": 0.0, "memory": 0.0}
    done, before, most = int(kept["done"]), float(kept["seconds"]), float(kept["memory"])
    rng = np.random.default_rng(done)
    grad, began, next_report = torch.full((batch, dim), 0.01), time.thread_time(), float(done)
    while done < total and time.thread_time() - began < 60 * minutes:
        keys = torch.from_numpy(_skewed(rng, batch, 50 * capacity) + done // (20 * capacity) * capacity)     # the keys move on
        table.lookup(keys)
        table.apply(("ADAGRAD", (0.1,)), keys, grad, [slot])
        done += batch
        if done >= next_report:
            most = max(most, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
            seconds = before + time.thread_time() - began
            print(f"{done:>13,} lookups and updates, {table.size():>9,} rows, {most:7.0f} MB, "
                  f"{done / seconds / 1e6:5.2f} M/s", flush=True)
            next_report += total / 20
    if state:
        rows = table.export()
        np.savez(state, done=done, seconds=before + time.thread_time() - began, memory=most, keys=rows.keys.numpy(),
                 values=rows.columns[""].numpy(), sums=rows.columns["sums"].numpy(), versions=rows.versions.numpy(),
                 frequencies=rows.frequencies.numpy())


def _resume(table: KeyedTable, state: str) -> dict[str, float]:
    """The rows and counts of an earlier call. Which rows were used last is not kept: eviction continues by the new order."""
    with np.load(state) as kept:
        keys = torch.from_numpy(kept["keys"])
        table.write(keys, torch.from_numpy(kept["values"]), None, True, torch.from_numpy(kept["versions"]),
                    torch.from_numpy(kept["frequencies"]))
        table.write(keys, torch.from_numpy(kept["sums"]), "sums", creates=False)
        return {name: float(kept[name]) for name in ("done", "seconds", "memory")}


def main() -> None:
    """Prints what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--gpu", action="store_true", help="milliseconds of a step with rows on a GPU, in place of the rest")
    parser.add_argument("--seconds", type=float, default=4.0, help="after which a part of --gpu makes no more steps")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds after which --gpu begins no other part")
    parser.add_argument("--bounded", type=float, default=0, help="lookups and updates of the bounded run, in place of the rest")
    parser.add_argument("--capacity", type=int, default=1_000_000)
    parser.add_argument("--state", default="", help="a file (.npz) that the bounded run continues from and writes")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="of processor time, after which it stops")
    given = parser.parse_args()
    if given.bounded:
        bounded(given.bounded, given.capacity, given.dim, given.batch, given.state, given.minutes)
        return
    if given.gpu:
        rows, core = given.rows, "C"
        if compiled("_keyed") is None:
            rows, core = min(rows, _PLAIN_ROWS), "Python (python setup.py build_ext --inplace compiles it)"
        device = torch.cuda.get_device_name() if torch.cuda.is_available() else "a machine without a GPU"
        print(f"{rows:,} rows of {given.dim}, batches of {given.batch}, on {device}, torch {torch.__version__}, "
              f"the table of keys in {core}", flush=True)
        for line in on_gpu(rows, given.dim, given.batch, given.rounds, given.seconds, given.limit):
            print(line, flush=True)
        return
    print(f"{given.rows:,} rows of {given.dim}, batches of {given.batch}: "
          "millions of lookups and updates per second of CPU time")
    for optimizer in ("sgd", "adagrad"):
        found = compare(given.rows, given.dim, given.batch, optimizer, given.rounds)
        ours = found["embedding variable"]
        for name, rate in found.items():
            print(f"{optimizer:8} {name:22} {rate / 1e6:8.3f}   embedding variable: {ours / rate:6.2f} times")


if __name__ == "__main__":
    main()
