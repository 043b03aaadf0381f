"""`meta-infer build`: from a model and a profile to one package file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from meta_infer.cli.hardware import profile_names
from meta_infer.cli.progress import step_names
from meta_infer.cli.screen import note, show, show_json, warn
from meta_infer.support.errors import MetaInferError, UsageError, VerificationError

if TYPE_CHECKING:
    from meta_infer.api import BuildResult
    from meta_infer.support.trace import Trace


def choices(field: str) -> list[str]:
    """The words that a field of a build's configuration allows, for shell completion."""
    from meta_infer.build_config import BuildConfig

    return [word for word in get_args(BuildConfig.model_fields[field].annotation) if word]


def build(
    model: Annotated[Path | None, typer.Option("--model", "-m", help="The ONNX file.", show_default=False)] = None,
    hardware: Annotated[str | None, typer.Option(
        help="A profile: 'native' (this machine), a name of `meta-infer hardware list`, or a YAML file.",
        show_default="native", autocompletion=profile_names)] = None,
    device: Annotated[str | None, typer.Option(
        help="Where kernels are timed and the package is checked: 'local', or a board as ssh://[user@]host[:port]; see "
             "docs/boards.md.", metavar="local|ssh://HOST", show_default="local")] = None,
    output: Annotated[Path | None, typer.Option(
        "--output", "-o", help="The package file.", show_default="the model's name with .bin")] = None,
    isa: Annotated[list[str] | None, typer.Option(
        help="Instruction set to make code for, such as x86-64-v2. Repeatable: the best one is chosen at load.",
        metavar="ISA", show_default="the profile's own")] = None,
    shape: Annotated[list[str] | None, typer.Option(
        help="Shape of an input, ranges allowed: x=1,3,48,32..960. Repeatable.", metavar="NAME=DIMS",
        show_default="as the model says")] = None,
    precision: Annotated[str | None, typer.Option(
        help="Number format of the computation.", metavar="auto|fp32|fp16|int8", show_default="auto",
        autocompletion=lambda: choices("precision"))] = None,
    search_mode: Annotated[str | None, typer.Option(
        help="Time kernels on this machine to choose them: fast in about a minute, balanced in a few, thorough in half "
             "an hour; none takes a plan by rule.", metavar="none|fast|balanced|thorough", show_default="none",
        autocompletion=lambda: choices("search_mode"))] = None,
    search_seconds: Annotated[float | None, typer.Option(
        help="Most seconds for timing kernels.", show_default="what the mode has")] = None,
    tune_at: Annotated[list[str] | None, typer.Option(
        help="Sizes of dynamic dims at which kernels are timed: N=1,L=128. Repeatable.", metavar="DIM=SIZE,...",
        show_default="smallest batch, small and large sizes")] = None,
    objective: Annotated[str | None, typer.Option(
        help="What to minimise: --objective memory takes the package of least weights and tensors.",
        metavar="latency|energy|memory|balanced", show_default="latency",
        autocompletion=lambda: choices("objective"))] = None,
    target_latency_ms: Annotated[float | None, typer.Option(
        help="Latency for a search to reach, in ms, as in --target-latency-ms 5; once it is met memory and energy are "
             "minimised, missing it is a warning.", show_default="60% of the un-optimised baseline")] = None,
    memory_limit: Annotated[float | None, typer.Option(
        help="Most memory for tensors and weights, in MiB, as in --memory-limit 64; a package above it is an error.",
        show_default="the memory of the profile")] = None,
    energy_limit_mj: Annotated[float | None, typer.Option(
        help="Most energy of a run, in mJ, by the power figures of the profile, as in --energy-limit-mj 2.5.",
        show_default=False)] = None,
    threads: Annotated[int | None, typer.Option(
        help="Threads the package uses when it is loaded without a number.", show_default="all cores")] = None,
    pin: Annotated[list[str] | None, typer.Option(
        help="Fix a choice: conv1.algo=winograd, conv1.layout=plain, conv1.rows=4. Repeatable; patterns as in a shell.",
        metavar="NODE.WHAT=VALUE", show_default=False)] = None,
    replay: Annotated[Path | None, typer.Option(
        help="Take the choices of a build.lock.json, or of the package that holds it.", metavar="FILE",
        show_default=False)] = None,
    custom: Annotated[list[Path] | None, typer.Option(
        help="A Python file with ops or kernels of your own, see docs/custom-ops.md and custom-kernels.md. "
             "Repeatable.", metavar="FILE",
        show_default=False)] = None,
    disable: Annotated[list[str] | None, typer.Option(
        help="Leave out a graph pass by its name. Repeatable.", metavar="PASS", show_default=False)] = None,
    exclude: Annotated[list[str] | None, typer.Option(
        help="Leave out a kernel, or one variant of it. Repeatable.", metavar="KERNEL[/VARIANT]",
        show_default=False)] = None,
    no_verify: Annotated[bool, typer.Option(
        "--no-verify", help="Do not compare the package with ONNX Runtime.")] = False,
    verify_samples: Annotated[int | None, typer.Option(
        help="Random samples per comparison.", show_default="3")] = None,
    tolerance: Annotated[float | None, typer.Option(
        help="Largest max|a - r| / max|r| of an output.", show_default="0.001")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the random samples.", show_default="0")] = None,
    stop_after: Annotated[str | None, typer.Option(
        help="Stop after this step and print its result: import, canonicalize, legalize, plan, lower, memory, emit, "
             "compile, package.",
        metavar="STEP", show_default=False, autocompletion=lambda: choices("stop_after"))] = None,
    config: Annotated[Path | None, typer.Option(
        help="A YAML file with these choices (memory_limit_mib: 64); flags win over it.",
        show_default=False)] = None,
    details: Annotated[bool, typer.Option("--details", help="Also print each group of fused operators.")] = False,
    verbose: Annotated[bool, typer.Option(
        "--verbose", "-v", help="Also print rewrites of the model, and of a search what was refused and where the time "
        "goes.")] = False,
    explain: Annotated[bool, typer.Option(
        "--explain", help="Also print what became of each operator: native, decomposed, on the host, impossible.")
        ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Compile a model for a chip into one package file and check it.

    The package is compared with ONNX Runtime on random inputs unless --no-verify is given.

    Example: meta-infer build --model model.onnx --hardware native --output model.bin
    """
    from meta_infer.build_config import COMMAND_LINE, make_config, read_config
    from meta_infer.support.trace import Trace

    given = {"model": model, "hardware": hardware, "device": device, "output": output, "isa": tuple(isa or ()),
             "shape": tuple(shape or ()), "precision": precision, "search_mode": search_mode,
             "search_seconds": search_seconds, "tune_at": tuple(tune_at or ()), "pin": tuple(pin or ()),
             "replay": replay,
             "target_latency_ms": target_latency_ms, "memory_limit_mib": memory_limit,
             "energy_limit_mj": energy_limit_mj, "objective": objective, "threads": threads,
             "custom": tuple(custom or ()), "disable": tuple(disable or ()), "exclude": tuple(exclude or ()),
             "verify": False if no_verify else None, "verify_samples": verify_samples, "tolerance": tolerance,
             "seed": seed, "stop_after": stop_after}
    chosen: dict[str, Any] = {field: value for field, value in given.items() if value not in (None, ())}
    if config is None and model is None:
        raise UsageError("is required", what="--model", hint="meta-infer build --model model.onnx")
    wanted = read_config(config, chosen) if config else make_config(chosen, COMMAND_LINE)

    trace = Trace()
    try:
        with step_names("build") as on_step:
            from meta_infer import api

            trace.on_step, trace.on_progress, trace.on_share = on_step, on_step.progress, on_step.share
            result = api.build_from(wanted, trace)
    except VerificationError as error:
        if error.result is not None:
            _show(error.result, details, explain, as_json, verbose)
        raise
    except KeyboardInterrupt:
        if trace.kept:
            note(trace.kept)
        raise
    except MetaInferError:
        if explain and trace.decisions:
            _explain(trace, as_json)
        raise
    if result.path is not None:
        _show(result, details, explain, as_json, verbose)
        note(f"written: {result.path}")
    elif as_json:
        show_json({**_report(result, explain), "text": result.text})
    else:
        if explain:
            _explain(trace, as_json)
        typer.echo(result.text)


def _report(result: BuildResult, explain: bool) -> dict[str, Any]:
    from meta_infer.report.operators import operator_rows

    return {**result.report, **({"operators": operator_rows(result.trace.decisions)} if explain else {})}


def _explain(trace: Trace, as_json: bool) -> None:
    from meta_infer.report.operators import operator_parts, operator_rows

    if as_json:
        show_json({"operators": operator_rows(trace.decisions)})
    else:
        show(*operator_parts(trace.decisions))


def _show(result: BuildResult, details: bool, explain: bool, as_json: bool, verbose: bool) -> None:
    """Warnings, then the report as tables or JSON."""
    from meta_infer.report.text import report_parts

    for warning in result.report.get("warnings", ()):
        warn(warning)
    if as_json:
        show_json(_report(result, explain))
        return
    if explain:
        _explain(result.trace, as_json)
    show(*report_parts(result.report, result.trace.steps, result.comparisons, details, verbose))
