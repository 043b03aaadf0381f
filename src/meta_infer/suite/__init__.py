"""The operator suite that onnx ships, run on compiled packages."""
