"""`meta-infer predict`: what a model would take on a chip, without building it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from meta_infer.cli.hardware import profile_names
from meta_infer.cli.progress import step_names
from meta_infer.cli.screen import show, show_json, warn

_SHOWN = 12


def predict(
    model: Annotated[Path, typer.Argument(help="The ONNX file.", show_default=False)],
    hardware: Annotated[str, typer.Option(
        help="A profile: 'native' (this machine), a name of `meta-infer hardware list`, or a YAML file.",
        autocompletion=profile_names)] = "native",
    shape: Annotated[list[str] | None, typer.Option(
        help="Shape of an input, ranges allowed: x=1,3,48,32..960. Repeatable.", metavar="NAME=DIMS",
        show_default="as the model says")] = None,
    at: Annotated[str, typer.Option(
        help="Sizes of dynamic dims that the latency is for: N=1,L=128.", metavar="DIM=SIZE,...",
        show_default="small ones")] = "",
    precision: Annotated[str, typer.Option(help="Number format, for chips that compute in several.",
                                           metavar="auto|fp32|fp16|int8")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Estimate latency, memory and energy of a model on a chip. Nothing is compiled or run.

    Example: meta-infer predict model.onnx --hardware edge_npu_v2
    """
    with step_names("predict") as on_step:
        on_step("plan")
        from meta_infer.predicting import predict as predicted

        found = predicted(model, hardware, shape=tuple(shape or ()), at=at, precision=precision)
    for warning in found.warnings:
        warn(warning)
    if as_json:
        show_json(asdict(found))
        return
    from rich.text import Text

    from meta_infer.report.plain_table import plain_table
    from meta_infer.report.units import bytes_text, seconds_text

    sizes = ", ".join(f"{name} {size}" for name, size in found.sizes.items())
    figures = plain_table("figure", "estimate", right=("estimate",))
    if found.latency is not None:
        off = f" ± {seconds_text(found.latency.spread)}" if found.latency.spread else ""
        figures.add_row("latency", seconds_text(found.latency.value) + off)
    figures.add_row("memory", bytes_text(int(found.memory.value)))
    if found.energy is not None:
        figures.add_row("energy", f"{found.energy.value * 1e3:.3g} mJ")
    head = f"{found.model} on {found.hardware} in {found.precision}" + (f", {sizes}" if sizes else "")
    show(Text(head, style="bold"), "", figures)
    if found.groups:
        groups = plain_table("group", "kernel", "time", right=("time",))
        for group in found.groups[:_SHOWN]:
            groups.add_row(Text(group.label), group.kernel, seconds_text(group.seconds))
        more = len(found.groups) - _SHOWN
        show("", groups, *([f"and {more} quicker ones"] if more > 0 else []))
