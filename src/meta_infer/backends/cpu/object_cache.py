"""The folder of compiled objects: what is taken from it is exactly what was put there.

Beside each file lies its SHA-256. A file that a full disk, a crash or a copy has damaged is compiled again, instead of
reaching a package: no later check could tell wrong code from right code.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CACHE_LIMIT = 1 << 30
"""Bytes the object cache may take; the least recently used files go first."""
_WORK = "work-"
_ABANDONED = 24 * 3600
"""Seconds after which a working folder belongs to a build that was killed."""
_STAMP, _EVERY = "pruned", 600
"""A file that was touched when the folder was last looked through, and the seconds after which it is again."""


def is_cached(path: Path) -> bool:
    """Whether `path` holds what `keep` put there; marks it as just used."""
    checksum = _checksum(path)
    try:
        if checksum.read_text() != hashlib.sha256(path.read_bytes()).hexdigest():
            return False
        os.utime(checksum)
        os.utime(path)
    except (FileNotFoundError, UnicodeDecodeError):
        return False
    return True


def keep(made: Path, path: Path) -> None:
    """Move the new file `made`, which is in the cache's folder or below it, to `path`.

    Builds that make the same file at once make the same bytes; a reader in between sees a checksum that does not fit.
    """
    checksum = made.with_name(made.name + ".sha256")
    checksum.write_text(hashlib.sha256(made.read_bytes()).hexdigest())
    os.replace(checksum, _checksum(path))
    os.replace(made, path)


@contextmanager
def work_folder(cache: Path) -> Iterator[Path]:
    """A new folder in the cache that goes away afterwards."""
    with tempfile.TemporaryDirectory(dir=cache, prefix=_WORK) as folder:
        yield Path(folder)


def prune_at_times(cache: Path) -> None:
    """As `prune`, if that was not done in the last minutes: searches leave tens of thousands of small files to look at.
    """
    stamp = cache / _STAMP
    with suppress(FileNotFoundError):
        if abs(time.time() - stamp.stat().st_mtime) < _EVERY:
            return
    stamp.touch()
    prune(cache)


def prune(cache: Path, limit: int = CACHE_LIMIT) -> None:
    """Delete the least recently used objects until the folder takes at most `limit` bytes, and what killed builds
    have left."""
    for folder in cache.glob(f"{_WORK}*"):
        try:
            if time.time() - folder.stat().st_mtime > _ABANDONED:
                shutil.rmtree(folder, ignore_errors=True)
        except FileNotFoundError:                                # another build was quicker
            continue
    files = []
    with os.scandir(cache) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                if "." in entry.name and entry.is_file():
                    status = entry.stat()
                    files.append((status.st_mtime, status.st_size, entry.path))
    total = sum(size for _, size, _ in files)
    for _, size, name in sorted(files):
        if total <= limit:
            return
        Path(name).unlink(missing_ok=True)
        total -= size


def _checksum(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")
