"""A pytest plugin for the tests of libraries: penstock is installed as TensorFlow, and each outcome is written immediately.

ECOSYSTEM_BACKEND=penstock puts penstock in TensorFlow's place before the first test is imported. ECOSYSTEM_RESULTS names a
file that gets a line of JSON per test; tests that have a line already are left out, so that a run that was stopped continues. A
test that has begun and has no outcome ended the process: it counts as failed. ECOSYSTEM_SAMPLE is how many tests of a file run
at most, evenly spread, ECOSYSTEM_SECONDS how long the tests of a file may take together. ECOSYSTEM_OTHER names the results of
the other backend: what was run there runs here, and on penstock only what passed on TensorFlow. With ECOSYSTEM_QUICK penstock
comes first, and TensorFlow runs only what failed on penstock. ECOSYSTEM_OWN names a package that penstock has itself (Keras 2):
what the tests import of it is penstock's, except for the tools of its tests.
"""
from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import sys
import time
from collections import defaultdict
from typing import Any

import pytest
from absl import flags

RESULTS = pathlib.Path(os.environ["ECOSYSTEM_RESULTS"])
OTHER = pathlib.Path(os.environ["ECOSYSTEM_OTHER"])
PENSTOCK = os.environ.get("ECOSYSTEM_BACKEND") == "penstock"
QUICK = os.environ.get("ECOSYSTEM_QUICK") == "1"
SAMPLE = int(os.environ.get("ECOSYSTEM_SAMPLE", "0"))
SECONDS = float(os.environ.get("ECOSYSTEM_SECONDS", "0"))
SITE = pathlib.Path(os.environ["ECOSYSTEM_SITE"])
spent: dict[str, float] = defaultdict(float)

if PENSTOCK:
    import penstock
    penstock.install("v2")


class OwnFinder(importlib.abc.MetaPathFinder):
    """Finds the modules of a package that penstock has itself, although it is installed, and the tools of its tests, which are
    its own files."""

    def __init__(self, package: str):
        self._package = package
        self._keras = next(f for f in sys.meta_path if type(f).__name__ == "KerasFinder")
        found = importlib.machinery.PathFinder.find_spec(package)
        self._folder = pathlib.Path(found.origin).parent if found is not None and found.origin else None

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        root, *inner = fullname.split(".")
        if root != self._package:
            return None
        if self._folder is not None and any("test" in part or part.endswith("_combinations") for part in inner):
            file = self._folder.joinpath(*inner)
            file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
            return importlib.util.spec_from_file_location(fullname, file) if file.is_file() else None
        return self._keras.find_spec(fullname, path, target)


if PENSTOCK and os.environ.get("ECOSYSTEM_OWN"):
    sys.meta_path.insert(0, OwnFinder(os.environ["ECOSYSTEM_OWN"]))


def _entries(file: pathlib.Path) -> dict[str, str]:
    """By test, its last outcome."""
    lines = file.read_text().splitlines() if file.exists() else []
    return {entry["test"]: entry["outcome"] for entry in (json.loads(line) for line in lines if line.endswith("}"))}


def _name(nodeid: str) -> str:
    """The name of a test, the same in both environments; pytest names files from the folder above."""
    file, _, rest = nodeid.partition("::")
    return f"{os.path.relpath(SITE.parent / file, SITE)}::{rest}"


def _write(test: str, outcome: str, message: str = "") -> None:
    with RESULTS.open("a") as file:
        file.write(json.dumps({"test": test, "outcome": outcome, "message": message[-600:]}) + "\n")


def pytest_configure(config) -> None:
    """Flags have their defaults; tests that ended an earlier process have failed."""
    flags.FLAGS.mark_as_parsed()
    for test, outcome in _entries(RESULTS).items():
        if outcome == "began":
            _write(test, "failed", "ended the process")


def pytest_collection_modifyitems(config, items) -> None:
    """Leaves out what is known, what a sample does not contain, and what did not pass on the other backend."""
    files = defaultdict(list)
    for item in items:
        files[item.nodeid.partition("::")[0]].append(item)
    known, chosen = _entries(RESULTS), []
    other = {} if QUICK and PENSTOCK else _entries(OTHER)
    needed = ("failed",) if QUICK else ("passed",) if PENSTOCK else ("passed", "failed", "skipped", "began")
    wanted = {t for t, outcome in other.items() if outcome in needed}
    compared = {t.partition("::")[0] for t in other}
    for name, tests in files.items():
        whole = QUICK and f"{_name(name)}import" in wanted       # it could not be imported on penstock
        if not whole and (_name(name).partition("::")[0] in compared or QUICK and not PENSTOCK):
            tests = [t for t in tests if _name(t.nodeid) in wanted]
        elif SAMPLE and len(tests) > SAMPLE:
            tests = [tests[i * len(tests) // SAMPLE] for i in range(SAMPLE)]
        chosen += [t for t in tests if _name(t.nodeid) not in known]
    items[:] = chosen


def pytest_collectreport(report) -> None:
    """A file that cannot be imported counts as one failed test."""
    name = f"{_name(report.nodeid)}import"
    if report.failed and name not in _entries(RESULTS):
        _write(name, "failed", str(report.longrepr))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """Counts the time of a file."""
    began = time.monotonic()
    try:
        return (yield)
    finally:
        spent[item.nodeid.partition("::")[0]] += time.monotonic() - began


def pytest_runtest_setup(item) -> None:
    """A test of a file whose time is up is left out, and has no line."""
    if SECONDS and spent[item.nodeid.partition("::")[0]] > SECONDS:
        pytest.skip("the time of this file is up")
    _write(_name(item.nodeid), "began")


def pytest_runtest_logreport(report) -> None:
    """One line per test: passed, failed or skipped."""
    if report.when == "call" or report.outcome != "passed" and report.when == "setup":
        message = "" if report.passed else str(getattr(report.longrepr, "reprcrash", report.longrepr))
        if "the time of this file is up" not in message:
            _write(_name(report.nodeid), report.outcome, message)
