"""A campaign of storms over all modes of training, with the time that each recovery takes.

    python -m tests.chaos.campaign --faults 1000

A round is one training through at most 20 faults. It begins when the training runs; after most faults it waits until every
task that trains has done a step again, which is the recovery, and one fault in four strikes before that. At its end the
training must have ended at its last step, with the result of an undisturbed one, without a checkpoint that went back. Every
round is a line of the record, and its seed is its number: a campaign that was interrupted continues where it was.
"""
import argparse
import collections
import json
import pathlib
import shutil
import statistics
import tempfile
import threading
import time

from penstock._src.cluster.ports import free_addresses
from tests.chaos.storm import KINDS, MODES, Cluster, Storm, begun, open_files
from tests.cluster.nursery import ROOT, Nursery

ROUND = 20                                       # faults of a round
LIMIT = 120.0                                    # seconds that a recovery or the end of a training may take
STEPS = {"MultiWorkerMirroredStrategy": 800, "ParameterServerStrategy": 1500}      # of a training, else 500
TOGETHER = 0.25                                  # the part of the faults that strike before the last one is over


def recovery(cluster, limit=LIMIT):
    """Waits until all tasks that train have done a step; the seconds that it took, None if it took too long. The first change
    of a task's mark may come from a step that had ended before the fault: the second one counts."""
    began, last, changes = time.monotonic(), cluster.steps_of(), collections.Counter()
    while time.monotonic() - began < limit:
        if cluster.look():
            return time.monotonic() - began
        now = cluster.steps_of()
        changes.update(t for t in now if now[t] != last.get(t))
        last = now
        if len(now) == cluster.jobs[cluster.ends] - len(cluster.done) and all(changes[t] > 1 for t in now):
            return time.monotonic() - began
        time.sleep(0.02)
    return None


def play(nursery, folder, name, seed, faults=ROUND, heartbeat=0.5):
    """One round; what it found."""
    mode, steps = MODES[name], STEPS.get(name, 500)
    folder.mkdir(parents=True)
    cluster = Cluster(nursery, folder, mode.jobs, f"--folder={folder / 'model'}", f"--steps={steps}", *mode.args,
                      heartbeat=heartbeat, program=mode.program, ends=mode.ends)
    storm, struck, problems, newest = Storm(cluster, seed, kinds=KINDS), [], [], 0
    try:
        cluster.start_all()
        if not begun(cluster, LIMIT):
            return {"mode": name, "seed": seed, "faults": [], "restarts": cluster.restarts, "problems": ["did not begin"]}
        while len(struck) < faults and not cluster.done:
            fault = storm.strike()
            if fault is None:
                continue
            took = None
            if storm.draw.random() >= TOGETHER:
                took = recovery(cluster)
                if took is None:
                    problems.append(f"no recovery from {fault}")
                    break
            struck.append([fault[0], fault[1][0], took])
            if cluster.step() < newest:
                problems.append(f"the checkpoint went from {newest} to {cluster.step()} after {fault}")
            newest = max(newest, cluster.step())
        while not problems and not cluster.look():
            if recovery(cluster) is None:
                problems.append("did not end")
        problems += _wrong(cluster, steps)
    finally:
        cluster.close()
    return {"mode": name, "seed": seed, "faults": struck, "restarts": cluster.restarts, "problems": problems}


def _wrong(cluster, steps):
    """What is wrong with the results of a training. The last step of several workers that do not wait may be a few later."""
    results = cluster.results()
    found = [] if len(results) == cluster.jobs[cluster.ends] else [f"results of {sorted(results)} only"]
    return found + [f"{task} ended at step {step} with loss {loss}, accuracy {accuracy}"
                    for task, (step, loss, accuracy) in results.items()
                    if not steps <= step <= steps + 40 or loss > 0.35 or accuracy < 0.9]


def left_over(nursery):
    """Threads, files and processes that are there now. Shared memory has no name, and ends with its processes."""
    return [threading.active_count(), open_files(), sum(c.alive() for c in nursery.children.values())]


def read(record):
    """The rounds of a record."""
    if not record.exists():
        return []
    return [json.loads(line) for line in record.read_text().splitlines()]


def table(rounds):
    """The recovery times by mode and by fault, as a Markdown table."""
    lines = ["| | Faults | Recoveries | Median, s | 90% | Longest | Restarts | Problems |", "|---|---|---|---|---|---|---|---|"]
    groups = collections.defaultdict(list)
    for mode in MODES:
        groups[mode] = [(kind, took) for r in rounds if r["mode"] == mode for kind, _, took in r["faults"]]
    for kind in KINDS:
        groups[f"`{kind}`"] = [(k, took) for r in rounds for k, _, took in r["faults"] if k == kind]
    groups["all"] = [(k, took) for r in rounds for k, _, took in r["faults"]]
    for name, faults in groups.items():
        times = sorted(took for _, took in faults if took is not None)
        if not times:
            continue
        these = rounds if name == "all" else [r for r in rounds if r["mode"] == name]
        more = [str(sum(r["restarts"] for r in these)), str(sum(len(r["problems"]) for r in these))] if these else ["–", "–"]
        lines.append(f"| {name} | {len(faults)} | {len(times)} | {statistics.median(times):.1f} | "
                     f"{times[int(0.9 * (len(times) - 1))]:.1f} | {times[-1]:.1f} | {' | '.join(more)} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=100, help="of the whole record")
    parser.add_argument("--modes", nargs="*", default=list(MODES), choices=list(MODES))
    parser.add_argument("--record", type=pathlib.Path, default=ROOT / "build" / "chaos.jsonl")
    args = parser.parse_args()
    args.record.parent.mkdir(parents=True, exist_ok=True)
    folder, rounds = pathlib.Path(tempfile.mkdtemp(prefix="chaos")), read(args.record)
    free_addresses(0)                               # opens the table of reserved ports, which stays open
    with Nursery() as nursery:
        before = left_over(nursery)
        while sum(len(r["faults"]) for r in rounds) < args.faults:
            count = collections.Counter(r["mode"] for r in rounds)
            mode = min(args.modes, key=count.__getitem__)
            found = play(nursery, folder / str(len(rounds)), mode, len(rounds))
            left = [now - then for now, then in zip(left_over(nursery), before, strict=True)]
            if any(n > 0 for n in left):
                found["problems"].append(f"left over: {left} threads, files, processes")
            rounds.append(found)
            with args.record.open("a") as f:
                f.write(json.dumps(found) + "\n")
            print(f"{sum(len(r['faults']) for r in rounds)} faults; {mode}: {found['restarts']} restarts, "
                  f"{found['problems'] or 'no problem'}", flush=True)
            if not found["problems"]:
                shutil.rmtree(folder / str(len(rounds) - 1))
    print(table(rounds))
    if any(r["problems"] for r in rounds):
        raise SystemExit(f"logs of this run are in {folder}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
