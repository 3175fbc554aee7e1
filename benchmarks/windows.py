"""Convolutions and poolings with their gradients, beside TensorFlow on the CPU: a grid of shapes of each family.

    python benchmarks/windows.py --tf PYTHON_OF_AN_ENVIRONMENT_WITH_TENSORFLOW [--only conv1d] [--above 1.1]

A cell is a `tf.function` of one layer: its result ("forward"), or the gradients for its input ("input") or filter ("filter").
Both frameworks have one process each, with one thread; rounds take turns, and a figure is the median ratio of processor times.
`--above` prints only the cells with a larger ratio.
"""
from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

MODULES = {"tensorflow": "tensorflow", "penstock": "penstock"}
WARM_UP, ROUND = 0.15, 0.04          # seconds of processor time
PARTS = ("forward", "input", "filter")
Cell = tuple[str, tuple, tuple | None, dict]


def _convolutions() -> dict[str, Cell]:
    """Families of convolutions by name: the op, the shapes of the input and of the filter, the arguments."""
    cells: dict[str, Cell] = {}

    def add(family: str, op: str, x: tuple, w: tuple, strides: Any = 1, padding: str = "SAME", dilations: Any = None) -> None:
        name = f"{family} {'x'.join(map(str, x))} * {'x'.join(map(str, w))} /{strides} {padding}" + \
            (f" dilated {dilations}" if dilations else "")
        cells[name] = op, x, w, {"strides": strides, "padding": padding, "dilations": dilations}
    for size, near, far in ((28, 1, 32), (32, 3, 32), (13, 32, 64), (32, 16, 16), (8, 64, 64), (56, 64, 64), (7, 256, 256)):
        batch = 4 if size == 56 else 32
        add("conv2d", "conv2d", (batch, size, size, near), (3, 3, near, far))
        add("conv2d", "conv2d", (batch, size, size, near), (3, 3, near, far), padding="VALID")
        add("conv2d", "conv2d", (batch, size, size, near), (3, 3, near, far), 2)
    add("conv2d", "conv2d", (16, 28, 28, 32), (5, 5, 32, 64))
    add("conv2d", "conv2d", (4, 112, 112, 3), (7, 7, 3, 32), 2)
    add("conv2d", "conv2d", (8, 28, 28, 64), (1, 1, 64, 128))
    add("conv2d", "conv2d", (8, 28, 28, 64), (1, 1, 64, 128), 2)
    add("conv2d", "conv2d", (8, 28, 28, 32), (3, 3, 32, 32), dilations=2)
    add("conv2d", "conv2d", (1, 28, 28, 32), (3, 3, 32, 32))
    add("conv2d", "conv2d", (8, 28, 28, 32), (2, 2, 32, 32), 2, "VALID")
    for length, near, far, width in ((512, 1, 16, 9), (256, 16, 32, 9), (128, 32, 32, 3), (64, 128, 128, 5), (1000, 8, 8, 3)):
        for stride in (1, 2):
            add("conv1d", "conv1d", (16, length, near), (width, near, far), stride)
    for rate in (2, 4):
        add("conv1d", "conv1d", (16, 128, 32), (3, 32, 32), 1, dilations=rate)
    add("conv1d", "conv1d", (16, 128, 32), (3, 32, 32), padding="VALID")
    for size, near, far in ((16, 1, 8), (16, 8, 16), (8, 32, 32), (8, 16, 32)):
        for stride in (1, 2):
            add("conv3d", "conv3d", (4, size, size, size, near), (3, 3, 3, near, far), (1, stride, stride, stride, 1))
    for size, channels, window in ((32, 16, 3), (56, 32, 3), (14, 192, 3), (28, 64, 5), (7, 384, 3)):
        for stride in (1, 2):
            add("depthwise", "depthwise_conv2d", (8, size, size, channels), (window, window, channels, 1),
                (1, stride, stride, 1))
    add("depthwise", "depthwise_conv2d", (8, 28, 28, 16), (3, 3, 16, 2), (1, 1, 1, 1))
    add("depthwise", "depthwise_conv2d", (8, 28, 28, 32), (3, 3, 32, 1), (1, 1, 1, 1), dilations=(2, 2))
    for size, channels, groups in ((28, 32, 4), (14, 64, 8), (14, 128, 32)):
        for stride in (1, 2):
            add("grouped", "conv2d", (8, size, size, channels), (3, 3, channels // groups, channels), stride)
    for size, near, far, width in ((7, 64, 32, 4), (12, 48, 24, 4), (14, 32, 16, 3), (28, 16, 1, 5), (24, 24, 16, 4)):
        add("transposed", "conv2d_transpose", (16, size, size, near), (width, width, far, near), 2)
    for length, near, far in ((128, 32, 16), (256, 16, 1)):
        add("transposed 1d", "conv1d_transpose", (16, length, near), (9, far, near), 2)
    return cells


def _pools() -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    for op in ("max_pool2d", "avg_pool2d"):
        for x in ((32, 26, 26, 32), (32, 11, 11, 64), (8, 56, 56, 64), (4, 112, 112, 16), (32, 8, 8, 128), (16, 32, 32, 3)):
            for window, stride, padding in ((2, 2, "VALID"), (3, 2, "SAME"), (3, 1, "SAME"), (2, 2, "SAME")):
                cells[f"{op} {'x'.join(map(str, x))} {window}/{stride} {padding}"] = \
                    op, x, None, {"ksize": window, "strides": stride, "padding": padding}
    for op in ("max_pool3d", "avg_pool3d"):
        for x in ((4, 16, 16, 16, 8), (4, 8, 8, 8, 32)):
            for window, stride, padding in ((2, 2, "VALID"), (3, 2, "SAME")):
                cells[f"{op} {'x'.join(map(str, x))} {window}/{stride} {padding}"] = \
                    op, x, None, {"ksize": window, "strides": stride, "padding": padding}
    for op in ("max_pool1d", "avg_pool1d"):
        for x in ((32, 128, 16), (16, 500, 32)):
            for window, stride, padding in ((2, 2, "VALID"), (3, 2, "SAME")):
                cells[f"{op} {'x'.join(map(str, x))} {window}/{stride} {padding}"] = \
                    op, x, None, {"ksize": window, "strides": stride, "padding": padding}
    return cells


CELLS = _convolutions() | _pools()


def _layer(tf: Any, cell: Cell) -> Callable:
    op, x, w, given = cell
    given = {name: value for name, value in given.items() if value is not None}
    call = getattr(tf.nn, op)
    if op == "conv1d":
        given["stride"] = given.pop("strides")
    if not op.endswith("transpose"):
        return lambda *args: call(*args, **given)
    stride, spatial = given["strides"], x[1:-1]
    assert w is not None
    return lambda a, b: call(a, b, (x[0], *(n * stride for n in spatial), w[-2]), stride, given["padding"])


def build(tf: Any, cell: Cell, part: str) -> Callable:
    """One call of a part of a cell."""
    rng = np.random.RandomState(0)
    inputs = [tf.constant(rng.standard_normal(shape).astype("f")) for shape in cell[1:3] if shape is not None]
    layer = _layer(tf, cell)
    if part == "forward":
        step = tf.function(layer)
        return lambda: step(*inputs)
    like = layer(*inputs)
    grad = tf.constant(rng.standard_normal(like.shape).astype("f"))
    at = PARTS.index(part) - 1

    @tf.function
    def gradient(grad, *inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs[at])
            out = layer(*inputs)
        return tape.gradient(out, inputs[at], grad)
    return lambda: gradient(grad, *inputs)


def serve(module: str) -> None:
    """A worker: each line is a cell and a part; it answers with the processor seconds of a call."""
    warnings.simplefilter("ignore")
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    framework = importlib.import_module(module)
    current: Any = None
    for line in sys.stdin:
        key = json.loads(line)
        if key != current:
            current, call = key, None
            with contextlib.suppress(Exception):         # TensorFlow has no kernel for some
                call = build(framework, CELLS[key[0]], key[1])
                _seconds(call, WARM_UP)
        out.write(json.dumps(call and _seconds(call, ROUND)) + "\n")


def _seconds(call: Callable, least: float) -> float:
    """Processor seconds of a call, from as many as take the least time together."""
    calls, start = 0, time.process_time()
    while calls < 3 or time.process_time() - start < least:
        call()
        calls += 1
    return (time.process_time() - start) / calls


def measure(workers: dict[str, subprocess.Popen], key: tuple[str, str], rounds: int) -> tuple[float, float, float] | None:
    """Milliseconds of a call in each framework, and the ratio; None where one has no kernel."""
    seen: dict[str, list[float]] = {side: [] for side in workers}
    for _ in range(rounds):
        for side, process in workers.items():
            process.stdin.write(json.dumps(key) + "\n")                                  # type: ignore[union-attr]
            seen[side].append(json.loads(process.stdout.readline()))                     # type: ignore[union-attr]
    ours, theirs = seen["penstock"], seen["tensorflow"]
    if None in ours + theirs:
        return None
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    return 1e3 * statistics.median(theirs), 1e3 * statistics.median(ours), ratio


def main() -> None:
    """Prints a row per cell and part, then the geometric mean of each family."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tf", help="python of an environment with tensorflow")
    parser.add_argument("--only", default="", help="what the names of cells contain")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--above", type=float, default=0.0)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return serve(args.worker)
    if not args.tf:
        parser.error("--tf is missing: the python of an environment with tensorflow")
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1",
           "TF_CPP_MIN_LOG_LEVEL": "3"}
    pythons = {"tensorflow": args.tf, "penstock": sys.executable}
    workers = {side: subprocess.Popen([pythons[side], sys.argv[0], "--worker", module], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1, env=env)
               for side, module in MODULES.items()}
    print("| cell | part | TensorFlow, ms | penstock, ms | ratio |\n|---|---|---|---|---|")
    logs: dict[str, list[float]] = {}
    try:
        for name, cell in CELLS.items():
            for part in args.parts:
                if args.only not in name or (part == "filter" and cell[2] is None):
                    continue
                result = measure(workers, (name, part), args.rounds)
                if result is None:
                    print(f"| {name} | {part} | no kernel | | |", flush=True)
                    continue
                theirs, ours, ratio = result
                logs.setdefault(f"{name.split(' ')[0]} {part}", []).append(math.log(ratio))
                if ratio >= args.above:
                    print(f"| {name} | {part} | {theirs:.3f} | {ours:.3f} | {ratio:.2f} |", flush=True)
    finally:
        for process in workers.values():
            process.kill()
            process.wait()
    for family, each in logs.items():
        mean, largest = math.exp(sum(each) / len(each)), math.exp(max(each))
        print(f"{family}: geometric mean of {len(each)}: {mean:.2f}, largest {largest:.2f}")
    return None


if __name__ == "__main__":
    main()
