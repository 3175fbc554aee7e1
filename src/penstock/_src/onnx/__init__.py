"""Models as ONNX files: a frozen function becomes ONNX nodes, one rule per type of op."""
