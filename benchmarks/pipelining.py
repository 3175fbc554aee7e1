"""The bubble of a pipeline, measured and as computed: (p - 1) / (m + p - 1).

    .venv/bin/python benchmarks/pipelining.py [--stages 4] [--micro-batches 2,4,8,16] [--nap 0.4] [--trace DIRECTORY]

A stage's work is a kernel that sleeps (and so holds neither a core nor Python's lock), in forward and backward passes alike:
what is measured is the schedule and not the number of cores. Stages are on logical CPUs, each with its own thread. Twice:
in a graph (`pipelined_gradients`, one session step) and in Keras (`PipelineModel`). The bubble is the part of the time for
which stages did not work: 1 - work / (stages x time). `--trace` writes Chrome traces.

What a stage passes on wakes the thread of the next one. On a machine that does other things this takes some milliseconds, for
each of the m + p - 1 tasks in a row: a part e of a nap adds about e to the bubble. With many micro-batches the bubble is small,
so naps must be long against that.
"""
from __future__ import annotations

import argparse
import pathlib
import sys
import time

import numpy as np

sys.path[:0] = [str(pathlib.Path(__file__).parents[1] / "src"), str(pathlib.Path(__file__).parent)]

import generated  # noqa: E402

import penstock as tf  # noqa: E402
import penstock.compat.v1 as tf1  # noqa: E402
from penstock._src.models.pipelining import schedule as schedules  # noqa: E402

NAPS = []               # how long each took, really


def napping(x, seconds):
    """x, after a while; so is its gradient."""
    def nap(value):
        start = time.perf_counter()
        time.sleep(seconds)
        NAPS.append(time.perf_counter() - start)
        return value

    @tf.custom_gradient
    def work(x):
        y = tf.numpy_function(nap, [x], tf.float32)

        def gradient(dy):
            back = tf.numpy_function(nap, [dy], tf.float32)
            back.set_shape(x.shape)
            return back
        y.set_shape(x.shape)
        return y, gradient
    return work(x)


def in_a_graph(stages, micro, name, nap, rounds, trace):
    """The bubble of a session step."""
    with tf1.Graph().as_default():
        def stage(number):
            def run(h):
                with tf1.variable_scope(f"stage{number}", reuse=tf1.AUTO_REUSE):
                    return napping(tf1.matmul(h, tf1.get_variable("w", [8, 8])), nap)
            return run
        x = tf1.ones([micro, 8])
        pairs, loss = tf1.distribute.experimental.pipelined_gradients(
            [stage(i) for i in range(stages)], lambda y, t: tf1.reduce_mean((y - t) ** 2), x, x, micro,
            [f"/cpu:{i}" for i in range(stages)], name)
        step = tf1.group(loss, *(g for g, _ in pairs))
        with tf1.Session(config=tf1.ConfigProto(device_count={"CPU": stages})) as sess:
            sess.run(tf1.global_variables_initializer())
            sess.run(step)
            found = []
            for _ in range(rounds):
                NAPS.clear()
                start = time.perf_counter()
                sess.run(step)
                found.append(1 - sum(NAPS) / (stages * (time.perf_counter() - start)))
            if trace:
                data = tf1.RunMetadata()
                sess.run(step, options=tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE), run_metadata=data)
                from penstock._src.execute.timeline import Timeline
                (trace / f"graph_{name}_{stages}_{micro}.json").write_text(
                    Timeline(data.step_stats).generate_chrome_trace_format())
    return min(found)


class Nap(tf.keras.layers.Layer):
    """A layer that takes a while."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds

    def build(self, shape):
        self.w = self.add_weight(name="w", shape=(8, 8))

    def call(self, x):
        return napping(tf.matmul(x, self.w), self.seconds)


def in_keras(stages, micro, name, nap, rounds, trace):
    """The bubble of a training step."""
    model = tf.distribute.experimental.PipelineModel(tf.keras.Sequential([Nap(nap) for _ in range(stages)]),
                                                     [f"/cpu:{i}" for i in range(stages)], micro, name)
    model.compile("sgd", "mse")
    x = np.ones([micro, 8], np.float32)
    found = []
    for _ in range(rounds + 1):
        model.train_on_batch(x, x)
        found.append(model.last_step)
    best = min(found[1:], key=lambda step: step.bubble())
    if trace:
        (trace / f"keras_{name}_{stages}_{micro}.json").write_text(best.timeline())
    return best.bubble()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--micro-batches", default="2,4,8,16")
    parser.add_argument("--nap", type=float, default=0.4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--trace", type=pathlib.Path)
    parser.add_argument("--table", type=pathlib.Path)
    args = parser.parse_args()
    if args.trace:
        args.trace.mkdir(parents=True, exist_ok=True)
    one = tf.config.LogicalDeviceConfiguration()
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], [one] * args.stages)
    lines = ["| schedule | stages | micro-batches | computed | graph | Keras | held by each stage |", "|---" * 7 + "|"]
    print("\n".join(lines))
    worst = 0.0
    for name in schedules.SCHEDULES:
        for micro in map(int, args.micro_batches.split(",")):
            computed = schedules.bubble(args.stages, micro)
            found = [f(args.stages, micro, name, args.nap, args.rounds, args.trace) for f in (in_a_graph, in_keras)]
            worst = max(worst, *(abs(b / computed - 1) for b in found))
            held = schedules.most_held(schedules.schedule(name, args.stages, micro))
            lines.append(f"| {name} | {args.stages} | {micro} | {computed:.3f} | {found[0]:.3f} | {found[1]:.3f} | "
                         f"{', '.join(map(str, held))} |")
            print(lines[-1], flush=True)
    lines.append(f"\nFarthest from the computed bubble: {100 * worst:.1f}%.")
    print(lines[-1])
    if args.table:
        generated.write(args.table, "pipelining", lines)


if __name__ == "__main__":
    main()
