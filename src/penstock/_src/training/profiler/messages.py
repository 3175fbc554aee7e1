"""The messages of a profile: nodes of a tree with their own and their total counts."""
from __future__ import annotations

from tensorboard.compat.proto import tensor_shape_pb2, types_pb2

from penstock._src.graph.messages import declare

_COUNTS = ("int64 exec_micros = 2; int64 requested_bytes = 3; int64 parameters = 4; int64 total_exec_micros = 6; "
           "int64 total_requested_bytes = 7; int64 total_parameters = 8; ")

_POOL = tensor_shape_pb2.DESCRIPTOR.pool
_MADE = declare("penstock/profile.proto", "tensorflow.tfprof", _POOL, {
    "TFProfTensorProto": "tensorboard.DataType dtype = 1; repeated double value_double = 2; repeated int64 value_int64 = 3; "
                         "repeated string value_str = 4",
    "GraphNodeProto": _COUNTS + "string name = 1; TFProfTensorProto tensor_value = 15; int64 run_count = 21; "
                      "int64 accelerator_exec_micros = 17; int64 cpu_exec_micros = 18; int64 peak_bytes = 24; "
                      "int64 residual_bytes = 25; int64 output_bytes = 26; int64 float_ops = 13; repeated string devices = 10; "
                      "int64 total_definition_count = 23; int64 total_run_count = 22; "
                      "int64 total_accelerator_exec_micros = 19; "
                      "int64 total_cpu_exec_micros = 20; int64 total_peak_bytes = 27; int64 total_residual_bytes = 28; "
                      "int64 total_output_bytes = 29; int64 total_float_ops = 14; "
                      "repeated tensorboard.TensorShapeProto shapes = 11; repeated GraphNodeProto children = 12",
    "MultiGraphNodeProto": _COUNTS + "string name = 1; int64 accelerator_exec_micros = 12; int64 cpu_exec_micros = 13; "
                           "int64 peak_bytes = 16; int64 residual_bytes = 17; int64 output_bytes = 18; int64 float_ops = 5; "
                           "int64 total_accelerator_exec_micros = 14; int64 total_cpu_exec_micros = 15; "
                           "int64 total_peak_bytes = 19; int64 total_residual_bytes = 20; int64 total_output_bytes = 21; "
                           "int64 total_float_ops = 9; repeated GraphNodeProto graph_nodes = 10; "
                           "repeated MultiGraphNodeProto children = 11",
    "Checker": "repeated string reports = 2",
    "AdviceProto": "map<string, Checker> checkers = 1",
}, depends=(tensor_shape_pb2, types_pb2))
GraphNodeProto, MultiGraphNodeProto, AdviceProto = (_MADE[n] for n in ("GraphNodeProto", "MultiGraphNodeProto", "AdviceProto"))
