"""Winograd convolutions F(2x2, 3x3) and F(4x4, 3x3) of 8-bit integers, exact in int32: dense, stride 1.

A tile of m x m outputs takes 16/36 or 36/144 of the multiplications of the direct sum (Lavin and Gray, Fast Algorithms
for Convolutional Neural Networks, CVPR 2016), and none of them rounds. The transforms are matrices of whole numbers
(winograd_int8_transforms.py), so that f^2 y comes out, f being 2 or 24:

    Sums and products of int32 are those of the integers modulo 2^32; so what is computed is f^2 y mod 2^32 =: z.
    f^2 = 2^s q with q odd, which has an inverse q' modulo 2^32; q' z mod 2^32 = 2^s y mod 2^32.
    Where -2^(31-s) <= y < 2^(31-s), 2^s y is an int32, the one congruent to q' z; shifted right by s it is y.

s is 2 for F(2, 3) and 6 for F(4, 3). That all |y| < 2^(31-s) is known at build, from the weights and the range of
activations less their zero point (winograd_int8_plan.largest_sum); where it is not so there is no such variant. The
transformed operands fit int16: activations of 9 bits grow at most 4-fold or 100-fold, to 1020 or 25500 in magnitude;
weights at most 9-fold or 144-fold, of 8 bits to 18432, and wider ones are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Group, Layout, Variant, blocked
from meta_infer.ir.shapes import usual_upper
from meta_infer.kernels.blocked import operand_layouts
from meta_infer.kernels.conv.winograd_knobs import knob_values, winograd_knobs, winograd_refusal, with_knobs
from meta_infer.kernels.int8.dot_path import PAIRS
from meta_infer.kernels.int8.dot_tile import most_columns
from meta_infer.kernels.int8.winograd_int8_nest import lower_int8_winograd
from meta_infer.kernels.int8.winograd_int8_plan import (
    Int8Winograd,
    expected_cost,
    is_exact,
    plan_int8_winograd,
    winograd_problem,
)
from meta_infer.kernels.int8.winograd_int8_weights import taps_type
from meta_infer.kernels.kernel import Kernel, Knob, KnobValue, Lowering, Refusal
from meta_infer.support.dtypes import INT16, INT32

OUTPUTS = {"winograd_int8_f4": 4, "winograd_int8_f2": 2}
"""Rows and columns of outputs that a tile has, by variant."""


def _variant(group: Group, plan: Int8Winograd, name: str, profile: Profile) -> Variant:
    conv, block = plan.cut.conv, plan.cut.block
    inputs = operand_layouts(group, plan.operands.extras, conv.y.rank, block) | {conv.x.name: blocked(block)}
    packed = plan.weight_elements * INT16.bytes
    if plan.cut.is_at_load:
        packed = plan.weight_elements // plan.cut.points * conv.taps * taps_type(plan).bytes
    return Variant("conv_winograd_int8", name, inputs, {out: blocked(block) for out in group.outputs},
                   knobs=knob_values(plan.cut), scratch_bytes=plan.scratch_bytes, packed_bytes=packed,
                   prepared_bytes=plan.weight_elements * INT16.bytes if plan.cut.is_at_load else 0,
                   temp_bytes=usual_upper(plan.cut.tile_blocks * plan.cut.points * plan.input_pitch) * INT16.bytes
                   * plan.cut.is_shared,
                   flops=conv.flops, cost=expected_cost(plan, profile))


def _variants(group: Group, profile: Profile) -> Iterator[Variant]:
    problem = winograd_problem(group, profile)
    if problem is None:
        return
    for name, m in OUTPUTS.items():
        if is_exact(problem[1], m):
            yield _variant(group, plan_int8_winograd(*problem, m, profile), name, profile)


def _plan_of(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Int8Winograd:
    problem = winograd_problem(group, profile)
    assert problem is not None
    conv, operands = problem
    return Int8Winograd(operands, with_knobs(conv, OUTPUTS[variant.name], profile.lanes(INT32),
                                             {**variant.knobs, **values}))


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    plan = _plan_of(group, variant, {}, profile)
    return winograd_knobs(variant, plan.cut, {2, 3, 4, 5, 8, 11}, {4, 8, plan.pairs})


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    plan = _plan_of(group, variant, values, profile)
    refused = winograd_refusal(knob_values(plan.cut), plan.cut, plan.pairs,
                               most_columns(plan.cut.vectors, PAIRS, profile), plan.scratch_bytes, profile)
    return refused or _variant(group, plan, variant.name, profile)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    return lower_int8_winograd(group, _plan_of(group, variant, {}, profile), layouts, variant.name)


CONV_WINOGRAD_INT8 = Kernel("conv_winograd_int8", ("ConvInteger",), _variants, _lower, _knobs, _tune)
