"""Versions: which are loaded, switching without losing requests, labels, warm-up, and the formats of models."""
import os
import pathlib
import shutil
import threading

import grpc
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.base import errors
from penstock._src.io.record import TFRecordWriter
from penstock._src.serving import config, versions
from penstock._src.serving.messages import pb
from penstock._src.serving.repository import Repository, Version
from tests.checks import eventually
from tests.serving.models import Client, config_of, floats, half_plus, serving


def policy(text):
    return config.parsed(text, pb.ServableVersionPolicy(), "policy")


@pytest.mark.parametrize("text, expected", [
    ("", [7]), ("latest {}", [7]), ("latest { num_versions: 2 }", [5, 7]), ("all {}", [1, 5, 7]),
    ("specific { versions: 5 versions: 1 versions: 9 }", [1, 5]), ("latest { num_versions: 9 }", [1, 5, 7])])
def test_policies(text, expected):
    assert versions.aspired([5, 1, 7], policy(text)) == expected


def test_a_specific_policy_names_versions():
    with pytest.raises(errors.InvalidArgumentError):
        versions.aspired([1], policy("specific {}"))


def test_folders_that_are_versions(tmp_path):
    for name in ("1", "00000012", "x3", "3.tmp", "-4", "99999999999999999999999", "\u0663"):
        (tmp_path / name).mkdir()
    assert list(versions.found(str(tmp_path))) == [1, 12]
    assert versions.found(str(tmp_path / "none")) == {}


class Loader:
    """Loads nothing; versions in `broken` fail."""

    def __init__(self):
        self.broken, self.loaded, self.closed = set(), [], []

    def __call__(self, version):
        self.loaded.append(version.number)
        if version.number in self.broken:
            raise errors.invalid("broken")
        version.servable = self
        self.number = version.number

    def close(self):
        self.closed.append(self.number)


@pytest.fixture
def repository(tmp_path):
    loader, now = Loader(), [0.0]
    made = Repository(loader, retries=1, retry_seconds=10, clock=lambda: now[0])
    made.loader, made.now, made.folder = loader, now, tmp_path
    return made


def add(repository, *numbers):
    for n in numbers:
        (repository.folder / str(n)).mkdir()
    repository.poll()


def states(repository):
    return {v.number: v.state for v in repository.status(pb.ModelSpec(name="m"))}


def test_a_new_version_replaces_the_old_one_after_its_last_request(repository):
    repository.configure((config_of("m", repository.folder),))
    add(repository, 1)
    held = repository.acquire(pb.ModelSpec(name="m"))
    add(repository, 2)                                       # does not wait for the request
    assert states(repository) == {1: "UNLOADING", 2: "AVAILABLE"} and not repository.loader.closed
    other = repository.acquire(pb.ModelSpec(name="m"))
    assert other.number == 2
    repository.release(held)
    assert eventually(lambda: states(repository)[1] == "END")
    assert states(repository) == {1: "END", 2: "AVAILABLE"} and len(repository.loader.closed) == 1
    repository.release(other)
    repository.close()
    assert len(repository.loader.closed) == 2


def test_a_broken_version_is_refused_and_the_old_one_stays(repository):
    repository.configure((config_of("m", repository.folder),))
    add(repository, 1)
    repository.loader.broken.add(2)
    add(repository, 2)
    assert states(repository) == {1: "AVAILABLE", 2: "END"}
    failed, = (v for v in repository.status(pb.ModelSpec(name="m")) if v.number == 2)
    assert failed.error.message == "broken" and repository.acquire(pb.ModelSpec(name="m")).number == 1
    repository.poll()
    assert repository.loader.loaded == [1, 2]                # not at once again
    repository.now[0] = 11
    repository.poll()
    repository.now[0] = 30
    repository.poll()
    assert repository.loader.loaded == [1, 2, 2]             # one retry
    repository.loader.broken.clear()
    (repository.folder / "2" / "saved_model.pb").write_bytes(b"")       # changed, so worth another try
    repository.release(repository.acquire(pb.ModelSpec(name="m", version={"value": 1})))
    repository.status(pb.ModelSpec(name="m"))[1].requests = 0
    repository.poll()
    assert states(repository) == {1: "END", 2: "AVAILABLE"}


