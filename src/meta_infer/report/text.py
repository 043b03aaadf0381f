"""The report of a build as tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from meta_infer.report.aims import aims_lines
from meta_infer.report.comparison import LEGEND, comparison_table
from meta_infer.report.plain_table import plain_table
from meta_infer.report.search_text import rewrites_parts, search_parts
from meta_infer.report.units import bytes_text, count_text, seconds_text, small_text
from meta_infer.support.trace import Step
from meta_infer.verify.compare import TensorComparison

MOST_ROWS = 12
"""Rows of comparisons that are shown; the report in the package has them all."""


def report_parts(report: Mapping[str, Any], steps: Sequence[Step], comparisons: Sequence[TensorComparison],
                 details: bool = False, verbose: bool = False) -> list[RenderableType]:
    """What `build` prints: steps with their times, figures, the comparison; with `details` every group, `verbose` the
    longer part of what a search tells."""
    parts: list[RenderableType] = [Text(f"{report['model']} for {report['hardware']}", style="bold"), ""]
    parts += [steps_table(steps), ""]
    if verbose:
        parts += rewrites_parts(report.get("rewrites", ()))
    for rows in report.get("searches", ()):
        parts += search_parts(rows, verbose)
    others = report.get("other_targets", ())
    for target in (report, *others):
        if others:
            parts += [Text(f"target {target['isa']}", style="bold")]
        if details:
            parts += [groups_table(target["groups"]), ""]
        parts += [figures_table(target["figures"]), ""]
        lines = aims_lines(target.get("aims", {}))
        parts += [*map(Text, lines), *([""] if lines else [])]
    parts += sized_while_running(report.get("sized_while_running", ()))
    if comparisons:
        worst = sorted(comparisons, key=lambda c: -c.distance.relative)[:MOST_ROWS]
        parts += [comparison_table(worst), LEGEND]
        if len(worst) < len(comparisons):
            parts.append(f"the {MOST_ROWS} largest of {len(comparisons)} comparisons; `meta-infer compare` shows all")
    return parts


MEANINGS: Mapping[str, str] = {
    "import": "reads and checks the ONNX file",
    "canonicalize": "simplifies the graph",
    "legalize": "replaces what the chip lacks",
    "plan": "fuses operators, chooses kernels",
    "lower": "makes loops and commands of them",
    "memory": "places tensors in one arena",
    "emit": "writes the loops as C",
    "compile": "compiles that C for this machine",
    "reference": "asks ONNX Runtime what to expect",
    "package": "writes one file",
    "verify": "runs it beside ONNX Runtime",
}
"""What each step does, in words for someone who sees it for the first time."""


def steps_table(steps: Sequence[Step], explain: bool = False) -> Table:
    """Name, seconds and figures of each step that a build took; with `explain` also what it does."""
    table = plain_table("step", *(["what it does"] if explain else []), "time", "result", right=("time",))
    for step in steps:
        result = ", ".join(f"{_words(key)} {_figure_text(key, value)}" for key, value in step.figures.items())
        meaning = [MEANINGS.get(step.name, "")] if explain else []
        table.add_row(step.name, *meaning, seconds_text(step.seconds), Text(result))
    return table


def figures_table(figures: Mapping[str, Any]) -> Table:
    """One figure a row. A metric says where it comes from: measured, simulated, compiler_estimate or model."""
    table = plain_table("figure", "value", right=("value",))
    for key, value in figures.items():
        if value is not None:
            table.add_row(_words(key), Text(_figure_text(key, value)))
    return table


def sized_while_running(rows: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    """The tensors for which the runtime obtains memory in a run: which op makes each, and what is known of its size."""
    if not rows:
        return []
    table = plain_table("tensor", "shape", "made by", "why")
    for row in rows:
        made = " ".join([row["op"], *row["nodes"]])
        sizes = ", ".join(row["symbols"])
        bound = "no bound is known" if row["bound_bytes"] is None else f"up to {bytes_text(row['bound_bytes'])}"
        table.add_row(Text(row["tensor"]), Text(f"[{', '.join(map(str, row['shape']))}]"), Text(made),
                      Text(f"{sizes}: {bound}"))
    head = "1 tensor is" if len(rows) == 1 else f"{len(rows)} tensors are"
    return [Text(f"{head} sized while running, outside the arena:"), table, ""]


def groups_table(groups: Sequence[Mapping[str, Any]]) -> Table:
    """The fused groups in execution order: what they compute and by which kernel."""
    table = plain_table("group", "kernel", "variant", "FLOP", right=("FLOP",))
    for group in groups:
        flops = str(group["flops"])
        shown = count_text(float(flops)) if flops.isdigit() else flops
        table.add_row(Text(group["ops"]), group["kernel"], group["variant"], Text(shown))
    return table


def metric_text(metric: Mapping[str, Any]) -> str:
    """'4.2 ms (estimate: model)'; a measured one carries no word of doubt."""
    number = f"{metric['value']:.4g} {metric['unit']}".rstrip()
    if metric["unit"] == "s":
        number = seconds_text(metric["value"])
    return number if metric["kind"] == "measured" else f"{number} (estimate: {metric['kind']})"


def _words(key: str) -> str:
    return key.removesuffix("_bytes").replace("_", " ")


def _figure_text(key: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return metric_text(value)
    if key.endswith("_bytes") and isinstance(value, int | float):
        return bytes_text(value)
    return small_text(value) if isinstance(value, float) else str(value)
