"""The targets of the Makefile for campaigns: they exist, and the sanitizers find what they should."""
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize(("target", "command"), [("soak", "tests.chaos.soak"), ("sanitize", "scripts/sanitize.py"),
                                                 ("audit", "pip-audit"), ("sbom", "cyclonedx-py"), ("fuzz", "tests.fuzz"),
                                                 ("chaos", "tests.chaos.campaign")])
def test_a_target_runs_its_command(target, command):
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and command in done.stdout, done.stderr
    said = subprocess.run(["make", "-n", "help"], cwd=ROOT, capture_output=True, text=True).stdout
    assert f"make {target} " in said


def _sanitize():
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import sanitize
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    return sanitize


def test_every_source_has_tests_to_sanitize():
    sanitize = _sanitize()
    assert {e.name.rpartition(".")[2] for e in sanitize.extensions()} == set(sanitize.TESTS)
    assert all((ROOT / t).exists() for t in sanitize.TESTS.values())


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a compiler")
def test_a_source_under_the_address_sanitizer():
    done = subprocess.run([sys.executable, str(ROOT / "scripts" / "sanitize.py"), "address", "_scanner"], capture_output=True,
                          text=True, timeout=590)
    assert done.returncode == 0 and "passed" in done.stdout, done.stdout + done.stderr
