"""The whole compiler, top to bottom: `build` is the journey of one model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meta_infer.backends.registry import backend_for
from meta_infer.build_config import BuildConfig, make_config
from meta_infer.custom import load_custom
from meta_infer.custom.check import check_kernels, has_rivals, unfit_rivals
from meta_infer.frontend.import_model import import_model
from meta_infer.frontend.symbols import parse_shape_specs
from meta_infer.hardware.device import Board, open_device, require_fit
from meta_infer.hardware.load import NATIVE, load_profile
from meta_infer.hardware.profile import Profile
from meta_infer.hardware.targets import target_profiles
from meta_infer.ir.graph import Graph, names_of
from meta_infer.ir.graph_text import print_graph
from meta_infer.ir.group import Plan
from meta_infer.ir.loop_text import print_func
from meta_infer.ir.program_text import print_plan, print_program
from meta_infer.kernels.computed_by import computed_by, kernels_take
from meta_infer.kernels.registry import rival_digests
from meta_infer.lower.lower_graph import lower_graph
from meta_infer.memory.planner import plan_memory
from meta_infer.package.archive import make_folder
from meta_infer.package.format import TestVector
from meta_infer.package.writer import CompiledTarget, write_package
from meta_infer.passes.alternatives import propose_alternatives
from meta_infer.passes.applied import Applied
from meta_infer.passes.covers import propose_covers
from meta_infer.passes.decisions import native_decisions
from meta_infer.passes.legalize import legalize
from meta_infer.passes.pipeline import canonicalize, check_pass_names
from meta_infer.report.build_report import (
    BuiltTarget,
    build_lock,
    build_report,
    comparison_rows,
    note_requests,
    target_of,
)
from meta_infer.report.limits import build_aims
from meta_infer.report.search_report import found_rows, search_rows
from meta_infer.search.aims import NO_AIMS, Aims
from meta_infer.search.default_plan import Variants, default_plan
from meta_infer.search.exclude import check_kernel_names, without_excluded
from meta_infer.search.guessed import guessed_plan
from meta_infer.search.locked import locked_plan, other_sources
from meta_infer.search.measure.measure import measured_cpu
from meta_infer.search.pins import Pinned, parse_pins
from meta_infer.search.read_lock import read_choices
from meta_infer.search.search_plan import SearchRequest, search_plan
from meta_infer.search.space.space import make_space
from meta_infer.search.tune_points import tune_points
from meta_infer.search.within import require_within
from meta_infer.support.collector import rare_collections
from meta_infer.support.errors import InputError, ToolchainError, UnsupportedError, UsageError, VerificationError
from meta_infer.support.trace import Trace
from meta_infer.verify.compare import TensorComparison
from meta_infer.verify.package_check import make_vector, require_equal, verify_package
from meta_infer.verify.reference import UnfitInputs, choose_reference
from meta_infer.verify.samples import sampled_sizes


@dataclass(frozen=True)
class BuildResult:
    """What a build made. `text` is the IR of the step that `stop_after` named; `path` is None then."""

    path: Path | None
    report: dict[str, Any]
    trace: Trace
    comparisons: tuple[TensorComparison, ...] = ()
    text: str = ""


def build(model: str | Path, *, hardware: str = "native", output: str | Path | None = None,
          **fields: Any) -> BuildResult:
    """Compile an ONNX file for a chip into one package file, and check it against ONNX Runtime.

    `hardware` is 'native', a catalog name or a profile's path; `fields` are those of BuildConfig.
    Raises a MetaInferError for anything wrong with the model, the profile or the choices, and VerificationError when
    the package (which is kept) differs from the reference beyond tolerance.
    """
    given = {"model": model, "hardware": hardware, "output": output, **fields}
    return build_from(make_config({k: v for k, v in given.items() if v is not None}, "build"))


def build_from(config: BuildConfig, trace: Trace | None = None) -> BuildResult:
    """As `build`, from a config; `trace.on_step` is called as each step begins."""
    with rare_collections(), open_device(config.device) as board:
        return _journey(config, trace or Trace(), board)


def _journey(config: BuildConfig, trace: Trace, board: Board | None) -> BuildResult:
    check_pass_names(config.disable)
    load_custom(config.custom)
    check_kernel_names(config.exclude)
    here = board.profile if board else load_profile("native")
    chip = here if board and config.hardware == NATIVE else load_profile(config.hardware)
    hosts = target_profiles(chip if chip.backend else here, config.isa)
    if board:
        require_fit(board, hosts)
    note_requests(config, chip, hosts, here, trace)
    if config.stop_after in ("", "package"):
        make_folder(config.package_path)

    with trace.step("import") as figures:
        shapes = parse_shape_specs(config.shape)
        imported = import_model(config.model, shapes, trace.warn)
        figures["nodes"] = len(imported.nodes)
    if config.stop_after == "import":
        return _stopped(print_graph(imported), trace)

    with trace.step("canonicalize") as figures:
        applied = Applied()
        graph = canonicalize(imported, frozenset(config.disable), applied)
        figures["nodes"], trace.rewrites = len(graph.nodes), applied.rows()
    if config.stop_after == "canonicalize":
        return _stopped(print_graph(graph), trace)

    with trace.step("legalize") as figures:
        before, graph = graph, legalize(graph, chip, trace.warn, record=trace.decisions,
                                         takes=kernels_take(hosts, config.exclude))
        trace.decisions += native_decisions(before, graph, chip, trace.decisions, computed_by)
        figures["nodes"] = len(graph.nodes)
    if config.stop_after == "legalize":
        return _stopped(print_graph(graph), trace)

    made = [compile_target(config, graph, imported, host, trace, board, build_aims(config, chip)) for host in hosts]
    targets = [target for target in made if isinstance(target, BuiltTarget)]
    if not targets:
        return _stopped("\n\n".join(text for text in made if isinstance(text, str)), trace)

    with trace.step("reference") as figures:
        reference = choose_reference(config.model, imported) if config.verify else None
        if reference is not None:
            for text in filter(None, (reference.why, sampled_sizes(imported, config.verify_samples))):
                trace.warn(text)
        try:
            tests = {"random": TestVector(*make_vector(reference, imported, config.seed))} if reference else {}
        except UnfitInputs as error:
            trace.warn(f"not verified: {error.problem}; {error.hint}")
            tests, reference = {}, None
        figures["tests"] = len(tests)
    with trace.step("package") as figures:
        report = build_report(config, chip, targets, trace)
        figures["package_bytes"] = write_package(
            config.package_path, [target.code for target in targets], tests=tests, report=report,
            lock=build_lock(targets), config=config.as_yaml(),
            threads=config.threads or next((rows["threads"] for rows in trace.searches), None))
        report |= {"searches": list(trace.searches)} if trace.searches else {}
    if config.stop_after == "package" or reference is None:
        return BuildResult(config.package_path, report, trace)

    comparisons: tuple[TensorComparison, ...] = ()
    for host in (host for host in hosts if host.runs_on(here)):
        with trace.step("verify", **target_of(config, host)) as figures:
            try:
                found = verify_package(config.package_path, reference, imported, samples=config.verify_samples,
                                       seed=config.seed, tolerance=config.tolerance, threads=config.threads,
                                       target=host.isa, board=board)
            except UnfitInputs as error:
                trace.warn(f"not verified: {error.problem}; {error.hint}")
                report["warnings"] = list(trace.warnings)
                continue
            worst = max(found, key=lambda c: c.distance.relative)
            figures |= {"outputs_compared": len(found), "worst_relative": worst.distance.relative}
        comparisons += found
        report["comparisons"] = comparison_rows(comparisons)
        try:
            require_equal(found, f"package {config.package_path}, target {host.isa}")
        except VerificationError as error:
            error.result = BuildResult(config.package_path, report, trace, comparisons)
            raise
    return BuildResult(config.package_path, report, trace, comparisons)


def plan_target(config: BuildConfig, graph: Graph, host: Profile, trace: Trace, board: Board | None = None,
                aims: Aims = NO_AIMS) -> Plan:
    """Groups and their variants for one instruction set: those of a lock, by rule, or searched for where code for it
    runs: here, or on the board."""
    disabled = frozenset(config.disable)
    pins = Pinned(parse_pins(config.pin))
    pins.check(graph)
    unpinned = without_excluded(backend_for(host).variants, config.exclude, trace.warn)
    variants = pins.among(unpinned)
    for name in unfit_rivals(make_space(graph, host, unpinned, disabled)) if rival_digests() else ():
        trace.warn(f"kernel {name} can compute no group of this model on {host.isa}: look at its op, dtypes, layouts, "
                   "needs and fits")
    if config.replay is not None:
        choices, what = read_choices(config.replay, str(host.isa))
        for name in other_sources(choices):
            trace.warn(f"{what}: the file that holds kernel {name} has changed since")
        try:
            return locked_plan(graph, choices, what, host, variants, disabled)
        except InputError as error:
            locked_plan(graph, choices, what, host, unpinned, disabled)    # raises what is wrong without pins too
            raise UsageError(f"contradicts {what}, which has chosen otherwise", hint="leave out one of them",
                             what=f"--pin {' --pin '.join(config.pin)}") from error
    try:
        return _planned(config, graph, host, variants, pins, trace, board, aims)
    except UnsupportedError as error:
        raise pins.broken() or error from error


def _planned(config: BuildConfig, graph: Graph, host: Profile, variants: Variants, pins: Pinned, trace: Trace,
             board: Board | None, aims: Aims) -> Plan:
    disabled = frozenset(config.disable)
    plan = default_plan(graph, host, lambda g: propose_covers(g, disabled, graph), variants,
                        lambda g, groups: propose_alternatives(g, groups, disabled, graph))
    if config.search_mode == "none" or not host.runs_on(board.profile if board else load_profile(NATIVE)):
        return guessed_plan(plan, lambda: make_space(graph, host, variants, disabled), host, backend_for(host), aims,
                            tune_points(graph), pins.keeps)
    request = SearchRequest(config.search_mode, config.search_seconds, config.tune_at, config.threads, config.seed,
                            aims, (*config.pin, *config.exclude))
    found = search_plan(graph, plan, host, backend_for(host), variants, disabled, request, trace, search_rows,
                        pins.keeps, board)
    trace.searches.append(found_rows(found) | {"timed_on": measured_cpu(board)} | target_of(config, host))
    return found.plan


def compile_target(config: BuildConfig, graph: Graph, imported: Graph, host: Profile, trace: Trace,
                   board: Board | None = None, aims: Aims = NO_AIMS) -> BuiltTarget | str:
    """Plan to machine code for one instruction set; the IR as text where `stop_after` names one of these steps."""
    backend, known = backend_for(host), target_of(config, host)
    with trace.step("plan", **known) as figures, _users_text(config):
        plan = plan_target(config, graph, host, trace, board, aims)
        figures["groups"] = len(plan.groups)
    if config.stop_after == "plan":
        return print_plan(plan)
    if has_rivals(plan):
        with trace.step("check kernels", **known) as figures, _users_text(config):
            figures["kernels"] = check_kernels(plan, host, backend, config.tolerance, trace.warn, board)

    with trace.step("lower", **known) as figures:
        program = lower_graph(plan, host, backend.lower, names_of(imported, imported.inputs),
                              names_of(imported, imported.outputs))
        figures |= {"commands": len(program.commands), "kernels": len(program.kernels)}
    if config.stop_after == "lower":
        return "\n\n".join([print_program(program), *map(print_func, program.kernels.values())])

    with trace.step("memory", **known) as figures:
        memory = plan_memory(program)
        require_within(program, memory, aims)
        figures |= {"arena_bytes": memory.sizes.get("ram", 0), "lower_bound_bytes": memory.lower_bounds.get("ram", 0)}
    if config.stop_after == "memory":
        return print_program(program, memory)

    with trace.step("emit", **known) as figures:
        sources = backend.emit(program, host)
        figures["c_lines"] = sum(source.count("\n") for source in sources)
    if config.stop_after == "emit":
        return "\n".join(sources)

    with trace.step("compile", **known) as figures, _users_text(config):
        artifact = backend.compile(sources, host)
        figures |= {"code_bytes": len(artifact.library), "compiler_calls": artifact.compiler_calls}
    if config.stop_after == "compile":
        return f"{artifact.isa}: {len(artifact.library)} bytes by {artifact.compiler}"
    return BuiltTarget(host, plan, CompiledTarget(program, memory, artifact))


@contextmanager
def _users_text(config: BuildConfig) -> Iterator[None]:
    """What the compiler does not like is the user's text before anything else, where there is any."""
    try:
        yield
    except ToolchainError as error:
        if config.custom:
            files = ", ".join(map(str, config.custom))
            error.hint = f"look at the C text in {files} first: it stands in that source"
        raise


def _stopped(text: str, trace: Trace) -> BuildResult:
    return BuildResult(None, trace.as_json(), trace, text=text)
