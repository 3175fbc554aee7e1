"""The messages of TensorFlow Serving's protocol, declared from their field numbers: `pb.PredictRequest` and so on.

Packages differ in the names of messages only, which are not part of the wire format: `Any` is the exception, and its type is
set by name (`SIGNATURE_DEF_MAP`). Examples stay serialized: the graph parses them.
"""
from __future__ import annotations

import types
from typing import Any

from google.protobuf import any_pb2, descriptor_pool, wrappers_pb2
from tensorboard.compat.proto import meta_graph_pb2, tensor_pb2

from penstock._src.graph.messages import declare

SIGNATURE_DEF_MAP = "type.googleapis.com/tensorflow.serving.SignatureDefMap"

# States of a version, as ModelVersionStatus numbers them.
STATES = {"UNKNOWN": 0, "START": 10, "LOADING": 20, "AVAILABLE": 30, "UNLOADING": 40, "END": 50}

_made = declare("penstock/serving.proto", "penstock.serving", descriptor_pool.Default(), {
    # requests and responses
    "ModelSpec": "string name = 1; string signature_name = 3; "
                 "google.protobuf.Int64Value version = 2 | string version_label = 4",
    "ExampleList": "repeated bytes examples = 1",
    "ExampleListWithContext": "repeated bytes examples = 1; bytes context = 2",
    "Input": "ExampleList example_list = 1 | ExampleListWithContext example_list_with_context = 2",
    "Class": "string label = 1; float score = 2",
    "Classifications": "repeated Class classes = 1",
    "ClassificationResult": "repeated Classifications classifications = 1",
    "ClassificationRequest": "ModelSpec model_spec = 1; Input input = 2",
    "ClassificationResponse": "ModelSpec model_spec = 2; ClassificationResult result = 1",
    "Regression": "float value = 1",
    "RegressionResult": "repeated Regression regressions = 1",
    "RegressionRequest": "ModelSpec model_spec = 1; Input input = 2",
    "RegressionResponse": "ModelSpec model_spec = 2; RegressionResult result = 1",
    "InferenceTask": "ModelSpec model_spec = 1; string method_name = 2",
    "InferenceResult": "ModelSpec model_spec = 1; "
                       "ClassificationResult classification_result = 2 | RegressionResult regression_result = 3",
    "MultiInferenceRequest": "repeated InferenceTask tasks = 1; Input input = 2",
    "MultiInferenceResponse": "repeated InferenceResult results = 1",
    "PredictRequest": "ModelSpec model_spec = 1; map<string, tensorboard.TensorProto> inputs = 2; "
                      "repeated string output_filter = 3",
    "PredictResponse": "ModelSpec model_spec = 2; map<string, tensorboard.TensorProto> outputs = 1",
    "SignatureDefMap": "map<string, tensorboard.SignatureDef> signature_def = 1",
    "GetModelMetadataRequest": "ModelSpec model_spec = 1; repeated string metadata_field = 2",
    "GetModelMetadataResponse": "ModelSpec model_spec = 1; map<string, google.protobuf.Any> metadata = 2",
    "StatusProto": "int32 error_code = 1; string error_message = 2",
    "GetModelStatusRequest": "ModelSpec model_spec = 1",
    "ModelVersionStatus": "int64 version = 1; int32 state = 2; StatusProto status = 3",
    "GetModelStatusResponse": "repeated ModelVersionStatus model_version_status = 1",
    # records of requests: warm-up files and request logs
    "LogCollectorConfig": "string type = 1; string filename_prefix = 2",
    "SamplingConfig": "double sampling_rate = 1",
    "LoggingConfig": "LogCollectorConfig log_collector_config = 1; SamplingConfig sampling_config = 2",
    "LogMetadata": "ModelSpec model_spec = 1; SamplingConfig sampling_config = 2; repeated string saved_model_tags = 3; "
                   "int64 timestamp_secs = 4",
    "ClassifyLog": "ClassificationRequest request = 1; ClassificationResponse response = 2",
    "RegressLog": "RegressionRequest request = 1; RegressionResponse response = 2",
    "PredictLog": "PredictRequest request = 1; PredictResponse response = 2",
    "MultiInferenceLog": "MultiInferenceRequest request = 1; MultiInferenceResponse response = 2",
    "PredictionLog": "LogMetadata log_metadata = 1; ClassifyLog classify_log = 2 | RegressLog regress_log = 3 | "
                     "MultiInferenceLog multi_inference_log = 4 | PredictLog predict_log = 6",
    # configuration
    "Latest": "uint32 num_versions = 1",
    "All": "",
    "Specific": "repeated int64 versions = 1",
    "ServableVersionPolicy": "Latest latest = 100 | All all = 101 | Specific specific = 102",
    "ModelConfig": "string name = 1; string base_path = 2; int32 model_type = 3; string model_platform = 4; "
                   "ServableVersionPolicy model_version_policy = 7; map<string, int64> version_labels = 8; "
                   "LoggingConfig logging_config = 6",
    "ModelConfigList": "repeated ModelConfig config = 1",
    "ModelServerConfig": "ModelConfigList model_config_list = 1 | google.protobuf.Any custom_model_config = 2",
    "Metric": "string name = 1; int64 int64_value_increase = 2 |",
    "ReloadConfigRequest": "ModelServerConfig config = 1; repeated string metric_names = 2",
    "ReloadConfigResponse": "StatusProto status = 1; repeated Metric metric = 2",
    "BatchingParameters": "google.protobuf.Int64Value max_batch_size = 1; google.protobuf.Int64Value batch_timeout_micros = 2; "
                          "google.protobuf.Int64Value max_enqueued_batches = 3; "
                          "google.protobuf.Int64Value num_batch_threads = 4; google.protobuf.StringValue thread_pool_name = 5; "
                          "repeated int64 allowed_batch_sizes = 6; bool pad_variable_length_inputs = 7; "
                          "google.protobuf.BoolValue enable_large_batch_splitting = 8; "
                          "google.protobuf.Int64Value max_execution_batch_size = 9",
    "PrometheusConfig": "bool enable = 1; string path = 2",
    "MonitoringConfig": "PrometheusConfig prometheus_config = 1",
    "SSLConfig": "string server_key = 1; string server_cert = 2; string custom_ca = 3; bool client_verify = 4",
    # the health protocol of gRPC
    "HealthCheckRequest": "string service = 1",
    "HealthCheckResponse": "int32 status = 1",
}, depends=(any_pb2, wrappers_pb2, meta_graph_pb2, tensor_pb2))

pb: Any = types.SimpleNamespace(**_made)
