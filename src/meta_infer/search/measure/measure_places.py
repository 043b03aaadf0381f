"""Where the buffers of measured kernels lie: weights elsewhere in every run, all else in the same place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from meta_infer.search.measure.measure_protocol import CACHE_FACTOR

LINE = 64
"""Bytes of a cache line, at a multiple of which every buffer begins."""


@dataclass(frozen=True)
class Placement:
    """Where one buffer lies: a region, the first copy's offset in it, and bytes from one copy to the next."""

    region: tuple[str, str]
    offset: int
    stride: int


def place(buffers: Mapping[str, Mapping[str, Any]], cache_bytes: int) -> tuple[dict[str, Placement], int]:
    """The placement of a candidate's buffers, and the number of copies of its weights."""
    # Integers too, for they may be packed weights: all copies are filled alike, so an index stays a valid one.
    moving = {name for name, b in buffers.items() if b["role"] == "weights" and b["bytes"]}
    total = sum(whole_lines(buffers[name]["bytes"]) for name in moving)
    copies = max(1, -(-CACHE_FACTOR * cache_bytes // total)) if total else 1
    used: dict[tuple[str, str], int] = {}
    offsets: dict[str, tuple[tuple[str, str], int]] = {}
    for name, buffer in buffers.items():
        role = "weights" if name in moving else "output" if buffer["role"] == "output" else "input"
        region = (role, buffer["dtype"])
        offsets[name] = (region, used.get(region, 0))
        used[region] = used.get(region, 0) + whole_lines(buffer["bytes"])
    return {name: Placement(region, offset, used[region] if name in moving else 0)
            for name, (region, offset) in offsets.items()}, copies


def region_sizes(candidates: Iterable[Mapping[str, Mapping[str, Any]]], cache_bytes: int) -> dict[tuple[str, str], int]:
    """Bytes of the regions that the buffers of each candidate fit into."""
    sizes: dict[tuple[str, str], int] = {}
    for buffers in candidates:
        places, copies = place(buffers, cache_bytes)
        for name, p in places.items():
            end = p.offset + p.stride * (copies - 1) + whole_lines(buffers[name]["bytes"])
            sizes[p.region] = max(sizes.get(p.region, 0), end)
    return sizes


def whole_lines(count: int) -> int:
    """Bytes, rounded up to whole lines."""
    return -(-count // LINE) * LINE
