"""The reference runtime, as this project uses it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_onnx_runtime_reports_to_nobody(tmp_path: Path) -> None:
    """It keeps what it is going to send in the user's cache folder."""
    environment = {k: v for k, v in os.environ.items() if k != "ORT_DISABLE_TELEMETRY"}
    subprocess.run([sys.executable, "-c", "import meta_infer.verify.reference"], check=True,
                   env={**environment, "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)})
    assert not list(tmp_path.iterdir())
