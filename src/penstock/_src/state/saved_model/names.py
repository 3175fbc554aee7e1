"""The names of files, collections, tags and signatures in SavedModels."""
from __future__ import annotations

from penstock._src.base.api import export

ASSETS_DIRECTORY = "assets"
ASSETS_KEY = "saved_model_assets"
LEGACY_INIT_OP_KEY = "legacy_init_op"
MAIN_OP_KEY = "saved_model_main_op"
TRAIN_OP_KEY = "saved_model_train_op"
SAVED_MODEL_SCHEMA_VERSION = 1
SAVED_MODEL_FILENAME_PB = "saved_model.pb"
SAVED_MODEL_FILENAME_PBTXT = "saved_model.pbtxt"
VARIABLES_DIRECTORY = "variables"
VARIABLES_FILENAME = "variables"
DEBUG_DIRECTORY = "debug"
DEBUG_INFO_FILENAME_PB = "saved_model_debug_info.pb"
INIT_OP_SIGNATURE_KEY = "__saved_model_init_op"
TRAIN_OP_SIGNATURE_KEY = "__saved_model_train_op"

SERVING, TRAINING, EVAL, GPU, TPU = "serve", "train", "eval", "gpu", "tpu"

DEFAULT_SERVING_SIGNATURE_DEF_KEY = "serving_default"
CLASSIFY_INPUTS, CLASSIFY_METHOD_NAME = "inputs", "tensorflow/serving/classify"
CLASSIFY_OUTPUT_CLASSES, CLASSIFY_OUTPUT_SCORES = "classes", "scores"
PREDICT_INPUTS, PREDICT_METHOD_NAME, PREDICT_OUTPUTS = "inputs", "tensorflow/serving/predict", "outputs"
REGRESS_INPUTS, REGRESS_METHOD_NAME, REGRESS_OUTPUTS = "inputs", "tensorflow/serving/regress", "outputs"

_BOTH = ("ASSETS_DIRECTORY", "ASSETS_KEY", "SAVED_MODEL_FILENAME_PB", "SAVED_MODEL_FILENAME_PBTXT",
         "SAVED_MODEL_SCHEMA_VERSION", "VARIABLES_DIRECTORY", "VARIABLES_FILENAME", "DEBUG_DIRECTORY", "DEBUG_INFO_FILENAME_PB")
for _name in _BOTH:
    export.value(globals()[_name], f"saved_model.{_name}", v1=[f"saved_model.constants.{_name}"])
for _name in ("LEGACY_INIT_OP_KEY", "MAIN_OP_KEY"):
    export.value(globals()[_name], v1=[f"saved_model.{_name}", f"saved_model.constants.{_name}"])
for _name in ("SERVING", "TRAINING", "GPU", "TPU"):
    _both = [] if _name == "TRAINING" else [f"saved_model.{_name}"]
    export.value(globals()[_name], *_both, v1=[f"saved_model.tag_constants.{_name}"])
export.value(TRAINING, v1=["saved_model.TRAINING"], v2=["saved_model.TRAINING"])
for _name in ("DEFAULT_SERVING_SIGNATURE_DEF_KEY", "CLASSIFY_INPUTS", "CLASSIFY_METHOD_NAME", "CLASSIFY_OUTPUT_CLASSES",
              "CLASSIFY_OUTPUT_SCORES", "PREDICT_INPUTS", "PREDICT_METHOD_NAME", "PREDICT_OUTPUTS", "REGRESS_INPUTS",
              "REGRESS_METHOD_NAME", "REGRESS_OUTPUTS"):
    export.value(globals()[_name], f"saved_model.{_name}", v1=[f"saved_model.signature_constants.{_name}"])
