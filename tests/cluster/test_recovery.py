"""Training that finds its way back: what each fault costs, with real processes. docs/resilience.md is the table of these.

Two parameter servers and two workers run examples/digits_cluster.py, with a checkpoint every 50 steps and a heartbeat of 0.3 s
(1 s is the default), so that a task that is silent for 1.2 s is lost.
"""
import re
import signal
import time

import pytest

from tests.chaos.storm import Cluster
from tests.checks import eventually

pytestmark = pytest.mark.distributed
STEPS = 250


@pytest.fixture
def cluster(nursery, tmp_path):
    """`cluster()` starts the training, and returns it when the checkpoint of step 50 is there."""
    made = []

    def start(*args, cuttable=False, heartbeat=0.3, **jobs):
        jobs = jobs or {"ps": 2, "worker": 2}
        cluster = Cluster(nursery, tmp_path, jobs, f"--folder={tmp_path / 'model'}", f"--steps={STEPS}", "--delay=0.01",
                          *args, cuttable=cuttable, heartbeat=heartbeat)
        made.append(cluster)
        cluster.start_all()
        assert eventually(lambda: cluster.step() >= 50, 100), "the training does not begin"
        return cluster
    yield start
    for cluster in made:
        cluster.close()


def log(cluster, worker):
    return (cluster.folder / f"worker{worker}.log").read_text()


def ends_well(cluster):
    assert cluster.wait(120), f"the training does not end: {log(cluster, 0)[-2000:]} {log(cluster, 1)[-2000:]}"
    for step, loss, accuracy in cluster.results().values():
        assert STEPS <= step <= STEPS + 5 and loss < 0.6 and accuracy > 0.85


def lost(cluster, worker):
    """How often a worker lost its session."""
    return log(cluster, worker).count("A task was lost; the session is closed")


def test_a_parameter_server_is_killed(cluster):
    """All workers notice, and continue from the last checkpoint when it is back."""
    running = cluster(heartbeat=10.0)                         # connections that end are noticed without it
    running.running["ps", 1].signal(signal.SIGKILL)
    assert eventually(lambda: lost(running, 0) and lost(running, 1)), "a task did not notice"
    before = running.step()
    ends_well(running)
    restored = [int(s) for s in re.findall(r"Restoring parameters from \S+model\.ckpt-(\d+)", log(running, 0))]
    assert restored and before - 50 <= restored[0] <= before


@pytest.mark.slow
def test_a_worker_is_killed(cluster):
    """The other one does not notice; the new one continues with the next batch."""
    running = cluster()
    running.running["worker", 1].signal(signal.SIGKILL)
    ends_well(running)
    assert running.restarts == 1 and not lost(running, 0)
    assert "The input resumes at its position of step" in log(running, 1)


@pytest.mark.slow
def test_the_chief_is_killed(cluster):
    """The other worker continues; the new chief restores the last checkpoint."""
    running = cluster()
    running.running["worker", 0].signal(signal.SIGKILL)
    ends_well(running)
    assert running.restarts == 1 and not lost(running, 1) and "Restoring parameters" in log(running, 0)


@pytest.mark.slow
def test_the_chief_moves(cluster):
    """The chief is gone permanently; another worker is started in its place, and the job ends."""
    running = cluster()
    for worker in range(2):
        running.running["worker", worker].signal(signal.SIGKILL)
        running.running["worker", worker].wait(60)
    running.done.add(("worker", 0))                           # it is not restarted
    running.start(("worker", 1), "--chief=1")
    ends_well(running)
    assert "Restoring parameters" in log(running, 1)


@pytest.mark.slow
@pytest.mark.parametrize("task", [("ps", 0), ("worker", 0), ("worker", 1)], ids=lambda t: f"{t[0]}{t[1]}")
def test_a_process_is_stopped_and_goes_on(cluster, task):
    running = cluster()
    child = running.running[task]
    child.signal(signal.SIGSTOP)
    if task[0] == "ps":
        assert eventually(lambda: lost(running, 0) and lost(running, 1), 60)
    else:
        time.sleep(2.5)                                       # longer than the 1.2 s after which a silent task is lost
    child.signal(signal.SIGCONT)
    ends_well(running)
    if task[0] == "worker":
        assert not lost(running, 1 - task[1]), "the other worker was disturbed"


@pytest.mark.slow
@pytest.mark.parametrize("task", [("ps", 0), ("worker", 1)], ids=lambda t: f"{t[0]}{t[1]}")
def test_a_task_is_cut_off_for_a_while(cluster, task):
    running = cluster(cuttable=True)
    running.network.cut(task)
    worker = task[1] if task[0] == "worker" else 0
    assert eventually(lambda: lost(running, worker), 60)
    running.network.mend(task)
    ends_well(running)


@pytest.mark.slow
def test_a_short_cut_is_not_noticed(cluster):
    running = cluster(cuttable=True, heartbeat=5.0)           # a task is lost after 20 s
    running.network.cut(("ps", 0))
    time.sleep(0.4)
    running.network.mend(("ps", 0))
    ends_well(running)
    assert not lost(running, 0) and not lost(running, 1)


@pytest.mark.slow
def test_a_worker_comes_later(cluster):
    """Workers are not waited for: one that begins late takes part from then on."""
    running = cluster("--steps=800")
    late = running.running.pop(("worker", 1))
    late.signal(signal.SIGKILL)
    late.wait(60)
    before = running.step()
    assert eventually(lambda: running.step() > before, 60), "the other worker does not go on"
    running.start(("worker", 1))
    assert running.wait(60)
    assert int(re.findall(r"own steps (\d+)", log(running, 1))[-1]) > 5


@pytest.mark.slow
@pytest.mark.parametrize("who", [("ps", 1), ("worker", 0), ("worker", 1)], ids=lambda t: f"{t[0]}{t[1]}")
def test_synchronous_training_goes_on_too(cluster, who):
    running = cluster("--sync", "--delay=0.005")
    running.running[who].signal(signal.SIGKILL)
    ends_well(running)
    assert running.restarts == 1
