"""The check for what a test leaves behind sees threads, processes and files."""
import subprocess
import sys
import threading

import pytest

from tests import leaks


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(leaks, "_PATIENCE", 0.0)


def test_nothing_is_left():
    assert leaks.left_since(leaks.snapshot()) == []


def test_a_thread_is_seen():
    before, over = leaks.snapshot(), threading.Event()
    thread = threading.Thread(target=over.wait, name="forgotten")
    thread.start()
    try:
        assert leaks.left_since(before) == ["thread forgotten"]
    finally:
        over.set()
        thread.join()
    assert leaks.left_since(before) == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes and files are found in /proc")
def test_processes_and_files_are_seen(tmp_path):
    before = leaks.snapshot()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with open(tmp_path / "written", "w"):
            left = leaks.left_since(before)
            assert left[0] == f"open file {tmp_path / 'written'}"
            assert left[1].startswith(f"process {child.pid} (") and "input()" in left[1] and len(left) == 2
    finally:
        child.communicate()
    assert leaks.left_since(before) == []
