"""An open SQLite file: transactions that wait for those of other builds, and errors that say what to do.

The journal is a write-ahead log: readers and the writer do not wait for each other, and what a killed process left
half-written is not seen (https://www.sqlite.org/wal.html).
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from meta_infer.library.failures import ELSEWHERE, check_place, is_busy, library_error
from meta_infer.library.schema import VERSION, migrate, stored_version
from meta_infer.support.errors import LibraryUnwritableError

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

PATIENCE = 60.0
"""Seconds to wait for others that write; a transaction of theirs takes milliseconds."""


class Connection:
    """One connection, of the thread and the process that opened it."""

    def __init__(self, path: Path, mode: str, patience: float) -> None:
        """`mode` as in SQLite's URIs: 'rwc', 'ro', 'ro&immutable=1'. Raises LibraryError."""
        self._path, self._patience = path, patience
        self.writable = mode == "rwc"
        try:
            self._db = sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None,
                                       timeout=min(patience, 5.0))
        except sqlite3.Error as error:
            raise library_error(error, path) from error

    @classmethod
    def to_write(cls, path: Path, patience: float) -> Connection:
        """A library of this version: new where there was none, migrated where it is older. Raises LibraryError."""
        check_place(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LibraryUnwritableError(f"its folder cannot be made: {error.strerror}", what=f"library {path}",
                                         hint=f"check the folder's permissions, or {ELSEWHERE}") from error
        made = cls(path, "rwc", patience)
        try:
            made.read(lambda db: stored_version(db, path))      # before anything is changed in a file of others
            made._patiently("", lambda db: db.execute("PRAGMA journal_mode = WAL").fetchone())
            made._patiently("", lambda db: db.execute("PRAGMA synchronous = NORMAL"))
            made.write(lambda db: migrate(db, path))
        except BaseException:
            made.close()
            raise
        return made

    @classmethod
    def to_read(cls, path: Path, patience: float, reason: LibraryUnwritableError) -> Connection:
        """A library of this version that cannot be written. Raises `reason` where it cannot be read either."""
        modes = ["ro"]
        if not path.with_name(path.name + "-wal").exists():     # else somebody may be writing after all
            modes.append("ro&immutable=1")
        for mode in modes:
            try:
                made = cls(path, mode, patience)
            except LibraryUnwritableError:
                continue
            try:
                if made.read(lambda db: stored_version(db, path)) == VERSION:
                    return made
                made.close()
            except LibraryUnwritableError:
                made.close()
            except BaseException:
                made.close()
                raise
        raise reason

    def close(self) -> None:
        self._db.close()

    def read(self, work: Work[T]) -> T:
        """What `work` gives; all that it reads is of one moment. Raises LibraryError."""
        return self._patiently("BEGIN", work)

    def write(self, work: Work[T]) -> T:
        """What `work` gives in a transaction of its own, which is undone when it raises. Raises LibraryError."""
        return self._patiently("BEGIN IMMEDIATE", work)

    def _patiently(self, begin: str, work: Work[T]) -> T:
        end = time.monotonic() + self._patience
        while True:
            try:
                return self._transaction(begin, work)
            except sqlite3.Error as error:
                # SQLite waits by itself in most cases; where waiting could be for ever it leaves it to us.
                if not is_busy(error) or time.monotonic() > end:
                    raise library_error(error, self._path) from error
            time.sleep(random.uniform(0.001, 0.05))

    def _transaction(self, begin: str, work: Work[T]) -> T:
        if not begin:
            return work(self._db)
        self._db.execute(begin)
        try:
            result = work(self._db)
            self._db.execute("COMMIT")
            return result
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def shrink(self) -> None:
        """Gives the room of removed rows back to the disk, unless others are at work: then the file uses it again."""
        try:
            self._db.execute("VACUUM")
        except sqlite3.Error as error:
            if not is_busy(error) and error.sqlite_errorname != "SQLITE_FULL":
                raise library_error(error, self._path) from error
