"""Quantities with units in a profile: '128 MiB', '20480 MB/s', '200 ns'."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

SIZE = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
RATE = {f"{unit}/s": factor for unit, factor in SIZE.items()}
TIME = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}

_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([A-Za-z/]+)\s*")


def quantity(value: object, units: Mapping[str, float], plain: str) -> float:
    """`value` in the base unit (bytes, bytes per second, seconds).

    A bare number counts in the unit `plain`; text is a number and one of `units`. Raises ValueError, whose
    message says what is expected, for everything else and for negative numbers.
    """
    example = f"expected a number ({plain}) or text such as '4 {plain}'; units: {', '.join(units)}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value < 0:
            raise ValueError(f"{value} is negative; {example}")
        return value * units[plain]
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(example)
    number, unit = match.groups()
    if unit not in units:
        near = difflib.get_close_matches(unit, list(units), n=1, cutoff=0.5)
        guess = f", did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown unit {unit!r}{guess}; {example}")
    return float(number) * units[unit]


def size(value: object, plain: str = "B") -> int:
    """Bytes. Raises ValueError, also when the size is no whole number of bytes."""
    count = quantity(value, SIZE, plain)
    if count != int(count):
        raise ValueError(f"{value!r} is no whole number of bytes")
    return int(count)


def format_size(count: int) -> str:
    """`count` bytes in the largest binary unit that divides it: 32768 -> '32 KiB', 1000 -> '1000 B'."""
    for unit in ("GiB", "MiB", "KiB"):
        if count and count % SIZE[unit] == 0:
            return f"{count // SIZE[unit]} {unit}"
    return f"{count} B"
