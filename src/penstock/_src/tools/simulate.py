"""Simulate a cluster: real control code on a simulated clock, with simulated kernels and a simulated wire.

    penstock simulate --calibrate > machine.yaml                      # the constants of this machine
    penstock simulate run program.py --workers 50 --servers 8 --machines machine.yaml --trace trace.json
    penstock simulate sweep program.py --over workers=1,10,100 --over servers=4,16 --plot sweep.svg
    penstock simulate servers program.py --workers 100                # how many parameter servers do I need?
    penstock simulate paper --plots FOLDER                            # the figures of the OSDI 2016 paper
    penstock simulate beyond                                          # 10,000 workers, 1 TB of embeddings
    penstock simulate compare                                         # predictions and real processes on this machine
    penstock simulate chaos --schedules 100000                        # faults by schedules, over the real state machines

A program is a Python file with a function `model()`, which builds the graph of a worker and returns the op that a step runs; or
`model(case)`, if it depends on the numbers of workers, servers, backups and examples. Variables go to the servers. It is also
the name of a program that comes along (null:BYTES, sparse:BYTES, inception), or a file with a RunMetadata (.pb) that has
a cost_graph. docs/simulator.md explains the rest.
"""
from __future__ import annotations

import argparse
import collections
import importlib.util
import inspect
import json
import math
import os
import pathlib
import sys
from collections.abc import Callable, Sequence

