"""`meta-infer version`: what is installed, for a bug report."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from meta_infer import __version__
from meta_infer.cli.screen import show, show_json

PARTS = ("numpy", "onnx", "onnxruntime", "ziglang", "pydantic", "ruamel.yaml", "typer", "rich", "scipy", "ortools")


def installed(part: str) -> str | None:
    """The version of a distribution, None when it is not installed."""
    try:
        return version(part)
    except PackageNotFoundError:
        return None


def version_command(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with the versions of all parts.")] = False,
) -> None:
    """Print the version.

    Example: meta-infer version --json
    """
    if not as_json:
        show(f"meta-infer {__version__}")
        return
    show_json({"meta-infer": __version__, "python": platform.python_version(), "machine": platform.machine(),
               **{part: installed(part) for part in PARTS}})
