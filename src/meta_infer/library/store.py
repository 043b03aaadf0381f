"""The file of the experience library: SQLite, shared by all builds of a machine.

Every call that adds is one transaction, on disk for good when it returns (a killed process loses what it was about to
add, a power cut perhaps the last calls). Builds at the same time wait for one another for the moment of a transaction;
readers wait for nobody. A connection belongs to the thread and the process that opened it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from meta_infer.library.connection import PATIENCE, Connection
from meta_infer.library.decisions import Decision
from meta_infer.library.failures import ELSEWHERE
from meta_infer.library.fields import time_text
from meta_infer.library.near import best_first
from meta_infer.library.plans import FoundPlan
from meta_infer.library.rows import DECISIONS, PLANS, SAMPLES, Row, Table, quoted
from meta_infer.library.samples import Sample, is_better
from meta_infer.support.errors import LibraryError, LibraryUnwritableError

_AT_ONCE = 500


@dataclass(frozen=True)
class Merged:
    """What became of merged rows: not there before, in place of another, and left out for what was there."""

    added: int
    replaced: int
    kept: int


@dataclass(frozen=True)
class Counts:
    """Rows."""

    samples: int
    decisions: int


class Library:
    """An open library. `with Library.open(path) as library:` closes it; `close` does so otherwise."""

    def __init__(self, path: Path, file: Connection) -> None:
        self.path, self._file = path, file

    @classmethod
    def open(cls, path: Path, patience: float = PATIENCE) -> Library:
        """The library at `path`, made where there is none, brought to this version where it is older.

        `patience` in seconds is how long to wait for others that write. Raises LibraryUnwritableError where it cannot
        be written, LibraryError where it cannot be used at all.
        """
        return cls(path, Connection.to_write(path, patience))

    @classmethod
    def open_to_read(cls, path: Path, patience: float = PATIENCE) -> Library:
        """The library at `path`, which must be there: writable if it can be, else as it is. Raises LibraryError."""
        if not path.exists():
            raise LibraryError("does not exist", what=f"library {path}", hint=f"a build makes it; {ELSEWHERE}")
        try:
            return cls.open(path, patience)
        except LibraryUnwritableError as unwritable:
            return cls(path, Connection.to_read(path, patience, unwritable))

    @classmethod
    def open_or_warn(cls, path: Path, warn: Callable[[str], None], patience: float = PATIENCE) -> Library | None:
        """For builds, which go on without: what cannot be used is told to `warn`, and nothing is raised."""
        try:
            return cls.open(path, patience)
        except LibraryUnwritableError as unwritable:
            warn(f"{unwritable}\n  what this build measures will not be remembered")
            try:
                return cls(path, Connection.to_read(path, patience, unwritable))
            except LibraryError:
                return None
        except LibraryError as unusable:
            warn(f"{unusable}\n  this build goes on without it")
            return None

    @property
    def writable(self) -> bool:
        return self._file.writable

    def __enter__(self) -> Library:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def counts(self) -> Counts:
        return self._file.read(lambda db: Counts(*(_count(db, f"FROM {table}") for table in ("samples", "decisions"))))

    def known(self, keys: Iterable[str]) -> dict[str, Sample]:
        """The samples of those keys that it has."""
        return self._file.read(lambda db: _known(db, keys))

    def add(self, samples: Iterable[Sample]) -> None:
        """Adds them in one transaction; a sample of a known key takes its place. Raises LibraryUnwritableError."""
        rows = _dated(samples)
        self._file.write(lambda db: SAMPLES.write(db, rows))

    def decide(self, decisions: Iterable[Decision]) -> None:
        """Adds them in one transaction, each in the place of an earlier one for the same group, chip and threads."""
        rows = _dated(decisions)
        self._file.write(lambda db: DECISIONS.write(db, rows))

    def samples(self, *, kernel: str = "", variant: str = "", op: str = "", group: str = "", structure: str = "",
                precision: str = "", isa: str = "", cpu: str = "", threads: int = 0, key_prefix: str = "",
                ok: bool = False) -> list[Sample]:
        """Samples with all of what is given, by group, threads, chip, and within these the quickest first.

        `ok` leaves out those that failed.
        """
        where, values = _equal({"kernel": kernel, "variant": variant, "op": op, "group": group, "structure": structure,
                                "precision": precision, "isa": isa, "cpu": cpu, "threads": threads})
        if key_prefix:
            where, values = [*where, "substr(key, 1, ?) = ?"], [*values, len(key_prefix), key_prefix]
        found = self._rows(SAMPLES, where, values)
        return [sample for sample in found if sample.ok] if ok else found

    def with_features(self, cpu: str, isa: str, threads: int, before: str = "", most: int = -1) -> list[Sample]:
        """Samples of a CPU that ran and say what the cost model reads, the newest `most` in the order they were made.

        `before` is a moment in ISO 8601, '' for now. They come without turns, sizes, dims, knobs and layouts.
        """
        columns = ("kernel", "variant", "key", "group", "precision", "place", "features", "seconds", "peak", "compiler",
                   "made")
        where = """cpu = ? AND isa = ? AND threads = ? AND status = 'ok' AND features != '{}'
                   AND (? = '' OR made < ?) ORDER BY made DESC, key LIMIT ?"""
        names = ", ".join(map(quoted, columns))
        rows = self._file.read(lambda db: db.execute(f"SELECT {names} FROM samples WHERE {where}",
                                                     (cpu, isa, threads, before, before, most)).fetchall())
        fields = [dict(zip(columns, row, strict=True)) for row in reversed(rows)]
        return [Sample(**{**one, "features": json.loads(one["features"])}, isa=isa, cpu=cpu, threads=threads)
                for one in fields]

    def count_features(self, cpu: str, isa: str, threads: int) -> tuple[int, int, str]:
        """(samples there are, samples the last fit had, its moment): what `with_features` gives now, and gave then."""
        def work(db: sqlite3.Connection) -> tuple[int, int, str]:
            key = cpu, isa, threads
            found = db.execute("SELECT until FROM fits WHERE cpu = ? AND isa = ? AND threads = ?", key).fetchone()
            until = str(found[0]) if found else ""
            source = "FROM samples WHERE cpu = ? AND isa = ? AND threads = ? AND status = 'ok' AND features != '{}'"
            return (_count(db, source, key), _count(db, f"{source} AND made < ?", (*key, until)), until)

        return self._file.read(work)

    def fit_until(self, cpu: str, isa: str, threads: int) -> str:
        """Notes that the cost model is fitted to the samples made before now; that moment. LibraryUnwritableError."""
        until = time_text(datetime.now(UTC))
        self._file.write(lambda db: db.execute("INSERT OR REPLACE INTO fits VALUES (?, ?, ?, ?)",
                                               (cpu, isa, threads, until)))
        return until

    def near(self, structure: str, *, group: str = "", cpu: str = "", isa: str = "",
             precision: str = "") -> list[Sample]:
        """What did best for the structure elsewhere: on another `cpu` or `isa`, or in another group than `group`.

        First candidates, always to be measured again; the order is that of near.best_first. Times within networks are
        left out: they are of one choice for each group, without a rival.
        """
        where, values = _equal({"structure": structure, "precision": precision})
        where.append("""place = '' AND NOT (cpu = ? AND isa = ? AND ? IN ("group", ''))""")
        return best_first(self._rows(SAMPLES, where, [*values, cpu, isa, group]), group, isa)

    def decisions(self, *, structure: str = "", capabilities: str = "", group: str = "", threads: int = 0,
                  model: str = "") -> list[Decision]:
        """Decisions with all of what is given, by group, chip and threads."""
        return self._rows(DECISIONS, *_equal({"structure": structure, "capabilities": capabilities, "group": group,
                                              "threads": threads, "model": model}))

    def plans(self, key: str) -> dict[str, FoundPlan]:
        """What searches found that were asked the same, by their mode."""
        return {plan.mode: plan for plan in self._rows(PLANS, *_equal({"key": key}))}

    def keep_plan(self, plan: FoundPlan) -> None:
        """Adds it, in the place of an earlier one of its key and mode. Raises LibraryUnwritableError."""
        rows = _dated([plan])
        self._file.write(lambda db: PLANS.write(db, rows))

    def merge(self, samples: Iterable[Sample], decisions: Iterable[Decision], replace_all: bool = False) -> Merged:
        """Adds rows of another library in one transaction.

        Of two samples of a key the better one stays (samples.is_better), of two decisions the newer one, or the new
        one with `replace_all`. Whole plans go where samples came: they were found without them.
        """
        new_samples, new_decisions = _dated(samples), _dated(decisions)

        def work(db: sqlite3.Connection) -> Merged:
            old_samples = _known(db, [s.key for s in new_samples])
            old_decisions = {d.place: d for d in DECISIONS.read(db)}
            samples = [s for s in new_samples if replace_all or s.key not in old_samples
                       or is_better(s, old_samples[s.key])]
            decisions = [d for d in new_decisions if replace_all or d.place not in old_decisions
                         or d.made >= old_decisions[d.place].made]
            SAMPLES.write(db, samples)
            DECISIONS.write(db, decisions)
            if samples:
                db.execute("DELETE FROM plans")
            replaced = sum(s.key in old_samples for s in samples) + sum(d.place in old_decisions for d in decisions)
            taken = len(samples) + len(decisions)
            return Merged(taken - replaced, replaced, len(new_samples) + len(new_decisions) - taken)

        return self._file.write(work)

    def prune(self, *, before: datetime | None = None, cpu: str = "", current: tuple[int, str] | None = None,
              dry_run: bool = False) -> Counts:
        """Removes, or with `dry_run` counts, the samples that meet all conditions, and the decisions for them.

        Whole plans that meet them go as well.

        before    made before this moment
        cpu       whose CPU's name contains this text, in upper or lower case
        current   of another protocol or another compiler than these
        Decisions without a sample here go by the first two, where `current` is not given.
        """
        common: list[str] = []
        shared: list[object] = []
        if before is not None:
            common, shared = [*common, "made < ?"], [*shared, time_text(before)]
        if cpu:
            common, shared = [*common, "instr(lower(cpu), ?) > 0"], [*shared, cpu.lower()]
        where, values = list(common), list(shared)
        if current is not None:
            where, values = [*where, "(protocol != ? OR compiler != ?)"], [*values, *current]
        gone = f"FROM samples WHERE {' AND '.join(where) or 'TRUE'}"
        of_gone, of_gone_values = f"key IN (SELECT key {gone})", list(values)
        if current is None:
            alone = " AND ".join(["key NOT IN (SELECT key FROM samples)", *common])
            of_gone, of_gone_values = f"{of_gone} OR {alone}", [*of_gone_values, *shared]

        def work(db: sqlite3.Connection) -> Counts:
            counts = Counts(_count(db, gone, values), _count(db, f"FROM decisions WHERE {of_gone}", of_gone_values))
            if not dry_run:
                db.execute(f"DELETE FROM decisions WHERE {of_gone}", of_gone_values)
                db.execute(f"DELETE {gone}", values)
                db.execute(f"DELETE FROM plans WHERE {' AND '.join(where) or 'TRUE'}", values)
            return counts

        if dry_run:
            return self._file.read(work)
        counts = self._file.write(work)
        self._file.shrink()
        return counts

    def _rows(self, table: Table[Row], where: Sequence[str], values: Sequence[object]) -> list[Row]:
        condition = f"WHERE {' AND '.join(where)}" if where else ""
        return self._file.read(lambda db: table.read(db, condition, values))


def _known(db: sqlite3.Connection, keys: Iterable[str]) -> dict[str, Sample]:
    wanted, found = list(dict.fromkeys(keys)), {}
    for begin in range(0, len(wanted), _AT_ONCE):
        some = wanted[begin:begin + _AT_ONCE]
        rows = SAMPLES.read(db, f"WHERE key IN ({', '.join('?' * len(some))})", some)
        found.update({sample.key: sample for sample in rows})
    return found


def _equal(wanted: Mapping[str, str | int]) -> tuple[list[str], list[object]]:
    """Conditions for the columns whose wanted value is not empty."""
    given = {name: value for name, value in wanted.items() if value}
    return [f"{quoted(name)} = ?" for name in given], list(given.values())


def _dated(rows: Iterable[Row]) -> list[Row]:
    """Rows with the time of now where they have none."""
    now = time_text(datetime.now(UTC))
    return [row if row.made else replace(row, made=now) for row in rows]


def _count(db: sqlite3.Connection, source: str, values: Sequence[object] = ()) -> int:
    return int(db.execute(f"SELECT count(*) {source}", values).fetchone()[0])
