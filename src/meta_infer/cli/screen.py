"""Where the command line writes: results to standard output, everything else to standard error."""

from __future__ import annotations

import json
from typing import Any, TextIO

import typer
from rich.console import Console, RenderableType

WIDTH = 100
"""Tables are never wider than this, and text that goes to a file or a pipe is laid out for it."""


def _console(stream: TextIO) -> Console:
    """A console on `stream`: as wide as a terminal up to WIDTH, exactly WIDTH elsewhere."""
    console = Console(file=stream, highlight=False, soft_wrap=False)
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    return console


def results() -> Console:
    """Standard output, made anew each time: tests and callers may have replaced the stream."""
    return _console(typer.get_text_stream("stdout"))


def notes() -> Console:
    """Standard error: progress, warnings and errors."""
    return _console(typer.get_text_stream("stderr"))


def show(*parts: RenderableType) -> None:
    """Prints tables and lines of results. Square brackets in a plain string are text, not markup."""
    console = results()
    for part in parts:
        console.print(part, markup=False)


def show_json(value: Any) -> None:
    """Prints one JSON document and nothing else. Numbers that JSON does not know become null."""
    typer.echo(json.dumps(_finite(value), indent=2, allow_nan=False))


def warn(text: str) -> None:
    notes().print(f"warning: {text}", style="yellow", markup=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and value - value != 0.0:
        return None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
