"""A pytest plugin for the tests of libraries: TensorFlow's place is taken by penstock, and outcomes are written as they come.

ECOSYSTEM_BACKEND=penstock puts penstock in TensorFlow's place before the first test is imported. ECOSYSTEM_RESULTS names a
file that gets a line of JSON per test; tests that have a line already are left out, so that a run that was stopped continues.
ECOSYSTEM_SAMPLE is how many tests of a file run at most, evenly spread.
"""
from __future__ import annotations

import json
import os
import pathlib
from collections import defaultdict

if os.environ.get("ECOSYSTEM_BACKEND") == "penstock":
    import penstock
    penstock.install("v2")

RESULTS = pathlib.Path(os.environ["ECOSYSTEM_RESULTS"])
SAMPLE = int(os.environ.get("ECOSYSTEM_SAMPLE", "0"))
SITE = os.environ.get("ECOSYSTEM_SITE", "")


def _known() -> set[str]:
    if not RESULTS.exists():
        return set()
    return {json.loads(line)["test"] for line in RESULTS.read_text().splitlines() if line.endswith("}")}


def _name(nodeid: str) -> str:
    """The name of a test, the same in both environments."""
    file, _, rest = nodeid.partition("::")
    return f"{os.path.relpath(os.path.abspath(file), SITE)}::{rest}" if SITE else nodeid


def _write(test: str, outcome: str, message: str = "") -> None:
    with RESULTS.open("a") as file:
        file.write(json.dumps({"test": test, "outcome": outcome, "message": message[-400:]}) + "\n")


def pytest_collection_modifyitems(config, items) -> None:
    """Leaves out what is known, and what a sample does not contain."""
    files = defaultdict(list)
    for item in items:
        files[item.nodeid.partition("::")[0]].append(item)
    known, chosen = _known(), []
    for tests in files.values():
        if SAMPLE and len(tests) > SAMPLE:
            tests = [tests[i * len(tests) // SAMPLE] for i in range(SAMPLE)]
        chosen += [t for t in tests if _name(t.nodeid) not in known]
    items[:] = chosen


def pytest_collectreport(report) -> None:
    """A file that cannot be imported counts as one failed test."""
    name = f"{_name(report.nodeid)}::import"
    if report.failed and name not in _known():
        _write(name, "failed", str(report.longrepr))


def pytest_runtest_logreport(report) -> None:
    """One line per test: passed, failed or skipped."""
    if report.when == "call" or report.outcome != "passed" and report.when == "setup":
        message = "" if report.passed else str(getattr(report.longrepr, "reprcrash", report.longrepr))
        _write(_name(report.nodeid), report.outcome, message)
