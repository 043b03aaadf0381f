"""`meta-infer run`: one run of a package, arrays in and arrays out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from meta_infer.cli.screen import note, show, show_json

PackageFile = Annotated[Path, typer.Argument(help="The package file.", show_default=False)]
InputFiles = Annotated[list[str] | None, typer.Option(
    "--input", "-i", metavar="FILE.npz|NAME=FILE.npy", help="Inputs by name. Repeatable.",
    show_default="the package's test inputs")]
RandomInputs = Annotated[bool, typer.Option("--random", help="Random inputs instead of the package's test inputs.")]
Dims = Annotated[list[str] | None, typer.Option(
    "--dim", metavar="NAME=SIZE", help="Size of a named dimension for random inputs. Repeatable.",
    show_default="as in the test inputs")]
Seed = Annotated[int, typer.Option(help="Seed of the random inputs.", min=0)]
Threads = Annotated[int | None, typer.Option(help="Threads to run with.", min=1,
                                             show_default="the package's default, else all cores")]
TargetName = Annotated[str | None, typer.Option("--target", metavar="ISA", help="Instruction set to use.",
                                                show_default="the best one that this machine has")]

DEVICE_HELP = "Where it runs: 'local' (this machine), or a board as ssh://[user@]host[:port], see docs/boards.md."
DeviceName = Annotated[str, typer.Option("--device", metavar="local|ssh://HOST", help=DEVICE_HELP)]


def run(
    package: PackageFile,
    inputs: InputFiles = None,
    random: RandomInputs = False,
    dim: Dims = None,
    seed: Seed = 0,
    threads: Threads = None,
    target: TargetName = None,
    device: DeviceName = "local",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write all outputs to this .npz file.",
                                                show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print names, types and shapes as JSON.")] = False,
) -> None:
    """Run a package once and print what comes out.

    Without inputs it runs the test that the package carries, and says how far it is from the expected outputs.

    Example: meta-infer run model.bin --input image=image.npy --output outputs.npz
    """
    from meta_infer.backends.cpu.on_board import opened
    from meta_infer.cli.inputs import check_output, choose_inputs, write_arrays
    from meta_infer.hardware.device import open_device

    if output is not None:
        check_output(output, inputs or [])
    with open_device(device) as board, opened(package, board, threads, target) as session:
        feeds, expected = choose_inputs(session.package, inputs or [], dim or [], random, seed)
        values = session.run(None, feeds)
        outputs = {o.name: value for o, value in zip(session.package.outputs, values, strict=True)}
    if output is not None:
        write_arrays(output, outputs)
        note(f"written: {output}")
    if as_json:
        show_json({side: [{"name": n, "dtype": str(a.dtype), "shape": list(a.shape)} for n, a in arrays.items()]
                   for side, arrays in (("inputs", feeds), ("outputs", outputs))})
        return
    from rich.text import Text

    from meta_infer.report.plain_table import plain_table

    table = plain_table("tensor", "", "dtype", "shape", "min", "mean", "max", right=("min", "mean", "max"))
    for side, arrays in (("input", feeds), ("output", outputs)):
        for name, a in arrays.items():
            figures = (f"{a.min():.4g}", f"{a.mean():.4g}", f"{a.max():.4g}") if a.size else ("-", "-", "-")
            table.add_row(Text(name), side, str(a.dtype), Text("x".join(map(str, a.shape)) or "scalar"), *figures)
    show(table)
    if expected:
        from meta_infer.report.units import small_text
        from meta_infer.verify.metrics import distance

        worst = max(distance(outputs[name], array).relative for name, array in expected.items())
        show("", f"the package's own test: largest deviation from the expected outputs {small_text(worst)} "
                 "of their largest value")
