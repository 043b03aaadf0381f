"""What can be chosen inside a product of two run-time operands, what each choice needs, and what it should cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from meta_infer.hardware.profile import Profile
from meta_infer.ir.shapes import Dim, usual_upper
from meta_infer.kernels.kernel import Knob, KnobValue, Reason, Refusal
from meta_infer.kernels.matmul.gemm_knobs import ABREAST, FETCH, MOST_STATEMENTS, TILES, UNROLL, statements_of
from meta_infer.kernels.matmul.gemm_tile import Tile, fits_registers, tile_for
from meta_infer.kernels.matmul.matmul_dots import dots_tile
from meta_infer.support.dtypes import DType

BLOCK_ROWS = (48, 128, 256)
GRAINS = (500_000, 2_000_000, 8_000_000)
FEW = (0, 4, 8, 16)
# Tiles for so many rows that read the right-hand side in place: the more columns, the longer the runs that they read.
_ROW_TILES = {1: 8, 2: 4, 3: 3, 4: 3}
# Share of the peak that long products reach, and what a tile costs beyond its multiply-adds, in steps of k.
_SHARE, _TILE_STEPS = 0.9, 8


@dataclass(frozen=True)
class Size:
    """rows x depth times depth x width, `results` of them in all; each operand may be stored swapped."""

    rows: Dim
    depth: Dim
    width: Dim
    results: Dim
    dtype: DType
    math: bool
    a_swapped: bool
    b_swapped: bool


@dataclass(frozen=True)
class Choice:
    """Values of all knobs.

    tile        rows and vectors of results that stay in registers.
    block_rows  rows that share one copied panel: the copy then costs a few percent of the product.
    few         up to so many rows read the right-hand side in place.
    unroll      steps of k in a turn of the innermost loop.
    fetch       'next': rows and columns that come next are fetched meanwhile.
    grain       multiplications and additions of a chunk, about.
    abreast     vectors that go through math functions together.
    """

    tile: Tile
    block_rows: int
    few: int
    unroll: int
    fetch: str
    grain: int
    abreast: int

    def values(self, size: Size) -> dict[str, KnobValue]:
        """The choice as knob values."""
        found: dict[str, KnobValue] = {
            "tile": str(self.tile), "block_rows": self.block_rows, "few": self.few, "unroll": self.unroll,
            "fetch": self.fetch, "grain": self.grain}
        return {**found, "abreast": self.abreast} if size.math else found

    def copies(self, size: Size) -> bool:
        """Whether there may be rows enough to copy panels for."""
        return not (isinstance(size.rows, int) and size.rows <= self.few)

    def always_copies(self, size: Size) -> bool:
        """Whether nothing is ever read in place; swapped factors of an unknown number of rows are copied too."""
        return size.b_swapped or not self.few or isinstance(size.rows, int) and size.rows > self.few

    def by_dots(self, size: Size) -> bool:
        """Whether results are dot products along both operands' rows."""
        return size.b_swapped and not self.copies(size)

    def scratch_bytes(self, size: Size) -> int:
        """The copied panel, and a tile on its way through math functions."""
        steps = usual_upper(size.depth) if self.copies(size) else 0
        return (steps + self.tile.rows * size.math) * self.tile.columns * size.dtype.bytes


def read_choice(knobs: Mapping[str, KnobValue], size: Size, profile: Profile) -> Choice:
    """The choice that these knob values stand for."""
    rows, vectors = map(int, str(knobs["tile"]).split("x"))
    tile = Tile(size.dtype, profile.lanes(size.dtype), vectors, rows)
    return Choice(tile, int(knobs["block_rows"]), int(knobs["few"]), int(knobs["unroll"]), str(knobs["fetch"]),
                  int(knobs["grain"]), int(knobs.get("abreast", 1)))


def _few_of(size: Size) -> int:
    """Dot products along k need both operands' rows dense."""
    if not size.b_swapped:
        return 8
    return 4 if isinstance(size.rows, int) and (size.rows == 1 or not size.a_swapped) else 0


def default_choice(size: Size, profile: Profile) -> Choice:
    few, tile = _few_of(size), tile_for(profile, size.dtype, size.width)
    if isinstance(size.rows, int) and size.rows <= few:
        if size.b_swapped:
            tile = dots_tile(profile, size.dtype)
        elif tile.vectors > 1 and size.rows in _ROW_TILES:
            fitting = min(_ROW_TILES[size.rows], Tile(size.dtype, tile.lanes, 1).panels(usual_upper(size.width)))
            tile = Tile(size.dtype, tile.lanes, fitting, size.rows)
    return Choice(tile, _block_rows_of(size, profile), few, 4, "next", 2_000_000, 4)


def _block_rows_of(size: Size, profile: Profile) -> int:
    """All rows where half of the second-level cache holds them, so that a panel is copied once; else 128, at most."""
    if not isinstance(size.rows, int):
        return 128
    held = profile.l2_bytes // 2 // (usual_upper(size.depth) * size.dtype.bytes + 1) if profile.l2_bytes else 128
    return next((rows for rows in BLOCK_ROWS if size.rows <= rows <= max(held, 128)), 128)


def knobs_of(size: Size, profile: Profile) -> tuple[Knob, ...]:
    """The knobs, each with the default among its values."""
    default = default_choice(size, profile)
    tiles: tuple[str, ...] = TILES if str(default.tile) in TILES else (str(default.tile), *TILES)
    few: tuple[int, ...] = FEW if _few_of(size) else (0,)
    if default.by_dots(size):
        tiles, few = (str(default.tile),), (default.few,)
    knobs = (Knob("tile", tiles), Knob("block_rows", BLOCK_ROWS), Knob("few", few), Knob("unroll", UNROLL),
             Knob("fetch", FETCH), Knob("grain", GRAINS))
    return (*knobs, Knob("abreast", ABREAST)) if size.math else knobs


def refuse(choice: Choice, size: Size, profile: Profile) -> Refusal | None:
    """Why these values cannot be, if so."""
    tile = choice.tile

    def because(reason: Reason, detail: str) -> Refusal:
        return Refusal(choice.values(size), reason, detail)

    if choice.by_dots(size) and tile != dots_tile(profile, size.dtype):
        return because("shape", "dot products have a tile of their own")
    if not fits_registers(tile, profile):
        return because("registers", f"a tile of {tile} needs more than {profile.vector_registers} vector registers")
    if isinstance(size.width, int) and 0 < size.width <= (tile.vectors - 1) * tile.lanes and not choice.by_dots(size):
        return because("shape", f"{tile.vectors} vectors are more than {size.width} columns")
    smaller = max((rows for rows in BLOCK_ROWS if rows < choice.block_rows), default=0)
    if isinstance(size.rows, int) and 0 < size.rows <= smaller:
        return because("shape", f"{size.rows} rows are one block of {smaller} already")
    paths = 1 if choice.always_copies(size) or not choice.copies(size) else 3
    statements = statements_of(tile, choice.unroll) * paths
    if statements > MOST_STATEMENTS:
        return because("code", f"about {statements} statements")
    return None


def cost_of(choice: Choice, size: Size) -> float:
    """Operations at the chip's peak that take as long: those of whole panels and, where they are copied, the copies."""
    rows, depth, width = (max(1, usual_upper(dim)) for dim in (size.rows, size.depth, size.width))
    copies = depth * choice.tile.lanes * -(-rows // choice.block_rows) if choice.copies(size) else 0
    columns = -(-width // choice.tile.columns) * choice.tile.columns
    one = 2.0 * columns * (rows * (depth + _TILE_STEPS) + copies) / _SHARE
    return one * usual_upper(size.results) / (rows * width)
