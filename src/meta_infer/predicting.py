"""What a model would take on a chip, without building it: `predict`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from meta_infer.api import plan_target
from meta_infer.backends.base import Metric
from meta_infer.backends.registry import backend_for
from meta_infer.build_config import make_config
from meta_infer.cost.energy import plan_joules
from meta_infer.cost.roofline import estimate_precision, plan_seconds
from meta_infer.frontend.import_model import import_model
from meta_infer.frontend.symbols import parse_shape_specs
from meta_infer.hardware.load import load_profile
from meta_infer.hardware.targets import target_profiles
from meta_infer.ir.graph import names_of
from meta_infer.kernels.computed_by import kernels_take
from meta_infer.lower.lower_graph import lower_graph
from meta_infer.memory.planner import plan_memory
from meta_infer.passes.legalize import legalize
from meta_infer.passes.pipeline import canonicalize
from meta_infer.search.calibrate.learned_model import machine_model
from meta_infer.search.predict import RUN, GroupPrediction, predict_groups
from meta_infer.search.tune_points import tune_points
from meta_infer.support.trace import Trace


@dataclass(frozen=True)
class Prediction:
    """Figures of one run, all of kind 'model'; None where the profile says too little.

    latency  seconds, on one thread where the profile has a code generator, else on all units of the chip
    memory   bytes of weights and of the arena at the upper bounds of its sizes
    energy   joules
    sizes    the dynamic dims the latency is for
    groups   the latency's parts, slowest first; empty for a chip without a code generator
    """

    model: str
    hardware: str
    precision: str
    sizes: Mapping[str, int]
    latency: Metric | None
    memory: Metric
    energy: Metric | None
    groups: tuple[GroupPrediction, ...]
    warnings: tuple[str, ...]


def predict(model: str | Path, hardware: str = "native", *, shape: Sequence[str] = (), at: str = "",
            precision: str = "auto") -> Prediction:
    """Estimated latency, memory and energy of a model on a chip, by the plan without a search.

    `hardware` is 'native', a catalog name or a profile's path; a calibrated profile predicts best. `at` is like
    'N=1,L=128'; sizes it leaves out are small. Raises a MetaInferError for anything wrong with model, profile or sizes.
    """
    config = make_config({"model": model, "hardware": hardware, "shape": tuple(shape), "precision": precision},
                         "predict")
    trace, chip = Trace(), load_profile(config.hardware)
    (host, *_) = target_profiles(chip if chip.backend else load_profile("native"), config.isa)
    imported = import_model(config.model, parse_shape_specs(config.shape), trace.warn)
    graph = legalize(canonicalize(imported, frozenset()), chip, trace.warn, takes=kernels_take((host,), ()))
    (sizes, *_) = tune_points(graph, (at,) if at else (), "--at")
    plan, backend = plan_target(config, graph, host, trace), backend_for(host)
    program = lower_graph(plan, host, backend.lower, names_of(imported, imported.inputs),
                          names_of(imported, imported.outputs))
    arena = plan_memory(program).sizes.get("ram", 0)
    memory = Metric(float(arena + sum(array.nbytes for array in program.constants.values())), "B", "model")
    words = estimate_precision(chip, config.precision) if chip.backend is None else "fp32"
    groups: list[GroupPrediction] = []
    if chip.backend is None:
        seconds = plan_seconds(plan, chip, words)
        latency = None if seconds is None else Metric(seconds, "s", "model")
    else:
        groups = predict_groups(plan, program, host, machine_model(host), sizes)
        latency = Metric(RUN + sum(g.seconds for g in groups), "s", "model", sum(g.spread for g in groups))
        if not host.chip.cost:
            trace.warn(f"profile {chip.name} has no fitted costs: `meta-infer hardware calibrate` measures them")
    joules = None if latency is None else plan_joules(plan, chip, words, latency.value, sizes)
    return Prediction(graph.name, chip.name, words, sizes, latency, memory,
                      None if joules is None else Metric(joules, "J", "model"),
                      tuple(sorted(groups, key=lambda g: -g.seconds)), tuple(trace.warnings))
