"""Processes that run one program as the workers of a cluster, each with its TF_CONFIG."""
import contextlib
import json
import os
import pathlib
import subprocess
import sys

from tests.cluster.conftest import SOURCE, addresses

ROOT = str(pathlib.Path(__file__).parents[3])


class Workers:
    """`Workers(2, program)`: starts the program as each of them; `results()` returns the last line of each, as JSON."""

    def __init__(self, started, program, env=None, count=None):
        self.spec, self.program = addresses(worker=count or started), program
        self.env = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1", "PENSTOCK_COLLECTIVE_TIMEOUT_SECONDS": "150",
                    "PENSTOCK_COLLECTIVE_TUNE_SECONDS": "0.01", "PENSTOCK_HEARTBEAT_SECONDS": "5", **(env or {})}
        self.running = {}
        for i in range(started):
            self.start(i)

    def start(self, i, *arguments):
        config = json.dumps({"cluster": self.spec, "task": {"type": "worker", "index": i}})
        self.running[i] = subprocess.Popen([sys.executable, "-c", self.program, *arguments], text=True, stdout=subprocess.PIPE,
                                           env={**self.env, "TF_CONFIG": config}, stderr=subprocess.PIPE)

    def results(self, seconds=200):
        out = []
        for i, process in sorted(self.running.items()):
            text, problems = process.communicate(timeout=seconds)
            assert process.returncode == 0, f"worker {i}: {problems[-3000:]}"
            out.append(json.loads(text.splitlines()[-1]))
        return out

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait(60)
            process.stdout.close()
            process.stderr.close()
