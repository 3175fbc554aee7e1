"""train_and_evaluate as a cluster of real processes that TF_CONFIG describes: one worker is killed and started again."""
import json
import re
import signal

import pytest

import penstock.compat.v1 as tf
from penstock._src.cluster.launch import surroundings
from tests.checks import eventually
from tests.cluster.conftest import addresses
from tests.cluster.nursery import ROOT


@pytest.fixture
def start(nursery, tmp_path):
    """`start(spec, job, i)` runs the example as a task; returns its process and a function for what it has printed."""
    made = []

    def run(spec, job, i, life=0, program="estimator_table.py"):
        log = tmp_path / f"{job}{i}_{life}.log"
        log.touch()
        made.append(nursery.start(log, ROOT / "examples" / program, f"--folder={tmp_path / 'model'}",
                                  "--steps=300", "--save_steps=50", "--delay=0.05",
                                  env=surroundings(spec, job, i, "secret")))
        return made[-1], log.read_text
    yield run
    for child in made:
        child.signal(signal.SIGKILL)
        child.wait(60)


@pytest.mark.distributed
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("program", ["estimator_table.py", "keras_digits.py"])
def test_a_cluster_trains_on_while_a_worker_is_killed_and_comes_back(start, tmp_path, program):
    spec = addresses(chief=1, worker=2, ps=2)
    tasks = {(job, i): start(spec, job, i, program=program) for job, i in
             (("ps", 0), ("ps", 1), ("chief", 0), ("worker", 0), ("worker", 1), ("evaluator", 0))}
    lost, said = tasks["worker", 1]
    assert eventually(lambda: "worker 1 trains" in said(), 120), said()
    lost.signal(signal.SIGKILL)
    assert lost.wait(60) == -signal.SIGKILL
    tasks["worker", 1] = start(spec, "worker", 1, 1, program)
    for (job, _), (child, said) in tasks.items():
        if job != "ps":
            assert child.wait(150) == 0, said()
    steps = [int(re.search(r"made (\d+) steps", tasks[t][1]()).group(1)) for t in (("chief", 0), ("worker", 0), ("worker", 1))]
    assert min(steps) > 0 and sum(steps) < 306                    # the second life of worker 1 had its part, too
    step, accuracy = re.search(r"evaluator 0: step (\d+) accuracy ([\d.]+)", tasks["evaluator", 0][1]()).groups()
    assert 300 <= int(step) <= 303 and float(accuracy) > 0.9
    assert tf.train.latest_checkpoint(str(tmp_path / "model")).endswith(f"model.ckpt-{step}")
    for i in (0, 1):
        server, said = tasks["ps", i]
        assert server.alive(), said()
        server.signal(signal.SIGTERM)
        assert server.wait(60) == -signal.SIGTERM, said()


@pytest.mark.parametrize("text, match", [
    ("{", "not JSON"), ("[]", "JSON object"),
    (json.dumps({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}), "chief"),
    (json.dumps({"cluster": {"chief": ["a:1"]}}), '"task"'),
    ('{"task": {"type": "chief", "type": "ps"}}', "'type' twice"),
    (json.dumps({"cluster": {"chief": ["a:1"], "ps": ["a:1"]}, "task": {"type": "ps", "index": 0}}), "chief:0 and as ps:0"),
    (json.dumps({"cluster": {"chief": ["a:1"]}, "task": {"type": "worker", "index": 0}}), "worker:0"),
    (json.dumps({"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "worker", "index": 3}}), "worker:3")])
def test_what_is_wrong_with_tf_config_is_said(monkeypatch, text, match):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match=match):
        tf.estimator.RunConfig()