import penstock.compat.v1 as tf
from penstock._src.base import errors
from penstock._src.io.paths import write_atomically
from penstock._src.simulate import beyond, calibrate, figures, machines, plots, programs, recorded, sweep
from penstock._src.simulate.chaos import worlds
from penstock._src.simulate.job import FREE, LOCKSTEP, Job, Program
from penstock._src.simulate.sweep import Case
from penstock._src.simulate.trace import Trace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the subcommand."""
    parser.add_argument("--calibrate", action="store_true", help="measure this machine, and print a machine file")
    kinds = parser.add_subparsers(dest="kind", metavar="KIND")
    for name, what in (("run", "one simulation"), ("sweep", "many, over some numbers"),
                       ("servers", "how many parameter servers are enough")):
        _add_simulation(kinds.add_parser(name, help=what), name)
    paper = kinds.add_parser("paper", help="the figures of the OSDI 2016 paper, as tables (about ten minutes)")
    paper.add_argument("--plots", metavar="FOLDER", help="write figures 6 to 9 as charts (SVG)")
    kinds.add_parser("beyond", help="10,000 workers and 1 TB of embeddings, as a table (about five minutes)")
    compare = kinds.add_parser("compare", help="calibrate, predict, and measure up to six processes of this machine")
    compare.add_argument("--machines", metavar="FILE", help="write the constants that were measured to a machine file")
    compare.add_argument("--minutes", type=float, default=calibrate.LONGEST,
                         help="after which disturbed rounds count, too (default: 20)")
    chaos = kinds.add_parser("chaos", help="run schedules of faults")
    chaos.add_argument("--schedules", type=int, default=1000, metavar="N", help="how many (default: 1000)")
    chaos.add_argument("--seed", type=int, default=0, help="of the first schedule (default: 0)")
    chaos.add_argument("--record", metavar="FILE", help="keep the counts, and go on with a campaign that was interrupted")
    chaos.add_argument("--minutes", type=float, default=math.inf, help="of processor time, after which to stop")
    chaos.add_argument("--world", choices=sorted(worlds.WORLDS), help="only this one")


def _add_simulation(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("program", help="a Python file, a RunMetadata (.pb), null:BYTES, sparse:BYTES or inception")
    parser.add_argument("--machines", metavar="FILE", help="a machine file; that of the OSDI 2016 paper, if left out")
    parser.add_argument("--workers", type=int, default=4, metavar="N", help="default: 4")
    parser.add_argument("--servers", type=int, default=1, metavar="N", help="default: 1")
    parser.add_argument("--backups", type=int, default=0, metavar="N", help="workers beyond those that an update needs")
    parser.add_argument("--batch", type=int, default=0, metavar="N", help="examples of a step, for programs that ask")
    parser.add_argument("--steps", type=int, default=20, metavar="N", help="of every worker (default: 20)")
    parser.add_argument("--pace", choices=(FREE, LOCKSTEP), default=FREE, help="whether workers wait for each other's steps")
    parser.add_argument("--seed", type=int, default=0, help="of stragglers (default: 0)")
    if name == "run":
        parser.add_argument("--trace", metavar="FILE", help="write a Chrome trace (JSON)")
    if name == "sweep":
        parser.add_argument("--over", action="append", required=True, metavar="NAME=N,N,…",
                            help="workers, servers, backups or batch; the first is the axis of the plot")
        parser.add_argument("--plot", metavar="FILE", help="write a chart (SVG)")


def run(args: argparse.Namespace) -> int:
    """Simulates, and prints."""
    if args.calibrate:
        print(machines.dump(calibrate.measure()), end="")
        return 0
    if args.kind is None:
        raise ValueError("choose what to simulate: run, sweep, servers, paper, beyond, compare or chaos; --help explains them.")
    return {"run": _run, "sweep": _sweep, "servers": _servers, "paper": _paper, "beyond": _beyond, "compare": _compare,
            "chaos": _chaos}[args.kind](args)


# -- programs ---------------------------------------------------------------------------------------------------------
def _program(name: str) -> Callable[[Case], Program]:
    """What builds the program of a case."""
    kind, _, size = name.partition(":")
    if kind == "null" and size:
        return lambda case: programs.dense_null_step(int(float(size)))(case.servers)
    if kind == "sparse" and size:
        return lambda case: programs.sparse_null_step(int(float(size)), costs=figures.SPARSE)(case.servers)
    if name == "inception":
        return lambda case: programs.data_parallel(
            programs.inception_v3(case.servers, 1), figures.WORK, 32, case.workers if case.backups else 0,
            case.backups)(case.servers)
    if name.endswith(".pb"):
        code = recorded.step_code(recorded.load(name))
        return lambda case: Program(tf.Graph(), [], code=code)
    if not os.path.exists(name):
        raise errors.NotFoundError(None, None, f"There is no program {name}.")
    return _of_file(name)


def _of_file(path: str) -> Callable[[Case], Program]:
    """The function `model` of a Python file."""
    spec = importlib.util.spec_from_file_location("simulated_program", path)
    if spec is None or spec.loader is None:
        raise errors.invalid(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(pathlib.Path(path).parent))
    spec.loader.exec_module(module)
    model = getattr(module, "model", None)
    if model is None:
        raise errors.invalid(f"{path} has no function model().")

    def build(case: Case) -> Program:
        setter = tf.train.replica_device_setter(case.servers, worker_device="/job:worker/task:0")
        with tf.Graph().as_default() as graph, tf.device(setter):
            made = model(case) if inspect.signature(model).parameters else model()
        if isinstance(made, Program):
            return made
        with graph.as_default():
            counters = [v.initializer for v in tf.global_variables() if v.dtype.base_dtype.is_integer]
        return Program(graph, [made], [counters] if counters else [], examples=case.batch or 1)
    return build


def _machines(args: argparse.Namespace) -> machines.Machines:
    return machines.load(args.machines) if args.machines else figures.constants()


def _case(args: argparse.Namespace) -> Case:
    if min(args.workers, args.servers, args.steps) < 1 or args.backups < 0:
        raise ValueError("A job needs a worker, a server and a step, and no number may be negative.")
    return Case(args.workers, args.servers, args.backups, args.batch)


# -- one, and many ----------------------------------------------------------------------------------------------------
def _run(args: argparse.Namespace) -> int:
    case = _case(args)
    job = Job(_program(args.program)(case), _machines(args), case.workers + case.backups, case.servers, args.pace, args.seed)
    trace = job.cluster.trace = Trace()
    results = job.run(args.steps)
    if job.errors:
        raise job.errors[0]
    print(f"{results.steps_per_second:.4g} steps/s, {results.examples_per_second:.4g} examples/s of {case.workers} workers")
    shares = ", ".join(f"{share:.0%}: {results.percentile(share) * 1e3:.4g}" for share in (0.1, 0.5, 0.9, 0.99))
    print(f"step times in ms: {shares}")
    if results.failures:
        print(f"{results.failures} tasks failed and recovered")
    if results.rounds:
        print(f"rounds: {len(results.rounds)}, median {results.median_round * 1e3:.4g} ms")
    print("in use:                                cores  threads  NIC out  NIC in")
    for use in sorted(results.use(), key=lambda u: -u.most[0])[:8]:
        print(f"  {use.task:34} {use.cores:7.1%} {use.threads:8.1%} {use.out:8.1%} {use.into:7.1%}")
    _print_path(trace, job)
    if args.trace:
        pathlib.Path(args.trace).write_text(trace.chrome())
    return 0


def _print_path(trace: Trace, job: Job) -> None:
    """The critical path of the last whole step of worker 0 that is in the trace, longest first."""
    own = job.workers[0].name
    ends = collections.Counter(e.step for e in trace.events if e.step.startswith(own + ":") and e.label == "end")
    steps = [step for step, count in ends.items() if count == len(job.step.others)]
    path = trace.critical_path(steps[-1], own) if steps else []
    if path:
        print(f"critical path of {steps[-1]}: {(path[-1].end - path[0].start) * 1e3:.4g} ms; its longest parts:")
    for event in sorted(path, key=lambda e: e.start - e.end)[:6]:
        what = f"message from {event.source}, {event.size} bytes" if event.source else event.label
        print(f"  {(event.end - event.start) * 1e3:9.4g} ms  {event.task}: {what}")


def _sweep(args: argparse.Namespace) -> int:
    over: dict[str, Sequence[int]] = {}
    for text in args.over:
        name, _, values = text.partition("=")
        over[name] = [int(v) for v in values.split(",") if v]
    make, found = _program(args.program), _machines(args)
    axis, *others = over
    series: dict[str, list[tuple[float, float]]] = {}
    print("workers servers backups batch   steps/s  examples/s  median ms  busiest")
    for case in sweep.cases(_case(args), over):
        job = sweep.run(make, found, case, args.steps, args.pace, args.seed)
        share, task, resource = job.results.bottleneck()
        print(f"{case.workers:7} {case.servers:7} {case.backups:7} {case.batch:5} {job.results.steps_per_second:9.4g} "
              f"{job.results.examples_per_second:11.4g} {job.results.median * 1e3:10.4g}  {resource} of {task} {share:.0%}")
        label = ", ".join(f"{getattr(case, n)} {n}" for n in others) or args.program
        series.setdefault(label, []).append((getattr(case, axis), job.results.steps_per_second))
    if args.plot:
        pathlib.Path(args.plot).write_text(plots.Chart(f"{args.program}: steps per second", axis, "steps/s", series).svg)
    return 0


def _servers(args: argparse.Namespace) -> int:
    found = sweep.servers_needed(_program(args.program), _machines(args), _case(args), args.steps)
    for servers, rate, busiest in found:
        print(f"{servers:4} servers: {rate:.4g} steps/s, the busiest is in use {busiest:.0%} of the time")
    enough = found[-2][0] if len(found) > 1 else found[0][0]
    print(f"{enough} servers are enough for {args.workers} workers: twice as many bring less than 5%.")
    return 0


# -- tables -----------------------------------------------------------------------------------------------------------
def _paper(args: argparse.Namespace) -> int:
    well = True
    claims, charts = [], []
    print("| Figure | | Paper | Simulated | Difference |\n|---|---|---|---|---|")
    for found in figures.everything():
        if isinstance(found, figures.Claim):
            claims.append(found)
            continue
        if isinstance(found, plots.Chart):
            charts.append(found)
            continue
        well = well and found.within
        print(f"| {found.figure} | {found.what} | {found.paper:g} {found.unit} | {found.simulated:.4g} {found.unit} | "
              f"{found.error:+.1%} |", flush=True)
    print("\n| Figure | Claim | Holds | Simulated |\n|---|---|---|---|")
    for claim in claims:
        print(f"| {claim.figure} | {claim.what} | {'yes' if claim.holds else 'no'} | {claim.seen} |")
    if args.plots:
        pathlib.Path(args.plots).mkdir(parents=True, exist_ok=True)
        for number, chart in enumerate(charts, 6):
            pathlib.Path(args.plots, f"figure{number}.svg").write_text(chart.svg)
    return 0 if well and all(claim.holds for claim in claims) else 1


def _beyond(args: argparse.Namespace) -> int:
    for finding in beyond.everything():
        print(f"\n{finding.claim} ({finding.unit}):\n")
        for what, value in finding.cases:
            print(f"- {what}: {value:.3g}", flush=True)
    return 0


def _compare(args: argparse.Namespace) -> int:
    found, rows = calibrate.compare(args.minutes)
    if args.machines:
        pathlib.Path(args.machines).write_text(machines.dump(found))
    print("| | Workers | Servers | Predicted | Measured | Difference | Others used |\n|---|---|---|---|---|---|---|")
    for row in rows:
        print(f"| {row.what} | {row.workers} | {row.servers} | {row.predicted:.3g} ms | {row.measured:.3g} ms | "
              f"{row.error:+.0%} | {row.foreign:.0%} |", flush=True)
    return 0 if all(abs(row.error) <= 0.15 for row in rows) else 1


def _chaos(args: argparse.Namespace) -> int:
    record = json.loads(pathlib.Path(args.record).read_text()) if args.record and os.path.exists(args.record) else {}
    tallies: dict[str, dict[str, float]] = record.setdefault("worlds", {})
    if record.setdefault("seed", args.seed) != args.seed:
        raise ValueError(f"{args.record} is a campaign from seed {record['seed']}, not {args.seed}.")
    done = {name: int(tally["schedules"]) for name, tally in tallies.items()}
    failures = record.setdefault("failures", [])
    for found in worlds.campaign(args.schedules, args.seed, args.world, done, args.minutes * 60):
        tally = tallies.setdefault(found.world, {"schedules": 0, "violations": 0, "seconds": 0.0})
        if isinstance(found, worlds.Failure):
            tally["violations"] += 1
            failures.append(found._asdict())
            print(f"{found.world}, seed {found.seed}: {found.what}\n  schedule: {found.schedule}", flush=True)
        else:
            tally["schedules"] += found.schedules
            tally["seconds"] += found.seconds
    if args.record:
        write_atomically(args.record, json.dumps(record, indent=1).encode())
    print("| World | Schedules | Violations | Schedules/s of one core |\n|---|---|---|---|")
    for name, tally in tallies.items():
        rate = tally["schedules"] / tally["seconds"] if tally["seconds"] else 0
        print(f"| {name} | {tally['schedules']:,} | {tally['violations']} | {rate:,.0f} |")
    print(f"| all | {sum(t['schedules'] for t in tallies.values()):,} | {len(failures)} | |")
    return 1 if failures else 0
