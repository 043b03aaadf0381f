"""Libraries as files that travel: exports, imports of exports and of other libraries."""

from __future__ import annotations

import os
from pathlib import Path

from meta_infer.library.read_text import read_text
from meta_infer.library.store import Library, Merged
from meta_infer.library.write_text import Form, is_export, write_text
from meta_infer.support.errors import LibraryError, UsageError
from meta_infer.support.output_file import check_replaceable, replacing

FORMS: dict[str, Form] = {".yaml": "yaml", ".yml": "yaml", ".json": "json"}
SQLITE = b"SQLite format 3\0"


def export_library(library: Library, file: Path, cpu: str = "") -> tuple[int, int]:
    """Write the samples and decisions, of CPUs whose name contains `cpu`, as YAML or JSON; how many there were.

    Raises UsageError where `file` has another ending, is another kind of file, or cannot be written.
    """
    form = FORMS.get(file.suffix)
    if form is None:
        raise UsageError("is neither .yaml nor .json", what=str(file), hint="the ending says how to write it")
    check_replaceable(file, is_export, "an exported library")
    samples = [s for s in library.samples() if cpu.lower() in s.cpu.lower()]
    decisions = [d for d in library.decisions() if cpu.lower() in d.cpu.lower()]
    try:
        with replacing(file) as out:
            out.write(write_text(samples, decisions, form).encode())
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", what=str(file),
                         hint="name a file in an existing folder you may write to") from error
    return len(samples), len(decisions)


def import_file(library: Library, file: Path, replace_all: bool = False) -> Merged:
    """Merge an export, or another library's own file, into `library`; see Library.merge.

    Nothing is taken from a file in which anything is wrong. Raises LibraryError, UsageError.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", what=str(file), hint="check the path") from error
    if data.startswith(SQLITE):
        if os.path.realpath(file) == os.path.realpath(library.path):
            raise UsageError("is the library itself", what=str(file), hint="name another library, or an export")
        with Library.open_to_read(file) as other:
            return library.merge(other.samples(), other.decisions(), replace_all)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise LibraryError("is neither an exported library nor a library", what=str(file),
                           hint="`meta-infer library export` writes one") from None
    form = FORMS.get(file.suffix) or ("json" if text.lstrip().startswith("{") else "yaml")
    samples, decisions = read_text(text, form, str(file))
    return library.merge(samples, decisions, replace_all)
