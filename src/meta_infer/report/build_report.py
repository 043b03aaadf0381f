"""The report and the lock that every package carries."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from typing import Any

from meta_infer import __version__
from meta_infer.backends.base import Metric
from meta_infer.build_config import BuildConfig
from meta_infer.cost.energy import plan_joules
from meta_infer.cost.features import group_flops
from meta_infer.cost.roofline import estimate_precision, plan_seconds
from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Plan, PlannedGroup
from meta_infer.ir.program import PREPARED
from meta_infer.package.writer import CompiledTarget
from meta_infer.report.aims import aims_rows
from meta_infer.report.group_work import work_of
from meta_infer.report.limits import broken_limits, build_aims, unheeded
from meta_infer.report.pooled import pooled_rows
from meta_infer.report.search_report import of_every_run
from meta_infer.search.aims import Aims
from meta_infer.search.guessed import guessed_joules
from meta_infer.search.locked import locked_choices
from meta_infer.search.space.ways import way_of
from meta_infer.search.tune_points import tune_points
from meta_infer.search.whole.built import memory_bytes
from meta_infer.support.trace import Trace
from meta_infer.verify.compare import TensorComparison

TOOLS = ("numpy", "onnx", "onnxruntime", "ziglang", "scipy", "ortools", "pydantic")


@dataclass(frozen=True)
class BuiltTarget:
    """What a build made for one instruction set. `host` is the profile that the code was generated for."""

    host: Profile
    plan: Plan
    code: CompiledTarget


def note_requests(config: BuildConfig, chip: Profile, hosts: Sequence[Profile], here: Profile, trace: Trace) -> None:
    """Warn of everything asked for that this version cannot act on, so that no flag is ignored in silence.

    `hosts` are the profiles that code is generated for, `here` is the one of the machine that measures.
    """
    where = "on this machine" if config.device == "local" else f"on {config.device}"
    for warning in chip.warnings:
        trace.warn(f"profile {chip.name}: {warning}")
    for host in hosts:
        if config.verify and not host.runs_on(here):
            trace.warn(f"code for {host.name} does not run {where}, so it is not compared: `meta-infer run` on "
                       "a machine of its kind runs the package's own test")
    if config.precision in ("fp16", "int8"):
        trace.warn(f"precision {config.precision} is not generated yet: the package computes in fp32")
    for warning in unheeded(config, chip):
        trace.warn(warning)
    if config.search_mode == "none":
        return
    for host in hosts:
        if not host.runs_on(here):
            trace.warn(f"code for {host.name} does not run {where}, so nothing is timed: it takes the plan "
                       "without a search")


def group_rows(plan: Plan, repeats: bool = False) -> list[dict[str, Any]]:
    """One row per group: ONNX nodes, ops, kernel, variant, floating-point operations, and what `profile` needs:
    the value by which commands name it, layouts, what it computes, and whether it `repeats` within a loop."""
    def row(planned: PlannedGroup) -> dict[str, Any]:
        group, variant, way = planned.group, planned.variant, way_of(planned.group, planned.variant)
        work = work_of(group)
        return {"nodes": list(group.origins), "ops": group.label, "kernel": variant.kernel, "variant": variant.name,
                "knobs": dict(variant.knobs), "flops": str(group_flops(group)), "output": group.outputs[0],
                "in": list(way.inputs), "out": list(way.outputs), **({"work": work} if work else {}),
                **({"repeats": True} if repeats else {})}

    rows = [row(p) for p in plan.groups]
    holders = {name: planned.group.anchor.op for planned in plan.groups for name in planned.group.anchor.outputs}
    for (name, _), region in plan.regions.items():
        rows += group_rows(region, repeats or holders.get(name) != "If")
    return rows


def comparison_rows(comparisons: tuple[TensorComparison, ...]) -> list[dict[str, Any]]:
    return [{"output": c.name, "dims": dict(c.dims), "max_abs": c.distance.max_abs, "relative": c.distance.relative,
             "cosine": c.distance.cosine, "passed": c.passed} for c in comparisons]


def latency_estimate(config: BuildConfig, target: Profile, plan: Plan) -> dict[str, Any]:
    """{'latency_fp16': metric} for a chip that nothing runs on yet; empty for one that can be measured."""
    precision = estimate_precision(target, config.precision)
    seconds = None if target.backend else plan_seconds(plan, target, precision)
    return {} if seconds is None else {f"latency_{precision}": asdict(Metric(seconds, "s", "model"))}


def target_of(config: BuildConfig, host: Profile) -> dict[str, Any]:
    """The figure that tells the steps of one target from those of another; nothing where there is only one."""
    return {"target": host.isa} if len(config.isa) > 1 else {}


def target_figures(config: BuildConfig, chip: Profile, target: BuiltTarget) -> dict[str, Any]:
    """Sizes and counts of what was made for one instruction set."""
    program, memory = target.code.program, target.code.memory
    return {
        "arena_bytes": memory.sizes.get("ram", 0),
        "arena_lower_bound_bytes": memory.lower_bounds.get("ram", 0),
        "weight_bytes": sum(a.nbytes for a in program.constants.values()),
        "prepared_bytes": memory.sizes.get(PREPARED, 0),
        "kernels": len(program.kernels),
        "commands": len(program.commands),
        **latency_estimate(config, chip, target.plan),
        **energy_estimate(config, chip, target.plan),
    }


def energy_estimate(config: BuildConfig, chip: Profile, plan: Plan) -> dict[str, Any]:
    """{'energy': metric} for a chip that nothing runs on yet and whose profile states power."""
    precision = estimate_precision(chip, config.precision)
    seconds = None if chip.backend else plan_seconds(plan, chip, precision)
    joules = None if seconds is None else plan_joules(plan, chip, precision, seconds, {})
    return {} if joules is None else {"energy": asdict(Metric(joules, "J", "model"))}


def target_aims(config: BuildConfig, chip: Profile, aims: Aims, target: BuiltTarget, trace: Trace) -> dict[str, Any]:
    """What a target aimed at and came to; times of this machine say nothing of a chip without a code generator."""
    name = target_of(config, target.host).get("target")
    found = next((rows["outcome"] for rows in trace.searches if rows.get("target") == name and chip.backend), None)
    if found is None and (aims.joules is not None or aims.objective in ("energy", "balanced")):
        found = {"energy_j": guessed_joules(target.plan, target.host, aims, tune_points(target.plan.graph))}
    return aims_rows(config, aims, memory_bytes(target.code.program, target.code.memory), found)


def build_report(config: BuildConfig, chip: Profile, targets: Sequence[BuiltTarget], trace: Trace) -> dict[str, Any]:
    """What the build decided, as JSON. Holds no paths, and no times but those that searches remember, so equal builds
    give equal reports.

    Groups, figures and tensors are those of the first target; `other_targets` has the rest.
    """
    first = targets[0]
    figures = [target_figures(config, chip, target) for target in targets]
    aims = build_aims(config, chip)
    rows = [target_aims(config, chip, aims, target, trace) for target in targets]
    for found, aimed in zip(figures, rows, strict=True):
        for warning in broken_limits(config, found, aimed):
            trace.warn(warning)
    return {
        "model": first.code.program.name,
        "hardware": chip.name,
        "built_for": first.host.name if chip.backend is None else chip.name,
        "isa": first.host.isa,
        "precision": "fp32",
        "groups": group_rows(first.plan),
        "figures": figures[0],
        "aims": rows[0],
        "sized_while_running": pooled_rows(first.code.program, first.code.memory),
        "other_targets": [{"isa": target.host.isa, "groups": group_rows(target.plan), "figures": found,
                           "aims": aimed}
                          for target, found, aimed in zip(targets[1:], figures[1:], rows[1:], strict=True)],
        "target_latency_ms": config.target_latency_ms,
        **({"rewrites": list(trace.rewrites)} if trace.rewrites else {}),
        **({"searches": [of_every_run(rows) for rows in trace.searches]} if trace.searches else {}),
        **trace.as_json(),
    }


@cache
def _tool_versions() -> tuple[tuple[str, str], ...]:
    return tuple((name, metadata.version(name)) for name in TOOLS)


def build_lock(targets: Sequence[BuiltTarget]) -> dict[str, Any]:
    """Versions of every tool that took part, and by instruction set the variant of every group."""
    return {
        "meta_infer": __version__,
        "python": platform.python_version(),
        "compiler": targets[0].code.artifact.compiler,
        "tools": dict(_tool_versions()),
        "choices": {t.code.artifact.isa: locked_choices(t.plan) for t in targets},
    }
