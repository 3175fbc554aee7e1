"""The messages and names of an export: which tensors are in and out, which files belong to it."""
from google.protobuf import descriptor_pool

from penstock._src.base.api import export
from penstock._src.graph.messages import declare

_MESSAGES = declare("penstock/manifest.proto", "tensorflow.serving", descriptor_pool.DescriptorPool(), {
    "TensorBinding": "string tensor_name = 1",
    "AssetFile": "TensorBinding tensor_binding = 1; string filename = 2",
    "RegressionSignature": "TensorBinding input = 1; TensorBinding output = 2",
    "ClassificationSignature": "TensorBinding input = 1; TensorBinding classes = 2; TensorBinding scores = 3",
    "GenericSignature": "map<string, TensorBinding> map = 1",
    "Signature": "RegressionSignature regression_signature = 1 | ClassificationSignature classification_signature = 2 | "
                 "GenericSignature generic_signature = 3",
    "Signatures": "Signature default_signature = 1; map<string, Signature> named_signatures = 2"})
AssetFile, Signature, Signatures = (_MESSAGES[n] for n in ("AssetFile", "Signature", "Signatures"))
for _name, _message in _MESSAGES.items():
    export.value(_message, v1=[f"contrib.session_bundle.manifest_pb2.{_name}"])

CONSTANTS = {
    "VERSION_FORMAT_SPECIFIER": "%08d", "ASSETS_DIRECTORY": "assets", "EXPORT_BASE_NAME": "export",
    "EXPORT_SUFFIX_NAME": "meta", "META_GRAPH_DEF_FILENAME": "export.meta", "VARIABLES_FILENAME": "export",
    "VARIABLES_FILENAME_PATTERN": "export-?????-of-?????", "VARIABLES_FILENAME_PATTERN_V2": "export.data-?????-of-?????",
    "VARIABLES_INDEX_FILENAME_V2": "export.index", "INIT_OP_KEY": "serving_init_op", "SIGNATURES_KEY": "serving_signatures",
    "ASSETS_KEY": "serving_assets", "GRAPH_KEY": "serving_graph", "REGRESSION_SIGNATURE": "regression_signature",
    "CLASSIFICATION_SIGNATURE": "classification_signature", "GENERIC_SIGNATURE": "generic_signature",
}
for _name, _value in CONSTANTS.items():
    export.value(_value, v1=[f"contrib.session_bundle.constants.{_name}"])