def test_a_version_that_is_copied_slowly_is_loaded_when_it_is_complete(tmp_path):
    """Also if the last change is within a folder of the version, to a file that was there before."""
    half_plus(tmp_path / "m", 1)
    source = pathlib.Path(half_plus(tmp_path / "other", 2, 5.0))
    files = sorted(p.relative_to(source) for p in source.rglob("*") if p.is_file())
    with serving(config_of("m", tmp_path / "m"), max_num_load_retries=0) as server, Client(server) as client:
        found = []
        for name in files:
            target, data = tmp_path / "m" / "2" / name, (source / name).read_bytes()
            target.parent.mkdir(parents=True, exist_ok=True)
            for part in (data[:3], data):
                target.write_bytes(part)
                server.core.repository.poll()
                found.append(client.predict("m", x=floats(0))["y"].item())
        assert found == [2.0] * (2 * len(files) - 1) + [5.0]


def test_labels_point_to_versions_that_are_available(repository):
    add_all = config_of("m", repository.folder, model_version_policy={"all": {}}, version_labels={"stable": 1})
    (repository.folder / "1").mkdir()
    repository.configure((add_all,))
    assert repository.acquire(pb.ModelSpec(name="m", version_label="stable")).number == 1
    add_all.version_labels["canary"] = 2
    with pytest.raises(errors.FailedPreconditionError, match="version 2 of model m, which is not currently available"):
        repository.configure((add_all,))
    assert repository.acquire(pb.ModelSpec(name="m", version_label="stable")).number == 1
    (repository.folder / "2").mkdir()
    repository.configure((add_all,))
    assert repository.acquire(pb.ModelSpec(name="m", version_label="canary")).number == 2


def test_models_that_are_no_longer_configured_are_unloaded(repository):
    repository.configure((config_of("m", repository.folder),))
    add(repository, 1)
    repository.configure(())
    assert len(repository.loader.closed) == 1
    with pytest.raises(errors.NotFoundError, match=r"Latest\(m\)"):
        repository.acquire(pb.ModelSpec(name="m"))


def test_a_folder_that_is_removed_is_unloaded(repository):
    repository.configure((config_of("m", repository.folder),))
    add(repository, 1)
    shutil.rmtree(repository.folder / "1")
    repository.poll()
    assert len(repository.loader.closed) == 1 and not repository.ready("m")


def test_configuration_files(tmp_path):
    path = tmp_path / "models.config"
    path.write_text('model_config_list { config { name: "a" base_path: "/a" model_platform: "tensorflow" '
                    'model_version_policy { specific { versions: 3 } } version_labels { key: "x" value: 3 } } }')
    model, = config.read_models(str(path))
    assert (model.name, model.base_path, dict(model.version_labels)) == ("a", "/a", {"x": 3})
    for text in ('model_config_list { config { name: "a" base_path: "/a" } config { name: "a" base_path: "/b" } }', "",
                 'model_config_list { config { name: "a" } }', "model_config_list {", "\xff"):
        path.write_text(text, "latin-1")
        with pytest.raises(errors.InvalidArgumentError):
            config.read_models(str(path))


# -- real models ------------------------------------------------------------------------------------------------------
def test_no_request_is_lost_while_versions_change(tmp_path):
    half_plus(tmp_path, 1, 1.0)
    for n in range(2, 7):
        half_plus(tmp_path / "later", n, float(n))
    with serving(config_of("m", tmp_path)) as server, Client(server) as client:
        found, ended = [], threading.Event()

        def ask():
            while not ended.is_set():
                found.append(client.predict("m", x=floats(4))["y"].item() - 2)
        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for n in range(2, 7):
            os.rename(tmp_path / "later" / str(n), tmp_path / str(n))
            server.core.repository.poll()
        seen = len(found)
        while len(found) < seen + 10:
            ended.wait(0.01)
        ended.set()
        for thread in threads:
            thread.join()
    assert set(found) <= {1.0, 2.0, 3.0, 4.0, 5.0, 6.0} and found[-1] == 6.0


def test_damaged_models_are_refused(tmp_path):
    half_plus(tmp_path, 1)
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "saved_model.pb").write_bytes(b"\xff" * 100)
    (tmp_path / "3").mkdir()
    shutil.copytree(half_plus(tmp_path / "other", 4), tmp_path / "4", ignore=lambda *_: ["variables"])
    with serving(config_of("m", tmp_path, model_version_policy={"all": {}})) as server, Client(server) as client:
        found = client.rest("GET", "/v1/models/m")[1]["model_version_status"]
        assert {s["version"]: s["state"] for s in found} == {"1": "AVAILABLE", "2": "END", "3": "END", "4": "END"}
        assert all(s["status"]["error_message"] for s in found if s["version"] != "1")
        assert client.predict("m", x=floats(0))["y"].tolist() == [2.0]


