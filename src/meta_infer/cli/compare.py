"""`meta-infer compare`: how far a package is from ONNX Runtime, or from tensors recorded elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from meta_infer.cli.run import PackageFile, TargetName, Threads
from meta_infer.cli.screen import note, notes, show, show_json, warn
from meta_infer.support.errors import UsageError, VerificationError


def compare(
    package: PackageFile,
    model: Annotated[Path | None, typer.Option("--model", "-m", help="The ONNX file.",
                                               show_default="the one it was built from")] = None,
    layers: Annotated[bool, typer.Option(
        "--layers", help="Also compare inner tensors, at the boundaries of fused operators.")] = False,
    bisect: Annotated[bool, typer.Option(
        "--bisect", help="When it is off: build again without half of the rewrites and kernels at a time, and name the "
                         "guilty one. Takes minutes.")] = False,
    reference: Annotated[Path | None, typer.Option(
        help="An .npz file with inputs and any tensors recorded in the training framework, by ONNX name.",
        show_default="ONNX Runtime")] = None,
    samples: Annotated[int, typer.Option(help="Random samples to compare.", min=1)] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the random samples.", min=0)] = 0,
    tolerance: Annotated[float | None, typer.Option(
        help="Largest max|a - r| / max|r| of a tensor.", min=0.0, show_default="0.001")] = None,
    threads: Threads = None,
    target: TargetName = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare a package with its reference, per output or per layer.

    Exits with 9 when a tensor is beyond the tolerance, after printing where to look in order of suspicion.

    Example: meta-infer compare model.bin --layers
    """
    from meta_infer import checking
    from meta_infer.report.comparison import LEGEND, comparison_json, comparison_table
    from meta_infer.report.suspicion import suspicion
    from meta_infer.verify.compare import TOLERANCE

    if bisect and reference is not None:
        raise UsageError("compares with ONNX Runtime, not with recorded tensors", what="--bisect",
                         hint="leave out --reference")
    limit = TOLERANCE if tolerance is None else tolerance
    console = notes()
    with console.status("comparing"):                   # says nothing where there is no terminal
        result = checking.compare(package, model, reference=reference, layers=layers, samples=samples, seed=seed,
                                  tolerance=limit, threads=threads, target=target)
    beyond, found = result.first_beyond, None
    if bisect and beyond is not None:
        found = checking.bisect(package, model, samples=samples, seed=seed, tolerance=limit, target=target,
                                say=lambda line: note(f"bisect: {line}"))
    where = suspicion(result.layers, reference is not None, found.verdict if found else "") if beyond else []
    if as_json:
        show_json({"outputs": [comparison_json(c) for c in result.outputs],
                   "layers": [comparison_json(c) for c in result.layers],
                   "left_out": list(result.left_out), "note": result.note,
                   "suspicion": where,
                   "guilty": None if found is None else {"verdict": found.verdict,
                                                         "flags": [suspect.flag for suspect in found.guilty]},
                   "first_beyond": None if beyond is None else beyond.name, "passed": beyond is None})
    else:
        if result.note:
            warn(result.note)
        if result.layers:
            show(comparison_table(result.layers, "layer"), "")
        if result.outputs:
            show(comparison_table(result.outputs))
        show(LEGEND)
        if result.left_out:
            names = ", ".join(result.left_out)
            show(f"not compared, as the package keeps no such tensor (it may be fused away): {names}")
        if where:
            show("", "where to look, likeliest first:", *where)
        if found is not None:
            show("", found.verdict)
        elif bisect:
            show("", "nothing to bisect: all tensors are within the tolerance")
    if beyond is not None:
        hint = ("`meta-infer inspect --code` with that tensor's node shows the generated code" if layers or reference
                else "add --layers to find the first layer that differs")
        if found is not None and found.guilty:
            hint = f"build with {' '.join(suspect.flag for suspect in found.guilty)}, and report it"
        raise VerificationError(
            f"differs by {beyond.distance.relative:.3g} of its largest value, tolerance {beyond.tolerance:.3g}",
            what=f"tensor {beyond.name!r}", hint=hint)
