"""The lectures' and the textbooks' distributed programs (examples/), as real processes."""
import re

import pytest

from penstock._src.cluster.launch import surroundings
from tests.checks import eventually
from tests.cluster.conftest import addresses
from tests.cluster.nursery import ROOT

pytestmark = pytest.mark.distributed
EXAMPLES = ROOT / "examples"


@pytest.fixture
def start(nursery, tmp_path):
    """Starts a program; returns its process and a function for what it has printed."""
    made = []

    def run(name, program, *args, **env):
        log = tmp_path / f"{name}.log"
        child = nursery.start(log, EXAMPLES / f"{program}.py", *args, env=env)
        made.append(child)
        return child, log.read_text
    yield run
    for child in made:
        child.signal(9)
        child.wait(60)


def cluster_of(start, program, jobs, *args):
    """Starts a program for each task, with the textbooks' flags; returns those of the workers."""
    spec = addresses(**jobs)
    hosts = [f"--{job}_hosts={','.join(spec[job])}" for job in ("ps", "worker")]
    made = {(job, i): start(f"{job}{i}", program, f"--job_name={job}", f"--task_index={i}", *hosts, *args)
            for job, n in jobs.items() for i in range(n)}
    return [made["worker", i] for i in range(jobs["worker"])]


def finished(child, said):
    assert child.wait(60) == 0, said()
    return said()


def test_layers_in_two_jobs(start):
    spec = addresses(one=1, two=2)
    where = [f"--one={spec['one'][0]}", f"--two={','.join(spec['two'])}"]
    for job, i in (("one", 0), ("two", 0), ("two", 1)):
        start(f"{job}{i}", "lecture_two_jobs", f"--job_name={job}", f"--task_index={i}", *where)
    said = finished(*start("client", "lecture_two_jobs", *where, "--steps=120"))
    accuracy, first, second = re.search(r"accuracy ([\d.]+); w1 on (\S+), w2 on (\S+)", said).groups()
    assert float(accuracy) > 0.85
    assert first.startswith("/job:one/") and second.startswith("/job:two/")


def test_two_clients_one_variable(start, cluster):
    servers = cluster(ps=1, worker=2)
    one, two = servers["worker", 0].target, servers["worker", 1].target
    runs = [(one, "--init"), (one,), (two, "--init"), (two,), (one,),                    # each task has its own
            (one, "--init", "--device=/job:ps/task:0/cpu:0"), (two, "--device=/job:ps/task:0/cpu:0")]
    printed = [finished(*start(f"client{i}", "simple_client", *args)).split()[-1] for i, args in enumerate(runs)]
    assert printed == ["1.0", "2.0", "1.0", "2.0", "3.0", "1.0", "2.0"]


@pytest.mark.parametrize("more", [pytest.param([], id="asynchronous", marks=pytest.mark.slow),
                                  pytest.param(["--sync_replicas"], id="synchronous")])
def test_the_textbook_program(start, more):
    workers = cluster_of(start, "textbook_supervisor", {"ps": 2, "worker": 2}, "--train_steps=80", *more)
    for worker in workers:
        steps, accuracy = re.search(r"global step (\d+), accuracy ([\d.]+)", finished(*worker)).groups()
        assert 80 <= int(steps) <= 83 and float(accuracy) > 0.8


@pytest.mark.parametrize("more", [pytest.param([], id="asynchronous"),
                                  pytest.param(["--sync"], id="synchronous", marks=pytest.mark.slow),
                                  pytest.param(["--sync", "--aggregate=1"], id="backup", marks=pytest.mark.slow)])
def test_monitored_training(start, more, tmp_path):
    workers = cluster_of(start, "digits_cluster", {"ps": 2, "worker": 2}, "--steps=120", f"--folder={tmp_path / 'model'}",
                         *more)
    for worker in workers:
        steps, accuracy = re.findall(r"step (\d+) loss [\d.]+ accuracy ([\d.]+)", finished(*worker))[-1]
        assert 120 <= int(steps) <= 124 and float(accuracy) > 0.8
    assert any((tmp_path / "model").glob("model.ckpt-12?.index"))


def test_one_client_for_all(start):
    spec = addresses(ps=1, worker=2)
    tasks = {(job, i): start(f"{job}{i}", "in_graph", **surroundings(spec, job, i, "secret")) for job, i in
             (("ps", 0), ("worker", 0), ("worker", 1))}
    assert float(re.search(r"accuracy ([\d.]+)", finished(*tasks["worker", 0])).group(1)) > 0.9
    assert eventually(lambda: tasks["worker", 1][0].status == 0)
