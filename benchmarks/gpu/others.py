"""Training steps of ten models from the literature on one GPU: penstock beside PyTorch, eager and compiled.

    PYTHONPATH=src python benchmarks/gpu/others.py --json others.json --table benchmarks/README.md

Every model and runner has its own process. All processes are started together and compile beside each other. When all are
ready, they take turns on the GPU, one round each, so that a ratio compares rounds that follow each other directly. penstock
compiles in the background, and is measured in the version that runs at last. "first" is the time of the first step, "best" the
time until the measured version runs, both while the other processes compile.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).parent))

PROGRAM, TABLE = __file__, "others"                       # this file; fresh.py puts itself here
RUNNERS = ("penstock", "torch-eager", "torch-compile")
WAIT = float(os.environ.get("WAIT", "240"))               # seconds that a runner has to get ready
SMALL = os.environ.get("OTHERS_SIZE") == "small"          # sizes that a CPU can run: to test this file

TITLES = {
    "mobilenet": "MobileNet-v2, batch 128 of 128×128, bf16, Keras fit step",
    "convnext": "ConvNeXt, 4 stages, batch 64 of 128×128, TF32, tf.function",
    "diffusion": "U-Net of a diffusion model, batch 32 of 32×32, bf16, tf.function",
    "bert": "BERT encoder, 6 layers of 512, dropout and padding, TF32, 1.x session",
    "seq2seq": "GRU encoder and decoder with attention, 64 × 60 words, TF32, Keras fit step",
    "recommender": "26 tables of 100,000 × 32, sparse Adagrad, batch 4,096, TF32, tf.function",
    "wavenet": "WaveNet, 20 dilated layers, batch 8 of 4,096 samples, bf16, tf.function",
    "graph": "graph network, 20,000 nodes, 200,000 edges, TF32, 1.x session",
    "gan": "DCGAN, both players in one step, batch 128 of 64×64, bf16, tf.function",
    "llama": "Llama, 8 layers of 512, 8 × 512 words, AdamW and clipping, bf16, tf.function",
}


def sizes(full: dict[str, int], small: dict[str, int]) -> Any:
    """The sizes of a model, as attributes."""
    return type("Sizes", (), {**full, **(small if SMALL else {})})


S = {
    "mobilenet": sizes({"n": 128, "side": 128}, {"n": 2, "side": 32}),
    "convnext": sizes({"n": 64, "side": 128}, {"n": 2, "side": 32}),
    "diffusion": sizes({"n": 32, "side": 32, "c": 128}, {"n": 2, "side": 8, "c": 32}),
    "bert": sizes({"n": 32, "t": 256, "d": 512, "heads": 8, "layers": 6, "words": 30000},
                  {"n": 2, "t": 16, "d": 64, "layers": 1, "words": 100}),
    "seq2seq": sizes({"n": 64, "t": 60, "d": 512, "words": 8000}, {"n": 2, "t": 6, "d": 16, "words": 50}),
    "recommender": sizes({"n": 4096, "tables": 26, "rows": 100000, "d": 32}, {"n": 8, "tables": 3, "rows": 50}),
    "wavenet": sizes({"n": 8, "t": 4096, "c": 128, "layers": 20}, {"n": 2, "t": 64, "c": 16, "layers": 4}),
    "graph": sizes({"nodes": 20000, "edges": 200000, "d": 128, "layers": 4}, {"nodes": 30, "edges": 90, "d": 8}),
    "gan": sizes({"n": 128, "z": 100, "c": 64}, {"n": 4, "c": 8}),
    "llama": sizes({"n": 8, "t": 512, "d": 512, "heads": 8, "groups": 4, "layers": 8, "words": 32000},
                   {"n": 2, "t": 16, "d": 64, "layers": 1, "words": 100}),
}


def data(name: str) -> tuple:
    """The arrays that a model trains on, the same for every runner."""
    r, s = np.random.RandomState(0), S[name]
    image = lambda *shape: r.randn(*shape).astype("f")                                          # noqa: E731
    if name in ("mobilenet", "convnext"):
        return image(s.n, s.side, s.side, 3), r.randint(0, 100, s.n)
    if name == "diffusion":
        return image(s.n, s.side, s.side, 3), image(s.n, s.side, s.side, 3), r.randint(0, 1000, s.n)
    if name == "bert":
        ids, length = r.randint(0, s.words, [s.n, s.t]), r.randint(s.t // 2, s.t + 1, s.n)
        return ids, (np.arange(s.t) < length[:, None]).astype("f"), r.randint(0, s.words, [s.n, s.t])
    if name == "seq2seq":
        return tuple(r.randint(0, s.words, [s.n, s.t]) for _ in range(3))
    if name == "recommender":
        return image(s.n, 13), r.randint(0, s.rows, [s.n, s.tables]), r.randint(0, 2, s.n).astype("f")
    if name == "wavenet":
        return (r.randint(0, 256, [s.n, s.t + 1]),)
    if name == "graph":
        return image(s.nodes, s.d), r.randint(0, s.nodes, s.edges), np.sort(r.randint(0, s.nodes, s.edges)), \
            r.randint(0, 40, s.nodes)
    if name == "gan":
        return image(s.n, 64, 64, 3), image(s.n, s.z)
    return (r.randint(0, s.words, [s.n, s.t + 1]),)


# -- one runner, in its own process ------------------------------------------------------------------------------------------
def prepared(name: str, runner: str) -> tuple[Callable, Callable, Callable | None, Callable]:
    """A step; what waits for the steps so far; whether the best version runs, if that is not known; and remarks."""
    if runner == "penstock":
        import others_penstock
        return others_penstock.prepared(name)
    import others_torch
    return others_torch.prepared(name, runner == "torch-compile")


def child(name: str, runner: str) -> None:
    """Gets ready, says so, and runs a round for each line that it is given."""
    import torch
    began = time.perf_counter()
    step, sync, settled, remarks = prepared(name, runner)
    built = time.perf_counter()
    step()
    sync()
    first = time.perf_counter()
    while settled is not None and not settled() and time.perf_counter() - began < WAIT:
        step()
        sync()
    for _ in range(10):
        step()
    sync()
    found = {"build": built - began, "first": first - built, "best": time.perf_counter() - built}
    print(json.dumps({**found, "remarks": remarks()}), flush=True)
    for line in sys.stdin:
        if line.startswith("profile"):
            print(json.dumps({"profile": profile(step, sync)}), flush=True)
            continue
        count = int(line)
        step()
        sync()
        t = time.perf_counter()
        for _ in range(count):
            step()
        sync()
        peak = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0
        print(json.dumps({"ms": (time.perf_counter() - t) / count * 1e3, "GiB": peak}), flush=True)


def profile(step: Callable, sync: Callable) -> str:
    """The kernels of three steps, by the time that they take."""
    import torch
    kinds = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA]) as found:
        for _ in range(3):
            step()
        sync()
    rows = [e for e in found.key_averages() if str(e.device_type).endswith("CUDA")]
    rows.sort(key=lambda e: -e.self_device_time_total)
    total = sum(e.self_device_time_total for e in rows) / 3e3
    lines = [f"{e.self_device_time_total / 3e3:9.3f} ms {e.count / 3:7.1f} x  {e.key[:110]}" for e in rows[:28]]
    return "\n".join([f"{total:9.3f} ms on the GPU, {sum(e.count for e in rows) / 3:.0f} kernels", *lines])


# -- all of them -------------------------------------------------------------------------------------------------------------
class Runner:
    """A process that measures one model."""

    def __init__(self, name: str, runner: str, compilers: int):
        self.name, self.runner, self.found, self.times = name, runner, {}, []
        env = dict(os.environ, TORCHINDUCTOR_COMPILE_THREADS=str(compilers), OMP_NUM_THREADS="2")
        self.errors = pathlib.Path(os.environ.get("TMPDIR", "/tmp"), f"{TABLE}-{name}-{runner}.txt")
        with open(self.errors, "w") as to:
            self.process = subprocess.Popen([sys.executable, PROGRAM, "--child", name, runner], env=env, text=True, stderr=to,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def answer(self) -> dict | None:
        """The next line that it prints as JSON; None if it has failed."""
        while line := self.process.stdout.readline():
            if line.startswith("{"):
                return json.loads(line)
        self.process.wait()
        lines = self.errors.read_text().strip().splitlines()
        self.found["failed"] = next((x for x in reversed(lines) if x.strip()), "?")[:300]
        return None

    def ask(self, what: str) -> dict:
        """Asks for something, and waits for the answer."""
        if "failed" in self.found:
            return {}
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.answer() or {}

    def end(self) -> None:
        """Ends the process."""
        self.process.stdin.close()
        self.process.wait()


def measured(names: list[str], runners: list[str], rounds: int, count: int, profiles: str | None) -> dict[str, dict]:
    """What each runner found for each model."""
    compilers = max(1, (os.cpu_count() or 1) // (len(names) * len(runners)))
    every = [Runner(n, r, compilers) for n in names for r in runners]
    for r in every:
        r.found.update(r.answer() or {})
        print(f"{r.name} {r.runner}: {r.found}", flush=True)
    for name in names:
        mine = [r for r in every if r.name == name]
        for _ in range(rounds):
            for r in mine:
                if got := r.ask(str(count)):
                    r.times.append(got["ms"])
                    r.found.update(ms=min(r.times), GiB=got["GiB"])
        print(name, {r.runner: [round(t, 3) for t in r.times] for r in mine}, flush=True)
    if profiles:
        texts = [f"== {r.name} {r.runner}\n{r.ask('profile').get('profile', '')}" for r in every if r.runner != "torch-eager"]
        pathlib.Path(profiles).write_text("\n\n".join(texts))
    for r in every:
        r.end()
    return {n: {r.runner: r.found for r in every if r.name == n} for n in names}


def table(found: dict[str, dict]) -> str:
    """The results as a table of Markdown."""
    def of(row: dict, key: str, digits: int = 2) -> str:
        return f"{row[key]:.{digits}f}" if key in row else "failed"
    rows = ["| model | penstock, ms | PyTorch eager | torch.compile | of torch.compile | first step, s (eager, compile) | "
            "best version, s (compile) | GiB (eager, compile) |", "|---|---|---|---|---|---|---|---|"]
    for name, by in found.items():
        ours, eager, compiled = (by.get(r, {}) for r in RUNNERS)
        ratio = f"{ours['ms'] / compiled['ms']:.2f}" if "ms" in ours and "ms" in compiled else "–"
        rows.append(f"| {TITLES[name]} | {of(ours, 'ms')} | {of(eager, 'ms')} | {of(compiled, 'ms')} | {ratio} | "
                    f"{of(ours, 'first', 1)} ({of(eager, 'first', 1)}, {of(compiled, 'first', 1)}) | "
                    f"{of(ours, 'best', 0)} ({of(compiled, 'best', 0)}) | "
                    f"{of(ours, 'GiB')} ({of(eager, 'GiB')}, {of(compiled, 'GiB')}) |")
    ratios = [by["penstock"]["ms"] / by["torch-compile"]["ms"] for by in found.values()
              if all("ms" in by.get(r, {}) for r in ("penstock", "torch-compile"))]
    if ratios:
        rows += ["", f"Geometric mean of the ratios to torch.compile: {np.exp(np.mean(np.log(ratios))):.2f}."]
    return "\n".join(rows)


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(TITLES), help="which (default: all)")
    parser.add_argument("--runners", default=",".join(RUNNERS), help="of which frameworks (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="of each runner (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=20, help="of a round (default: %(default)s)")
    parser.add_argument("--json", help="write what was found there")
    parser.add_argument("--profile", help="write the kernels of each runner there")
    parser.add_argument("--table", metavar="PAGE", help="write the table into this page")
    parser.add_argument("--child", nargs=2, metavar=("MODEL", "RUNNER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(*args.child)
        return
    found = measured(args.models.split(","), args.runners.split(","), args.rounds, args.steps, args.profile)
    text = table(found)
    print(text)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(found, indent=1))
    if args.table:
        import generated
        generated.write(pathlib.Path(args.table), TABLE, text.split("\n"))


if __name__ == "__main__":
    main()
