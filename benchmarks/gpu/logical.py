"""Two towers of small matrix products on one physical GPU: both on one logical GPU, and each on its own logical GPU.

    PYTHONPATH=src python benchmarks/gpu/logical.py --json logical.json

A product of small matrices leaves most of a GPU idle. Two logical GPUs have a stream each, so that the towers run at the same
time: as branches of one CUDA graph ("replayed"), or with every kernel launched by the host ("launched"). The towers meet in
the end, and their results are compared between the two ways.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

import penstock.compat.v1 as tf
from benchmarks.gpu import measuring


def step(devices: list[str], width: int, layers: int) -> tf.Tensor:
    """A sum over two towers."""
    draw = np.random.RandomState(0)
    ends = []
    for device in devices:
        with tf.device(device):
            w = tf.Variable((draw.randn(width, width) / width ** 0.5).astype(np.float32))
            h = tf.Variable(draw.randn(width, width).astype(np.float32)) * 1.0
            for _ in range(layers):
                h = tf.tanh(tf.matmul(h, w))
            ends.append(tf.reduce_mean(tf.square(h)))
    with tf.device(devices[0]):
        return tf.add_n(ends)


def step_time(devices: list[str], width: int, layers: int, steps: int) -> tuple[float, float]:
    """(milliseconds a step, at best of five rounds; the sum)"""
    config = tf.ConfigProto()
    config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[4096, 4096])
    with tf.Graph().as_default():
        total = step(devices, width, layers)
        with tf.Session(config=config) as sess:
            sess.run(tf.global_variables_initializer())
            run = sess.make_callable(total.op)
            times = measuring.rounds_of(run, torch.cuda.synchronize, rounds=5, steps=steps, warm=5)
            return min(times), float(sess.run(total))


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--widths", default="256,512,1024,2048,4096", help="of the matrices (default: %(default)s)")
    parser.add_argument("--layers", type=int, default=30, help="products of a tower (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=50, help="steps of a round (default: %(default)s)")
    parser.add_argument("--json", help="write the times there too")
    args = parser.parse_args()
    rows: dict = {}
    print(f"{'':>18}  one logical GPU  two logical GPUs   ratio    (milliseconds a step, {torch.cuda.get_device_name()})")
    for way, tier in (("replayed", "2"), ("launched", "1")):
        os.environ["PENSTOCK_TIER"] = tier
        for width in map(int, args.widths.split(",")):
            one, a = step_time(["/gpu:0", "/gpu:0"], width, args.layers, args.steps)
            two, b = step_time(["/gpu:0", "/gpu:1"], width, args.layers, args.steps)
            np.testing.assert_allclose(a, b, rtol=1e-3)
            rows[f"{way} {width}"] = {"one": one, "two": two}
            print(f"{way:>10} {width:>7}  {one:15.3f}  {two:16.3f}  {one / two:6.2f}", flush=True)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
