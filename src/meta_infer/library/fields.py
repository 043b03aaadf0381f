"""What a field of a library's row may hold, and its two forms: a column of the file, and a value of an exported text.

Text is edited by hand, and what it says is used by later builds: every value is checked, and a wrong one is told what
was expected. Rows that the compiler makes pass the same checks.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from numbers import Integral, Real
from typing import Any


@dataclass(frozen=True)
class Kind:
    """`check` gives the value as a row holds it, or raises ValueError or TypeError where it is not `expected`.

    `store` and `load` are its form in a column; `write` its form in a text, which `check` reads as well.
    """

    expected: str
    check: Callable[[Any], Any]
    store: Callable[[Any], Any] = lambda value: value
    load: Callable[[Any], Any] = lambda value: value
    write: Callable[[Any], Any] = lambda value: value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    value.encode()                                              # half a surrogate pair has no UTF-8
    return value


def _name(value: Any) -> str:
    if not _text(value).strip():
        raise ValueError
    return value


def _whole(value: Any) -> int:
    if type(value) is int and 0 <= value < 1 << 63:             # by far the most; the others cost ten times as much
        return value
    if isinstance(value, bool) or not isinstance(value, Integral) or not 0 <= int(value) < 1 << 63:
        raise TypeError
    return int(value)


def _from_one(value: Any) -> int:
    if _whole(value) < 1:
        raise ValueError
    return int(value)


def _amount(value: Any) -> float:
    if type(value) is float and 0 <= value < math.inf:
        return value
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < math.inf:
        raise TypeError
    return float(value)


def _seconds(value: Any) -> float:
    if value is None or value == math.inf:
        return math.inf
    if _amount(value) == 0:
        raise ValueError
    return float(value)


def _mapping(of: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    def check(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise TypeError
        return {_text(key): of(item) for key, item in value.items()}
    return check


def _knob(value: Any) -> int | str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError
    return int(value)


def _feature(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise TypeError
    return float(value)


def _dims(value: Any) -> tuple[int, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError
    return tuple(_whole(item) for item in value)


def _turns(value: Any) -> tuple[tuple[float, float], ...]:
    """Pairs, or their text: '0.0012@9.8e10 0.0013@9.7e10', seconds and the probe's operations per second."""
    if isinstance(value, str):
        value = [pair.split("@") for pair in value.split()]
        value = [(float(seconds), float(peak)) for seconds, peak in value]
    return tuple((_amount(seconds), _amount(peak)) for seconds, peak in value)


def _turns_text(value: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{seconds!r}@{peak!r}" for seconds, peak in value)


_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?")


@lru_cache(maxsize=4096)
def _time(value: Any) -> str:
    if isinstance(value, str) and not value:
        return value
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise TypeError
    made = datetime.fromisoformat(value)
    return time_text(made if made.tzinfo else made.replace(tzinfo=UTC))


def time_text(moment: datetime) -> str:
    """'2026-11-30T08:24:09Z': in UTC, so that the order of texts is that of the moments."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _to_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


TEXT = Kind("a text", _text)
NAME = Kind("a text that is not empty", _name)
COUNT = Kind("a whole number that is not negative", _whole)
FROM_ONE = Kind("a whole number of at least 1", _from_one)
AMOUNT = Kind("a finite number that is not negative", _amount)
SECONDS = Kind("seconds above 0, or null where it failed", _seconds,
               write=lambda value: None if value == math.inf else value)
TIME = Kind("a time such as 2026-11-30T08:24:09Z", _time)
KNOBS = Kind("names with whole numbers or texts", _mapping(_knob), _to_json, json.loads)
SIZES = Kind("names with whole numbers", _mapping(_whole), _to_json, json.loads)
LAYOUTS = Kind("names with texts", _mapping(_text), _to_json, json.loads)
FEATURES = Kind("names with finite numbers", _mapping(_feature), _to_json, json.loads)
DIMS = Kind("a list of whole numbers", _dims, _to_json, json.loads, list)
TURNS = Kind("pairs 'seconds@operations per second' with blanks between them", _turns, _to_json, json.loads,
             _turns_text)
