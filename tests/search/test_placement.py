"""Where the measuring process puts buffers, and when it has seen enough. Nothing is run."""

from __future__ import annotations

import numpy as np
import pytest

from meta_infer.search.measure.measure_child import Memory, _settled
from meta_infer.search.measure.measure_places import place
from meta_infer.search.measure.measure_protocol import CACHE_FACTOR, median_and_spread

CACHE = 1 << 16


def buffer(size: int, role: str, dtype: str = "float32") -> dict[str, object]:
    return {"bytes": size, "dtype": dtype, "role": role}


@pytest.mark.parametrize("sizes", [(4,), (100, 4096), (CACHE,), (5 * CACHE, 64), (1, 1, 1)])
def test_weights_cover_twice_the_cache_and_never_overlap(sizes: tuple[int, ...]) -> None:
    buffers = {f"w{i}": buffer(size, "weights") for i, size in enumerate(sizes)}
    places, copies = place(buffers, CACHE)
    strides = {p.stride for p in places.values()}
    assert len(strides) == 1 and copies * strides.pop() >= CACHE_FACTOR * CACHE
    spans = sorted((p.offset + k * p.stride, size) for p, size in zip(places.values(), sizes, strict=True)
                   for k in range(min(copies, 50)))
    assert all(start % 64 == 0 for start, _ in spans)
    assert all(a + size <= b for (a, size), (b, _) in zip(spans, spans[1:], strict=False))


def test_only_weights_move() -> None:
    places, copies = place({"half": buffer(64, "weights", "uint16"), "empty": buffer(0, "weights"),
                            "x": buffer(64, "input"), "y": buffer(64, "output")}, CACHE)
    assert copies == 2 * CACHE // 64 and [n for n, p in places.items() if p.stride] == ["half"]
    assert places["half"].region != places["x"].region != places["y"].region
    assert place({"x": buffer(64, "input"), "empty": buffer(0, "weights")}, CACHE)[1] == 1


def test_candidates_share_the_largest_region() -> None:
    small, large = {"x": buffer(64, "input"), "w": buffer(64, "weights")}, {"x": buffer(1 << 20, "input")}
    memory = Memory([{"buffers": small}, {"buffers": large}], CACHE)
    (one, copies), (other, _) = memory.place(small), memory.place(large)
    assert one["x"] == other["x"] and one["x"][0] % 64 == 0 and copies == 2 * CACHE // 64


def test_rounds_end_when_all_have_settled() -> None:
    assert _settled({0: [1.0, 1.001, 0.999, 1.0, 5.0], 1: [2.0] * 5})          # one outlier is no spread
    assert not _settled({0: [1.0] * 5, 1: [1.0, 2.0, 1.0, 2.0, 1.0]})
    assert median_and_spread([1.0, 2.0, 3.0, 4.0, 5.0]) == (3.0, 1.0)
    assert np.isclose(median_and_spread([7.0])[1], 0.0)
