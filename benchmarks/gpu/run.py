"""Training steps of the models in `models` on one GPU: penstock beside PyTorch, eager and compiled.

    PYTHONPATH=src python benchmarks/gpu/run.py --json models.json
    PYTHONPATH=src python benchmarks/gpu/run.py --family vision audio --rounds 3 --steps 10
    PYTHONPATH=src python benchmarks/gpu/run.py --models ppo hyena --runners penstock torch-compile --profile kernels.txt

Every model and runner has its own process; measuring.py says how they take turns. penstock compiles in the background, and is
measured in the version that runs at last. "first" is the time of the first step, "best" the time until the measured version
runs, both while the other processes compile.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from benchmarks import generated
from benchmarks.gpu import catalog, measuring


def measured(names: list[str], args: argparse.Namespace) -> dict[str, dict]:
    """What each runner found for each model."""
    compilers = max(1, (os.cpu_count() or 1) // (len(names) * len(args.runners)))
    worker = [sys.executable, str(pathlib.Path(__file__).with_name("worker.py")), "--wait", str(args.wait)]
    worker += ["--small"] if args.small else []
    with tempfile.TemporaryDirectory() as folder:
        workers = [
            measuring.Worker([*worker, n, r], n, r, compilers, pathlib.Path(folder, f"{n}-{r}.txt"))
            for n in names
            for r in args.runners
        ]
        measuring.in_turns(workers, args.rounds, args.steps)
        if args.profile:
            compiled = [w for w in workers if w.runner != "torch-eager"]
            texts = [f"== {w.model} {w.runner}\n{w.ask('profile').get('kernels', '')}" for w in compiled]
            pathlib.Path(args.profile).write_text("\n\n".join(texts))
        for w in workers:
            w.end()
    return {n: {w.runner: w.found for w in workers if w.model == n} for n in names}


def table(found: dict[str, dict]) -> str:
    """The results as a table of Markdown."""

    def of(row: dict, key: str, digits: int = 2) -> str:
        return f"{row[key]:.{digits}f}" if key in row else "failed" if "failed" in row else "–"

    rows = [
        "| model | penstock, ms | PyTorch eager | torch.compile | of torch.compile | first step, s (eager, compile) | "
        "best version, s (compile) | GiB (eager, compile) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, by in found.items():
        ours, eager, compiled = (by.get(r, {}) for r in catalog.RUNNERS)
        ratio = f"{ours['ms'] / compiled['ms']:.2f}" if "ms" in ours and "ms" in compiled else "–"
        rows.append(
            f"| {catalog.title(name)} | {of(ours, 'ms')} | {of(eager, 'ms')} | {of(compiled, 'ms')} | {ratio} | "
            f"{of(ours, 'first', 1)} ({of(eager, 'first', 1)}, {of(compiled, 'first', 1)}) | "
            f"{of(ours, 'best', 0)} ({of(compiled, 'best', 0)}) | "
            f"{of(ours, 'GiB')} ({of(eager, 'GiB')}, {of(compiled, 'GiB')}) |"
        )
    both = [(by.get("penstock", {}), by.get("torch-compile", {})) for by in found.values()]
    ratios = [a["ms"] / b["ms"] for a, b in both if "ms" in a and "ms" in b]
    if ratios:
        rows += ["", f"Geometric mean of the ratios to torch.compile: {np.exp(np.mean(np.log(ratios))):.2f}."]
    return "\n".join(rows)


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(catalog.FILES)
    parser.add_argument("--models", nargs="+", choices=names, metavar="NAME", default=[], help=f"of {', '.join(names)}")
    parser.add_argument("--family", nargs="+", choices=catalog.families(), default=[], help="all models of some folders")
    parser.add_argument("--runners", nargs="+", choices=catalog.RUNNERS, default=catalog.RUNNERS, help="default: all")
    parser.add_argument("--rounds", type=int, default=5, help="of each runner (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=20, help="of a round (default: %(default)s)")
    parser.add_argument("--wait", type=float, default=240, help="seconds to get ready in (default: %(default)s)")
    parser.add_argument("--small", action="store_true", help="sizes for a CPU, to try the programs")
    parser.add_argument("--json", help="write what was found there")
    parser.add_argument("--profile", help="write the kernels of each compiled runner there")
    parser.add_argument("--table", metavar="PAGE", help="write the table into this page")
    args = parser.parse_args()
    chosen = [*args.models, *(n for family in args.family for n in catalog.of_family(family))] or names
    found = measured(list(dict.fromkeys(chosen)), args)
    text = table(found)
    print(text)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(found, indent=1))
    if args.table:
        generated.write(pathlib.Path(args.table), "models", text.split("\n"))


if __name__ == "__main__":
    main()
