"""Quantities with units."""

from __future__ import annotations

import pytest

from meta_infer.hardware.units import RATE, TIME, format_size, quantity, size


@pytest.mark.parametrize(
    ("value", "plain", "count"),
    [
        (0, "B", 0), (128, "MiB", 128 << 20), ("128MiB", "B", 128 << 20), (" 1.5 kB ", "B", 1500),
        ("1e3 B", "B", 1000),
    ],
)
def test_sizes(value: object, plain: str, count: int) -> None:
    assert size(value, plain) == count


@pytest.mark.parametrize(
    "value", ["", "MiB", "3", "3 mib", "-3 B", "0.5 B", -1, True, None, [1], "3 B/s", "1 2 B"])
def test_what_is_no_size(value: object) -> None:
    with pytest.raises(ValueError, match="expected|whole"):
        size(value)


def test_rates_and_times() -> None:
    assert quantity("20480 MB/s", RATE, "MB/s") == quantity(20480, RATE, "MB/s") == 20480e6
    assert quantity("200 ns", TIME, "s") == pytest.approx(2e-7)


@pytest.mark.parametrize("count", [0, 1, 1000, 1024, 32768, 3 << 20, 5 << 30, (1 << 20) + 1])
def test_a_formatted_size_reads_back(count: int) -> None:
    assert size(format_size(count)) == count
