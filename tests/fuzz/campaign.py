"""`make fuzz`: a campaign over file formats, imported graphs and models, and the arguments of ops.

    make fuzz                                     # five minutes, continues where the last one ended
    make fuzz ARGS='--minutes 600 --only ops,graph'

A batch of cases runs in a process of its own (`worker.py`), some five seconds to a minute of them, as starting one takes
seconds: a crash or a hang ends the batch, is recorded with its case, and the campaign continues with the next case. The corpus
folder keeps where each target is, the cases that did something new (they are mutated further), and those that went wrong. At
the end `docs/fuzzing.md` has the sums of all runs; a corpus that begins continues from them.
"""
from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import re
import selectors
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent import futures
from typing import Any

from tests.fuzz.worker import Progress

ROOT = pathlib.Path(__file__).resolve().parents[2]
BATCH = 10 ** 7                                # cases of a process at most
SILENT, STILL = 120, 1200                      # seconds of processor time and of any time in a case: then it is killed
FURTHER = 16                                   # numbers that each case of a lost corpus is taken to have used
SHORT, LONG = 5.0, 60.0                        # seconds of processor time for the cases of a process
KINDS = ("read", "refused", "untyped", "slow", "crash")

_HEAD = """# Fuzzing

Written by `make fuzz`; do not edit. The program is in `tests/fuzz`, and `tests/fuzz/targets.py` lists what is fuzzed. Each
case is a mutated file, or a call of an op with hostile arguments, in a process with limits. It is read, refused with a
typed error, or counts as wrong: an untyped error, more than 30 seconds of processor time, or a crash of the process. Cases
that did something new (another error, another line of penstock) are kept and mutated further. Mutations keep the structure
of a format most of the time (fields of messages, values of JSON, records, tables and zip members with the right checksums).
A case that ran before is not counted again. *Repaired* are the cases that went wrong and, run again with `--again`, end
well now. The campaign continues where the last one ended, in a new corpus from the sums of this page. Seconds are
processor time, the start of processes included.
`make fuzz ARGS='--minutes 600 --jobs 8'` runs for a night.

"""


class Target:
    """One target of a campaign: its folder, and what is known of it."""

    def __init__(self, name: str, corpus: pathlib.Path, recorded: dict[str, Any] | None = None):
        self.name, self.folder = name, corpus / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self._state = self.folder / "state.json"
        known = json.loads(self._state.read_text()) if self._state.exists() else recorded or {}
        self.next: int = known.get("next", 0)
        self.counts = collections.Counter(known.get("counts", {}))
        self.seen: set[str] = set(known.get("seen", []))
        self.wrong: list[Any] = known.get("wrong", [])
        self.seconds: float = known.get("seconds", 0.0)
        self._repaired: int = known.get("repaired", 0)           # in corpora that are gone

    def repaired(self) -> int:
        """How many of the cases that went wrong end well since."""
        return self._repaired + len(list(self.folder.glob("repaired-*")))

    def save(self) -> None:
        """Keeps where the target is."""
        state = {"next": self.next, "counts": self.counts, "seen": sorted(self.seen), "wrong": self.wrong[-50:],
                 "seconds": round(self.seconds, 1), "repaired": self._repaired}
        self._state.write_text(json.dumps(state, indent=1))

    def batch(self, count: int, seconds: float = 120.0) -> None:
        """Runs some cases in a process."""
        progress, errors = Progress(self.folder / "progress", self.next), self.folder / "stderr"
        command = [sys.executable, "-m", "tests.fuzz.worker", self.name, str(self.next), str(count), str(seconds),
                   str(self.folder)]
        with errors.open("wb") as err, subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err,
                                                        cwd=ROOT) as child:
            assert child.stdin is not None
            child.stdin.write(json.dumps(sorted(self.seen)).encode())
            child.stdin.close()
            self._follow(child, progress)
        self.next, counts, data = progress.read()
        self.counts.update(counts)
        self.seconds += progress.seconds()
        progress.close()
        if child.returncode:
            self.counts["crash"] += 1
            (self.folder / f"bad-case-{self.next}").write_bytes(data)
            last = errors.read_bytes()[-300:].decode("utf-8", "replace")
            self.wrong.append({"case": self.next, "how": "crash", "error": f"exit {child.returncode}: {last}"})
            self.next += 1
        self.save()

    def again(self) -> None:
        """Runs the files that went wrong again. Those that end well now are listed no more, and counted as repaired."""
        if not any(self.folder.glob("bad-*")):
            return
        count = self.counts.copy(), self.next
        self.batch(0)
        self.counts, self.next = count
        if not any(self.folder.glob("bad-*")):
            self.wrong = []
        self.save()

    def _follow(self, child: Any, progress: Progress) -> None:
        """Reads what a worker prints until it ends; one whose case does not change for long is killed."""
        rest, before, changed, used = b"", progress.read()[:2], time.monotonic(), _used(child.pid)
        with selectors.DefaultSelector() as ready:
            ready.register(child.stdout, selectors.EVENT_READ)
            while True:
                if ready.select(5.0):
                    data = child.stdout.read1(1 << 16)
                    if not data:
                        break
                    *lines, rest = (rest + data).split(b"\n")
                    for line in filter(lambda text: text.startswith(b"{"), lines):
                        self._take(json.loads(line))
                now = progress.read()[:2]
                if now != before:
                    before, changed, used = now, time.monotonic(), _used(child.pid)
                elif _used(child.pid) - used > SILENT or time.monotonic() - changed > STILL:
                    child.kill()
        child.wait()

    def _take(self, line: dict[str, Any]) -> None:
        if "again" in line:
            if line["how"] in ("read", "refused"):
                (self.folder / line["again"]).rename(self.folder / line["again"].replace("bad", "repaired"))
                self.wrong = [w for w in self.wrong if w.get("file") != line["again"]]
            return
        if "error" in line:
            self.wrong.append({key: line.get(key) for key in ("case", "how", "error", "file")})
        self.seen.add(line["what"])


