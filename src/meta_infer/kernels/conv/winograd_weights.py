"""Weights of a Winograd convolution: U = G g G^T, transformed at build or by a launch when a package is loaded.

    U [pass][point][register tile][input block][c][v][c]

At build they are computed in float64 and (m+2)^2 / 9 times as large in the file as the weights were. At load they come
from the file as they are, [output block][input channel][tap][c], and take a few more roundings.
"""

from __future__ import annotations

import numpy as np

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Buffer, Expr
from meta_infer.kernels.conv.conv_shape import pack_weights
from meta_infer.kernels.conv.winograd_plan import OutRun, WinogradConv
from meta_infer.kernels.conv.winograd_transforms import (
    TAPS,
    emit_program,
    linear_program,
    transform_weights,
    transforms,
)
from meta_infer.kernels.conv.winograd_walk import transform_launch
from meta_infer.kernels.kernel import KernelCall
from meta_infer.support.dtypes import FLOAT32


def pack_transformed(plan: WinogradConv, weight: np.ndarray) -> np.ndarray:
    """[OC, IC, 3, 3] -> U, flat."""
    transformed = transform_weights(weight, plan.m)
    parts, block = [], 0
    for first in range(0, len(plan.sizes), plan.out_pass):
        sizes = plan.sizes[first:first + plan.out_pass]
        end = block + sum(sizes)
        channels = transformed[:, block * plan.block:end * plan.block, :, None, None]
        parts += [pack_weights(one, sizes, plan.block, plan.block) for one in channels]
        block = end
    return np.concatenate(parts)


def pack_taps(plan: WinogradConv, weight: np.ndarray) -> np.ndarray:
    """[OC, IC, 3, 3] -> [output block][input channel][tap][c], flat, zero beyond OC and IC."""
    out_channels, in_channels = weight.shape[:2]
    block = plan.block
    full = np.zeros((plan.out_blocks * block, plan.in_blocks * block, TAPS * TAPS), np.float32)
    full[:out_channels, :in_channels] = weight.reshape(out_channels, in_channels, -1)
    return full.reshape(plan.out_blocks, block, -1, TAPS * TAPS).transpose(0, 2, 3, 1).reshape(-1)


def weights_launch(plan: WinogradConv, name: str, taps_name: str, made_name: str) -> KernelCall:
    """The launch that makes U of what `pack_taps` has packed."""
    b = Builder(f"{name}_weights")
    buffers = b.input("taps", FLOAT32), b.output("u", FLOAT32)
    return transform_launch(plan, b, plan.in_blocks * plan.block**2, (taps_name, made_name),
                            lambda run, block, to, pitch: _transform_tile(b, plan, run, buffers, block, to, pitch))


def _transform_tile(b: Builder, plan: WinogradConv, run: OutRun, buffers: tuple[Buffer, Buffer], block: Expr,
                    to: Expr, pitch: Expr) -> None:
    """All input channels of a register tile at output block `block`; points are `pitch` elements apart."""
    (taps, made), lanes, side = buffers, plan.block, plan.side
    program = linear_program(transforms(plan.m).weight)
    channels = plan.in_blocks * lanes
    with b.loop(0, run.vectors, name="v") as v, b.loop(0, channels, name="ic") as ic:
        at = b.let(((block + v) * channels + ic) * (TAPS * TAPS * lanes), "at")
        columns = []
        for c in range(TAPS):
            values = [b.let(b.load(taps, at + (r * TAPS + c) * lanes, lanes), "g") for r in range(TAPS)]
            columns.append(emit_program(b, program, values))
        place = b.let(to + (ic * run.vectors + v) * lanes, "place")
        for r in range(side):
            for c, value in enumerate(emit_program(b, program, [column[r] for column in columns])):
                b.store(made, place + pitch * (r * side + c), value)
