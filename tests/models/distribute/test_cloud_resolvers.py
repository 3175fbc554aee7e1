"""Clusters that schedulers have started, from their environment or from a client that the test has written."""
from __future__ import annotations

import os
import types

import pytest

import penstock as tf
from penstock._src.models.distribute.cloud_resolvers import expand_hostlist

R = tf.distribute.cluster_resolver


@pytest.mark.parametrize("short, hosts", [
    ("n1", ["n1"]), ("n[1-3]", ["n1", "n2", "n3"]), ("n[01-02,7],m4", ["n01", "n02", "n7", "m4"]),
    ("a[1]b,c", ["a1b", "c"])])
def test_hosts_in_the_short_form_of_slurm(short, hosts):
    assert expand_hostlist(short) == hosts


def test_slurm(monkeypatch):
    monkeypatch.delenv("SLURM_PROCID", raising=False)
    with pytest.raises(RuntimeError, match="SLURM_PROCID"):
        R.SlurmClusterResolver()
    for name, value in (("PROCID", "3"), ("STEP_NODELIST", "t02n[13,41]"), ("STEP_TASKS_PER_NODE", "2(x2)")):
        monkeypatch.setenv("SLURM_" + name, value)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "none")
    found = R.SlurmClusterResolver({"ps": 1, "worker": 3}, gpus_per_node=2)
    assert found.cluster_spec() == tf.train.ClusterSpec({
        "ps": ["t02n13:8888"], "worker": ["t02n13:8889", "t02n41:8888", "t02n41:8889"]})
    assert (found.task_type, found.task_id) == ("worker", 2) and found.master() == "grpc://t02n41:8889"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
    with pytest.raises(RuntimeError, match="5 tasks"):
        R.SlurmClusterResolver({"worker": 5})


def pod(name, address, phase="Running"):
    return types.SimpleNamespace(metadata=types.SimpleNamespace(name=name),
                                 status=types.SimpleNamespace(phase=phase, host_ip=address))


def test_kubernetes():
    pods = {"app=w": [pod("w1", "10.0.0.2"), pod("w0", "10.0.0.1")], "app=ps": [pod("p", "10.0.0.3")]}
    client = types.SimpleNamespace(list_pod_for_all_namespaces=lambda label_selector: types.SimpleNamespace(
        items=pods[label_selector]))
    found = R.KubernetesClusterResolver({"worker": ["app=w"], "ps": ["app=ps"]}, tf_server_port=9, override_client=client)
    assert found.cluster_spec() == tf.train.ClusterSpec({"worker": ["10.0.0.1:9", "10.0.0.2:9"], "ps": ["10.0.0.3:9"]})
    assert found.master("ps", 0) == "grpc://10.0.0.3:9" and found.master() == ""
    pods["app=ps"] = [pod("p", "10.0.0.3", "Pending")]
    with pytest.raises(RuntimeError, match="Pending"):
        found.cluster_spec()


class Call:
    def __init__(self, result):
        self.execute = lambda: result


class Service:
    """Two pages of instances."""

    def instanceGroups(self):                                                       # noqa: N802  Google's names
        pages = [{"items": [{"instance": "https://x/b"}]}, {"items": [{"instance": "https://x/a"}]}]
        return types.SimpleNamespace(listInstances=lambda **_: Call(pages.pop(0)),
                                     listInstances_next=lambda **_: Call(pages.pop(0)) if pages else None)

    def instances(self):
        addresses = {"a": "10.2.3.1", "b": "10.2.3.2"}
        return types.SimpleNamespace(get=lambda instance, project, zone: Call(
            {"networkInterfaces": [{"networkIP": addresses[instance]}]}))


def test_google_compute_engine():
    found = R.GCEClusterResolver("project", "zone", "group", 8470, service=Service())
    assert found.cluster_spec() == tf.train.ClusterSpec({"worker": ["10.2.3.1:8470", "10.2.3.2:8470"]})
    assert found.master("worker", 1) == "grpc://10.2.3.2:8470"


def test_groups_of_collectives():
    found = [tf.raw_ops.CollectiveAssignGroupV2(group_assignment=[[0, 2], [1, 3]], device_index=i, base_key=100)
             for i in range(4)]
    assert [(int(size), int(key)) for size, key in found] == [(2, 100), (2, 101), (2, 100), (2, 101)]
    with pytest.raises(tf.errors.InvalidArgumentError, match="one group"):
        tf.raw_ops.CollectiveAssignGroupV2(group_assignment=[[0, 2], [1, 3]], device_index=7, base_key=100)


def test_composite_tensors_as_variants():
    encoded = tf.raw_ops.CompositeTensorVariantFromComponents(components=[tf.constant([1, 2]), tf.constant("a")], metadata="")
    decode = tf.raw_ops.CompositeTensorVariantToComponents
    found = decode(encoded=encoded, metadata="", Tcomponents=[tf.int32, tf.string])
    assert [t.numpy().tolist() if t.shape.rank else t.numpy() for t in found] == [[1, 2], b"a"]
    for kinds, message in (([tf.int32], "has 2 tensor components; expected 1"), ([tf.int32, tf.float32], "dtype DT_STRING")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            decode(encoded=encoded, metadata="", Tcomponents=kinds)
    other = tf.raw_ops.EmptyTensorList(element_dtype=tf.int32, element_shape=[1], max_num_elements=2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="not a valid CompositeTensorVariant"):
        decode(encoded=other, metadata="", Tcomponents=[tf.int32])


def test_variables_go_on_after_disable_copy_on_read():
    v = tf.Variable(1.0)
    tf.raw_ops.DisableCopyOnRead(resource=v.handle)
    assert float(v.assign_add(1.0)) == 2.0


def test_jobs_of_lists_and_of_numbered_tasks_are_joined():
    C = tf.train.ClusterSpec
    listed = R.SimpleClusterResolver(C({"worker": ["a:1", "b:2"]}))
    numbered = R.SimpleClusterResolver(C({"worker": {3: "c:3", 6: "d:4"}}))
    for pair in ((listed, numbered), (numbered, listed)):
        assert R.UnionResolver(*pair).cluster_spec().as_dict() == {"worker": {0: "a:1", 1: "b:2", 3: "c:3", 6: "d:4"}}
    with pytest.raises(KeyError, match="different addresses for task 1"):
        R.UnionResolver(listed, R.SimpleClusterResolver(C({"worker": {1: "e:5"}}))).cluster_spec()
    assert listed.cluster_spec().as_dict() == {"worker": ["a:1", "b:2"]}


def test_arguments_of_clouds_are_checked():
    with pytest.raises(ValueError, match="executable location"):
        R.KubernetesClusterResolver(executable_location="here", override_client=object())
    google = R.GCEClusterResolver("project", "zone", "group", 1, task_type="ps", service=object())
    assert google.task_type == "ps"
    with pytest.raises(RuntimeError, match="cannot reset the task_type"):
        google.task_type = "worker"
