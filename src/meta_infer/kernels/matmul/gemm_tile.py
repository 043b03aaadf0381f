"""The register tile of all matrix products: `rows` x `columns` results that stay in registers while k runs.

The right-hand side comes in panels, [K][columns] each, so that one step of k reads `columns` neighbouring elements;
the left-hand side is read in place, one element per row and step, and broadcast. Four rows of three vectors make twelve
accumulators: with three loaded vectors and a broadcast they fill sixteen vector registers, and they are enough
independent chains to hide the latency of a fused multiply-add (Goto and van de Geijn, "Anatomy of
High-Performance Matrix Multiplication", 2008). Of the shapes that fill the registers this one loads least.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Buffer, Expr, Operand, Type, bitcast, cast, const, mad, maximum, minimum, splat
from meta_infer.ir.shapes import Dim
from meta_infer.kernels.conv_chunks import LINE_BYTES
from meta_infer.support.dtypes import (
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    DType,
)

DTYPES = (FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64)
# Chains of dependent multiply-adds that keep two units of latency four busy.
_CHAINS = 8
# Vector registers of the narrowest file among the targets (x86 without AVX-512, 32-bit Arm).
_REGISTERS = 16
# Short tiles leave the fetching to the processor: they stream, and their own loads keep it busy.
FEWEST_ROWS_TO_FETCH = 3


@dataclass(frozen=True)
class Tile:
    """The shape of a register tile: `rows` x (`vectors` * `lanes`) elements of `dtype`."""

    dtype: DType
    lanes: int
    vectors: int
    rows: int = 6

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes

    def panels(self, columns: int) -> int:
        """How many panels `columns` columns take."""
        return -(-columns // self.columns)

    def __str__(self) -> str:
        return f"{self.rows}x{self.vectors}"


def fits_registers(tile: Tile, profile: Profile) -> bool:
    """Whether accumulators, a panel's vectors, a broadcast and, where multiply and add are two, a product fit.

    A panel's vector that only one row uses is an operand in memory.
    """
    fused = profile.has_fma and tile.dtype.is_float
    return tile.vectors * (tile.rows + (tile.rows > 1)) + (1 if fused else 2) <= profile.vector_registers


def tile_for(profile: Profile, dtype: DType, columns: Dim) -> Tile:
    """A tile for a product with `columns` columns; narrow products get panels of one vector.

    Three vectors to a panel, unless two leave fewer columns of the last panel empty.
    """
    lanes = profile.lanes(dtype)
    if not isinstance(columns, int):
        return Tile(dtype, lanes, 2)
    if columns <= lanes:
        return Tile(dtype, lanes, 1)
    wide, two = Tile(dtype, lanes, 3, 8 if profile.vector_registers >= 32 else 4), Tile(dtype, lanes, 2)
    wasted = wide.panels(columns) * wide.columns - two.panels(columns) * two.columns
    return wide if fits_registers(wide, profile) and wasted <= columns // 64 else two


def pack_panels(matrix: np.ndarray, columns: int) -> np.ndarray:
    """[K, N] -> [ceil(N / columns), K, columns], the last panel filled up with zeros."""
    depth, width = matrix.shape
    panels = -(-width // columns)
    padded = np.zeros((depth, panels * columns), matrix.dtype)
    padded[:, :width] = matrix
    return np.ascontiguousarray(padded.reshape(depth, panels, columns).transpose(1, 0, 2))


def _sets(rows: int, vectors: int) -> int:
    """Sets of accumulators for a short tile: enough chains, as long as registers hold them and what they multiply.

    A panel's vector that only one row uses needs no register: it is an operand in memory.
    """
    sets = 1
    while rows * vectors * sets < _CHAINS and sets < 4:
        held = vectors * (rows + (rows > 1)) * sets * 2
        if held + 1 > _REGISTERS:
            break
        sets *= 2
    return sets


def multiply_add(x: Expr, y: Expr, z: Expr) -> Expr:
    """x * y + z, fused where the type is a float's."""
    return mad(x, y, z) if z.type.dtype.is_float else x * y + z


@dataclass(frozen=True)
class Ahead:
    """What to fetch into the cache while a product runs: `buffer[at + k * step]` at every `every`-th step k.

    A fetch takes the place of a load: one for each line is enough, and what is already on its way is not worth any.
    """

    buffer: Buffer
    at: Expr
    step: Operand
    every: int = 1


