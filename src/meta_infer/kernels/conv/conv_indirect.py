"""Indirect convolution over blocked channels: any rank, grouped, transposed by phases. `indirect_nest` has the loops.

Its knobs:

    vectors     output blocks of a register tile
    columns     positions of a register tile
    positions   positions of a chunk, about: rows and columns are chosen to hold as many
    splits      chunks over which the output tiles (or groups) of a place are shared out
    passes      parts of the input blocks; the products of one are summed up before the next begins
    source      'patch': what a chunk reads is copied first; 'place': it is read in the input itself
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from math import ceil, isqrt, prod

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Group, Layout, Variant, blocked
from meta_infer.ir.shapes import product, usual_upper
from meta_infer.kernels.blocked import operand_layouts
from meta_infer.kernels.conv.conv_reach import Reach
from meta_infer.kernels.conv.conv_shape import extra_inputs
from meta_infer.kernels.conv.conv_taps import TapConv, flops_of, taps_of
from meta_infer.kernels.conv.conv_tile import simd_registers
from meta_infer.kernels.conv.indirect_nest import IndirectConv, lower_indirect
from meta_infer.kernels.conv_chunks import l1_bytes, l2_bytes, weight_cycles
from meta_infer.kernels.kernel import Kernel, Knob, KnobValue, Lowering, Refusal
from meta_infer.support.dtypes import FLOAT32

# Multiply-adds in flight that keep two pipes of latency 4 busy.
_IN_FLIGHT = 8
# What a step costs beside its multiply-adds.
_STEP_CYCLES = 0.3
# Every position of a tile has an address in a general register; x86 has 15 to share.
_MOST_COLUMNS = 8
_MOST_VECTORS = 4
_MOST_PHASES = 256
# A chunk is work for about 100 us on one core; below this many chunks threads would stand idle.
_CHUNK_FLOPS = 6e6
_FEWEST_CHUNKS = 8
# A patch is scratch of every thread.
_MOST_PATCH_BYTES = 16 << 20
# Cycles for copying a vector into the patch, and the share of the multiply-adds' peak that a long run of them gets.
_COPY_CYCLES = 1.5
# What a position of a tile costs beside its multiply-adds.
_TILE_CYCLES = 12.0
_LONG_RUN = 0.92


def fits_registers(vectors: int, columns: int, profile: Profile) -> bool:
    """Accumulators, the smaller side's operands and one more."""
    return vectors * columns + min(vectors, columns) + 1 <= simd_registers(profile)


def step_cycles(vectors: int, columns: int) -> float:
    """Cycles of one input channel at one tap, for a core of two multiply-adds and two loads per cycle; few
    multiply-adds leave their loads and the loop around them less time."""
    return max(vectors * columns, _IN_FLIGHT, vectors + columns) / 2 + _STEP_CYCLES


@dataclass(frozen=True)
class Rectangle:
    """Rows and columns of a chunk."""

    rows: int
    width: int


