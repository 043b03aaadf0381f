"""Bytes that cross into a cache, for loops whose traffic is known."""

from __future__ import annotations

import pytest

from meta_infer.cost.reuse import footprint, local_bytes, touched, traffic
from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import LoopFunc, maximum, minimum
from meta_infer.ir.shapes import Dim, Symbol
from meta_infer.support.dtypes import FLOAT32, INT64


def _sweep(outer: Dim, inner: Dim, lanes: int = 8) -> LoopFunc:
    """y[j] += w[j] * x[i] for every i, all of w each time."""
    b = Builder("sweep")
    w, x, y = b.input("w", FLOAT32), b.input("x", FLOAT32), b.inout("y", FLOAT32)
    n, m = b.dim(outer), b.dim(inner)
    with b.chunks(n) as i, b.loop(0, m, lanes) as j:
        b.store(y, j, b.load(y, j, lanes) + b.load(w, j, lanes) * b.load(x, i))
    func, _ = b.finish()
    return func


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_a_cache_holds_crosses_once(dynamic: bool) -> None:
    dims = [64, 4096] if dynamic else []
    func = _sweep(Symbol("n").dim, Symbol("m").dim) if dynamic else _sweep(64, 4096)
    nest = touched(func, dims)
    assert footprint(nest, {}) == {"w": 16384, "y": 16384, "x": 64 * 4}
    assert traffic(nest, 40_000, {}) == footprint(nest, {})
    small = traffic(nest, 8192, {})
    assert small["w"] == small["y"] == 64 * 16384
    assert 64 * 4 <= small["x"] <= 64 * 64


def test_tiles_that_fit_cut_the_traffic() -> None:
    """A matrix product of 256^3 by tiles: of b a panel of 256 x 16 stays, a is read anew for each panel."""
    b = Builder("product")
    left, right, out = b.input("a", FLOAT32), b.input("b", FLOAT32), b.output("c", FLOAT32)
    with b.chunks(16) as panel, b.loop(0, 256) as row:
        acc = b.var(b.load(right, panel * 16, 16) * 0.0, "acc")
        with b.loop(0, 256) as k:
            b.assign(acc, acc + b.load(right, k * 256 + panel * 16, 16) * b.load(left, row * 256 + k))
        b.store(out, row * 256 + panel * 16, acc)
    func, _ = b.finish()
    nest, square = touched(func, []), 256 * 256 * 4
    assert footprint(nest, {}) == pytest.approx({"a": square, "b": square, "c": square}, rel=0.01)
    held = traffic(nest, 25_000, {})                      # a panel of 16 KiB, a row, and what is written
    assert held == pytest.approx({"a": 16 * square, "b": square, "c": square}, rel=0.01)
    lost = traffic(nest, 8_000, {})
    assert lost["b"] == pytest.approx(256 * square, rel=0.01) and lost["a"] == 16 * square


def test_a_strided_walk_takes_a_line_each() -> None:
    b = Builder("columns")
    x, y = b.input("x", FLOAT32), b.output("y", FLOAT32)
    with b.chunks(8) as column, b.loop(0, 100) as row:
        b.store(y, column * 100 + row, b.load(x, row * 1000 + column))
    func, _ = b.finish()
    nest = touched(func, [])
    assert traffic(nest, 100_000, {})["x"] == pytest.approx(100 * 64, rel=0.6)
    assert traffic(nest, 1000, {})["x"] == 8 * 100 * 64


def test_no_more_than_a_buffer_is_touched_at_places_found_in_memory() -> None:
    b = Builder("gather")
    at, x, y = b.input("at", INT64), b.input("x", FLOAT32), b.output("y", FLOAT32)
    with b.chunks(1000) as i:
        b.store(y, i, b.load(x, b.load(at, i)))
    func, _ = b.finish()
    nest = touched(func, [])
    assert footprint(nest, {})["x"] == 1000 * 64
    assert footprint(nest, {"x": 4000.0})["x"] == 4000


def test_nothing_runs_nothing_moves() -> None:
    func = _sweep(Symbol("n", 0).dim, 64)
    assert traffic(touched(func, [0]), 1000, {}) == {}


def test_scratch_has_a_size() -> None:
    b = Builder("held")
    n = b.dim(Symbol("n").dim)
    y, kept, few = b.output("y", FLOAT32), b.scratch("kept", FLOAT32, n * 2), b.stack("few", FLOAT32, 8)
    with b.chunks(1):
        b.store(kept, 0, b.load(few, 0))
        b.store(y, 0, b.load(kept, 0))
    func, _ = b.finish()
    assert local_bytes(func, [10]) == {"kept": 80, "few": 32}


@pytest.mark.parametrize("pitch, rows, times", [(1024, 8, 1), (1024, 12, 16), (1040, 12, 1)])
def test_rows_a_page_apart_displace_each_other(pitch: int, rows: int, times: int) -> None:
    """Sixteen steps along `rows` rows read one line of each; where more rows than ways share a set, again and again."""
    b = Builder("rows")
    x, y = b.input("x", FLOAT32), b.output("y", FLOAT32)
    with b.chunks(1), b.loop(0, 16) as k:
        total = b.load(x, k)
        for row in range(1, rows):
            total = total + b.load(x, row * pitch + k)
        b.store(y, k, total)
    func, _ = b.finish()
    found = traffic(touched(func, []), 32768, {}, ways=8)["x"]
    assert found == pytest.approx(times * rows * 64, rel=0.1)
    assert traffic(touched(func, []), 32768, {})["x"] == pytest.approx(rows * 64, rel=0.1)


def test_rows_that_are_looked_up_lie_apart_in_use() -> None:
    b = Builder("rows")
    at, x, y = b.input("at", INT64), b.input("x", FLOAT32), b.output("y", FLOAT32)
    with b.chunks(100) as i:
        row = b.let(minimum(maximum(b.load(at, i), 0), 999), "row")
        with b.loop(0, 32, 8) as j:
            b.store(y, i * 32 + j, b.load(x, row * 32 + j, lanes=8))
    func, _ = b.finish()
    assert footprint(touched(func, [], scattered=True), {})["x"] == 100 * 32 * 4
    assert footprint(touched(func, []), {})["x"] == 32 * 4, "timed by itself it reads one row"
