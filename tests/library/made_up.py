"""Samples and decisions with plausible contents."""

from __future__ import annotations

from typing import Any

from meta_infer.library.decisions import Decision
from meta_infer.library.plans import FoundPlan
from meta_infer.library.samples import Sample

GROUP = "Conv(%0: float32[1, 64, 56, 56], %1: const float32[64, 64, 3, 3]) {strides = (1, 1)} -> %2; Relu(%2) -> %3"


def sample(key: str = "a1", **changed: Any) -> Sample:
    usual: dict[str, Any] = dict(
        kernel="conv_direct", variant="tiled", key=key, op="Conv", group=GROUP, structure="s1",
        knobs={"rows": 4, "order": "hw"}, layouts={"in0": "b8@1"}, isa="x86-64-v3", cpu="AMD EPYC", threads=1,
        dims=(1, 64, 56, 56), features={"flops": 2.3e8, "bytes": 1.6e6}, seconds=0.0023, spread=1.5e-5,
        share_of_peak=0.95, peak=9.8e10, rounds=15, turns=((0.0023, 9.8e10), (0.00231, 9.79e10)), protocol=1,
        compiler="ziglang 0.17.1", made="2026-11-30T08:00:00Z")
    return Sample(**{**usual, **changed})


def failed(key: str = "f1", **changed: Any) -> Sample:
    return sample(key, **{"seconds": float("inf"), "spread": 0.0, "share_of_peak": 0.0, "peak": 0.0, "rounds": 0,
                          "turns": (), "status": "killed by SIGILL", **changed})


def decision(group: str = GROUP, **changed: Any) -> Decision:
    usual: dict[str, Any] = dict(
        structure="s1", capabilities="x86-64-v3, 8 lanes, L1 32 KiB, L2 512 KiB, 2 cores", group=group,
        kernel="conv_direct", variant="tiled", knobs={"rows": 4, "order": "hw"}, layouts={"in0": "b8@1"},
        seconds=0.0023, rivals=7, best_rival="conv_winograd/f4 tiles=24", best_rival_seconds=0.0025, model="resnet18",
        threads=1, cpu="AMD EPYC", key="a1", made="2026-11-30T08:10:00Z")
    return Decision(**{**usual, **changed})


def found_plan(key: str = "p1", **changed: Any) -> FoundPlan:
    usual: dict[str, Any] = dict(
        mode="balanced", seconds=float("inf"), choices='[{"nodes": ["y"]}]', told="{}", whole="w1",
        model="resnet18", isa="x86-64-v3", cpu="AMD EPYC", threads=1, protocol=1,
        compiler="ziglang 0.17.1", made="2026-11-30T08:10:00Z")
    return FoundPlan(key, **{**usual, **changed})
