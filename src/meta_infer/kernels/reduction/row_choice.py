"""How many rows, vectors and elements of a chunk: the knobs of kernels that work on rows abreast (row_tile.py).

rows     in work at once: between the passes over one row all else would wait for its sum.
vectors  of a row in a step, with an accumulator each. Sums of fewer terms lose less to rounding.
grain    elements of a chunk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Variant
from meta_infer.ir.shapes import Dim, ceildiv, usual_upper
from meta_infer.kernels.conv_chunks import l1_bytes, l2_bytes
from meta_infer.kernels.grain import grain_refusal, grains, rows_cut
from meta_infer.kernels.kernel import Knob, KnobValue, Refusal
from meta_infer.kernels.reduction.row_tile import RowTile
from meta_infer.kernels.rows import GRAIN

_ROWS = _VECTORS = (1, 2, 4)


@dataclass(frozen=True)
class Rows:
    """What there is to cut: rows, elements of one, lanes of a vector, and bytes that a tile needs for an element.

    `across`: rows lie beside each other, a lane each, so that they are abreast without being asked to.
    """

    count: Dim
    length: Dim
    lanes: int
    element_bytes: int
    across: bool = False

    def fits(self, rows: int, room: int) -> bool:
        """Whether so many rows take at most `room` bytes."""
        return rows * usual_upper(self.length) * self.element_bytes <= room

    def most_vectors(self) -> int:
        """Vectors that there are side by side."""
        return max(1, -(-usual_upper(self.count if self.across else self.length) // self.lanes))


def default_knobs(work: Rows, profile: Profile, share: int, chains: int | None = None) -> dict[str, KnobValue]:
    """As many rows as fit into one of `share` parts of L1; as many vectors of each as make `chains` together.

    Without `chains` there are as many vectors as can be: what is done with each is short.
    """
    room, count = l1_bytes(profile) // share, usual_upper(work.count)
    rows = 1 if work.across else max(r for r in _ROWS if r == 1 or r <= count and work.fits(r, room))
    wanted = max(1, chains // rows) if chains else _VECTORS[-1]
    vectors = max(v for v in _VECTORS if v == 1 or v <= min(wanted, work.most_vectors()))
    found: dict[str, KnobValue] = {} if work.across else {"rows": rows}
    return {**found, "vectors": vectors, "grain": GRAIN}


def row_knobs(work: Rows) -> tuple[Knob, ...]:
    found = (Knob("vectors", _VECTORS), Knob("grain", grains()))
    return found if work.across else (Knob("rows", _ROWS), *found)


def tile_of(knobs: Mapping[str, KnobValue]) -> RowTile:
    return RowTile(int(knobs.get("rows", 1)), int(knobs["vectors"]))


def tune_rows(work: Rows, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    """The variant with other knobs, or why not: more abreast than there is or than registers and caches hold."""
    knobs = {**variant.knobs, **values}
    tile = tile_of(knobs)
    if tile.rows not in _ROWS or tile.vectors not in _VECTORS:
        return Refusal(knobs, "shape", f"{tile.rows} rows of {tile.vectors} vectors are no tile")
    if tile.rows > max(1, usual_upper(work.count)) or tile.vectors > work.most_vectors():
        return Refusal(knobs, "shape", f"there are no {tile.rows} rows of {tile.vectors} vectors")
    if tile.rows * tile.vectors > max(4, profile.vector_registers):
        return Refusal(knobs, "registers", f"{tile.rows} rows of {tile.vectors} accumulators each")
    if tile.rows > 1 and not work.fits(tile.rows, l2_bytes(profile) // 2):
        return Refusal(knobs, "cache", f"{tile.rows} rows leave L2 between two passes over them")
    refusal = grain_refusal(knobs, rows_cut(ceildiv(work.count, tile.rows), work.length * tile.rows))
    return refusal or replace(variant, knobs=knobs)
