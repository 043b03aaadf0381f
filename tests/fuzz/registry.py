"""All fuzzers, by the name that tools/fuzz.py takes."""

from __future__ import annotations

from .campaign import Target
from .input_files import INPUT_FILES
from .onnx_files import ONNX_FILES
from .packages import PACKAGES
from .profiles import PROFILES

TARGETS: tuple[Target, ...] = (PACKAGES, ONNX_FILES, PROFILES, INPUT_FILES)
