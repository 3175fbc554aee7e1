"""The public message classes, and those that are declared here."""

import pytest

import penstock
import penstock.compat.v1 as tf
from penstock._src.graph.messages import CheckpointState


def test_an_example_is_tensorflows_byte_for_byte():
    t = tf.train
    example = t.Example(features=t.Features(feature={
        "a": t.Feature(int64_list=t.Int64List(value=[1, 2, 300])),
        "b": t.Feature(bytes_list=t.BytesList(value=[b"x"])),
        "c": t.Feature(float_list=t.FloatList(value=[1.5]))}))
    data = example.SerializeToString(deterministic=True)
    # What TensorFlow 2.21 writes for the same example.
    assert data.hex() == ("0a2a0a0d0a016112081a060a040102ac020a0a0a016212050a030a01780a0d0a0163120812060a"
                          "040000c03f")
    back = t.Example.FromString(data)
    assert back.features.feature["a"].WhichOneof("kind") == "int64_list"
    assert list(back.features.feature["a"].int64_list.value) == [1, 2, 300]


def test_a_sequence_example_is_tensorflows_byte_for_byte():
    example = tf.train.SequenceExample()
    example.feature_lists.feature_list["q"].feature.add().float_list.value.append(1.0)
    assert example.SerializeToString().hex() == "12110a0f0a0171120a0a0812060a040000803f"


def test_a_server_is_described_with_the_public_classes():
    server = tf.train.ServerDef(cluster=tf.train.ClusterDef(job=[tf.train.JobDef(name="ps", tasks={0: "h:1"})]),
                                job_name="ps", default_session_config=tf.ConfigProto(allow_soft_placement=True))
    back = tf.train.ServerDef.FromString(server.SerializeToString())
    assert back.cluster.job[0].tasks[0] == "h:1" and back.default_session_config.allow_soft_placement


def test_a_checkpoint_state_is_read_from_text():
    from google.protobuf import text_format
    state = text_format.Parse('model_checkpoint_path: "m-2"\nall_model_checkpoint_paths: "m-1"\n'
                              'all_model_checkpoint_timestamps: 1.5\n', CheckpointState())
    assert state.model_checkpoint_path == "m-2" and list(state.all_model_checkpoint_paths) == ["m-1"]


@pytest.mark.parametrize("name", [
    "AttrValue", "ConfigProto", "Event", "GPUOptions", "GraphDef", "GraphOptions", "HistogramProto", "LogMessage",
    "MetaGraphDef", "NameAttrList", "NodeDef", "OptimizerOptions", "RunMetadata", "RunOptions", "SessionLog", "Summary",
    "SummaryMetadata", "TensorInfo", "summary.Event", "summary.SessionLog", "summary.Summary",
    "summary.SummaryDescription", "summary.TaggedRunMetadata", "train.SaverDef"])
def test_the_names_of_version_1(name):
    value = tf
    for part in name.split("."):
        value = getattr(value, part)
    assert value.DESCRIPTOR.name == name.split(".")[-1]


def test_examples_have_the_same_class_in_both_namespaces():
    assert penstock.train.Example is tf.train.Example
