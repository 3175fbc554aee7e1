"""Many processes quickly: one process imports penstock once, and forks a child for every program that is to run.

The parent reads orders from its standard input, one JSON list per line, and answers on its standard output: `[pid]` for a
child that was started, `[pid, status]` for one that has ended. The children end with it, and it ends with the process that
started it.
"""
import contextlib
import ctypes
import json
import os
import pathlib
import runpy
import select
import signal
import subprocess
import sys
import threading
import time
import traceback

ROOT = pathlib.Path(__file__).parents[2]


class Child:
    """A process that runs a program."""

    def __init__(self, pid):
        self.pid, self.status = pid, None

    def alive(self):
        return self.status is None

    def signal(self, number):
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, seconds):
        deadline = time.monotonic() + seconds
        while self.status is None and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.status


class Nursery:
    """Starts programs as forks of one process; `with` ends them all."""

    def __init__(self, **environment):
        env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1", **environment}
        self._mother = subprocess.Popen([sys.executable, "-u", "-m", "tests.cluster.nursery"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=env, cwd=ROOT)
        self._started, self._lock = [], threading.Condition()
        self.children = {}
        assert self._mother.stdout.readline() == "ready\n"
        self._reader = threading.Thread(target=self._read, daemon=True, name="tests.cluster.nursery")
        self._reader.start()

    def start(self, log, program, *args, env=None):
        """Runs a program in a new process; what it prints goes to a file."""
        with self._lock:
            self._mother.stdin.write(json.dumps([str(log), [str(program), *map(str, args)], env or {}]) + "\n")
            self._mother.stdin.flush()
            assert self._lock.wait_for(lambda: self._started, 60), "no child was started"
            return self.children[self._started.pop()]

    def _read(self):
        for line in self._mother.stdout:
            pid, *status = json.loads(line)
            with self._lock:
                if status:
                    self.children[pid].status = status[0]
                else:
                    self.children[pid] = Child(pid)
                    self._started.append(pid)
                    self._lock.notify_all()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for child in self.children.values():
            child.signal(signal.SIGCONT)
            child.signal(signal.SIGKILL)
        self._mother.stdin.close()
        self._mother.wait(60)
        self._reader.join(60)
        self._mother.stdout.close()


# -- the mother -----------------------------------------------------------------------------------------------------------
def _tie():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _child(log, argv, env):
    """Becomes a program."""
    status = 1
    try:
        os.setsid()
        _tie()
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for fd in (1, 2):
            os.dup2(out, fd)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.environ.update(env)
        if "PENSTOCK_HEARTBEAT_SECONDS" in env:               # read when the mother was young
            from penstock._src.cluster import peers
            peers.BEAT = float(env["PENSTOCK_HEARTBEAT_SECONDS"])
            peers.LOST = 4 * peers.BEAT
            peers.STALLED = max(peers.LOST, float(env.get("PENSTOCK_STALL_SECONDS", peers.STALLED)))
        signal.signal(signal.SIGUSR1, _jump)
        sys.argv = argv
        sys.path.insert(0, os.path.dirname(argv[0]))
        with open(argv[0]) as file:
            for_tensorflow = "import tensorflow" in file.read()
        if for_tensorflow:
            from penstock._src.compat.programs import runner
            status = runner.run(argv[0], argv[1:], quiet=True)
        else:
            runpy.run_path(argv[0], run_name="__main__")
            status = 0
    except SystemExit as e:
        status = e.code if isinstance(e.code, int) else 0 if e.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status or 0)


_jumps, _time = [0], time.time


def _jump(*_):
    """Moves the clock of this process by an hour: forward first, then back, and so on."""
    _jumps[0] ^= 1
    time.time = lambda: _time() + 3600 * _jumps[0]


def _mother():
    import penstock.compat.v1 as tf
    from penstock import digits  # noqa: F401
    tf.train.Server, tf.losses, tf.data.Dataset, tf.app.flags, tf.summary.FileWriter  # noqa: B018  (loaded now)
    import penstock._src.training.train.monitored_session  # noqa: F401
    _tie()
    print("ready")
    left = ""
    while True:
        if select.select([0], [], [], 0.02)[0]:
            data = os.read(0, 1 << 20).decode()
            if not data:
                return
            *lines, left = (left + data).split("\n")
            for line in lines:
                pid = os.fork()
                if not pid:
                    _child(*json.loads(line))
                print(json.dumps([pid]))
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                print(json.dumps([pid, os.waitstatus_to_exitcode(status)]))


if __name__ == "__main__":
    _mother()
