"""The command line's door: the list of commands, and how errors become one message and an exit code."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from meta_infer.cli.bench import bench
from meta_infer.cli.build import build
from meta_infer.cli.check import check
from meta_infer.cli.compare import compare
from meta_infer.cli.demo import demo
from meta_infer.cli.entry import INTERRUPTED
from meta_infer.cli.hardware import hardware
from meta_infer.cli.inspect import inspect
from meta_infer.cli.library import library
from meta_infer.cli.predict import predict
from meta_infer.cli.profile import profile
from meta_infer.cli.run import run
from meta_infer.cli.screen import WIDTH, note
from meta_infer.cli.version import version_command
from meta_infer.support.errors import InternalError, MetaInferError
from meta_infer.support.switches import read_switches

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)

app = typer.Typer(
    name="meta-infer", no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False,
    context_settings={"max_content_width": WIDTH},
    help="Compile an ONNX model and a chip profile into one package file, and run that file.\n\n"
         "Start with: meta-infer demo")


def _version(asked: bool) -> None:
    if asked:
        version_command(as_json=False)
        raise typer.Exit()


@app.callback()
def _options(version: Annotated[bool, typer.Option("--version", is_eager=True, callback=_version,
                                                   help="Print the version, as `version` does.")] = False) -> None:
    pass


app.command("build")(build)
app.command("run")(run)
app.command("bench")(bench)
app.command("profile")(profile)
app.command("compare")(compare)
app.command("inspect")(inspect)
app.command("check")(check)
app.command("predict")(predict)
app.add_typer(hardware, name="hardware")
app.add_typer(library, name="library")
app.command("demo")(demo)
app.command("version")(version_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command (default: that of sys.argv) and returns the exit code, see docs/command-line.md."""
    try:
        read_switches()
        typer.main.get_command(app)(args=arguments, prog_name="meta-infer")
    except SystemExit as end:
        if end.code == INTERRUPTED:                             # typer ends so at Ctrl-C
            note("interrupted")
        return end.code if isinstance(end.code, int) else 0
    except MetaInferError as error:
        return _fail(error)
    except KeyboardInterrupt:
        note("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()                                          # whoever read our output has gone (`| head`)
        return 1
    except OSError as error:
        if error.errno not in DISK_FULL:
            return _fail_within(error)
        _drop_output()
        return _fail(MetaInferError("no space is left", what=error.filename or "standard output or temporary files",
                                    hint="free space on that disk"))
    except Exception as error:  # noqa: BLE001 - the last door: a fault of ours ends in one message as well
        return _fail_within(error)
    return 0


def _drop_output() -> None:
    """What standard output still holds is not written at exit either, where it would fail once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail_within(error: Exception) -> int:
    """The end of an exception that no layer expects: a fault of meta-infer."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    return _fail(InternalError(f"{type(error).__name__}: {error}", what=f"{at.filename}:{at.lineno}",
                               hint="META_INFER_DEBUG=1 shows the whole traceback; please report it"))


def _fail(error: MetaInferError) -> int:
    """One message on standard error; the traceback only for those who asked for it."""
    if os.environ.get("META_INFER_DEBUG", "0") not in ("", "0"):
        traceback.print_exc()
    note(f"error: {error}", "red")
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
