"""What sending gradients during the backward pass saves: a Keras network on two workers, in turns with and without overlap.

    python benchmarks/overlap.py --megabytes-per-second 50 --trace timeline.json [--table PAGE.md]

Two processes of this machine represent two machines: what one sends to the other takes the time that a network of the given
speed would take. Prints for each choice the time of a step and what is saved, how long the reductions of a step took that have
their own thread, and for how much of it the step did not wait for them: medians over the rounds. `--trace` writes one
step of each as a Chrome trace (chrome://tracing, Perfetto): a row for the step, one for its waits, one for the reductions.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import generated
from allreduce import SOURCE, free_addresses

WAYS = {"afterwards": {}, "overlap": {"overlap": True}, "overlap, first layers first": {"prioritize": True}}


def slow_network(megabytes_per_second: float) -> None:
    """Makes what a hub sends to other tasks take its time."""
    from penstock._src.collective.hub import Hub
    put = Hub.put

    def slowly(self, group, key, said, data):
        if data is not None and group.task_of[key[4]] != self.task:
            time.sleep(data.nbytes / megabytes_per_second / 1e6)
        put(self, group, key, said, data)
    Hub.put = slowly


def worker(rank: int, spec: dict, rounds: int, speed: float, trace: str) -> None:
    """One process: trains the network in each way, in turns; the first one prints the times."""
    sys.path.insert(0, SOURCE)
    os.environ["TF_CONFIG"] = json.dumps({"cluster": spec, "task": {"type": "worker", "index": rank}})
    import numpy as np

    import penstock as tf
    from penstock._src.collective.mover import Bucket
    slow_network(speed)
    waits: list[tuple[float, float]] = []
    wait = Bucket.wait

    def timed(self, limit):
        began = time.monotonic()
        try:
            return wait(self, limit)
        finally:
            waits.append((began, time.monotonic()))
    Bucket.wait = timed
    models = {}
    for name, options in WAYS.items():
        chosen = tf.distribute.experimental.CommunicationOptions(bytes_per_pack=1 << 20, implementation="RING", **options)
        strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=chosen)
        with strategy.scope():
            model = tf.keras.Sequential([tf.keras.layers.Dense(512, activation="relu", input_shape=(512,)),
                                         *(tf.keras.layers.Dense(512, activation="relu") for _ in range(5)),
                                         tf.keras.layers.Dense(10)])
            model.compile(tf.keras.optimizers.SGD(0.001), "mse")
        models[name] = strategy, model
    x = np.random.default_rng(0).standard_normal((2048, 512)).astype("float32")
    y = np.zeros((2048, 10), "float32")
    times: dict[str, list[tuple[float, float, float]]] = {name: [] for name in WAYS}         # of steps, reductions, waits
    events = []
    for i in range(rounds + 1):
        for number, (name, (strategy, model)) in enumerate(models.items()):
            waits.clear()
            began = time.monotonic()
            model.train_on_batch(x, y)
            ended = time.monotonic()
            hub = strategy.extended._server._resources.hub
            movers = hub._groups[strategy.extended._workers.key]._movers
            spans = [s for m in movers.values() for s in m.spans if s[1] >= began]
            if i:
                times[name].append((ended - began, sum(b - a for _, a, b in spans), sum(b - a for a, b in waits)))
            if i == rounds:
                rows = [("step", [(name, began, ended)]), ("waits", [("wait", *w) for w in waits]), ("reductions", spans)]
                events += [{"name": label, "ph": "X", "pid": number, "tid": row, "ts": (a - began) * 1e6, "dur": (b - a) * 1e6}
                           for row, found in rows for label, a, b in found]
                events.append({"name": "process_name", "ph": "M", "pid": number, "args": {"name": name}})
    if rank == 0:
        if trace:
            pathlib.Path(trace).write_text(json.dumps({"traceEvents": events}))
        print(json.dumps({name: [statistics.median(column) * 1e3 for column in zip(*found, strict=True)]
                          for name, found in times.items()}), flush=True)
    os._exit(0)


def main() -> None:
    """Reads the arguments, runs two workers, and prints what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--megabytes-per-second", type=float, default=100.0)
    parser.add_argument("--trace", default="")
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker(*json.loads(args.worker), args.rounds, args.megabytes_per_second, args.trace)
    spec = {"worker": free_addresses(2, "127.0.0.1")}
    command = [sys.executable, __file__, "--rounds", str(args.rounds), "--megabytes-per-second", str(args.megabytes_per_second),
               "--trace", args.trace, "--worker"]
    env = {"PENSTOCK_HEARTBEAT_SECONDS": "15", **os.environ, "OMP_NUM_THREADS": "1"}
    made = [subprocess.Popen([*command, json.dumps([r, spec])], env=env, stdout=subprocess.PIPE, text=True) for r in range(2)]
    try:
        out = made[0].communicate(timeout=600)[0]
    finally:
        for p in made:
            p.kill()
            p.wait()
    times = json.loads(out.splitlines()[-1])
    lines = ["| gradients are sent | ms a step | saved | reductions beside the step, ms | of these not waited for |",
             "|---|---|---|---|---|"]
    for name, (ms, reduced, waited) in times.items():
        beside = f"{reduced:.0f} | {reduced - waited:.0f}" if reduced else "– | –"
        lines.append(f"| {name} | {ms:.0f} | {times['afterwards'][0] - ms:.0f} | {beside} |")
    print("\n".join(lines))
    if args.table:
        generated.write(args.table, "overlap", lines)


if __name__ == "__main__":
    main()
