"""Convolutions with few output channels whose kernel equals their stride, 1x1 among them: the heads of networks.

`few_nest` has the loops. x may be plain or in blocks of channels, the output is plain. Knobs:

    rows      lines of outputs, by output channel and kernel row, of a register tile
    vectors   vectors of columns of it
    lines     input lines of a chunk
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import PLAIN, Group, Layout, Variant, blocked
from meta_infer.ir.shapes import product, usual_upper
from meta_infer.kernels.conv.conv_indirect import among
from meta_infer.kernels.conv.conv_shape import ConvShape, conv_of
from meta_infer.kernels.conv.conv_tile import simd_registers
from meta_infer.kernels.conv.few_nest import FewConv, lower_few
from meta_infer.kernels.kernel import Kernel, Knob, KnobValue, Lowering, Refusal
from meta_infer.ops.attrs import ints_of
from meta_infer.support.dtypes import FLOAT32

# Multiply-adds in flight that keep two pipes of latency 4 busy.
_IN_FLIGHT = 8
# Cycles of the transpose of a block by as many columns, of the beginning and end of a group's sums, of a result.
_TRANSPOSE_CYCLES = 24.0
_GROUP_CYCLES = 30.0
_RESULT_CYCLES = 3.0
# And of a load of the inputs, beyond what hides behind the multiply-adds.
_LOAD_CYCLES = 0.1
_LONG_LOOP = 0.9
_CHUNK_CYCLES = 3e5
_FEWEST_CHUNKS = 8


def _conv(group: Group, profile: Profile) -> ConvShape | None:
    conv, block = conv_of(group), profile.lanes(FLOAT32)
    if conv is None or len(conv.kernel) != 2 or conv.group != 1 or conv.kernel != conv.strides or 0 in conv.y.shape:
        return None
    shifts = (*conv.begin, *conv.end, *ints_of(group.anchor.attrs, "output_padding", (0, 0)))
    if any(shifts) or not (set(conv.dilations) == {1} or conv.taps == 1):
        return None
    if group.anchor.op == "Conv" and conv.taps > 1 or not isinstance(conv.in_channels, int):
        return None
    few = isinstance(conv.out_channels, int) and conv.out_channels < block
    return conv if few and 1 < block and conv.kernel[1] + 2 <= simd_registers(profile) else None


def _plan(group: Group, conv: ConvShape, name: str, knobs: Mapping[str, KnobValue], profile: Profile) -> FewConv:
    lanes = profile.lanes(FLOAT32)
    rows, vectors, lines = (int(knobs[k]) for k in ("rows", "vectors", "lines"))
    return FewConv(conv, group.anchor.op == "ConvTranspose", lanes if name == "blocked" else 1, lanes, rows, vectors,
                   lines)


def _fits_registers(plan: FewConv, profile: Profile) -> bool:
    """Sums, the inputs of a channel, one weight."""
    return plan.rows * plan.conv.kernel[1] * plan.vectors + plan.vectors + 1 <= simd_registers(profile)


def _tile_cycles(plan: FewConv) -> float:
    kw, vectors = plan.conv.kernel[1], plan.vectors
    steps = sum(max(rows * kw * vectors, rows * kw + vectors, _IN_FLIGHT) / 2 + _LOAD_CYCLES * vectors
                for rows in plan.sizes)
    transposes = plan.in_channels * plan.columns / plan.block**2 if plan.block > 1 else 0.0
    results = plan.all_rows * kw * vectors
    return (steps * plan.in_channels / _LONG_LOOP + transposes * _TRANSPOSE_CYCLES
            + len(plan.sizes) * _GROUP_CYCLES + results * _RESULT_CYCLES)


def _line_cycles(plan: FewConv) -> float:
    return _tile_cycles(plan) * -(-max(1, usual_upper(plan.conv.in_spatial[1])) // plan.columns)


def _cost(plan: FewConv) -> float:
    """Operations that the core could do at its peak in the predicted time, for one image."""
    return _line_cycles(plan) * max(1, usual_upper(plan.conv.in_spatial[0])) * 4 * plan.lanes


def _choose(group: Group, conv: ConvShape, name: str, profile: Profile) -> FewConv:
    """The tile with the least predicted time, then chunks of a fair size."""
    everything = _plan(group, conv, name, {"rows": 1, "vectors": 1, "lines": 1}, profile)
    plans = [_plan(group, conv, name, {"rows": rows, "vectors": vectors, "lines": 1}, profile)
             for rows in range(1, everything.all_rows + 1) for vectors in (1, 2, 4)]
    best = min((plan for plan in plans if _fits_registers(plan, profile)), key=_line_cycles)
    height = max(1, usual_upper(conv.in_spatial[0]))
    images = conv.images
    lines = min(height, max(1, int(_CHUNK_CYCLES / _line_cycles(best))), max(1, height * images // _FEWEST_CHUNKS))
    return _plan(group, conv, name, {"rows": best.rows, "vectors": best.vectors, "lines": lines}, profile)


def _variant(group: Group, plan: FewConv, name: str) -> Variant:
    inputs = {n: PLAIN for n in group.inputs} | {plan.conv.x.name: blocked(plan.block) if plan.block > 1 else PLAIN}
    knobs = {"rows": plan.rows, "vectors": plan.vectors, "lines": plan.lines}
    flops = 2 * plan.all_rows * plan.conv.kernel[1] * product(plan.conv.x.shape)
    return Variant("conv_few", name, inputs, {out: PLAIN for out in group.outputs}, knobs,
                   scratch_bytes=4 * plan.panel_elements, packed_bytes=4 * plan.packed_elements, flops=flops,
                   cost=_cost(plan))


def _variants(group: Group, profile: Profile) -> Iterator[Variant]:
    conv = _conv(group, profile)
    if conv is None:
        return
    for name in ("blocked", "plain"):
        yield _variant(group, _choose(group, conv, name, profile), name)


def _known(group: Group, profile: Profile) -> ConvShape:
    conv = _conv(group, profile)
    assert conv is not None
    return conv


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    plan = _plan(group, _known(group, profile), variant.name, variant.knobs, profile)
    height = max(1, usual_upper(plan.conv.in_spatial[0]))
    return (Knob("rows", among(plan.rows, [n for n in (1, 2, 3, 4, 6, 8, 12) if n <= plan.all_rows])),
            Knob("vectors", among(plan.vectors, (1, 2, 3, 4))),
            Knob("lines", among(plan.lines, [n for n in (1, plan.lines // 2, 2 * plan.lines) if 0 < n <= height])))


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    full = {**variant.knobs, **values}
    plan = _plan(group, _known(group, profile), variant.name, full, profile)
    if not _fits_registers(plan, profile):
        return Refusal(full, "registers", f"{plan.rows} rows of {plan.conv.kernel[1]} x {plan.vectors} sums")
    if plan.rows > plan.all_rows or not 0 < plan.lines <= max(1, usual_upper(plan.conv.in_spatial[0])):
        return Refusal(full, "shape", f"{plan.all_rows} rows, {plan.conv.in_spatial[0]} lines")
    return _variant(group, plan, variant.name)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    plan = _plan(group, _known(group, profile), variant.name, variant.knobs, profile)
    return lower_few(group, plan, layouts, f"conv_few_{variant.name}")


CONV_FEW = Kernel("conv_few", ("Conv", "ConvTranspose"), _variants, _lower, _knobs, _tune)
