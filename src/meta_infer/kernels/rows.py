"""Walking a tensor row by row: what data-movement kernels share.

A row is a run along the last axis. Rows are dealt out in chunks of a fixed number of elements, so chunk borders
depend on shapes only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Shape
from meta_infer.ir.loop import Buffer, Expr, const, maximum, minimum
from meta_infer.ir.shapes import product
from meta_infer.support.dtypes import FLOAT32, DType

GRAIN = 16384
"""Elements per chunk: about 20 us of copying, many times the cost of claiming a chunk."""


def copy_lanes(profile: Profile, dtype: DType) -> int:
    """Lanes of a full register of `dtype`, at least one."""
    return max(profile.lanes(FLOAT32) * 4 // dtype.bytes, 1)


def strides_of(b: Builder, shape: Shape) -> tuple[Expr, ...]:
    """Element strides of a dense tensor."""
    return tuple(b.dim(product(shape[axis + 1:])) for axis in range(len(shape)))


def unravel(b: Builder, flat: Expr, shape: Shape) -> tuple[Expr, ...]:
    """Coordinates of a flat row-major index."""
    coords: list[Expr] = []
    for size in reversed(shape):
        if size == 1:
            coords.append(const(0))
            continue
        coords.append(b.let(flat % b.dim(size), "c"))
        flat = b.let(flat // b.dim(size), "q")
    return tuple(reversed(coords))


@contextmanager
def each_row(b: Builder, shape: Shape, grain: int = GRAIN) -> Iterator[tuple[tuple[Expr, ...], Expr]]:
    """For every row of a tensor: (coordinates of the axes before the last, flat index of its first element).

    A chunk is as many rows as have `grain` elements, one at least.
    """
    rows, width = b.dim(product(shape[:-1])), b.dim(shape[-1] if shape else 1)
    per_chunk = maximum(const(grain) // maximum(width, 1), 1)
    with b.chunks((rows + per_chunk - 1) // per_chunk) as chunk:
        per_chunk = b.let(per_chunk, "rows")
        start = b.let(chunk * per_chunk, "start")
        with b.loop(start, minimum(start + per_chunk, rows), name="row") as row:
            yield unravel(b, row, shape[:-1]), b.let(row * width, "base")


def along_row(b: Builder, start: Expr | int, stop: Expr | int, lanes: int,
              body: Callable[[Expr, int, Expr | None], None]) -> None:
    """Call `body(position, lanes, count)` for full vectors over [start, stop), then once for what is left."""
    first, last = b.let(start), b.let(stop)
    if lanes == 1:
        with b.loop(first, last, name="x") as x:
            body(x, 1, None)
        return
    full = b.let(first + (maximum(last - first, 0)) // lanes * lanes, "full")
    with b.loop(first, full, lanes, name="x") as x:
        body(x, lanes, None)
    with b.when(full.lt(last)):
        body(full, lanes, last - full)


def copy_run(b: Builder, src: Buffer, src_at: Expr, dst: Buffer, dst_at: Expr, length: Expr | int, lanes: int) -> None:
    """dst[dst_at + i] = src[src_at + i] for i < length."""
    along_row(b, 0, length, lanes, lambda x, n, count: b.store(
        dst, dst_at + x, b.load(src, src_at + x, n, count), count))
