"""What a test leaves behind: threads, child processes, files that are open for writing.

`KEPT`, `KEPT_FILES` and `KEPT_PROCESSES` list what may outlive a test, with reasons. Threads of `SHARED` may outlive a test,
but not its module: they belong to what a module's tests share.
"""
import gc
import os
import pathlib
import stat
import threading
import time

_PATIENCE = 60.0                    # seconds for what is ending already
_PROC = "/proc/self"

KEPT = {                            # a part of a thread's name: why it may stay
    "penstock lane": "runs partitions; ends with its session, or after ten seconds without work",
    "penstock-compile": "compiles a step in the background; ends when it has",
    "fsspecIO": "the event loop of fsspec, one for the process",
    "tests.cluster.nursery": "reads what the process says that forks the tasks of all tests of clusters",
    "execnet": "reads what the process of pytest-xdist says",
    "_poll_wrapper": "polls for the event loops of gRPC; ends when the last of its objects is collected",
}

SHARED = {                          # a part of a thread's name: what it belongs to
    "penstock step": "the pool of a model server (serving/core.py)",
    "asyncio": "the event loop of a model server",
}

KEPT_FILES = {                      # the beginning of an open file's name: why it may stay
    "penstock-ports-": "the lease of free ports that this process has (cluster/ports.py)",
}

KEPT_PROCESSES = {                  # a part of a process's command line: why it may stay
    "tests.cluster.nursery": "forks the tasks of all tests of clusters; ends with this process",
    "multiprocessing.forkserver": "forks the processes of all tests that use it; ends with this process",
    "torch/_inductor/compile_worker": "compiles for torch.compile; one pool for the process, started by the first compilation",
    "multiprocessing.resource_tracker": "frees shared resources of multiprocessing when this process has ended",
}


def _children() -> set[str]:
    """Child processes of this process that are still running; empty where /proc is missing."""
    try:
        listed = {pid for task in os.listdir(f"{_PROC}/task")
                  for pid in pathlib.Path(f"{_PROC}/task/{task}/children").read_text().split()}
    except OSError:
        return set()
    return {pid for pid in listed if _running(pid)}


def _command(pid: str) -> str:
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
    except OSError:                 # it has ended
        return ""


def _running(pid: str) -> bool:
    try:
        command = _command(pid)
        if any(kept in command for kept in KEPT_PROCESSES):
            return False
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
                if path.startswith("/") and " (deleted)" not in path and \
                        not os.path.basename(path).startswith(tuple(KEPT_FILES)) and stat.S_ISREG(os.stat(path).st_mode):
                    flags = int(pathlib.Path(f"{_PROC}/fdinfo/{fd}").read_text().split("flags:")[1].split()[0], 8)
                    if flags & (os.O_WRONLY | os.O_RDWR):
                        found.add(path)
            except (OSError, IndexError):
                continue
    except OSError:
        pass
    return found


def snapshot(shared: bool = False) -> tuple[set, set, set]:
    """The threads, child processes and open files of now; with the threads that tests share, if `shared`."""
    kept = tuple(KEPT) if shared else (*KEPT, *SHARED)
    return {t for t in threading.enumerate() if not any(part in t.name for part in kept)}, _children(), _files()


def left_since(before: tuple[set, set, set], shared: bool = False) -> list[str]:
    """What there is now and was not `before`, after waiting for what is ending."""
    deadline, collected = time.monotonic() + _PATIENCE, False
    while True:
        threads, children, files = (now - then for now, then in zip(snapshot(shared), before, strict=True))
        left = [f"thread {t.name}" for t in threads if t.is_alive()] + [f"open file {path}" for path in files] + \
            [f"process {pid} ({_command(pid)})" for pid in children]
        if not left or time.monotonic() > deadline:
            return left
        if not collected:                            # iterators and sessions that only cycles refer to end their threads
            collected = bool(gc.collect() + 1)
        time.sleep(0.01)
