"""Tests of ONNX files. onnxruntime, which is loaded later, keeps no database of its use while they run."""
import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
