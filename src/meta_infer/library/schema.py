"""The tables of a library file, step by step: MIGRATIONS[n] brings a file of version n to n + 1.

A step that was released is never edited; what changes is added as another one. A new file goes through all of them.
The version is `PRAGMA user_version`, and `PRAGMA application_id` tells a library from other SQLite files.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from meta_infer.library.failures import ELSEWHERE
from meta_infer.support.errors import LibraryError

APPLICATION = 0x4D494C42
"""'MILB'"""

_SAMPLES = """
CREATE TABLE samples (
    key TEXT PRIMARY KEY, kernel TEXT NOT NULL, variant TEXT NOT NULL, op TEXT NOT NULL, "group" TEXT NOT NULL,
    structure TEXT NOT NULL, knobs TEXT NOT NULL, layouts TEXT NOT NULL, precision TEXT NOT NULL, isa TEXT NOT NULL,
    cpu TEXT NOT NULL, threads INTEGER NOT NULL, dims TEXT NOT NULL, features TEXT NOT NULL, seconds REAL NOT NULL,
    spread REAL NOT NULL, share_of_peak REAL NOT NULL, peak REAL NOT NULL, rounds INTEGER NOT NULL,
    status TEXT NOT NULL, turns TEXT NOT NULL, protocol INTEGER NOT NULL, compiler TEXT NOT NULL, made TEXT NOT NULL
)
"""

_DECISIONS = """
CREATE TABLE decisions (
    "group" TEXT NOT NULL, structure TEXT NOT NULL, capabilities TEXT NOT NULL, threads INTEGER NOT NULL,
    kernel TEXT NOT NULL, variant TEXT NOT NULL, knobs TEXT NOT NULL, layouts TEXT NOT NULL, seconds REAL NOT NULL,
    rivals INTEGER NOT NULL, best_rival TEXT NOT NULL, best_rival_seconds REAL NOT NULL, model TEXT NOT NULL,
    cpu TEXT NOT NULL, key TEXT NOT NULL, made TEXT NOT NULL,
    PRIMARY KEY ("group", capabilities, threads)
)
"""

_PLANS = """
CREATE TABLE plans (
    key TEXT NOT NULL, mode TEXT NOT NULL, seconds REAL NOT NULL, choices TEXT NOT NULL, told TEXT NOT NULL,
    whole TEXT NOT NULL, model TEXT NOT NULL, isa TEXT NOT NULL, cpu TEXT NOT NULL, threads INTEGER NOT NULL,
    protocol INTEGER NOT NULL, compiler TEXT NOT NULL, made TEXT NOT NULL,
    PRIMARY KEY (key, mode)
)
"""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (_SAMPLES,),
    (_DECISIONS, "CREATE INDEX decisions_by_structure ON decisions (structure)",
     "CREATE INDEX samples_by_structure ON samples (structure)",
     'CREATE INDEX samples_by_group ON samples ("group")'),
    ("ALTER TABLE samples ADD COLUMN sizes TEXT NOT NULL DEFAULT '{}'",),
    ("ALTER TABLE samples ADD COLUMN place TEXT NOT NULL DEFAULT ''",),
    (_PLANS,),
    ("CREATE TABLE fits (cpu TEXT NOT NULL, isa TEXT NOT NULL, threads INTEGER NOT NULL, until TEXT NOT NULL, "
     "PRIMARY KEY (cpu, isa, threads))",),
)
VERSION = len(MIGRATIONS)


def stored_version(db: sqlite3.Connection, path: Path) -> int:
    """The version of an open file, 0 for one without any content.

    Raises LibraryError for a file that is no library, or one of a version that is not known yet.
    """
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (application,) = db.execute("PRAGMA application_id").fetchone()
    if application == APPLICATION and 1 <= version <= VERSION:
        return int(version)
    if application == APPLICATION:
        raise LibraryError(f"is of version {version}, this meta-infer knows {VERSION}", what=f"library {path}",
                           hint=f"use the meta-infer that made it, or {ELSEWHERE}")
    if application or version or db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise LibraryError("is not a library: an SQLite file that holds something else", what=f"library {path}",
                           hint=ELSEWHERE)
    return 0


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """Bring a file to VERSION, within the transaction that is open. Raises LibraryError as `stored_version` does."""
    version = stored_version(db, path)
    for step in MIGRATIONS[version:]:
        for statement in step:
            db.execute(statement)
    if version < VERSION:
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {VERSION}")