def steps_in_line(step: int, dtype: DType, unroll: int) -> int:
    """Steps, a divisor of `unroll`, that stay within a line of the cache when each moves on by `step` elements."""
    most = LINE_BYTES // (dtype.bytes * max(step, 1))
    return next((steps for steps in (8, 4, 2) if steps <= min(most, unroll)), 1)


def widened(value: Expr, dtype: DType) -> Expr:
    """A panel's elements as the tile's `dtype`: as they are, half floats, or the upper halves of floats."""
    if value.type.dtype == dtype:
        return value
    if value.type.dtype == FLOAT16:
        return cast(value, dtype)
    return bitcast(cast(value, UINT32) << 16, dtype)


def multiply(b: Builder, tile: Tile, rows: int, a: Buffer, a_rows: Sequence[Expr], a_step: Operand, panel: Buffer,
             panel_at: Expr, panel_step: Operand, depth: Expr, start: Sequence[Sequence[Expr]] | None = None,
             unroll: int = 1, ahead: Ahead | None = None, inside: Expr | None = None) -> list[list[Expr]]:
    """`rows` x `vectors` registers of the product over `depth` steps, plus `start`.

    Row r's element at step k is `a[a_rows[r] + k * a_step]`; the panel's is `panel[panel_at + k * panel_step]`.
    Short tiles run several sets of accumulators, over k mod sets, and add them in a fixed order. `unroll` steps, a
    power of two, make one turn of the loop. A fetch also keeps compilers from gathering the loads of several steps, for
    which there are no registers; in steps without one a fence does. With `inside`, only so many of the panel's columns
    are read.
    """
    sets = _sets(rows, tile.vectors)
    register = Type(tile.dtype, tile.lanes)
    zero = const(0, register)
    acc = [[[b.var(start[r][v] if start and s == 0 else zero, "acc") for v in range(tile.vectors)]
            for r in range(rows)] for s in range(sets)]

    counts: list[Expr | None] = [None] * tile.vectors
    if inside is not None and tile.lanes > 1:
        counts = [b.let(maximum(minimum(inside - v * tile.lanes, tile.lanes), 0), "count") for v in range(tile.vectors)]

    def step(k: Expr, s: int) -> None:
        at = b.let(panel_at + k * panel_step, "at")
        right = [b.let(widened(b.load(panel, at + v * tile.lanes, tile.lanes, counts[v]), tile.dtype), "r")
                 for v in range(tile.vectors)]
        for r in range(rows):
            left = b.let(splat(b.load(a, a_rows[r] + k * a_step), tile.lanes), "l")
            for v in range(tile.vectors):
                b.assign(acc[s][r][v], multiply_add(left, right[v], acc[s][r][v]))

    turn = max(sets, unroll)
    whole = b.let(depth // turn * turn, "whole")
    with b.loop(0, whole, turn, "k") as k:
        for i in range(turn):
            fetches = ahead is not None and rows >= min(tile.rows, FEWEST_ROWS_TO_FETCH)
            if ahead is not None and fetches and i % ahead.every == 0:
                b.prefetch(ahead.buffer, ahead.at + (k + i) * ahead.step)
            elif rows >= FEWEST_ROWS_TO_FETCH:
                b.fence()
            step(k + i, i % sets)
    if whole != depth:
        with b.loop(whole, depth, 1, "k") as k:
            step(k, 0)
    total: list[list[Expr]] = [list(row) for row in acc[0]]
    for more in acc[1:]:
        total = [[x + y for x, y in zip(left, right, strict=True)] for left, right in zip(total, more, strict=True)]
    return total


def by_rows(b: Builder, tile: Tile, size: Expr, body: Callable[[int], None]) -> None:
    """`body(rows)` for the one row count that equals `size`: code for each of 1..tile.rows."""
    for rows in range(tile.rows, 0, -1):
        with b.when(size.eq(rows)):
            body(rows)


@contextmanager
def each_tile(b: Builder, tile: Tile, count: Expr) -> Iterator[tuple[Expr, Expr]]:
    """(first row, rows) of the tiles of a block of `count` rows.

    Rows are shared out evenly among the fewest tiles, so that no tile is left with one or two of them.
    """
    tiles = b.let((count + (tile.rows - 1)) // tile.rows, "tiles")
    with b.loop(0, tiles, 1, "tile") as i:
        first = b.let(i * count // tiles, "first")
        yield first, b.let((i + 1) * count // tiles - first, "size")
