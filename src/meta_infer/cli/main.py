"""The command line's door: the list of commands, and how errors become one message and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

import typer

from meta_infer.cli.bench import bench
from meta_infer.cli.build import build
from meta_infer.cli.compare import compare
from meta_infer.cli.demo import demo
from meta_infer.cli.hardware import hardware
from meta_infer.cli.inspect import inspect
from meta_infer.cli.run import run
from meta_infer.cli.screen import WIDTH, note
from meta_infer.cli.version import version_command
from meta_infer.support.errors import InternalError, MetaInferError
from meta_infer.support.switches import read_switches

INTERRUPTED = 130

app = typer.Typer(
    name="meta-infer", no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False,
    context_settings={"max_content_width": WIDTH},
    help="Compile an ONNX model and a chip profile into one package file, and run that file.\n\n"
         "Start with: meta-infer demo")
app.command("build")(build)
app.command("run")(run)
app.command("bench")(bench)
app.command("compare")(compare)
app.command("inspect")(inspect)
app.add_typer(hardware, name="hardware")
app.command("demo")(demo)
app.command("version")(version_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command (default: that of sys.argv) and returns the exit code, see docs/command-line.md."""
    try:
        read_switches()
        typer.main.get_command(app)(args=arguments, prog_name="meta-infer")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except MetaInferError as error:
        return _fail(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone (`| head`). Nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # noqa: BLE001 - the last door: a fault of ours ends in one message as well
        at = traceback.extract_tb(error.__traceback__)[-1]
        problem = f"{type(error).__name__}: {error}"
        return _fail(InternalError(problem, what=f"{at.filename}:{at.lineno}",
                                   hint="META_INFER_DEBUG=1 shows the whole traceback; please report it"))
    return 0


def _fail(error: MetaInferError) -> int:
    """One message on standard error; the traceback only for those who asked for it."""
    if os.environ.get("META_INFER_DEBUG", "0") not in ("", "0"):
        traceback.print_exc()
    note(f"error: {error}", "red")
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
