"""The process that `run.py` starts for one model and runner."""

from __future__ import annotations

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from benchmarks.gpu import catalog, measuring


def main() -> None:
    """Measures as standard input asks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("runner", choices=catalog.RUNNERS)
    parser.add_argument("--wait", type=float, required=True)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    measuring.serve(lambda: catalog.program(args.model, args.runner, args.small), args.wait)


if __name__ == "__main__":
    main()
