"""Figures for people: bytes, seconds, counts and distances in a width that tables can hold."""

from __future__ import annotations

import math


def bytes_text(count: float) -> str:
    """'512 B', '3.4 KiB', '44.6 MiB', '2.1 GiB'."""
    if count < 1024:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:.1f} TiB"


def seconds_text(seconds: float) -> str:
    """'12.3 us', '4.56 ms', '1.20 s': three significant digits."""
    for limit, scale, unit in ((1e-3, 1e6, "us"), (1.0, 1e3, "ms")):
        if seconds < limit:
            return f"{_three_digits(seconds * scale)} {unit}"
    return f"{_three_digits(seconds)} s"


def count_text(count: float) -> str:
    """'950', '12.3 k', '3.63 G': operations, elements."""
    for unit in ("", " k", " M", " G", " T"):
        if abs(count) < 1000:
            return f"{_three_digits(count)}{unit}" if unit else f"{count:.0f}"
        count /= 1000
    return f"{_three_digits(count)} P"


def small_text(value: float | None) -> str:
    """A distance: '3.1e-07', '0', 'inf', and '-' where there is none. A tenth of it never matters."""
    if value is None:
        return "-"
    return "0" if value == 0 else f"{value:.1e}" if math.isfinite(value) else str(value)


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
