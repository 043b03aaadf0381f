"""Convolutions as products with columns of the input, in the plain layout. `im2col_nest` has the loops.

Its knobs:

    rows        output channels of a register tile
    vectors     vectors of positions of a register tile
    positions   positions of a chunk, a multiple of a tile's
    splits      chunks over which the groups (or tiles of output channels) of a place are shared out
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.shapes import usual_upper
from meta_infer.kernels.conv.conv_indirect import among
from meta_infer.kernels.conv.conv_shape import ConvShape, any_conv_of
from meta_infer.kernels.conv.im2col_nest import Im2colConv, lower_im2col, merged
from meta_infer.kernels.conv_chunks import l2_bytes, weight_cycles
from meta_infer.kernels.kernel import Kernel, Knob, KnobValue, Lowering, Refusal
from meta_infer.kernels.matmul.gemm_tile import DTYPES, Tile, fits_registers

# Multiply-adds in flight that keep two pipes of latency 4 busy.
_IN_FLIGHT = 8
_STEP_CYCLES = 0.3
# Cycles for copying an element alone, a vector, and for what surrounds a row of them.
_ELEMENT_CYCLES = 1.3
_VECTOR_CYCLES = 1.5
_ROW_CYCLES = 12.0
_CHUNK_FLOPS = 6e6
_FEWEST_CHUNKS = 8
_MOST_COLUMN_BYTES = 16 << 20
_LONG_RUN = 0.88
# How much longer it takes where columns and weights do not stay in L2 together.
_BEYOND_L2 = 1.6


@dataclass(frozen=True)
class Choice:
    """Values of the knobs."""

    rows: int
    vectors: int
    positions: int
    splits: int

    def plan(self, conv: ConvShape, profile: Profile) -> Im2colConv:
        """The convolution that they give."""
        tile = Tile(conv.x.dtype, profile.lanes(conv.x.dtype), self.vectors, self.rows)
        positions = -(-self.positions // tile.columns) * tile.columns
        plan = Im2colConv(conv, tile, positions, 1)
        return replace(plan, units=-(-plan.all_units // self.splits))


def _outputs(conv: ConvShape) -> int:
    return max(1, usual_upper(Im2colConv(conv, Tile(conv.x.dtype, 1, 1), 1, 1).outputs))


def _chunks(plan: Im2colConv) -> int:
    return plan.conv.images * -(-_outputs(plan.conv) // plan.positions) * -(-plan.all_units // plan.units)


def _panel_cycles(plan: Im2colConv) -> float:
    """Cycles of one panel for the output channels of a group."""
    vectors = plan.tile.vectors
    steps = sum(max(rows * vectors, _IN_FLIGHT, rows + vectors) / 2 + _STEP_CYCLES for rows in plan.sizes)
    return (steps * plan.depth + 4.0 * plan.out_per_group * vectors) / _LONG_RUN


def _fill_cycles(plan: Im2colConv) -> float:
    """Cycles of the columns of one group at all positions."""
    conv, lanes = plan.conv, plan.tile.lanes
    width = max(1, usual_upper(conv.out_spatial[-1]))
    row = _ROW_CYCLES + width * _ELEMENT_CYCLES
    if conv.strides[-1] == 1 and lanes > 1:
        row = _ROW_CYCLES + width // lanes * _VECTOR_CYCLES + width % lanes * _ELEMENT_CYCLES
    return row * plan.depth * _outputs(conv) / width


def _cost(plan: Im2colConv, profile: Profile) -> float:
    """Operations of float32 that the core could do at its peak in the predicted time, for one image."""
    panels = -(-_outputs(plan.conv) // plan.tile.columns)
    fills = plan.conv.group if plan.conv.group > 1 else -(-plan.all_units // plan.units)
    cycles = _panel_cycles(plan) * panels * plan.conv.group + _fill_cycles(plan) * fills
    if plan.depth * plan.positions * plan.tile.dtype.bytes > l2_bytes(profile) // 2:
        cycles *= _BEYOND_L2
    weights = plan.conv.group * plan.out_per_group * plan.depth * plan.tile.dtype.bytes
    cycles += weight_cycles(weights, -(-_outputs(plan.conv) // plan.positions), plan.conv.images, l2_bytes(profile))
    return cycles * 4 * plan.tile.lanes * plan.tile.dtype.bytes / 4


def _tile(conv: ConvShape, profile: Profile) -> tuple[int, int]:
    """Rows and vectors with the least predicted time."""
    best, least = (1, 1), float("inf")
    for vectors in (1, 2, 3, 4):
        for rows in range(1, 13):
            choice = Choice(rows, vectors, 1, 1)
            plan = choice.plan(conv, profile)
            if rows > plan.out_per_group or not fits_registers(plan.tile, profile):
                continue
            time = _panel_cycles(plan) * -(-_outputs(conv) // plan.tile.columns)
            if time < least * 0.999:
                best, least = (rows, vectors), time
    return best


def choose(conv: ConvShape, profile: Profile) -> Choice:
    """The rule's choice: columns in half of L2, at least two panels; then chunks of a fair size."""
    rows, vectors = _tile(conv, profile)
    choice = Choice(rows, vectors, 1, 1)
    plan = choice.plan(conv, profile)
    panel = plan.tile.columns
    fitting = l2_bytes(profile) // 2 // (plan.depth * plan.tile.dtype.bytes)
    per_position = 2.0 * plan.depth * plan.out_per_group
    positions = max(2 * panel, min(fitting, int(_CHUNK_FLOPS / per_position), _outputs(conv)))
    blocks = max(1, -(-_outputs(conv) // positions))
    choice = replace(choice, positions=-(-_outputs(conv) // blocks // panel) * panel)
    while True:
        plan = choice.plan(conv, profile)
        few = _chunks(plan) < _FEWEST_CHUNKS
        too_much = conv.group > 1 and per_position * plan.positions * plan.units > _CHUNK_FLOPS
        # A place whose output channels are split fills its columns as often: only where there are few places.
        if choice.splits < plan.all_units and (few or too_much):
            choice = replace(choice, splits=min(plan.all_units, 2 * choice.splits))
        elif few and plan.positions > panel:
            choice = replace(choice, positions=max(panel, plan.positions // 2 // panel * panel))
        else:
            return replace(choice, positions=plan.positions)


def _conv(group: Group) -> ConvShape | None:
    conv = any_conv_of(group)
    if conv is None or conv.x.dtype not in DTYPES or 0 in conv.weight.shape or not conv.kernel:
        return None
    if conv.weight.dtype != conv.x.dtype or not all(isinstance(dim, int) for dim in conv.weight.shape):
        return None
    if any(dim == 0 for dim in (*conv.y.shape, *conv.x.shape)) or min(*conv.begin, *conv.end) < 0:
        return None
    return conv if merged(group, conv) is not None else None


def _known(group: Group) -> ConvShape:
    conv = _conv(group)
    assert conv is not None
    return conv


def _variant(group: Group, conv: ConvShape, choice: Choice, profile: Profile) -> Variant:
    plan = choice.plan(conv, profile)
    scratch = (plan.column_elements + plan.tile.rows * plan.tile.columns) * conv.x.dtype.bytes + 128
    return Variant("conv_im2col", "conv_im2col", {name: PLAIN for name in group.inputs},
                   {name: PLAIN for name in group.outputs}, asdict(choice), scratch_bytes=scratch, flops=conv.flops,
                   cost=_cost(plan, profile))


def _variants(group: Group, profile: Profile) -> Iterator[Variant]:
    conv = _conv(group)
    if conv is None:
        return
    choice = choose(conv, profile)
    if choice.plan(conv, profile).column_elements * conv.x.dtype.bytes <= _MOST_COLUMN_BYTES:
        yield _variant(group, conv, choice, profile)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    choice = Choice(**variant.knobs)                                  # type: ignore[arg-type]
    return lower_im2col(group, choice.plan(_known(group), profile), layouts)


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    conv, default = _known(group), Choice(**variant.knobs)            # type: ignore[arg-type]
    plan, outputs = default.plan(conv, profile), _outputs(conv)
    positions = [n for n in (16, 32, 64, 96, 128, 192, 256, 512, 1024) if n <= max(16, outputs)]
    return (Knob("rows", among(default.rows, [n for n in (2, 4, 6, 8, 12) if n <= plan.out_per_group])),
            Knob("vectors", among(default.vectors, (1, 2, 3, 4))),
            Knob("positions", among(default.positions, positions)),
            Knob("splits", among(default.splits, [n for n in (1, 2, 4, 8, 16) if n <= plan.all_units])))


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    conv, full = _known(group), {**variant.knobs, **values}
    choice = Choice(**full)                                           # type: ignore[arg-type]
    plan = choice.plan(conv, profile)
    if not fits_registers(plan.tile, profile):
        return Refusal(full, "registers", f"a tile of {plan.tile} needs more than there are")
    if choice.rows > plan.out_per_group or choice.splits > plan.all_units:
        return Refusal(full, "shape", f"{conv.group} groups of {plan.out_per_group} output channels")
    if plan.column_elements * conv.x.dtype.bytes > 2 * l2_bytes(profile):
        return Refusal(full, "cache", f"columns of {plan.column_elements * conv.x.dtype.bytes} bytes exceed L2")
    return _variant(group, conv, choice, profile)


CONV_IM2COL = Kernel("conv_im2col", ("Conv",), _variants, _lower, _knobs, _tune)
