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

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))


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
                timeout=3000,
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


def collect(args: argparse.Namespace) -> list[dict]:
    """The calls of the chosen sources."""
    found = []
    for name in args.sources.split(","):
        for case in sources.SOURCES[name](args.seed, args.each):
            if not args.only or re.fullmatch(args.only, case["name"]):
                found.append({"id": len(found), **case})
    return found


def shown(case: dict) -> str:
    """A call in one line."""
    rest = {k: v for k, v in case.items() if k not in ("id", "name", "kind")}
    return f"{case['name']} [{case['kind']}] {json.dumps(rest)[:300]}"


def main() -> int:
    """Exit code 0 if nothing differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tf", required=True, help="python of an environment with tensorflow")
    parser.add_argument("--sources", default=",".join(sources.SOURCES))
    parser.add_argument("--only", help="a regular expression of names")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=4, help="calls of each function")
    parser.add_argument("--json", help="write the differences here")
    args = parser.parse_args()
    cases = collect(args)
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
        for case in cases:
            f.write(json.dumps(case) + "\n")
        f.flush()
        theirs = play(args.tf, "tensorflow", f.name, len(cases))
        ours = play(sys.executable, "penstock", f.name, len(cases))
    kinds: collections.Counter = collections.Counter()
    found: list[dict[str, Any]] = []
    for case in cases:
        a, b = ours[case["id"]], theirs[case["id"]]
        kinds["returned" if "error" not in b else "raised"] += 1
        what, why = difference(case, a, b)
        if what:
            kinds[what] += 1
            found.append({"what": what, "why": why, "case": case, "ours": a, "theirs": b})
    for f_ in sorted(found, key=lambda x: (x["what"], x["case"]["name"])):
        print(f"{f_['what']}: {f_['case']['name']} [{f_['case']['kind']}]: {f_['why'][:250]}")
    if args.json:
        with open(args.json, "w") as out:
            json.dump(found, out)
    differing = {k: v for k, v in kinds.items() if k not in ("returned", "raised")}
    print(f"{len(cases)} calls of {len({c['name'] for c in cases})} names; on TensorFlow {kinds['returned']} returned and "
          f"{kinds['raised']} raised; {len(found)} differ: {differing}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
