"""`meta-infer inspect`: what a package holds, and the code it runs, by ONNX node."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meta_infer.cli.run import PackageFile
from meta_infer.cli.screen import show, show_json
from meta_infer.support.errors import PackageError, UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from meta_infer.runtime.reader import Package


def inspect(
    package: PackageFile,
    code: Annotated[bool, typer.Option("--code", help="Print the generated code, by ONNX node.")] = False,
    node: Annotated[str | None, typer.Option(
        help="With --code: only this ONNX node; * and ? match any text.", metavar="NAME",
        show_default="all nodes")] = None,
    target: Annotated[str | None, typer.Option(
        help="With --code: that of this instruction set.", metavar="ISA",
        show_default="the package's first target")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Compare every member with its checksum.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a package holds, and its code by ONNX node.

    Inputs, outputs, targets, memory, members, configuration. Nothing of the package is executed.

    Example: meta-infer inspect model.bin --code --node conv1
    """
    from meta_infer.cli.generated_code import code_by_kernel
    from meta_infer.runtime.cpu import target_named
    from meta_infer.runtime.reader import Package

    for flag, value in (("--node", node), ("--target", target)):
        if value is not None and not code:
            raise UsageError("needs --code", what=flag, hint="add --code")
    opened = Package(package, verify=verify)
    if code:
        isa = target or next((t.isa for t in opened.targets), "")
        kernels = code_by_kernel(opened, target_named(opened.targets, isa, f"package {str(package)!r}"), node)
        if as_json:
            show_json([{"kernel": k.name, "nodes": list(k.nodes), "code": k.text} for k in kernels])
            return
        typer.echo("\n\n".join(f"// kernel {k.name}\n// nodes: {_one_line(k.nodes) or 'none'}\n{k.text}"
                               for k in kernels))
        return
    if as_json:
        show_json({"package": str(package), "package_bytes": package.stat().st_size, "manifest": opened.manifest,
                   **{name.removesuffix(".json").replace(".", "_"): opened.json(name)
                      for name in ("report.json", "build.lock.json")}})
        return
    show(*_parts(opened, package))


def _parts(package: Package, file: Path) -> list[RenderableType]:
    from rich.text import Text

    from meta_infer.report.plain_table import plain_table
    from meta_infer.report.text import figures_table, sized_while_running
    from meta_infer.report.units import bytes_text
    from meta_infer.runtime.feeds import shape_text

    manifest = package.manifest
    tensors = plain_table("tensor", "", "dtype", "shape")
    for side, items in (("input", package.inputs), ("output", package.outputs)):
        for tensor in items:
            tensors.add_row(Text(tensor.name), side, tensor.dtype, Text(shape_text(tensor, manifest["symbols"])))
    targets = plain_table("target", "device", "code", "plan", "CPU features it needs", right=("code", "plan"))
    for target in package.targets:
        code, plan = (bytes_text(len(package.member(name))) for name in (target.code, target.plan))
        targets.add_row(target.isa, target.device, code, plan, ", ".join(sorted(target.features)) or "none")
    members = plain_table("member", "size", right=("size",))
    for name in package.names():
        members.add_row(Text(name), bytes_text(len(package.member(name))))
    report = package.json("report.json")
    figures: dict[str, Any] = {
        "package_bytes": file.stat().st_size, "weight_bytes": manifest["weight_bytes"],
        "arena_bytes": manifest["arena_bytes"], "threads": manifest["threads"] or "one per core",
        "producer": package.producer, "format version": manifest["format_version"]}
    try:
        table = figures_table(figures | report.get("figures", {}))
        pooled = sized_while_running(report.get("sized_while_running", []))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise PackageError(f"is not a report of this version: {error!r}", hint="build the package again",
                           what=f"package {str(file)!r}, member 'report.json'") from error
    parts: list[RenderableType] = [Text(f"{file}: model {package.model}", style="bold"), ""]
    for part in (tensors, table):
        parts += [part, ""]
    parts += pooled
    for part in (targets, members):
        parts += [part, ""]
    config = package.text("config.yaml").strip()
    return [*parts, "configuration of the build:", Text(config or json.dumps(None))]


def _one_line(names: Sequence[str]) -> str:
    """Names with commas; a name may hold line ends, a comment may not."""
    return " ".join(", ".join(names).split())
