"""The resolver of MultiWorkerMirroredStrategy, which programs ask for their task."""
import json

import penstock as tf


def test_without_a_resolver_the_cluster_is_that_of_the_environment(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    resolver = strategy.cluster_resolver
    assert (resolver.task_type, resolver.task_id) == (None, None) and not resolver.cluster_spec().as_dict()
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}))
    assert (resolver.task_type, resolver.task_id) == ("worker", 1)
    assert resolver.cluster_spec().as_dict() == {"worker": ["a:1", "b:2"]}


def test_tf_config_may_name_the_master_and_some_tasks(monkeypatch):
    config = {"cluster": {"ps": ["p:1", "q:2"], "worker": {"1": "b:2"}}, "task": {"type": "ps", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    assert resolver.cluster_spec().as_dict() == {"ps": ["p:1", "q:2"], "worker": {1: "b:2"}}
    assert resolver.master() == "p:1" and resolver.master("worker", 1, rpc_layer="grpc") == "grpc://b:2"
    monkeypatch.setenv("TF_CONFIG", json.dumps({**config, "session_master": "m:3"}))
    assert resolver.master() == "m:3"
