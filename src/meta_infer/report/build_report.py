"""The report and the lock that every package carries."""

from __future__ import annotations

import platform
from dataclasses import asdict
from importlib import metadata
from typing import Any

from meta_infer import __version__
from meta_infer.backends.base import Metric
from meta_infer.build_config import BuildConfig
from meta_infer.cost.features import group_flops
from meta_infer.cost.roofline import estimate_precision, plan_seconds
from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Plan, PlannedGroup
from meta_infer.ir.program import MemoryPlan, Program
from meta_infer.report.limits import broken_limits
from meta_infer.support.trace import Trace
from meta_infer.verify.compare import TensorComparison

TOOLS = ("numpy", "onnx", "onnxruntime", "ziglang", "scipy", "ortools", "pydantic")


def note_requests(config: BuildConfig, target: Profile, trace: Trace) -> None:
    """Warn of everything asked for that this version cannot act on, so that no flag is ignored in silence."""
    for warning in target.warnings:
        trace.warn(f"profile {target.name}: {warning}")
    if config.precision in ("fp16", "int8"):
        trace.warn(f"precision {config.precision} is not generated yet: the package computes in fp32")
    if config.memory_limit_mib is not None or config.target_latency_ms is not None:
        trace.warn("limits are compared with the result, but no search acts on them yet")
    if config.search_mode != "balanced":
        trace.warn(f"search mode {config.search_mode}: there is no search yet, every mode takes the default plan")


def group_rows(plan: Plan) -> list[dict[str, Any]]:
    """One row per group: ONNX nodes, ops, kernel, variant, and floating-point operations."""
    def row(planned: PlannedGroup) -> dict[str, Any]:
        group, variant = planned.group, planned.variant
        return {"nodes": list(group.origins), "ops": group.label, "kernel": variant.kernel, "variant": variant.name,
                "knobs": dict(variant.knobs), "flops": str(group_flops(group))}

    rows = [row(p) for p in plan.groups]
    for region in plan.regions.values():
        rows += group_rows(region)
    return rows


def comparison_rows(comparisons: tuple[TensorComparison, ...]) -> list[dict[str, Any]]:
    return [{"output": c.name, "dims": dict(c.dims), "max_abs": c.distance.max_abs, "relative": c.distance.relative,
             "cosine": c.distance.cosine, "passed": c.passed} for c in comparisons]


def latency_estimate(config: BuildConfig, target: Profile, plan: Plan) -> dict[str, Any]:
    """{'latency_fp16': metric} for a chip that nothing runs on yet; empty for one that can be measured."""
    precision = estimate_precision(target, config.precision)
    seconds = None if target.backend else plan_seconds(plan, target, precision)
    return {} if seconds is None else {f"latency_{precision}": asdict(Metric(seconds, "s", "model"))}


def build_report(config: BuildConfig, target: Profile, host: Profile, plan: Plan, program: Program,
                 memory: MemoryPlan, trace: Trace) -> dict[str, Any]:
    """What the build decided, as JSON. Holds no times and no paths, so equal builds give equal reports."""
    figures = {
        "arena_bytes": memory.sizes.get("ram", 0),
        "arena_lower_bound_bytes": memory.lower_bounds.get("ram", 0),
        "weight_bytes": sum(a.nbytes for a in program.constants.values()),
        "kernels": len(program.kernels),
        "commands": len(program.commands),
        **latency_estimate(config, target, plan),
    }
    for warning in broken_limits(config, figures):
        trace.warn(warning)
    return {
        "model": program.name,
        "hardware": target.name,
        "built_for": host.name if target.backend is None else target.name,
        "isa": host.isa,
        "precision": "fp32",
        "groups": group_rows(plan),
        "figures": figures,
        "target_latency_ms": config.target_latency_ms,
        **trace.as_json(),
    }


def build_lock(plan: Plan, compiler: str) -> dict[str, Any]:
    """Versions of every tool that took part, and the variant of every group."""
    return {
        "meta_infer": __version__,
        "python": platform.python_version(),
        "compiler": compiler,
        "tools": {name: metadata.version(name) for name in TOOLS},
        "choices": [{"output": p.group.outputs[0], "kernel": p.variant.kernel, "variant": p.variant.name,
                     "knobs": dict(p.variant.knobs)} for p in plan.groups],
    }
