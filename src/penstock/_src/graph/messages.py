"""The protocol messages that are public: GraphDef, ConfigProto, Summary, Example and their kin (names: message_names.py).

Most classes come with the tensorboard package. The few that it lacks are declared here, from their field
numbers, in a small notation: `label type name = number`, with `map<key, value>` for maps and `a | b` for the
members of a oneof (`a |` for a single one).
"""
from __future__ import annotations

import re
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError  # noqa: F401
from tensorboard.compat.proto import cluster_pb2, config_pb2
from tensorboard.compat.proto.attr_value_pb2 import AttrValue, NameAttrList  # noqa: F401
from tensorboard.compat.proto.cluster_pb2 import ClusterDef, JobDef  # noqa: F401
from tensorboard.compat.proto.config_pb2 import (  # noqa: F401
    ConfigProto,
    GPUOptions,
    GraphOptions,
    OptimizerOptions,
    RunMetadata,
    RunOptions,
)
from tensorboard.compat.proto.event_pb2 import Event, LogMessage, SessionLog, TaggedRunMetadata  # noqa: F401
from tensorboard.compat.proto.graph_pb2 import GraphDef  # noqa: F401
from tensorboard.compat.proto.histogram_pb2 import HistogramProto  # noqa: F401
from tensorboard.compat.proto.meta_graph_pb2 import MetaGraphDef, TensorInfo  # noqa: F401
from tensorboard.compat.proto.node_def_pb2 import NodeDef  # noqa: F401
from tensorboard.compat.proto.saver_pb2 import SaverDef  # noqa: F401
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryDescription, SummaryMetadata  # noqa: F401
from tensorboard.compat.proto.tfprof_log_pb2 import OpLogProto  # noqa: F401
from tensorboard.compat.proto.variable_pb2 import VariableDef  # noqa: F401

_FieldType = descriptor_pb2.FieldDescriptorProto
_MAP = re.compile(r"map<(\w+), *([\w.]+)> (\w+) = (\d+)")
_FIELD = re.compile(r"(repeated )?([\w.]+) (\w+) = (\d+)")


def declare(name: str, package: str, pool: Any, messages: dict[str, str], depends: tuple = (),
            enums: dict[str, dict[str, str]] | None = None) -> dict[str, Any]:
    """Declares a file of messages in `pool`, and returns the classes by name. `enums`: by message and name, words from 0 on."""
    file = descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax="proto3")
    file.dependency.extend(d.DESCRIPTOR.name for d in depends)
    for message_name, fields in messages.items():
        message = file.message_type.add(name=message_name)
        for part in filter(None, (p.strip() for p in fields.split(";"))):
            if "|" in part:
                message.oneof_decl.add(name="kind")
                for member in filter(None, map(str.strip, part.split("|"))):
                    _add_field(message, member, package).oneof_index = 0
            else:
                _add_field(message, part, package)
        for enum_name, words in (enums or {}).get(message_name, {}).items():
            enum = message.enum_type.add(name=enum_name)
            for number, word in enumerate(words.split()):
                enum.value.add(name=word, number=number)
            for field in message.field:
                if field.type_name == f".{package}.{message_name}.{enum_name}":
                    field.type = _FieldType.TYPE_ENUM
    pool.AddSerializedFile(file.SerializeToString())
    make = message_factory.GetMessageClass
    return {m: make(pool.FindMessageTypeByName(f"{package}.{m}")) for m in messages}


def _add_field(message: Any, text: str, package: str) -> Any:
    entry = _MAP.fullmatch(text)
    if entry is not None:
        key, value, name, number = entry.groups()
        nested = message.nested_type.add(name="".join(w.capitalize() for w in name.split("_")) + "Entry")
        nested.options.map_entry = True
        _add_field(nested, f"{key} key = 1", package)
        _add_field(nested, f"{value} value = 2", package)
        text = f"repeated {message.name}.{nested.name} {name} = {number}"
    match = _FIELD.fullmatch(text)
    if match is None:
        raise ValueError(f"cannot read field {text!r}")
    repeated, kind, name, number = match.groups()
    field = message.field.add(name=name, number=int(number))
    field.label = _FieldType.LABEL_REPEATED if repeated else _FieldType.LABEL_OPTIONAL
    if kind.islower() or kind == "int64":
        field.type = getattr(_FieldType, f"TYPE_{kind.upper()}")
    else:
        field.type = _FieldType.TYPE_MESSAGE
        field.type_name = "." + (kind if kind.startswith(("tensorboard.", "google.")) else f"{package}.{kind}")
    return field


# Records of training data. They have their own pool: another library in the process may have them too.
_example = declare("penstock/example.proto", "tensorflow", descriptor_pool.DescriptorPool(), {
    "BytesList": "repeated bytes value = 1",
    "FloatList": "repeated float value = 1",
    "Int64List": "repeated int64 value = 1",
    "Feature": "BytesList bytes_list = 1 | FloatList float_list = 2 | Int64List int64_list = 3",
    "Features": "map<string, Feature> feature = 1",
    "FeatureList": "repeated Feature feature = 1",
    "FeatureLists": "map<string, FeatureList> feature_list = 1",
    "Example": "Features features = 1",
    "SequenceExample": "Features context = 1; FeatureLists feature_lists = 2",
})

# The state file of a directory of checkpoints, and what starts a server.
_train = declare("penstock/train.proto", "penstock", descriptor_pool.Default(), {
    "CheckpointState": "string model_checkpoint_path = 1; repeated string all_model_checkpoint_paths = 2; "
                       "repeated double all_model_checkpoint_timestamps = 3; "
                       "double last_preserved_timestamp = 4",
    "ServerDef": "tensorboard.ClusterDef cluster = 1; string job_name = 2; int32 task_index = 3; "
                 "tensorboard.ConfigProto default_session_config = 4; string protocol = 5; int32 port = 6",
    "ReaderBaseState": "int64 work_started = 1; int64 work_finished = 2; int64 num_records_produced = 3; "
                       "bytes current_work = 4",
    "QueueRunnerDef": "string queue_name = 1; repeated string enqueue_op_name = 2; string close_op_name = 3; "
                      "string cancel_op_name = 4; repeated int32 queue_closed_exception_types = 5",
}, depends=(cluster_pb2, config_pb2))

# The descriptions of Keras' objects in a SavedModel.
_keras = declare("penstock/keras.proto", "penstock", descriptor_pool.Default(), {
    "KerasObject": "int32 node_id = 2; string node_path = 3; string identifier = 4; string metadata = 5",
    "SavedMetadata": "repeated KerasObject nodes = 1",
})

_, SavedMetadata = _keras.values()
CheckpointState, ServerDef, ReaderBaseState, QueueRunnerDef = _train.values()
(BytesList, FloatList, Int64List, Feature, Features, FeatureList, FeatureLists, Example, SequenceExample) = _example.values()
