"""Checkpoints and records, here and in real TensorFlow: MB/s of save, restore, record writing and reading.

    python benchmarks/files.py --tf .oracle/bin/python [--mb 200] [--repeat 3]

The same program runs in both systems, turn by turn, on the same disk; the best of the rounds counts.
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


def work(system: str, mb: int) -> dict[str, float]:
    """Seconds per MB of each task, in the system that this process has."""
    import numpy as np
    if system == "penstock":
        import penstock as tf
    else:
        import tensorflow as tf
    v1 = tf.compat.v1
    folder, out = tempfile.mkdtemp(), {}
    try:
        rng = np.random.RandomState(0)
        with tf.Graph().as_default(), v1.Session() as sess:
            variables = [v1.get_variable(f"v{i}", initializer=rng.rand(mb // 8, 1 << 18).astype(np.float32)) for i in range(8)]
            sess.run(v1.global_variables_initializer())
            saver = v1.train.Saver(variables)
            saver.save(sess, f"{folder}/warm", write_meta_graph=False)
            start = time.perf_counter()
            path = saver.save(sess, f"{folder}/model", write_meta_graph=False)
            out["save"] = time.perf_counter() - start
            saver.restore(sess, path)
            start = time.perf_counter()
            saver.restore(sess, path)
            out["restore"] = time.perf_counter() - start
        for name, size in (("records of 1 KB", 1000), ("records of 100 KB", 100_000)):
            record, count = rng.bytes(size), mb * 1_000_000 // size // 4
            start = time.perf_counter()
            with tf.io.TFRecordWriter(f"{folder}/r") as w:
                for _ in range(count):
                    w.write(record)
            out[f"write {name}"] = 4 * (time.perf_counter() - start)
            start = time.perf_counter()
            got = sum(len(r) for r in v1.io.tf_record_iterator(f"{folder}/r"))
            out[f"read {name}"] = 4 * (time.perf_counter() - start)
            if got != size * count:
                raise AssertionError("records were lost")
    finally:
        shutil.rmtree(folder)
    return {k: v / mb for k, v in out.items()}


def main() -> int:
    """Runs both systems turn by turn; exit code 1 if one of the tasks is more than a quarter slower here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tf", help="python of an environment with tensorflow")
    parser.add_argument("--mb", type=int, default=200)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        print(json.dumps(work(args.work, args.mb)))
        return 0
    best: dict[str, dict[str, float]] = {}
    for _ in range(args.repeat):
        for system, python in (("penstock", sys.executable), ("tensorflow", args.tf)):
            if python is None:
                continue
            done = subprocess.run([python, os.path.abspath(__file__), "--work", system, "--mb", str(args.mb)], check=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            for task, seconds in json.loads(done.stdout.splitlines()[-1]).items():
                known = best.setdefault(task, {})
                known[system] = min(seconds, known.get(system, seconds))
    slow = 0
    for task, found in best.items():
        ratio = found["tensorflow"] / found["penstock"] if "tensorflow" in found else float("nan")
        speeds = "  ".join(f"{s} {1 / t:7.0f} MB/s" for s, t in found.items())
        print(f"{task:26} {speeds}  {ratio:.2f} times TensorFlow's speed")
        slow += ratio < 0.8
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
