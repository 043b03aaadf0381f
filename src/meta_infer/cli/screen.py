"""Where the command line writes: results to standard output, everything else to standard error."""

from __future__ import annotations

import json
import sys
from typing import Any, TextIO

import typer
from rich.console import Console, RenderableType
from rich.text import Text

WIDTH = 100
"""Tables are never wider than this, and text that goes to a file or a pipe is laid out for it."""


def _console(stream: TextIO) -> Console:
    """A console on `stream`: as wide as a terminal up to WIDTH, exactly WIDTH elsewhere."""
    console = Console(file=stream, highlight=False, soft_wrap=False)
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    return console


def results() -> Console:
    """Standard output, made anew each time: tests and callers may have replaced the stream."""
    return _console(sys.stdout)


def notes() -> Console:
    """Standard error: progress, warnings and errors."""
    return _console(sys.stderr)


def show(*parts: RenderableType) -> None:
    """Prints tables and lines of results. Lines are not cut: a path stays in one piece. Brackets are no markup."""
    console = results()
    with console.capture() as captured:
        for part in parts:
            console.print(part, markup=False, soft_wrap=isinstance(part, str | Text))
    # Tables fill their last column with blanks.
    lines = captured.get().removesuffix("\n").split("\n")
    typer.echo("\n".join(line.rstrip(" ") for line in lines))


def show_json(value: Any) -> None:
    """Prints one JSON document and nothing else. Numbers that JSON does not know become null."""
    typer.echo(json.dumps(_finite(value), indent=2, allow_nan=False))


def note(text: str, style: str = "") -> None:
    """One line on standard error, never cut."""
    notes().print(text, style=style, markup=False, soft_wrap=True)


def warn(text: str) -> None:
    note(f"warning: {text}", "yellow")


def _finite(value: Any) -> Any:
    if isinstance(value, float) and value - value != 0.0:
        return None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
