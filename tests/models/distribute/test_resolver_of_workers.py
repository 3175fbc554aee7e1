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
