"""The choices in a lock file, or in a package that holds one."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from meta_infer.package.format import LOCK
from meta_infer.support.errors import InputError


def read_choices(path: Path, isa: str) -> tuple[list[Mapping[str, Any]], str]:
    """(choices for instruction set `isa`, what they come from). Raises InputError."""
    what = f"--replay {path}"
    try:
        data = zipfile.ZipFile(path).read(LOCK) if zipfile.is_zipfile(path) else path.read_bytes()
        lock = json.loads(data)
        choices = lock["choices"]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", what=what,
                         hint="give a build.lock.json, or a package") from error
    except (ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise InputError("is neither a lock nor a package that holds one", what=what,
                         hint=f"`unzip -p model.bin {LOCK}` prints the one of a package") from error
    if not isinstance(choices, Mapping) or not isinstance(choices.get(isa), list):
        known = ", ".join(choices) if isinstance(choices, Mapping) else ""
        raise InputError(f"has no choices for {isa}" + (f", only for {known}" if known else ""), what=what,
                         hint="build for the instruction set of the lock with --isa")
    return choices[isa], what
