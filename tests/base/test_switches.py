"""The table of environment variables: complete, parsed by type, and documented."""
import pathlib
import re
import subprocess
import sys

import pytest

import penstock
from penstock._src.base import switches

ROOT = pathlib.Path(penstock.__file__).parent


def test_every_variable_of_ours_is_in_the_table():
    named = {name for f in ROOT.rglob("*.py") for name in re.findall(r"\bPENSTOCK_[A-Z_]*[A-Z]\b", f.read_text())}
    assert named <= set(switches.SWITCHES), named - set(switches.SWITCHES)


def test_variables_of_ours_are_read_through_the_table():
    readers = {str(f.relative_to(ROOT)) for f in ROOT.rglob("*.py")
               if re.search(r"environ(\.get\(|\[)[\"']PENSTOCK_", f.read_text())}
    assert readers <= {"_src/compat/programs/hook/sitecustomize.py"}      # runs before penstock can be imported


def test_values_are_parsed(monkeypatch):
    monkeypatch.setenv("PENSTOCK_HEARTBEAT_SECONDS", "2.5")
    assert switches.HEARTBEAT_SECONDS.value() == 2.5
    monkeypatch.delenv("PENSTOCK_HEARTBEAT_SECONDS")
    assert switches.HEARTBEAT_SECONDS.value() == 1.0
    for text, expected in (("1", True), ("true", True), ("0", False), ("", False), ("No", False)):
        monkeypatch.setenv("PENSTOCK_OFFLINE", text)
        assert switches.OFFLINE.value() is expected


def test_a_value_that_does_not_parse_is_named(monkeypatch):
    monkeypatch.setenv("PENSTOCK_HEARTBEAT_SECONDS", "soon")
    with pytest.raises(ValueError, match="PENSTOCK_HEARTBEAT_SECONDS is 'soon'; expected a number"):
        switches.HEARTBEAT_SECONDS.value()


def test_the_page_is_current():
    subprocess.run([sys.executable, str(ROOT.parents[1] / "scripts/make_switches_page.py"), "--check"], check=True)
