"""Files that commands write: what they may replace, and replacing it all at once.

Nothing is replaced that is of another kind than what the command makes: `--output` can name the model by mistake, its
weights (`model.bin` is a common name for both weights and packages), a profile or a device. Looking at the file that
is there tells all of these from an earlier result.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from meta_infer.support.errors import UsageError

_HEAD = 4096
_ZIP = b"PK\3\4"
_ZIP_NAME = 30
"""Where the first member's name begins in a ZIP file."""


def is_package(head: bytes) -> bool:
    return head.startswith(_ZIP) and head[_ZIP_NAME:].startswith(b"manifest.json")


def is_arrays(head: bytes) -> bool:
    """Whether a file that begins with `head` is an .npz file."""
    name = head[_ZIP_NAME:_ZIP_NAME + int.from_bytes(head[26:28], "little")]
    return head.startswith(b"PK\5\6") or (head.startswith(_ZIP) and name.endswith(b".npy"))


def is_profile(head: bytes) -> bool:
    return b"devices:" in head or b"accelerator:" in head


def check_replaceable(path: Path, is_ours: Callable[[bytes], bool], kind: str) -> None:
    """Raises UsageError when something stands at `path` that is neither empty nor `kind` by its first bytes."""
    if not path.exists() or path.is_dir():                     # a folder is refused when the file is made
        return
    what, hint = f"--output {path}", "choose another --output, or delete that file first"
    if not path.is_file():
        raise UsageError("is a device or a pipe, not an ordinary file", what=what, hint="choose another --output")
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return                                                 # the writer will say what the system refuses
    if head and not is_ours(head):
        raise UsageError(f"exists and is not {kind}, so it is not replaced", what=what, hint=hint)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write that appears at `path` only when it is complete and on disk.

    Until then, and after any failure, what was there before stays. A symbolic link stays one. Raises OSError.
    """
    target = Path(os.path.realpath(path))
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    part = Path(name)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)                      # temporary files are private, a result is an ordinary file
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
