"""Weights of an 8-bit Winograd convolution: U = G g G^T in int16, made at build or by a launch at load.

    U [pass][point][register tile][pair of input blocks][two channels][v][c][2]

Transformed they take 2 (m+2)^2 bytes for the 9 of a filter, so that by default the package holds the filters.
"""

from __future__ import annotations

import numpy as np

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Buffer, Expr, cast, shuffle
from meta_infer.kernels.conv.winograd_plan import OutRun
from meta_infer.kernels.conv.winograd_transforms import TAPS
from meta_infer.kernels.conv.winograd_walk import transform_launch
from meta_infer.kernels.int8.dot_path import PAIRS
from meta_infer.kernels.int8.dot_tile import pack_steps
from meta_infer.kernels.int8.winograd_int8_plan import Int8Winograd
from meta_infer.kernels.int8.winograd_int8_transforms import (
    INTEGER_TRANSFORMS,
    emit_integer,
    integer_program,
    transform_weights,
)
from meta_infer.kernels.kernel import KernelCall
from meta_infer.support.dtypes import INT8, INT16, DType


def _full(plan: Int8Winograd, weights: np.ndarray) -> np.ndarray:
    """[..., OC, IC, taps] with zeros up to whole blocks and pairs."""
    out_channels, in_channels, taps = weights.shape
    full = np.zeros((plan.cut.out_blocks * plan.cut.block, plan.pairs * plan.deep, taps), np.int16)
    full[:out_channels, :in_channels] = weights
    return full


def pack_transformed(plan: Int8Winograd) -> np.ndarray:
    """U, flat."""
    cut, weights = plan.cut, plan.operands.weights
    made = _full(plan, transform_weights(weights, cut.m).transpose(1, 2, 0)).transpose(2, 1, 0)   # [points, K, OC]
    parts, block = [], 0
    for first in range(0, len(cut.sizes), cut.out_pass):
        ends = (block + np.cumsum(cut.sizes[first:first + cut.out_pass])).tolist()
        for point in made:
            for low, high in zip([block, *ends], ends, strict=False):
                parts.append(pack_steps(point[:, low * cut.block:high * cut.block], PAIRS, cut.block))
        block = ends[-1]
    return np.concatenate(parts)


def taps_type(plan: Int8Winograd) -> DType:
    """How filters lie in the package: weights less their zero points may need more than 8 bits."""
    weights = plan.operands.weights
    return INT8 if weights.min() >= -128 and weights.max() <= 127 else INT16


def pack_taps(plan: Int8Winograd) -> np.ndarray:
    """[OC, IC, 3, 3] -> [output block][input channel][tap][c], flat, zero beyond the channels."""
    block, weights = plan.cut.block, plan.operands.weights
    full = _full(plan, weights.reshape(*weights.shape[:2], -1))
    ordered = full.reshape(-1, block, *full.shape[1:]).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(ordered).astype(taps_type(plan).numpy).reshape(-1)


def weights_launch(plan: Int8Winograd, name: str, taps_name: str, made_name: str) -> KernelCall:
    """The launch that makes U of what `pack_taps` has packed."""
    b = Builder(f"{name}_weights")
    buffers = b.input("taps", taps_type(plan)), b.output("u", INT16)
    return transform_launch(plan.cut, b, plan.unit, (taps_name, made_name),
                            lambda run, block, to, pitch: _transform_tile(b, plan, run, buffers, block, to, pitch))


def _transform_tile(b: Builder, plan: Int8Winograd, run: OutRun, buffers: tuple[Buffer, Buffer], block: Expr,
                    to: Expr, pitch: Expr) -> None:
    """Two input channels at a time of a register tile at output block `block`; points are `pitch` elements apart."""
    (taps, made), lanes, side = buffers, plan.cut.block, plan.cut.side
    program = integer_program(INTEGER_TRANSFORMS[plan.cut.m].weight)
    channels = plan.pairs * plan.deep
    both = tuple(range(2 * lanes))
    neighbours = tuple(lane for c in range(lanes) for lane in (c, c + lanes))
    with b.loop(0, run.vectors, name="v") as v, b.loop(0, channels, 2, name="ic") as ic:
        at = b.let(((block + v) * channels + ic) * (TAPS * TAPS * lanes), "at")

        def filters(tap: int) -> Expr:
            one, other = (b.load(taps, at + (i * TAPS * TAPS + tap) * lanes, lanes) for i in range(2))
            return b.let(cast(shuffle(one, other, both), INT16), "g")

        columns = [emit_integer(b, program, [filters(r * TAPS + c) for r in range(TAPS)]) for c in range(TAPS)]
        place = b.let(to + (ic * run.vectors + v * 2) * lanes, "place")
        for r in range(side):
            for c, value in enumerate(emit_integer(b, program, [column[r] for column in columns])):
                b.store(made, place + pitch * (r * side + c), shuffle(value, value, neighbours))
