"""Profiles that commands write."""

from __future__ import annotations

from pathlib import Path

from meta_infer.cli.screen import note
from meta_infer.support.errors import UsageError
from meta_infer.support.output_file import check_replaceable, is_profile, replacing


def check_output(output: Path) -> None:
    """Raises UsageError where `output` stands for something else than a profile."""
    check_replaceable(output, is_profile, "a profile")


def write_profile(output: Path, text: str) -> None:
    """Writes a profile all at once, and says so. Raises UsageError where it cannot be written."""
    try:
        with replacing(output) as file:
            file.write(text.encode())
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", what=f"--output {output}",
                         hint="name a file in an existing folder you may write to") from error
    note(f"written: {output}")
