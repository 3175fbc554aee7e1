"""`make fuzz`: a campaign over file formats, imported graphs and models, and the arguments of ops.

    make fuzz                                     # five minutes, continues where the last one ended
    make fuzz ARGS='--minutes 600 --only ops,graph'

Each batch of cases runs in a process of its own (`worker.py`): a crash or a hang ends the batch, is recorded with its case,
and the campaign continues with the next case. The corpus folder keeps where each target is, the cases that did something
new (they are mutated further), and those that went wrong. At the end `docs/fuzzing.md` has the sums of all runs over this
corpus.
"""
from __future__ import annotations

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
BATCH, SILENT = 1000, 120                      # cases of a process at most; seconds without a word after which it is killed
KINDS = ("read", "refused", "untyped", "slow", "crash")

_HEAD = """# Fuzzing

Written by `make fuzz`; do not edit. The program is in `tests/fuzz`, and `tests/fuzz/targets.py` lists what is fuzzed.
Each case is a mutated file, or a call of an op with hostile arguments, in a process with limits. It is read, refused with a
typed error, or counts as wrong: an untyped error, more than 30 seconds, or a crash of the process. Cases that did something
new are kept and mutated further. The campaign goes on where the last one ended.

"""


class Target:
    """One target of a campaign: its folder, and what is known of it."""

    def __init__(self, name: str, corpus: pathlib.Path):
        self.name, self.folder = name, corpus / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self._state = self.folder / "state.json"
        known = json.loads(self._state.read_text()) if self._state.exists() else {}
        self.next: int = known.get("next", 0)
        self.counts = collections.Counter(known.get("counts", {}))
        self.seen: set[str] = set(known.get("seen", []))
        self.wrong: list[Any] = known.get("wrong", [])

    def save(self) -> None:
        """Keeps where the target is."""
        state = {"next": self.next, "counts": self.counts, "seen": sorted(self.seen), "wrong": self.wrong[-50:]}
        self._state.write_text(json.dumps(state, indent=1))

    def batch(self, count: int) -> None:
        """Runs some cases in a process."""
        command = [sys.executable, "-m", "tests.fuzz.worker", self.name, str(self.next), str(count), str(self.folder)]
        errors = self.folder / "stderr"
        with errors.open("wb") as err, subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err,
                                                        cwd=ROOT) as child:
            assert child.stdin is not None
            child.stdin.write(json.dumps(sorted(self.seen)).encode())
            child.stdin.close()
            running = self._follow(child)
        if running is not None or child.returncode:
            number = self.next if running is None else running
            self.next = number + 1
            self.counts["crash"] += 1
            if (self.folder / "last").exists():
                (self.folder / "last").replace(self.folder / f"bad-case-{number}")
            last = errors.read_bytes()[-300:].decode("utf-8", "replace")
            self.wrong.append({"case": number, "how": "crash", "error": f"exit {child.returncode}: {last}"})
        self.save()

    def _follow(self, child: Any) -> int | None:
        """Reads what a worker prints; the case that it was in when it ended or fell silent."""
        import selectors
        running, rest = None, b""
        with selectors.DefaultSelector() as ready:
            ready.register(child.stdout, selectors.EVENT_READ)
            while True:
                data = child.stdout.read1(1 << 16) if ready.select(SILENT) else None
                if data is None:
                    child.kill()
                if not data:
                    break
                *lines, rest = (rest + data).split(b"\n")
                for line in filter(lambda text: text.startswith(b"{"), lines):
                    running = self._take(json.loads(line), running)
        child.wait()
        return running

    def _take(self, line: dict[str, Any], running: int | None) -> int | None:
        if "begin" in line:
            return line["begin"]
        self.counts[line["how"]] += 1
        self.next = line["end"] + 1
        if "error" in line:
            self.wrong.append({"case": line["end"], "how": line["how"], "error": line["error"]})
        self.seen.add(line["what"])
        return None


def page(targets: list[Target]) -> str:
    """The page with the results."""
    rows = [[t.name, sum(t.counts.values()), *(t.counts[k] for k in KINDS), len(t.seen)] for t in targets]
    rows.append(["all", *(sum(r[i] for r in rows) for i in range(1, len(KINDS) + 3))])
    text = [*_HEAD.splitlines(), "| target | cases | read | refused | untyped | slow | crash | different outcomes |",
            "|---|---:|---:|---:|---:|---:|---:|---:|"]
    text += ["| " + " | ".join(f"{x:,}" if isinstance(x, int) else x for x in row) + " |" for row in rows]
    wrong = [f"- {t.name}, case {w['case']}: {w['how']}: `{' '.join(w['error'].split())[:160]}`"
             for t in targets for w in t.wrong]
    if wrong:
        text += ["", "## What went wrong, newest last", "", *wrong[-40:]]
    return "\n".join(text) + "\n"


def main() -> int:
    """Runs a campaign; the exit status says whether a new case went wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--corpus", type=pathlib.Path, default=ROOT / "build" / "fuzz")
    parser.add_argument("--only", default="")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs" / "fuzzing.md")
    args = parser.parse_args()
    from tests.fuzz.targets import TARGETS
    wanted = [n for n in args.only.split(",") if n] or list(TARGETS)
    every = {name: Target(name, args.corpus) for name in TARGETS}
    before = sum(len(t.wrong) for t in every.values())
    until = time.monotonic() + 60 * args.minutes
    while time.monotonic() < until:
        for name in wanted:
            if time.monotonic() < until:
                every[name].batch(BATCH)
        args.page.write_text(page(list(every.values())))
    args.page.write_text(page(list(every.values())))
    print(args.page.read_text())
    return int(sum(len(t.wrong) for t in every.values()) > before)


if __name__ == "__main__":
    sys.exit(main())
