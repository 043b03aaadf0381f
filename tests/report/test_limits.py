"""Limits of the user against figures of a build."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from meta_infer.build_config import BuildConfig
from meta_infer.report.limits import broken_limits

FIGURES = {"arena_bytes": 3 * 2**20, "weight_bytes": 2**20, "prepared_bytes": 0}


def estimated(seconds: float) -> dict[str, Any]:
    return {**FIGURES, "latency_fp16": {"value": seconds, "unit": "s", "kind": "model", "spread": 0.0}}


@pytest.mark.parametrize(("limits", "figures", "words"), [
    ({}, FIGURES, []),
    ({"memory_limit_mib": 4}, FIGURES, []),
    ({"memory_limit_mib": 3.9}, FIGURES, ["4.0 MiB (arena 3.0 MiB, weights 1.0 MiB) are above the limit of 3.9 MiB"]),
    ({"memory_limit_mib": 4}, {**FIGURES, "prepared_bytes": 2**19},
     ["4.5 MiB (arena 3.0 MiB, weights 1.0 MiB, prepared at load 512.0 KiB) are above the limit of 4 MiB"]),
    ({"target_latency_ms": 5}, estimated(0.005), []),
    ({"target_latency_ms": 5}, estimated(0.0051), ["5.10 ms (an estimate) is above the target of 5 ms"]),
    ({"target_latency_ms": 5}, FIGURES, ["`meta-infer bench` measures"]),
    ({"target_latency_ms": 1, "memory_limit_mib": 1}, estimated(1.0), ["above the limit", "above the target"]),
])
def test_broken_limits(limits: dict[str, float], figures: dict[str, Any], words: list[str]) -> None:
    found = list(broken_limits(BuildConfig(model=Path("x.onnx"), **limits), figures))
    assert len(found) == len(words)
    for warning, word in zip(found, words, strict=True):
        assert word in warning
