"""What a test leaves behind: threads that keep the process alive, child processes, open files.

Daemon threads are not counted: the library keeps pools of them between steps, and they end with the process.
"""
import os
import pathlib
import stat
import threading
import time

_PATIENCE = 10.0                    # seconds for what is ending already
_PROC = "/proc/self"


def _children() -> set[str]:
    """Child processes of this process that are still running; empty where /proc is missing."""
    try:
        listed = {pid for task in os.listdir(f"{_PROC}/task")
                  for pid in pathlib.Path(f"{_PROC}/task/{task}/children").read_text().split()}
    except OSError:
        return set()
    return {pid for pid in listed if _running(pid)}


def _running(pid: str) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _files() -> set[str]:
    """Paths of open regular files that were opened for writing."""
    found = set()
    try:
        for fd in os.listdir(f"{_PROC}/fd"):
            try:
                path = os.readlink(f"{_PROC}/fd/{fd}")
                if path.startswith("/") and " (deleted)" not in path and stat.S_ISREG(os.stat(path).st_mode):
                    flags = int(pathlib.Path(f"{_PROC}/fdinfo/{fd}").read_text().split("flags:")[1].split()[0], 8)
                    if flags & (os.O_WRONLY | os.O_RDWR):
                        found.add(path)
            except (OSError, IndexError):
                continue
    except OSError:
        pass
    return found


def snapshot() -> tuple[set, set, set]:
    """The threads, child processes and open files of now."""
    return {t for t in threading.enumerate() if not t.daemon}, _children(), _files()


def left_since(before: tuple[set, set, set]) -> list[str]:
    """What there is now and was not `before`, after waiting for what is ending."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        threads, children, files = (now - then for now, then in zip(snapshot(), before, strict=True))
        left = [f"thread {t.name}" for t in threads if t.is_alive()] + [f"process {pid}" for pid in children] + \
            [f"open file {path}" for path in files]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)
