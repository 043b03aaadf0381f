"""What the system or SQLite refuses, as one error that says what to do."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from meta_infer.support.errors import LibraryError, LibraryUnwritableError

ELSEWHERE = "META_INFER_LIBRARY names another file"

NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "gpfs", "beegfs", "pvfs2",
                     "ocfs2", "gfs2", "glusterfs", "fuse.glusterfs", "fuse.sshfs", "fuse.s3fs", "fuse.ceph"})
"""File systems that several machines write: SQLite's shared memory does not reach from one to the other."""


def check_place(path: Path, mounts: str | None = None) -> None:
    """Raises LibraryError when the file lies or would lie on a network file system.

    `mounts` in the form of /proc/self/mountinfo (man 5 proc), which is read where none is given.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text(errors="replace")
        except OSError:
            return
    kind = _file_system(os.path.realpath(path), mounts)
    if kind in NETWORK:
        raise LibraryError(f"lies on a network file system ({kind}), where builds of several machines would damage it",
                           what=f"library {path}", hint=f"{ELSEWHERE}: take one on a disk of this machine")


def _file_system(path: str, mounts: str) -> str:
    """The type of the file system whose mount point is the longest above `path`; of equal ones the last is on top."""
    longest, kind = -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = fields[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        if (path + "/").startswith(point.rstrip("/") + "/") and len(point) >= longest:
            longest, kind = len(point), after.split()[0]
    return kind


def is_busy(error: sqlite3.Error) -> bool:
    return _name(error).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def library_error(error: sqlite3.Error, path: Path) -> LibraryError:
    """The error to raise instead of SQLite's."""
    what, name = f"library {path}", _name(error)
    if name.startswith("SQLITE_NOTADB"):
        return LibraryError("is not a library: not an SQLite file", what=what, hint=ELSEWHERE)
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_IOERR_SHORT_READ")) or "no such" in str(error):
        return LibraryError(f"is damaged: {error}", what=what,
                            hint="move the file away, a new one is made; `meta-infer library import` reads an export")
    if is_busy(error):
        return LibraryUnwritableError("is in use by another program that does not let go", what=what,
                                      hint=f"end that program, or {ELSEWHERE}")
    if name.startswith("SQLITE_FULL"):
        return LibraryUnwritableError("cannot grow: the disk is full", what=what,
                                      hint=f"free space, `meta-infer library prune`, or {ELSEWHERE}")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return LibraryUnwritableError("cannot be written in that place", what=what,
                                      hint=f"check the folder's permissions, or {ELSEWHERE}")
    return LibraryUnwritableError(f"cannot be read or written: {error}", what=what,
                                  hint=f"check the disk, or {ELSEWHERE}")


def _name(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", "") or ""
