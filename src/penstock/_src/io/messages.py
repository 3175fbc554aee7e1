"""The messages inside checkpoints and SavedModels, which the tensorboard package does not have."""
from __future__ import annotations

from google.protobuf import descriptor_pool
from tensorboard.compat.proto import meta_graph_pb2, tensor_pb2, tensor_shape_pb2, versions_pb2

from penstock._src.graph.messages import declare

_made = declare("penstock/checkpoint.proto", "penstock", descriptor_pool.Default(), {
    "Extent": "int64 start = 1; int64 length = 2 |",
    "TensorSliceProto": "repeated Extent extent = 1",
    "BundleHeaderProto": "int32 num_shards = 1; int32 endianness = 2; tensorboard.VersionDef version = 3",
    "BundleEntryProto": "int32 dtype = 1; tensorboard.TensorShapeProto shape = 2; int32 shard_id = 3; int64 offset = 4; "
                        "int64 size = 5; fixed32 crc32c = 6; repeated TensorSliceProto slices = 7",
    "SavedSliceMeta": "string name = 1; tensorboard.TensorShapeProto shape = 2; int32 type = 3; "
                      "repeated TensorSliceProto slice = 4",
    "SavedTensorSliceMeta": "repeated SavedSliceMeta tensor = 1; tensorboard.VersionDef versions = 2",
    "SavedSlice": "string name = 1; TensorSliceProto slice = 2; tensorboard.TensorProto data = 3",
    "SavedTensorSlices": "SavedTensorSliceMeta meta = 1; SavedSlice data = 2",
    "SavedModel": "int64 saved_model_schema_version = 1; repeated tensorboard.MetaGraphDef meta_graphs = 2",
}, depends=(meta_graph_pb2, tensor_pb2, tensor_shape_pb2, versions_pb2))

TensorSliceProto = _made["TensorSliceProto"]
BundleHeaderProto = _made["BundleHeaderProto"]
BundleEntryProto = _made["BundleEntryProto"]
SavedTensorSlices = _made["SavedTensorSlices"]
SavedModel = _made["SavedModel"]
