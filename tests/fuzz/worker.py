"""Runs some cases of one target in a separate process, under limits. Started by `campaign.py`.

It prints one line per case before and after it, so that the campaign knows which case a crash or a hang belongs to.
"""
from __future__ import annotations

import hashlib
import json
import pathlib
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from typing import Any

MEMORY, SECONDS = 8 << 30, 30           # for the process, and for one case
TOGETHER, KEPT = 12, 300                # seconds for the cases of one process; new cases that are kept


class TookTooLong(BaseException):
    """A case did not end; no handler of ordinary errors keeps it."""


def _stop(*_: Any) -> None:
    raise TookTooLong


def signature(error: BaseException | None) -> str:
    """What a case did, coarsely: the error and the lines of penstock that it came through. A new one is worth keeping."""
    if error is None:
        return "read"
    lines = [f"{pathlib.Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)
             if "_src" in f.filename]
    return f"{type(error).__name__} {' '.join(lines[-6:])}"


def run_cases(target: str, first: int, count: int, corpus: pathlib.Path, known: str) -> None:
    """Runs cases, for some seconds at most, and prints what came of them; `known` has the signatures of earlier ones."""
    import penstock as tf
    from tests.fuzz.targets import TARGETS, outcome
    tf.debugging.disable_traceback_filtering()         # signatures need the lines of penstock
    made = TARGETS[target]
    seeds = [p.read_bytes() for p in sorted(corpus.glob("new-*"))]
    seen, until = set(json.loads(known)), time.monotonic() + TOGETHER
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    signal.signal(signal.SIGALRM, _stop)
    with tempfile.TemporaryDirectory() as folder:
        made.begin(pathlib.Path(folder), seeds)
        for number in range(first, first + count):
            if time.monotonic() > until:
                break
            data, run = made.case(random.Random(f"{target} {number}"))
            (corpus / "last").write_bytes(data)
            print(json.dumps({"begin": number}), flush=True)
            signal.alarm(SECONDS)
            try:
                how, error = outcome(run)
            except TookTooLong as e:
                how, error = "slow", e
            finally:
                signal.alarm(0)
            line = {"end": number, "how": how, "what": signature(error), "name": hashlib.sha256(data).hexdigest()[:16]}
            if how not in ("read", "refused"):
                line["error"] = f"{type(error).__name__}: {error}"[:300]
                (corpus / f"bad-{line['name']}").write_bytes(data)
            if line["what"] not in seen and len(seen) < KEPT:
                seen.add(line["what"])
                (corpus / f"new-{line['name']}").write_bytes(data)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    run_cases(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), pathlib.Path(sys.argv[4]), sys.stdin.read())
