"""`meta-infer demo`: the whole journey on a small trained network, beside ONNX Runtime."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meta_infer.cli.progress import step_names
from meta_infer.cli.screen import show, show_json, warn
from meta_infer.support.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from rich.console import RenderableType

    from meta_infer.api import BuildResult

ROUNDS, SECONDS = 21, 1.7


@dataclass(frozen=True)
class DemoFigures:
    """What the demo found. Times are seconds per run: (meta-infer, ONNX Runtime, ratio of the two) by batch size."""

    samples: int
    latency: dict[int, tuple[float, float, float]]
    right: int                    # samples that meta-infer's package labels as a person did
    right_reference: int          # the same of ONNX Runtime
    deviation: float              # largest difference of two probabilities
    arena_bytes: int
    package_bytes: int


def demo(
    output: Annotated[Path | None, typer.Option(
        "--output", "-o", help="Folder for the package.", show_default="a new temporary folder")] = None,
    threads: Annotated[int, typer.Option(help="Threads for both sides.", min=1)] = 1,
    batch: Annotated[int, typer.Option(help="The larger of the two batch sizes that are timed.", min=2)] = 32,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Compile a small trained network, run it on unseen samples, and compare.

    Example: meta-infer demo
    """
    folder = _make_folder(output)
    with as_file(files("meta_infer.demo") / "digits.onnx") as model:
        result = _build(model, folder / "digits.bin", batch)
        figures = _run_beside_onnx_runtime(result, model, threads, batch)
    for warning in result.report.get("warnings", ()):
        warn(warning)
    if as_json:
        show_json({"package": str(result.path), "samples": figures.samples, "threads": threads,
                   "accuracy": figures.right / figures.samples,
                   "reference_accuracy": figures.right_reference / figures.samples,
                   "largest_deviation": figures.deviation, "arena_bytes": figures.arena_bytes,
                   "package_bytes": figures.package_bytes,
                   "latency": [{"batch": b, "seconds": ours, "reference_seconds": theirs, "ratio": ratio}
                               for b, (ours, theirs, ratio) in figures.latency.items()]})
        return
    show(*_parts(result, figures, threads))


def _make_folder(output: Path | None) -> Path:
    if output is None:
        return Path(tempfile.mkdtemp(prefix="meta-infer-demo-"))
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot be made: {error.strerror}", what=f"--output {output}",
                         hint="name a folder where you may write") from error
    return output


def _build(model: Path, package: Path, batch: int) -> BuildResult:
    """One package for every batch size from 1 to `batch`."""
    with step_names("demo") as on_step:
        from meta_infer import api
        from meta_infer.build_config import make_config
        from meta_infer.support.trace import Trace

        choices = {"model": model, "output": package, "shape": (f"image=1..{batch},1,8,8",)}
        return api.build_from(make_config(choices, "demo"), Trace(on_step))


def _run_beside_onnx_runtime(result: BuildResult, model: Path, threads: int, batch: int) -> DemoFigures:
    """Labels of all held-out samples by both, then latencies in turns."""
    import numpy as np

    from meta_infer.runtime.session import load
    from meta_infer.search.measure.interleave import interleave, median_round
    from meta_infer.verify.reference import reference_session

    assert result.path is not None
    with (files("meta_infer.demo") / "digits_test.npz").open("rb") as file, np.load(file) as data:
        images, labels = data["images"], data["labels"]
    reference = reference_session(model, threads)
    with load(result.path, threads=threads) as session, step_names("demo") as on_step:
        on_step(f"run on {len(images)} samples")
        ours = _in_batches(lambda x: session.run(None, {"image": x})[0], images, batch)
        theirs = _in_batches(lambda x: reference.run(None, {"image": x})[0], images, batch)
        latency = {}
        for size in (1, batch):
            on_step(f"measure batch {size}")
            feeds = {"image": np.ascontiguousarray(np.resize(images, (size, *images.shape[1:])))}
            found = interleave({"ours": partial(session.run, None, feeds),
                                "theirs": partial(reference.run, None, feeds)}, rounds=ROUNDS, seconds=SECONDS)
            middle = median_round(found["ours"], found["theirs"])
            latency[size] = (middle.seconds, middle.reference, middle.ratio)
        arena = session.info.arena_bytes
    return DemoFigures(
        samples=len(images), latency=latency, right=int((ours.argmax(axis=1) == labels).sum()),
        right_reference=int((theirs.argmax(axis=1) == labels).sum()), deviation=float(np.abs(ours - theirs).max()),
        arena_bytes=arena, package_bytes=result.path.stat().st_size)


def _in_batches(run: Callable[[np.ndarray], np.ndarray], images: np.ndarray, batch: int) -> np.ndarray:
    import numpy as np

    return np.concatenate([run(images[i:i + batch]) for i in range(0, len(images), batch)])


def _parts(result: BuildResult, figures: DemoFigures, threads: int) -> list[RenderableType]:
    from rich.text import Text

    from meta_infer.report.plain_table import plain_table
    from meta_infer.report.text import steps_table
    from meta_infer.report.units import bytes_text, seconds_text, small_text

    table = plain_table("", "meta-infer", "ONNX Runtime", "", right=("meta-infer", "ONNX Runtime"))
    for size, (ours, theirs, ratio) in figures.latency.items():
        table.add_row(f"time per run, batch {size}", seconds_text(ours), seconds_text(theirs),
                      f"{ratio:.2f}x ONNX Runtime's time")
    n = figures.samples
    table.add_row("digits read right", f"{figures.right / n:.2%}", f"{figures.right_reference / n:.2%}",
                  f"of {n} held-out samples")
    table.add_row("largest deviation", small_text(figures.deviation), "reference", "between two probabilities (0..1)")
    table.add_row("working memory (arena)", bytes_text(figures.arena_bytes), "", "all tensors of a run, one block")
    table.add_row("package file", bytes_text(figures.package_bytes), "", "code, weights, plan, tests, report")
    return [
        Text("A trained network that reads handwritten digits, compiled for this machine:"), "",
        steps_table(result.trace.steps, explain=True), "",
        Text(f"Run on {n} samples it never saw, in turns with ONNX Runtime, "
             f"{threads} thread{'s' if threads > 1 else ''} each (the median round):"), "",
        table, "",
        Text(f"The package: {result.path}"),
        Text("Next, see the code made for one operator:"),
        Text(f"meta-infer inspect {result.path} --code --node conv2"),
    ]


