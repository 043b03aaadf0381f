"""Comparing packages with references."""

import os

# ONNX Runtime reads this when it is imported, and else reports to its maker: a compiler sends nothing to anybody.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
