"""Figures for people."""

from __future__ import annotations

import pytest

from meta_infer.report.units import bytes_text, count_text, seconds_text, small_text


@pytest.mark.parametrize(("count", "text"), [
    (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (46_750_000, "44.6 MiB"), (2**31, "2.0 GiB"), (2**41, "2.0 TiB")])
def test_bytes(count: int, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(("seconds", "text"), [
    (0.0, "0.00 us"), (1.234e-5, "12.3 us"), (0.00456, "4.56 ms"), (0.0999, "99.9 ms"),
    (1.2, "1.20 s"), (754.0, "754 s")])
def test_seconds(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0"), (950, "950"), (12_345, "12.3 k"), (3.63e9, "3.63 G"),
                                              (2e18, "2000 P")])
def test_counts(count: float, text: str) -> None:
    assert count_text(count) == text


@pytest.mark.parametrize(("value", "text"), [(None, "-"), (0.0, "0"), (3.14e-7, "3.1e-07"), (float("inf"), "inf")])
def test_distances(value: float | None, text: str) -> None:
    assert small_text(value) == text