def warm(path, *logs):
    os.makedirs(os.path.join(path, "assets.extra"))
    with TFRecordWriter(os.path.join(path, "assets.extra", "tf_serving_warmup_requests")) as writer:
        for log in logs:
            writer.write(log.SerializeToString())


def prediction_log(**inputs):
    log = pb.PredictionLog()
    log.predict_log.request.model_spec.name = "m"
    for key, value in inputs.items():
        log.predict_log.request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
    return log


def test_warm_up(tmp_path):
    path = half_plus(tmp_path, 1)
    warm(path, prediction_log(x=floats(1)), prediction_log(x=floats(1, 2)))
    warm(half_plus(tmp_path, 2), prediction_log(z=floats(1)))
    with serving(config_of("m", tmp_path, model_version_policy={"all": {}})) as server, Client(server) as client:
        assert server.core.metrics.warmup_records.value(path, "OK") == 2
        found = client.rest("GET", "/v1/models/m/versions/2")[1]["model_version_status"][0]
        assert found["state"] == "END" and "Missing but required: {x}" in found["status"]["error_message"]


def test_keras_files_and_frozen_graphs(tmp_path):
    model = tf2.keras.Sequential([tf2.keras.layers.Input((3,)), tf2.keras.layers.Dense(2)])
    for name in ("model.keras", "model.h5"):
        (tmp_path / name / "1").mkdir(parents=True)
        model.save(str(tmp_path / name / "1" / name))
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None], "x")
        tf.add(x * 2, tf.placeholder_with_default(tf.constant(1.0), [], "one"), name="y")
    (tmp_path / "frozen" / "1").mkdir(parents=True)
    (tmp_path / "frozen" / "1" / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
    names = ("model.keras", "model.h5", "frozen")
    with serving(*(config_of(n, tmp_path / n) for n in names)) as server, Client(server) as client:
        rows = np.arange(6, dtype=np.float32).reshape(2, 3)
        for name in names[:2]:
            status, answer = client.rest("POST", f"/v1/models/{name}:predict", {"instances": rows.tolist()})
            assert status == 200
            np.testing.assert_allclose(answer["predictions"], model(rows).numpy(), rtol=1e-5, atol=1e-6)
        assert client.predict("frozen", x=floats(1, 2), one=np.float32(5)) == {"y": pytest.approx([7, 9])}


def test_request_log_warms_up_the_next_version(tmp_path):
    half_plus(tmp_path / "m", 1)
    model = config_of("m", tmp_path / "m")
    model.logging_config.log_collector_config.filename_prefix = str(tmp_path / "log")
    model.logging_config.sampling_config.sampling_rate = 1.0
    with serving(model) as server, Client(server) as client:
        client.predict("m", x=floats(2))
        client.rest("POST", "/v1/models/m:predict", {"instances": [4.0]})
    path, = tmp_path.glob("log-*.tfrecord")
    logs = [pb.PredictionLog.FromString(r) for r in tf.python_io.tf_record_iterator(str(path))]
    assert [tf.make_ndarray(g.predict_log.response.outputs["y"]).tolist() for g in logs] == [[3.0], [4.0]]
    assert logs[0].log_metadata.saved_model_tags == ["serve"]
    path = half_plus(tmp_path / "n", 1)
    warm(path, *logs)
    with serving(config_of("n", tmp_path / "n")) as server:
        assert server.core.metrics.warmup_records.value(path, "OK") == 2


def test_status_of_unknown_collectors(tmp_path):
    model = config_of("m", tmp_path)
    model.logging_config.log_collector_config.filename_prefix = "x"
    model.logging_config.log_collector_config.type = "kafka"
    with pytest.raises(errors.InvalidArgumentError, match="Unknown log collector 'kafka'"), serving(model):
        pass


def test_a_deadline_that_has_passed(served):
    with Client(served) as client, pytest.raises(grpc.RpcError) as failed:
        client.predict("half_plus_two", timeout=-1.0, x=floats(1))    # gRPC rounds short times up to what a call takes
    assert failed.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED


def test_a_version_is_released_when_its_request_fails(served):
    with Client(served) as client, pytest.raises(grpc.RpcError):
        client.predict("half_plus_two", z=floats(1))
    versions_now = served.core.repository.status(pb.ModelSpec(name="half_plus_two"))
    assert isinstance(versions_now[0], Version) and [v.requests for v in versions_now] == [0, 0]
