"""Training steps of four convolutional networks on one GPU: penstock beside PyTorch and JAX.

    PYTHONPATH=src python benchmarks/gpu/table1.py --networks alexnet,vgga --precisions tf32,bf16 --json table1.json

Each measurement has its own process, so that its memory and threads do not disturb the next one; for each network
and precision they follow each other directly.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from benchmarks.gpu.convnets import networks

RUNNERS = ("penstock", "torch-eager", "torch-graph", "torch-compile", "jax")


def measure(runner: str, network: str, precision: str) -> float:
    """One measurement, in this process."""
    if runner == "penstock":
        from benchmarks.gpu.convnets import penstock_graph

        return penstock_graph.step_time(network, precision)
    from benchmarks.gpu.convnets import peers

    return peers.jax_time(network, precision) if runner == "jax" else peers.torch_time(network, precision, runner[6:])


def in_process(runner: str, network: str, precision: str) -> float | None:
    """One measurement in its own process; None, with the reason printed, when it fails."""
    env = dict(os.environ, XLA_PYTHON_CLIENT_PREALLOCATE="false")
    done = subprocess.run([sys.executable, __file__, "--one", runner, network, precision], env=env, capture_output=True,
                          text=True, timeout=300)
    if done.returncode:
        print(f"  {runner} failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}", file=sys.stderr)
        return None
    return float(done.stdout.split()[-1])


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join(networks.NETWORKS), help="which networks (default: all)")
    parser.add_argument("--precisions", default="tf32,bf16", help="of fp32, tf32, bf16 (default: %(default)s)")
    parser.add_argument("--runners", default=",".join(RUNNERS), help="who runs (default: %(default)s)")
    parser.add_argument("--json", help="write the times there too")
    parser.add_argument("--one", nargs=3, metavar=("RUNNER", "NETWORK", "PRECISION"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(measure(*args.one))
        return
    runners, rows = args.runners.split(","), {}
    print("milliseconds a step   " + "".join(f"{r:>15}" for r in runners))
    for network in args.networks.split(","):
        for precision in args.precisions.split(","):
            times = rows[f"{network} {precision}"] = {r: in_process(r, network, precision) for r in runners}
            shown = "".join(f"{t:15.2f}" if t else f"{'-':>15}" for t in times.values())
            print(f"{network:>14} {precision:>6} {shown}", flush=True)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
