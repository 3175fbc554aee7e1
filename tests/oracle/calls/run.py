"""`python -m tests.oracle.calls.run --tf PYTHON`: random calls of the public API, here and in real TensorFlow.

Prints the calls whose results differ: values, dtypes, structure, static shapes, gradients, or the type of the exception. The
calls depend on the seed and the name only, so that one can be repeated: `--only NAME`.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
from typing import Any

from tests.oracle.calls import sources
from tests.oracle.calls.compare import difference
from tests.oracle.calls.known import reason

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
START, EACH = 120, 0.5                         # seconds that a side may take to start, and for a call


def play(python: str, module: str, cases: str, count: int) -> dict[int, dict]:
    """One side's answers; a call that ends the process is named and passed over."""
    answers: dict[int, dict] = {}
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as results:
        environment = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "src")} if module == "penstock" else dict(os.environ)
        if module != "penstock":
            environment.pop("PYTHONPATH", None)
        while len(answers) < count:
            subprocess.run(
                [python, os.path.join(HERE, "player.py"), module, cases, results.name, *map(str, answers)],
                env=environment,
                stderr=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                check=False,
                timeout=START + EACH * count,
            )
            started = None
            with open(results.name) as f:
                for line in f:
                    record = json.loads(line)
                    if "start" in record:
                        started = record["start"]
                    else:
                        answers[record["id"]], started = record, None
            if started is None and len(answers) < count:
                raise RuntimeError(f"{python} does not run the calls")
            if started is not None:
                answers[started] = {"id": started, "error": "died", "bases": ["died"], "text": "the process ended"}
    return answers


def collect(chosen: str, seed: int, each: int, only: str | None = None) -> list[dict]:
    """The calls of the chosen sources."""
    found: list[dict] = []
    for name in chosen.split(","):
        for case in sources.SOURCES[name](seed, each):
            if not only or re.fullmatch(only, case["name"]):
                found.append({"id": len(found), **case})
    return found


def compared(python: str, cases: list[dict]) -> tuple[list[dict[str, Any]], collections.Counter]:
    """The differences between the two sides, those that are known with their reason; and how many calls returned there."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
        for case in cases:
            f.write(json.dumps(case) + "\n")
        f.flush()
        theirs = play(python, "tensorflow", f.name, len(cases))
        ours = play(sys.executable, "penstock", f.name, len(cases))
    found, counts = [], collections.Counter("error" not in theirs[c["id"]] for c in cases)
    for case in cases:
        a, b = ours[case["id"]], theirs[case["id"]]
        what, why = difference(case, a, b)
        if what:
            found.append({"what": what, "why": why, "known": reason(what, case, why), "case": case, "ours": a, "theirs": b})
    return found, counts


def main() -> int:
    """Exit code 0 if nothing differs but what is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tf", required=True, help="python of an environment with tensorflow")
    parser.add_argument("--sources", default=",".join(sources.SOURCES))
    parser.add_argument("--only", help="a regular expression of names")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=4, help="calls of each function")
    parser.add_argument("--json", help="write the differences here")
    args = parser.parse_args()
    cases = collect(args.sources, args.seed, args.each, args.only)
    found, counts = compared(args.tf, cases)
    new = [x for x in found if not x["known"]]
    for x in sorted(new, key=lambda x: (x["what"], x["case"]["name"])):
        print(f"{x['what']}: {x['case']['name']} [{x['case']['kind']}]: {x['why'][:250]}")
    if args.json:
        with open(args.json, "w") as out:
            json.dump(found, out)
    kinds = dict(collections.Counter(x["what"] for x in new))
    names = len({c["name"] for c in cases})
    print(f"{len(cases)} calls of {names} names; on TensorFlow {counts[True]} returned and {counts[False]} raised; "
          f"{len(found)} differ, {len(found) - len(new)} for a known reason; the others: {kinds}")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
