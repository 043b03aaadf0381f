"""Convolutions of narrow groups, whose channels are lanes of the same vectors. `lanes_nest` has the loops.

Its knobs:

    columns     columns of a register tile
    positions   positions of a chunk, about
    splits      chunks over which the output blocks of a place are shared out
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Group, Layout, Variant, blocked
from meta_infer.ir.shapes import product, usual_upper
from meta_infer.kernels.blocked import operand_layouts
from meta_infer.kernels.conv.conv_indirect import among, rectangle
from meta_infer.kernels.conv.conv_shape import extra_inputs
from meta_infer.kernels.conv.conv_taps import TapConv, flops_of, taps_of
from meta_infer.kernels.conv.conv_tile import simd_registers
from meta_infer.kernels.conv.lanes_nest import LanesConv, lower_lanes
from meta_infer.kernels.conv_chunks import l2_bytes
from meta_infer.kernels.kernel import Kernel, Knob, KnobValue, Lowering, Refusal
from meta_infer.support.dtypes import FLOAT32

# Groups of more input channels than this are for kernels that read one channel at a time.
_MOST_CHANNELS = 16
_MOST_STATEMENTS = 5000
_MOST_COLUMNS = 14
_MOST_PHASES = 64
# Multiply-adds in flight that keep two pipes of latency 4 busy.
_IN_FLIGHT = 8
_CHUNK_CYCLES = 3e5
_FEWEST_CHUNKS = 8
_MOST_PATCH_BYTES = 16 << 20
_COPY_CYCLES = 1.5
# What a tile, and a column of it, cost beside the multiply-adds.
_TILE_CYCLES = 10.0
_COLUMN_CYCLES = 3.0
_LONG_RUN = 0.9


@dataclass(frozen=True)
class Choice:
    """Values of the knobs."""

    columns: int
    positions: int
    splits: int

    def plan(self, taps: TapConv, block: int) -> LanesConv:
        """The convolution that they give."""
        rect = rectangle(taps, self.positions, self.columns)
        width = -(-rect.width // self.columns) * self.columns
        plan = LanesConv(taps, block, self.columns, rect.rows, width, 1)
        return replace(plan, units=-(-plan.all_units // self.splits))


def _fits_registers(taps: TapConv, columns: int, profile: Profile) -> bool:
    """Accumulators, the weights of a kernel row as far as there is room, and what is picked."""
    return columns + min(taps.kernel[-1], 3) + 2 <= simd_registers(profile)


def _tile_cycles(plan: LanesConv) -> float:
    """Cycles of one tile: multiply-adds and picks share three pipes, of which two multiply."""
    taps = plan.taps
    total = 0.0
    for phase in taps.axes[-1]:
        multiplies = plan.columns * len(phase.taps)
        inputs = len({j * taps.in_step[-1] + place for j in range(plan.columns) for place, _ in phase.taps})
        step = max(multiplies / 2, (multiplies + inputs) / 3, (inputs + len(phase.taps)) / 2, _IN_FLIGHT / 2) + 1
        total += step * taps.in_per_group * plan.kernel_rows / _LONG_RUN + _TILE_CYCLES + _COLUMN_CYCLES * plan.columns
    return total


def _tiles(plan: LanesConv) -> float:
    """Tiles of an image, for every output block."""
    height, width = (max(1, usual_upper(size)) for size in plan.taps.q_spatial[-2:])
    return float(usual_upper(product(plan.taps.q_spatial[:-2])) * height * -(-width // plan.columns) * plan.out_total)


def _columns(taps: TapConv, block: int, profile: Profile) -> int:
    """The tile with the least predicted time for all columns."""
    fitting = [c for c in range(1, _MOST_COLUMNS + 1) if _fits_registers(taps, c, profile)]

    def time(columns: int) -> float:
        plan = Choice(columns, columns, 1).plan(taps, block)
        return _tile_cycles(plan) * _tiles(plan)

    return min(fitting, key=time)


def _chunks(plan: LanesConv) -> int:
    """Chunks of all images."""
    height, width = (max(1, usual_upper(size)) for size in plan.taps.q_spatial[-2:])
    places = usual_upper(product(plan.taps.q_spatial[:-2])) * -(-height // plan.rows) * -(-width // plan.width)
    return plan.taps.conv.images * places * -(-plan.all_units // plan.units)


def choose(taps: TapConv, block: int, profile: Profile) -> Choice:
    """The rule's choice: patches in a quarter of L2, whole rows first."""
    choice = Choice(_columns(taps, block, profile), max(1, usual_upper(product(taps.q_spatial[-2:]))), 1)
    while True:
        plan = choice.plan(taps, block)
        chunks = _chunks(plan)
        too_long = _tile_cycles(plan) * _tiles(plan) / chunks > _CHUNK_CYCLES
        too_large = plan.patch_elements * 4 > l2_bytes(profile) // 4
        if not too_large and not too_long and chunks >= _FEWEST_CHUNKS:
            return choice
        if choice.splits < plan.all_units:
            choice = replace(choice, splits=min(plan.all_units, 2 * choice.splits))
        elif choice.positions > choice.columns and (too_large or too_long or plan.rows > taps.kernel[-2]):
            choice = replace(choice, positions=max(choice.columns, choice.positions * 2 // 3))
        else:
            return choice


def _cost(plan: LanesConv) -> float:
    """Operations that the core could do at its peak in the predicted time, for one image."""
    images = plan.taps.conv.images
    cycles = _tile_cycles(plan) * _tiles(plan)
    cycles += plan.patch_elements / plan.block * _COPY_CYCLES * _chunks(plan) / images
    return cycles * 4 * plan.block


def _variant(group: Group, taps: TapConv, choice: Choice, block: int) -> Variant:
    plan = choice.plan(taps, block)
    inputs: dict[str, Layout] = operand_layouts(group, extra_inputs(group, taps.conv), taps.conv.y.rank, block)
    inputs |= {taps.conv.x.name: blocked(block)}
    packed = plan.out_total * plan.block_weights * 4
    return Variant("conv_lanes", "conv_lanes", inputs, {out: blocked(block) for out in group.outputs}, asdict(choice),
                   scratch_bytes=plan.scratch_bytes, packed_bytes=packed, flops=flops_of(taps), cost=_cost(plan))


def _taps(group: Group) -> TapConv:
    taps = taps_of(group)
    assert taps is not None
    return taps


def _variants(group: Group, profile: Profile) -> Iterator[Variant]:
    taps, block = taps_of(group), profile.lanes(FLOAT32)
    if taps is None or block == 1 or taps.conv.group == 1 or taps.in_per_group > _MOST_CHANNELS:
        return
    if taps.phase_count > _MOST_PHASES:
        return
    choice = choose(taps, block, profile)
    plan = choice.plan(taps, block)
    if plan.statements() <= _MOST_STATEMENTS and plan.patch_elements * 4 <= _MOST_PATCH_BYTES:
        yield _variant(group, taps, choice, block)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    choice = Choice(**variant.knobs)                                  # type: ignore[arg-type]
    return lower_lanes(group, choice.plan(_taps(group), profile.lanes(FLOAT32)), layouts, "conv_lanes")


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    taps, default = _taps(group), Choice(**variant.knobs)             # type: ignore[arg-type]
    plan, places = default.plan(taps, profile.lanes(FLOAT32)), usual_upper(product(taps.q_spatial[-2:]))
    positions = [n for n in (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096) if n <= max(8, places)]
    return (Knob("columns", among(default.columns, (4, 6, 7, 8, 9, 10, 11))),
            Knob("positions", among(default.positions, positions)),
            Knob("splits", among(default.splits, [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= plan.all_units])))


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    taps, block = _taps(group), profile.lanes(FLOAT32)
    full = {**variant.knobs, **values}
    choice = Choice(**full)                                           # type: ignore[arg-type]
    if not _fits_registers(taps, choice.columns, profile):
        return Refusal(full, "registers", f"{choice.columns} columns need more than {simd_registers(profile)} "
                                          "vector registers")
    plan = choice.plan(taps, block)
    if choice.splits > plan.all_units:
        return Refusal(full, "shape", f"there are {plan.all_units} periods of output blocks")
    if plan.statements() > _MOST_STATEMENTS:
        return Refusal(full, "code", f"{plan.statements()} statements")
    if plan.patch_elements * 4 > l2_bytes(profile):
        return Refusal(full, "cache", f"a patch of {plan.patch_elements * 4} bytes exceeds L2")
    return _variant(group, taps, choice, block)


CONV_LANES = Kernel("conv_lanes", ("Conv", "ConvTranspose"), _variants, _lower, _knobs, _tune)
