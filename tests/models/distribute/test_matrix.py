"""Every strategy in both APIs with fit, estimators and loops by the user, in their own processes, against numpy.

What TensorFlow does not support is not here: tensors from an input function under a strategy; Keras and loops under the
ParameterServerStrategy of 1.x; estimators under that of 2.x.
"""
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from tests.cluster.conftest import SOURCE, addresses
from tests.models.distribute import matrix
from tests.models.distribute.workers import ROOT

pytestmark = [pytest.mark.distributed, pytest.mark.timeout(600)]
KERAS = ("fit", "fit_dataset", "fit_unbuilt", "fit_mixed")
ESTIMATORS = ("estimator", "estimator_generator", "estimator_mixed", "keras_estimator", "train_and_evaluate")
LOOPS = ("loop", "loop_mixed")
ALL = (*KERAS, *ESTIMATORS, *LOOPS)
HERE = {"default": (*ALL, "estimator_tensors"), "one_device": ALL, "mirrored": ALL, "central": ALL}
QUICK = {"default", "mirrored"}
SECONDS = 450                                  # then all tasks print their stacks and end


class Task:
    """One process of a cluster, or the only one."""

    def __init__(self, api, strategy, programs, env):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.models.distribute.matrix", api, strategy, *programs], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": f"{SOURCE}:{ROOT}", "OMP_NUM_THREADS": "1",
                 "PENSTOCK_COLLECTIVE_TIMEOUT_SECONDS": "300", "PYTHONFAULTHANDLER": "1", **env})
        self.problems = []
        self._reader = threading.Thread(target=lambda: self.problems.extend(self.process.stderr))
        self._reader.start()

    def results(self, tasks):
        """What each program gave, by its name; what all tasks said if this one failed."""
        out = self.process.stdout.read()
        assert self.process.wait(60) == 0, "".join(f"== {name}\n{''.join(t.problems)[-3000:]}" for name, t in tasks.items())
        found = [json.loads(line.removeprefix("RESULT ")) for line in out.splitlines() if line.startswith("RESULT ")]
        failed = "\n".join(f"{f['program']}: {f['error']}" for f in found if "error" in f)
        assert not failed, failed
        return {f["program"]: f for f in found}

    def end(self):
        self.process.kill()
        self.process.wait(60)
        self._reader.join(60)
        self.process.stdout.close()
        self.process.stderr.close()


@contextlib.contextmanager
def run(api, strategy, programs, folder, **jobs):
    """The tasks of a cluster that run programs; without jobs, one process."""
    spec = addresses(**{job: n for job, n in jobs.items() if job != "evaluator"})
    tasks, limit = {}, None
    try:
        for job, n in (jobs or {"": 1}).items():
            for i in range(n):
                config = {"TF_CONFIG": json.dumps({"cluster": spec, "task": {"type": job, "index": i}})} if job else {}
                tasks[job, i] = Task(api, strategy, programs, {**config, "MATRIX_FOLDER": str(folder)})
        limit = threading.Timer(SECONDS, lambda: [t.process.send_signal(signal.SIGABRT) for t in tasks.values()])
        limit.start()
        yield tasks
    finally:
        if limit is not None:
            limit.cancel()
        for task in tasks.values():
            task.end()


def check(found, exact=True):
    """The weights are numpy's, and what evaluation and prediction say fits them.

    A value of float16 has an error of up to 2**-11 of its size, which is up to 4 here, and a dozen steps add theirs.
    """
    mixed = found["program"].endswith("mixed")
    near = {"rtol": 0, "atol": 2e-2} if mixed else {"rtol": 1e-4, "atol": 1e-5}
    w, b = matrix.expected() if exact else (np.array(found["w"]), np.array(found["b"]))
    np.testing.assert_allclose(found["w"], w, **near)
    np.testing.assert_allclose(found["b"], b, **near)
    if "loss" in found:
        np.testing.assert_allclose(found["loss"], matrix.squared_error(w, b), **near)
    if "predicted" in found:
        np.testing.assert_allclose(found["predicted"], (matrix.data()[0] @ w + b).ravel(), **near)
    if "dtype" in found:
        assert found["dtype"] == ("float16" if mixed else "float32")
    assert matrix.squared_error(w, b) < 0.3 * matrix.squared_error(np.zeros((3, 1)), 0)


@pytest.mark.parametrize("strategy", [s if s in QUICK else pytest.param(s, marks=pytest.mark.slow) for s in HERE])
@pytest.mark.parametrize("api", ["v1", "v2"])
def test_one_process(api, strategy, tmp_path):
    with run(api, strategy, HERE[strategy], tmp_path) as tasks:
        found = tasks["", 0].results(tasks)
    assert set(found) == set(HERE[strategy])
    for result in found.values():
        check(result)


@pytest.mark.slow
@pytest.mark.parametrize("api", ["v1", "v2"])
def test_workers_in_step(api, tmp_path):
    with run(api, "multi_worker", (*KERAS, *LOOPS), tmp_path, worker=2) as tasks:
        for task in tasks.values():
            for result in task.results(tasks).values():
                check(result)


@pytest.mark.parametrize("jobs", [{"chief": 1, "worker": 1}, pytest.param({"worker": 2}, marks=pytest.mark.slow)],
                         ids=["chief", "workers"])
@pytest.mark.parametrize("api", [pytest.param("v1", marks=pytest.mark.slow), "v2"])
def test_an_estimator_of_workers_in_step(api, jobs, tmp_path):
    with run(api, "multi_worker", ["train_and_evaluate"], tmp_path, **jobs, evaluator=1) as tasks:
        for task in tasks.values():
            found = task.results(tasks)["train_and_evaluate"]
    assert found["step"] == matrix.STEPS                       # the evaluator's, which is the last
    check(found)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["default", "parameter_server"])
@pytest.mark.parametrize("api", ["v1", "v2"])
def test_an_estimator_with_parameter_servers(api, strategy, tmp_path, monkeypatch):
    monkeypatch.setenv("MATRIX_ASYNC", "1")
    with run(api, strategy, ["train_and_evaluate"], tmp_path, ps=1, chief=1, worker=1, evaluator=1) as tasks:
        for (job, _), task in tasks.items():
            if job != "ps":
                found = task.results(tasks)["train_and_evaluate"]
    assert found["step"] >= matrix.STEPS
    check(found, exact=False)


@pytest.mark.slow
def test_a_coordinator(tmp_path):
    with run("v2", "coordinated", ("fit_dataset", "coordinated_loop"), tmp_path, ps=1, worker=2, chief=1) as tasks:
        found = tasks["chief", 0].results(tasks)
    for result in found.values():
        check(result, exact=False)
