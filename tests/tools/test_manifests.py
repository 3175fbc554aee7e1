"""Kubernetes manifests in docs/manifests: valid by the schemas, and true about penstock and about each other."""
import importlib
import json
import pathlib
import re

import pytest
import yaml

import penstock.compat.v1 as tf
from penstock._src import tools

DOCS = pathlib.Path(__file__).parents[2] / "docs"
FILES = sorted(p for p in (DOCS / "manifests").rglob("*.yaml") if p.name != "kustomization.yaml")


def _objects(path):
    return [o for o in yaml.safe_load_all(path.read_text()) if o]


def _templates(value):
    """The pod templates anywhere below `value`: they have a spec with containers."""
    if isinstance(value, dict):
        if isinstance(value.get("spec"), dict) and "containers" in value["spec"]:
            yield value
        for v in value.values():
            yield from _templates(v)
    elif isinstance(value, list):
        for v in value:
            yield from _templates(v)


TRAINING = {o["kind"] + " " + o["metadata"]["name"]: o for p in FILES if p.parent.name == "training" for o in _objects(p)}


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_schemas(path):
    validate = pytest.importorskip("kubernetes_validate", reason="`make manifests` installs the schemas of Kubernetes (70 MB)")
    checked = 0
    for made in _objects(path):
        if "kubeflow" not in made["apiVersion"]:
            validate.validate(made, "1.31", strict=True)
            checked += 1
        for template in _templates(made):
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": template["spec"]}
            validate.validate(pod, "1.31", strict=True)
            checked += 1
    assert checked or all(o["kind"] == "TrainJob" for o in _objects(path))


def _count(made):
    return made["spec"].get("replicas") or made["spec"]["completions"]


def test_every_task_has_a_pod_with_its_address():
    cluster = tf.train.ClusterSpec(json.loads(TRAINING["ConfigMap digits-cluster"]["data"]["cluster"]))
    service = TRAINING["Service digits"]
    port = service["spec"]["ports"][0]["port"]
    kinds = {"ps": "StatefulSet", "chief": "Job", "worker": "Job"}
    assert set(cluster.jobs) == set(kinds)
    for job, kind in kinds.items():
        made = TRAINING[f"{kind} digits-{job}"]
        template = made["spec"]["template"]
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        assert template["spec"].get("subdomain", made["spec"].get("serviceName")) == service["metadata"]["name"]
        assert cluster.job_tasks(job) == [f"{made['metadata']['name']}-{i}.digits:{port}" for i in range(_count(made))]


def _expanded(env):
    """Environment variables as Kubernetes expands them; the index of the pod is 0."""
    values = {}
    for entry in env:
        value = entry.get("value")
        if value is None:
            source = entry["valueFrom"]
            key = source.get("configMapKeyRef")
            value = "0" if "fieldRef" in source else "secret"
            if key:
                value = TRAINING[f"ConfigMap {key['name']}"]["data"][key["key"]]
        values[entry["name"]] = re.sub(r"\$\((\w+)\)", lambda m: values[m.group(1)], value)
    return values


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_pods_know_their_place_and_have_a_secret(path):
    for template in _templates(_objects(path)):
        for container in template["spec"]["containers"]:
            values = _expanded(container.get("env", []))
            tokens = "--token_file=/secrets/tokens" in container.get("args", ())
            assert tokens or {"PENSTOCK_SECRET", "PENSTOCK_SECRET_FILE"} & set(values)
            if "TF_CONFIG" in values:
                place = json.loads(values["TF_CONFIG"])
                assert place["task"]["index"] == 0 and place["task"]["type"] in place["cluster"]


def test_workers_whose_index_may_fail_are_not_restarted_in_place():
    """The API server refuses backoffLimitPerIndex with any other restart policy; the schemas do not know."""
    for made in TRAINING.values():
        if "backoffLimitPerIndex" in made.get("spec", {}):
            assert made["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_every_file_belongs_to_the_kustomization():
    base = yaml.safe_load((DOCS / "manifests" / "training" / "kustomization.yaml").read_text())
    assert sorted(base["resources"]) == [p.name for p in FILES if p.parent.name == "training"]
    gpu = yaml.safe_load((DOCS / "manifests" / "gpu" / "kustomization.yaml").read_text())
    assert gpu["resources"] == ["../training"]
    (patch,) = gpu["patches"]
    label, value = patch["target"]["labelSelector"].split("=")
    patched = [o for o in TRAINING.values() if o["kind"] == "Job" and o["metadata"]["labels"].get(label) == value]
    assert len(patched) == 2
    for operation in yaml.safe_load(patch["patch"]):
        for made in patched:
            place = made
            for step in operation["path"].split("/")[1:-1]:
                place = place[int(step)] if isinstance(place, list) else place[step]
            assert isinstance(place, dict)


def test_commands_exist():
    for template in _templates([_objects(p) for p in FILES]):
        for container in template["spec"]["containers"]:
            command = container.get("command", [])
            if command[:1] == ["penstock"]:
                assert hasattr(importlib.import_module(f"{tools.__name__}.{command[1]}"), "add_arguments"), command
