"""The knobs that all dense convolutions have: what they mean, values worth trying, and why some cannot be.

    vectors     output blocks of a register tile
    columns     outputs of a row in a register tile, at most
    tiles       output tiles of a chunk
    lines       rows of a chunk; positions where a kernel knows no rows
    in_blocks   input blocks of a pass; between passes the sums of a tile wait in scratch
    unroll      input channels in straight code; a loop runs over the others of a block
    ahead       1: weights are asked for before they are used, because they come from beyond L2
    near        1: a tile asks for the inputs of the next one, which lie too far apart for the processor to guess
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

from meta_infer.kernels.conv.conv_shape import ConvShape
from meta_infer.kernels.conv.conv_tile import OutTiles, most_columns, out_tiles, step_cycles
from meta_infer.kernels.conv_chunks import weight_cycles
from meta_infer.kernels.kernel import Knob, KnobValue, Reason, Refusal

_MOST_VECTORS = 4
_MOST_STATEMENTS = 6000
# Neighbouring taps that meet the same columns of a tile share their code: one group in inner tiles, two or three in
# those at the borders.
_TAP_GROUPS = 1.5
# Cycles of a tile beside its steps: it begins with the bias and ends with stores and a jump.
_TILE_CYCLES = 30.0
# What a step costs beside its multiply-adds.
_STEP_CYCLES = 0.1


@dataclass(frozen=True)
class Tiling:
    """A value for every knob."""

    vectors: int
    columns: int
    tiles: int
    lines: int
    in_blocks: int
    unroll: int
    ahead: int
    near: int


NAMES = tuple(field.name for field in fields(Tiling))


def knob_values(tiling: Tiling) -> dict[str, KnobValue]:
    return {name: getattr(tiling, name) for name in NAMES}


def tiling_of(knobs: Mapping[str, KnobValue]) -> Tiling:
    return Tiling(*(int(knobs[name]) for name in NAMES))


@dataclass(frozen=True)
class Problem:
    """What there is to tile in one image; upper bounds where sizes are dynamic."""

    out_blocks: int
    in_blocks: int
    in_block: int                          # channels of an input block: 1 for a plain input
    block: int
    taps: int
    lines: int
    line_columns: int                      # outputs of a line
    registers: int
    l2: int
    kinds: Callable[[int], int]            # kinds of tiles that a row is cut into, by the widest
    has_passes: bool
    has_near: bool

    def tiles(self, tiling: Tiling) -> OutTiles:
        return out_tiles(self.out_blocks, tiling.vectors, self.registers, tiling.columns)

    def kept_elements(self, tiling: Tiling) -> int:
        """Sums of one output tile that wait for the next pass."""
        if tiling.in_blocks >= self.in_blocks:
            return 0
        return tiling.lines * self.line_columns * self.tiles(tiling).sizes[0] * self.block

    def statements(self, tiling: Tiling) -> int:
        """An estimate of the multiply-adds, loads and stores in the code."""
        passes, count = min(3, -(-self.in_blocks // tiling.in_blocks)), 0
        for run in self.tiles(tiling).runs:
            step = run.vectors * (run.columns + 1) + run.columns + 1
            tile = min(self.taps, _TAP_GROUPS) * tiling.unroll * step + 4 * run.vectors * run.columns
            count += int(tile) * self.kinds(run.columns)
        return count * passes

    def cycles(self, tiling: Tiling, vectors: int, columns: int, taps: float) -> float:
        """Of one register tile from bias to store; `taps` are those that meet the image, on average."""
        passes = -(-self.in_blocks // tiling.in_blocks)
        steps = self.in_blocks * self.in_block * taps
        return steps * (step_cycles(vectors, columns) + _STEP_CYCLES) + passes * (_TILE_CYCLES + vectors * columns)

    def weight_cycles(self, reads: int, conv: ConvShape) -> float:
        """Those in which the weights arrive, `reads` times for an image."""
        weights = self.out_blocks * self.in_blocks * self.block * self.in_block * self.taps * 4
        return weight_cycles(weights, reads, conv.images, self.l2)


def knobs_of(problem: Problem, default: Tiling) -> tuple[Knob, ...]:
    """Values worth trying around the default ones, which are among them."""
    widest = most_columns(1, problem.registers)

    def near(value: int, most: int) -> tuple[int, ...]:
        return tuple(sorted({value, max(1, value // 2), min(most, 2 * value)}))

    tiles = len(problem.tiles(default).sizes)
    passes = near(default.in_blocks, problem.in_blocks) if problem.has_passes else (default.in_blocks,)
    return (
        Knob("vectors", tuple(sorted({*range(1, min(_MOST_VECTORS, problem.out_blocks) + 1), default.vectors}))),
        Knob("columns", tuple(sorted({*range(2, widest + 1), default.columns}))),
        Knob("tiles", near(default.tiles, max(tiles, default.tiles))),
        Knob("lines", near(default.lines, max(problem.lines, default.lines))),
        Knob("in_blocks", tuple(sorted({*passes, problem.in_blocks}))),
        Knob("unroll", tuple(n for n in (1, 2, 4, 8, 16) if problem.in_block % n == 0)),
        Knob("ahead", (0, 1)),
        Knob("near", (0, 1) if problem.has_near else (0,)),
    )


def refusal(problem: Problem, tiling: Tiling, default: Tiling) -> Refusal | None:
    """Why a tiling cannot be; the default one always can."""
    if tiling == default:
        return None
    found = _unfit(problem, tiling, default)
    return None if found is None else Refusal(knob_values(tiling), *found)


def _unfit(problem: Problem, tiling: Tiling, default: Tiling) -> tuple[Reason, str] | None:
    if min(getattr(tiling, name) for name in NAMES[:6]) < 1:
        return "shape", "a size below one"
    if tiling.vectors > problem.out_blocks:
        return "shape", f"{tiling.vectors} of {problem.out_blocks} output blocks"
    if tiling.columns > max(run.columns for run in problem.tiles(tiling).runs):
        return "registers", f"{tiling.vectors} x {tiling.columns} accumulators of {problem.registers} registers"
    if tiling.columns > max(problem.line_columns, default.columns) and problem.line_columns > 1:
        return "shape", f"{tiling.columns} columns of {problem.line_columns}"
    if tiling.tiles > max(len(problem.tiles(tiling).sizes), default.tiles):
        return "shape", f"{tiling.tiles} of {len(problem.tiles(tiling).sizes)} output tiles"
    if tiling.lines > max(problem.lines, default.lines):
        return "shape", f"{tiling.lines} of {problem.lines} lines"
    if tiling.in_blocks > problem.in_blocks or not problem.has_passes and tiling.in_blocks < problem.in_blocks:
        return "shape", f"passes of {tiling.in_blocks} of {problem.in_blocks} input blocks"
    if problem.in_block % tiling.unroll:
        return "alignment", f"{problem.in_block} channels in steps of {tiling.unroll}"
    if problem.kept_elements(tiling) * 4 > max(problem.l2 // 2, problem.kept_elements(default) * 4):
        return "cache", f"{problem.kept_elements(tiling) * 4} bytes of sums wait between passes"
    if tiling.near and not problem.has_near:
        return "shape", "neighbouring tiles read the same rows"
    kinds = problem.kinds(tiling.columns)
    if kinds > max(8, problem.kinds(default.columns)) or problem.statements(tiling) > _MOST_STATEMENTS:
        return "code", f"{kinds} kinds of tiles, about {problem.statements(tiling)} statements"
    return None