def _used(pid: int) -> float:
    """Seconds of processor time of a process; a machine that is busy with others does not make its case a slow one."""
    try:
        words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def page(targets: list[Target]) -> str:
    """The page with the results."""
    rows: list[list[Any]] = [[t.name, sum(t.counts.values()), *(t.counts[k] for k in KINDS), t.repaired(), len(t.seen),
                              round(t.seconds)] for t in targets]
    rows.append(["all", *(sum(r[i] for r in rows) for i in range(1, len(KINDS) + 5))])
    text = [*_HEAD.splitlines(),
            "| target | cases | read | refused | untyped | slow | crash | repaired | different outcomes | seconds |",
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    text += ["| " + " | ".join(f"{x:,}" if isinstance(x, int) else x for x in row) + " |" for row in rows]
    wrong = [f"- {t.name}, case {w['case']}: {w['how']}: `{' '.join(w['error'].split())[:160]}`"
             for t in targets for w in t.wrong]
    if wrong:
        text += ["", "## What went wrong, newest last", "", *wrong[-40:]]
    return "\n".join(text) + "\n"


def recorded(text: str) -> dict[str, dict[str, Any]]:
    """The state of each target as far as a page has it, for a corpus that begins. Its numbers are beyond those that ran: a case
    that ran before can be counted again only if another number makes it, too."""
    found = {}
    for name, *row in re.findall(r"^\| ([\w-]+) " + r"\| ([\d,]+) " * 9 + r"\|$", text, re.MULTILINE):
        total, *counts, repaired, _, seconds = (int(x.replace(",", "")) for x in row)
        found[name] = {"next": FURTHER * total, "counts": dict(zip(KINDS, counts, strict=True)), "repaired": repaired,
                       "seconds": seconds}
    return found


def run(targets: list[Target], minutes: float, jobs: int, seconds: float, report: Callable[[], None]) -> None:
    """Runs batches of the targets in turn, those first that had the least time, `jobs` at a time; reports after each round."""
    until = time.monotonic() + 60 * minutes
    seconds = seconds or min(LONG, max(SHORT, 60 * minutes * jobs / len(targets)))

    def turn(target: Target) -> None:
        left = until - time.monotonic()
        if left > 0:
            target.batch(BATCH, min(seconds, left))

    with futures.ThreadPoolExecutor(jobs) as pool:
        while time.monotonic() < until:
            list(pool.map(turn, sorted(targets, key=lambda target: target.seconds)))
            report()


def main() -> int:
    """Runs a campaign; the exit status says whether a new case went wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--jobs", type=int, default=1, help="targets that run at a time")
    parser.add_argument("--seconds", type=float, default=0.0, help="processor time for the cases of a process")
    parser.add_argument("--corpus", type=pathlib.Path, default=ROOT / "build" / "fuzz")
    parser.add_argument("--only", default="")
    parser.add_argument("--again", action="store_true", help="first run what went wrong before again")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs" / "fuzzing.md")
    args = parser.parse_args()
    from tests.fuzz.targets import TARGETS
    wanted = [n for n in args.only.split(",") if n] or list(TARGETS)
    known = recorded(args.page.read_text()) if args.page.exists() else {}
    every = {name: Target(name, args.corpus, known.get(name)) for name in TARGETS}
    before = sum(len(t.wrong) for t in every.values())

    def report() -> None:
        args.page.write_text(page(list(every.values())))

    if args.again:
        for name in wanted:
            every[name].again()
    run([every[name] for name in wanted], args.minutes, args.jobs, args.seconds, report)
    report()
    print(args.page.read_text())
    return int(sum(len(t.wrong) for t in every.values()) > before)


if __name__ == "__main__":
    sys.exit(main())
