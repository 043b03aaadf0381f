"""What can be chosen inside a product with packed weights, what each choice needs, and what it is expected to cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from meta_infer.hardware.profile import Profile
from meta_infer.ir.shapes import Dim, usual_upper
from meta_infer.kernels.kernel import Knob, KnobValue, Reason, Refusal
from meta_infer.kernels.matmul.gemm_tile import Tile, fits_registers, tile_for
from meta_infer.support.dtypes import DType

TILES = ("4x3", "4x2", "8x3", "12x2", "6x4", "4x1", "6x1", "6x2")
BLOCK_ROWS = (24, 48, 72, 144, 288)
DEPTH_BLOCKS = (1, 2, 4, 8)
UNROLL = (1, 2, 4, 8)
FETCH = ("none", "next")
GRAINS = (750_000, 3_000_000, 12_000_000)
ABREAST = (1, 2, 4)
MOST_STATEMENTS = 6000
# Share of the peak that long products reach, and what a row of results costs beyond its multiply-adds, in steps of k.
_SHARE, _TILE_STEPS = 0.95, 6


@dataclass(frozen=True)
class Size:
    """rows x depth times depth x width, of `dtype`; `math`: results go through math functions."""

    rows: Dim
    depth: int
    width: int
    dtype: DType
    math: bool = False


@dataclass(frozen=True)
class Choice:
    """Values of all knobs.

    tile          rows and vectors of results that stay in registers.
    block_rows    rows that share a panel before it makes room for the next.
    depth_blocks  pieces into which k is cut, each running over all rows of a block before the next.
    unroll        steps of k in a turn of the innermost loop.
    fetch         'next': each tile fetches its part of the panel that comes next.
    grain         multiplications and additions of a chunk, about.
    abreast       vectors that go through math functions together.
    """

    tile: Tile
    block_rows: int
    depth_blocks: int
    unroll: int
    fetch: str
    grain: int
    abreast: int

    def values(self, size: Size) -> dict[str, KnobValue]:
        """The choice as knob values."""
        found: dict[str, KnobValue] = {
            "tile": str(self.tile), "block_rows": self.block_rows, "depth_blocks": self.depth_blocks,
            "unroll": self.unroll, "fetch": self.fetch, "grain": self.grain}
        return {**found, "abreast": self.abreast} if size.math else found


def read_choice(knobs: Mapping[str, KnobValue], size: Size, profile: Profile) -> Choice:
    """The choice that these knob values stand for."""
    rows, vectors = map(int, str(knobs["tile"]).split("x"))
    tile = Tile(size.dtype, profile.lanes(size.dtype), vectors, rows)
    return Choice(tile, int(knobs["block_rows"]), int(knobs["depth_blocks"]), int(knobs["unroll"]),
                  str(knobs["fetch"]), int(knobs["grain"]), int(knobs.get("abreast", 1)))


def default_choice(size: Size, profile: Profile) -> Choice:
    """Rows for a dozen tiles to pass over a panel; k in as few pieces as let a panel take half of the second-level
    cache, and the rows all of it."""
    tile = tile_for(profile, size.dtype, size.width)
    block_rows = 72
    if isinstance(size.rows, int):
        block_rows = next((rows for rows in BLOCK_ROWS if size.rows <= rows <= 72), 72)
    cache = profile.l2_bytes
    depth_blocks = 1
    if cache:
        longest = min(cache // 2 // tile.columns, cache // block_rows) // size.dtype.bytes
        depth_blocks = max(1, min(-(-size.depth // max(1, longest)), size.depth))
    return Choice(tile, block_rows, depth_blocks, 8, "next", 3_000_000, 4)


def knobs_of(size: Size, profile: Profile) -> tuple[Knob, ...]:
    """The knobs, each with the default among its values."""
    default = default_choice(size, profile)
    blocks = tuple(sorted({*DEPTH_BLOCKS, default.depth_blocks}))
    knobs = (Knob("tile", TILES), Knob("block_rows", BLOCK_ROWS), Knob("depth_blocks", blocks), Knob("unroll", UNROLL),
             Knob("fetch", FETCH), Knob("grain", GRAINS))
    return (*knobs, Knob("abreast", ABREAST)) if size.math else knobs


def refuse(choice: Choice, size: Size, profile: Profile) -> Refusal | None:
    """Why these values cannot be, if so."""
    tile, default, cache = choice.tile, default_choice(size, profile), profile.l2_bytes

    def because(reason: Reason, detail: str) -> Refusal:
        return Refusal(choice.values(size), reason, detail)

    if not fits_registers(tile, profile):
        return because("registers", f"a tile of {tile} needs more than {profile.vector_registers} vector registers")
    if (tile.vectors - 1) * tile.lanes >= size.width:
        return because("shape", f"{tile.vectors} vectors are more than {size.width} columns")
    smaller = max((rows for rows in BLOCK_ROWS if rows < choice.block_rows), default=0)
    if isinstance(size.rows, int) and 0 < size.rows <= smaller:
        return because("shape", f"{size.rows} rows are one block of {smaller} already")
    if choice.depth_blocks > max(1, size.depth):
        return because("shape", f"{size.depth} steps are no {choice.depth_blocks} blocks")
    step = -(-size.depth // choice.depth_blocks)
    if cache and choice.depth_blocks < default.depth_blocks and step * choice.block_rows * size.dtype.bytes > cache:
        return because("cache", f"{choice.block_rows} rows of {step} steps are more than {cache} bytes")
    statements = statements_of(choice.tile, choice.unroll)
    if statements > MOST_STATEMENTS:
        return because("code", f"about {statements} statements")
    return None


def statements_of(tile: Tile, unroll: int) -> int:
    """Loop-IR statements of a tile's code, roughly: the steps of every row count and what follows them."""
    per_step = sum(2 + tile.vectors + rows * (1 + tile.vectors) for rows in range(1, tile.rows + 1))
    results = tile.vectors * tile.rows * (tile.rows + 1) // 2
    return per_step * (unroll + 1) + results * 25


def cost_of(choice: Choice, size: Size, profile: Profile, item: int = 0) -> float:
    """Operations at the chip's peak that take as long: those of whole panels, or the time to read the weights.

    `item` is the bytes of a weight, where they are not those of the product's dtype.
    """
    rows, columns = usual_upper(size.rows), choice.tile.panels(size.width) * choice.tile.columns
    compute = 2.0 * rows * columns * (size.depth + _TILE_STEPS) / _SHARE
    rate = profile.macs_per_second(size.dtype)
    if not rate or not profile.bandwidth:
        return compute
    read = size.depth * columns * (item or size.dtype.bytes) / profile.bandwidth
    return max(compute, read * 2 * rate / max(1, profile.cores))
