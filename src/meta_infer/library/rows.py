"""Samples, decisions and plans as rows of the file's tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from meta_infer.library.decisions import DECISION_FIELDS, Decision
from meta_infer.library.fields import Kind
from meta_infer.library.plans import PLAN_FIELDS, FoundPlan
from meta_infer.library.samples import SAMPLE_FIELDS, Sample
from meta_infer.support.errors import LibraryError

Row = TypeVar("Row", Sample, Decision, FoundPlan)


@dataclass(frozen=True)
class Table(Generic[Row]):
    """A table whose columns are the fields of a dataclass; `place` are the columns there is one row for."""

    name: str
    make: type[Row]
    fields: Mapping[str, Kind]
    place: tuple[str, ...]
    order: tuple[str, ...]

    @property
    def columns(self) -> str:
        return ", ".join(map(quoted, self.fields))

    def write(self, db: sqlite3.Connection, rows: Iterable[Row]) -> None:
        """Adds rows; one of the same place goes. Raises ValueError for a field that holds what it must not."""
        marks = ", ".join("?" * len(self.fields))
        db.executemany(f"INSERT OR REPLACE INTO {self.name} ({self.columns}) VALUES ({marks})",
                       [self.stored(row) for row in rows])

    def read(self, db: sqlite3.Connection, where: str = "", values: Sequence[object] = ()) -> list[Row]:
        """Rows in `order`. Raises LibraryError for one that a hand has spoilt."""
        order = ", ".join(map(quoted, (*self.order, *self.place)))
        found = db.execute(f"SELECT {self.columns} FROM {self.name} {where} ORDER BY {order}", values)
        return [self._loaded(row) for row in found]

    def stored(self, row: Row) -> tuple[Any, ...]:
        return tuple(kind.store(self.checked(name, getattr(row, name))) for name, kind in self.fields.items())

    def checked(self, name: str, value: object) -> Any:
        """The value of the field `name`, as a row holds it. Raises ValueError saying what is expected."""
        kind = self.fields[name]
        try:
            return kind.check(value)
        except (TypeError, ValueError, AttributeError):
            text = repr(value)
            raise ValueError(f"{name}: expected {kind.expected}, got {text[:60]}{'...' if text[60:] else ''}") from None

    def _loaded(self, row: Sequence[Any]) -> Row:
        values = {}
        for (name, kind), column in zip(self.fields.items(), row, strict=True):
            try:
                values[name] = kind.check(kind.load(column))
            except (TypeError, ValueError, AttributeError):
                raise LibraryError(f"holds in column {name!r} what is not {kind.expected}: {str(column)[:60]!r}",
                                   what=f"{self.name[:-1]} {row[0]!r:.80}",
                                   hint="`meta-infer library prune`, or mend the row with sqlite3") from None
        return self.make(**values)


def quoted(name: str) -> str:
    return f'"{name}"'


SAMPLES = Table("samples", Sample, SAMPLE_FIELDS, ("key",), ("group", "threads", "cpu", "isa", "seconds"))
DECISIONS = Table("decisions", Decision, DECISION_FIELDS, ("group", "capabilities", "threads"), ())
PLANS = Table("plans", FoundPlan, PLAN_FIELDS, ("key", "mode"), ())