def rectangle(taps: TapConv, positions: int, columns: int) -> Rectangle:
    """At most about `positions`, and whole rows where they are that short; else wide strips of multiples of a tile."""
    height, width = (max(1, usual_upper(size)) for size in taps.q_spatial[-2:])
    if width <= positions:
        rows = max(1, min(height, positions // width))
        return Rectangle(-(-height // -(-height // rows)), width)
    rows = min(height, max(1, isqrt(positions // 4)))
    wide = max(columns, positions // rows // columns * columns)
    return Rectangle(rows, min(wide, -(-width // columns) * columns))


@dataclass(frozen=True)
class Choice:
    """Values of the knobs."""

    vectors: int
    columns: int
    positions: int
    splits: int
    passes: int
    source: str

    def plan(self, taps: TapConv, block: int) -> IndirectConv:
        """The convolution that they give."""
        reach, rect = Reach(taps, block, block, self.vectors), rectangle(taps, self.positions, self.columns)
        passes = min(self.passes, reach.in_blocks)
        plan = IndirectConv(reach, self.columns, rect.rows, rect.width, 1, -(-reach.in_blocks // passes),
                            self.source == "place")
        return replace(plan, units=-(-plan.all_units // self.splits))


def _chunks(plan: IndirectConv) -> int:
    taps = plan.taps
    height, width = (max(1, usual_upper(size)) for size in taps.q_spatial[-2:])
    lead = usual_upper(product(taps.q_spatial[:-2]))
    images = taps.conv.images
    return images * lead * -(-height // plan.rows) * -(-width // plan.width) * -(-plan.all_units // plan.units)


def _tile(taps: TapConv, block: int, profile: Profile) -> tuple[int, int]:
    """Vectors and columns with the least predicted time."""
    places = usual_upper(product(taps.q_spatial[-2:]))
    best, least = (1, 1), float("inf")
    for vectors in range(1, _MOST_VECTORS + 1):
        reach = Reach(taps, block, block, vectors)
        if vectors > reach.out_blocks:
            break
        for columns in range(1, _MOST_COLUMNS + 1):
            if fits_registers(vectors, columns, profile):
                time = _tile_cycles(reach, columns) * -(-places // columns)
                if time < least * 0.999:
                    best, least = (vectors, columns), time
    return best


def _tile_cycles(reach: Reach, columns: int) -> float:
    """Cycles of a tile of `columns` positions for all output channels and phases."""
    total = 0.0
    for run in reach.tiles(columns).runs:
        for tile in range(run.count):
            first, last = reach.range_of(run.block + tile * run.vectors, run.vectors)
            total += (last - first) * reach.in_block * step_cycles(run.vectors, columns)
    return total * reach.taps.taps * reach.parts


def _passes(plan: IndirectConv, profile: Profile) -> int:
    """Passes over the input blocks: weights that come from L2 again and again run at L2's speed."""
    reach, l1 = plan.reach, l1_bytes(profile)
    taps = max(prod(len(axis.taps) for axis in phase) for phase in reach.taps.phases)
    per_block = taps * reach.in_block * reach.block * plan.runs[0].vectors * 4
    if reach.is_mixed or reach.in_blocks * per_block <= 3 * l1 // 2 or plan.rows * plan.width < 4 * plan.columns:
        return 1
    return -(-reach.in_blocks // max(1, l1 // 3 // per_block))


def _fair_patch(taps: TapConv, choice: Choice, block: int) -> int:
    """Twice the bytes of a tile's patch: where taps lie so far apart that it is large, longer chunks share it."""
    return 8 * replace(choice, positions=choice.columns).plan(taps, block).patch_elements


def choose(taps: TapConv, block: int, profile: Profile) -> Choice:
    """The rule's choice."""
    vectors, columns = _tile(taps, block, profile)
    choice = Choice(vectors, columns, columns, 1, 1, "patch" if taps.has_border else "place")
    plan, l2 = choice.plan(taps, block), l2_bytes(profile)
    weights = plan.reach.packed_elements * 4
    splits = min(plan.all_units, max(1, -(-2 * weights // l2)))
    positions = max(4 * columns, int(_CHUNK_FLOPS / (2.0 * plan.reach.steps * block / splits)))
    most_patch = max(l2 // 3, _fair_patch(taps, choice, block))
    while True:
        choice = replace(choice, positions=positions, splits=splits)
        plan = choice.plan(taps, block)
        too_few, too_large = _chunks(plan) < _FEWEST_CHUNKS, plan.patch_elements * 4 > most_patch
        if not (too_few or too_large) or positions <= columns:
            break
        if too_few and not too_large and positions <= 8 * columns and splits < plan.all_units:
            splits = min(plan.all_units, 2 * splits)
        else:
            positions = max(columns, positions * 2 // 3)
    return replace(choice, passes=_passes(plan, profile))


def _cost(plan: IndirectConv, profile: Profile) -> float:
    """Operations that the core could do at its peak in the predicted time, for one image."""
    taps, images = plan.taps, plan.taps.conv.images
    unit_groups = -(-plan.all_units // plan.units)
    chunks = _chunks(plan) / images                                   # of one image
    tiles = ceil(plan.rows * plan.width / plan.columns) * chunks / unit_groups
    cycles = _tile_cycles(plan.reach, plan.columns) * tiles / _LONG_RUN
    out_tiles = sum(run.count for run in plan.runs) * plan.reach.parts
    cycles += _TILE_CYCLES * plan.columns * out_tiles * taps.phase_count * tiles
    cycles += (plan.patch_elements / plan.reach.in_block * _COPY_CYCLES + 4.0 * plan.positions) * chunks
    cycles += weight_cycles(plan.reach.packed_elements * 4, chunks / unit_groups, images, l2_bytes(profile))
    return cycles * 4 * plan.reach.block


def _variant(group: Group, taps: TapConv, choice: Choice, kernel: str, profile: Profile) -> Variant:
    block = profile.lanes(FLOAT32)
    plan = choice.plan(taps, block)
    inputs: dict[str, Layout] = operand_layouts(group, extra_inputs(group, taps.conv), taps.conv.y.rank, block)
    inputs |= {taps.conv.x.name: blocked(block)}
    return Variant(kernel, "conv_indirect", inputs, {out: blocked(block) for out in group.outputs}, asdict(choice),
                   scratch_bytes=plan.scratch_bytes, packed_bytes=plan.reach.packed_elements * 4,
                   flops=flops_of(taps), cost=_cost(plan, profile))


def _chosen(variant: Variant) -> Choice:
    return Choice(**variant.knobs)                                    # type: ignore[arg-type]


def _taps(group: Group) -> TapConv:
    taps = taps_of(group)
    assert taps is not None
    return taps


def _variants(group: Group, profile: Profile) -> Iterator[Variant]:
    taps, block = taps_of(group), profile.lanes(FLOAT32)
    if taps is None or block == 1 or taps.phase_count > _MOST_PHASES:
        return
    choice = choose(taps, block, profile)
    if choice.plan(taps, block).patch_elements * 4 <= _MOST_PATCH_BYTES:
        yield _variant(group, taps, choice, "conv_indirect", profile)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    plan = _chosen(variant).plan(_taps(group), profile.lanes(FLOAT32))
    return lower_indirect(group, plan, layouts, "conv_transposed" if plan.taps.is_transposed else "conv_indirect")


def among(value: int, values: Iterable[int]) -> tuple[int, ...]:
    """The values with the default among them, in order."""
    return tuple(sorted({value, *values}))


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    taps, block, default = _taps(group), profile.lanes(FLOAT32), _chosen(variant)
    plan = default.plan(taps, block)
    places = usual_upper(product(taps.q_spatial[-2:]))
    positions = [n for n in (6, 12, 24, 48, 96, 192, 384, 768, 1536) if n <= max(12, places)]
    splits = [n for n in (1, 2, 4, 8, 16) if n <= max(plan.all_units, default.splits)]
    passes = [n for n in (1, 2, 4, 8) if n == 1 or not plan.reach.is_mixed and n <= plan.reach.in_blocks]
    return (Knob("vectors", among(default.vectors, range(1, _MOST_VECTORS + 1))),
            Knob("columns", among(default.columns, (2, 3, 4, 6, 7, 8))),
            Knob("positions", among(default.positions, positions)),
            Knob("splits", among(default.splits, splits)),
            Knob("passes", among(default.passes, passes)),
            Knob("source", ("patch",) if taps.has_border else ("patch", "place")))


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    taps, block = _taps(group), profile.lanes(FLOAT32)
    full = {**variant.knobs, **values}
    choice = Choice(**full)                                           # type: ignore[arg-type]
    if not fits_registers(choice.vectors, choice.columns, profile):
        return Refusal(full, "registers", f"a tile of {choice.vectors} x {choice.columns} needs more than "
                                          f"{simd_registers(profile)} vector registers")
    plan = choice.plan(taps, block)
    if choice.vectors > plan.reach.out_blocks or choice.splits > plan.all_units or choice.passes > plan.reach.in_blocks:
        return Refusal(full, "shape", f"{plan.reach.parts} parts of {plan.reach.out_blocks} output and "
                                      f"{plan.reach.in_blocks} input blocks")
    if plan.patch_elements * 4 > max(l2_bytes(profile), _fair_patch(taps, choice, block)):
        return Refusal(full, "cache", f"a patch of {plan.patch_elements * 4} bytes exceeds L2")
    return _variant(group, taps, choice, variant.kernel, profile)


CONV_INDIRECT = Kernel("conv_indirect", ("Conv", "ConvTranspose"), _variants, _lower, _knobs, _tune)
