"""Depthwise 2-D convolution over blocked channels: every channel block of an image is a plane of its own.

    x [N, CB, H, W, c], weights [CB][kh][kw][c]  ->  y [N, CB, H', W', c]

    for plane:  for `rows` rows:  for tile of columns:  the tile of `depthwise_tile`, epilogue

Two bounds apply: two multiply-adds per cycle, and the cache level that holds the activations. A 3x3 has 9
multiply-adds for 8 bytes in and out per output, so from L3 (some 16 bytes per cycle) a stride of one is bound by
arithmetic, and a stride of two, which reads four inputs for each output, by the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import Group, Layout, Variant, blocked
from meta_infer.ir.loop import Expr
from meta_infer.ir.shapes import product, usual_upper
from meta_infer.kernels.blocked import blocks, operand_layouts
from meta_infer.kernels.conv.conv_shape import ConvShape, conv_of, extra_inputs, pack_bias
from meta_infer.kernels.conv.conv_tile import Accumulators, Epilogue, simd_registers, split_evenly
from meta_infer.kernels.conv.depthwise_tile import DepthwisePlane, Window, meeting, registers_needed, window_of
from meta_infer.kernels.kernel import Kernel, KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.kernels.math_use import uses_math
from meta_infer.kernels.plane_chunks import cut_planes, plane_chunks
from meta_infer.support.dtypes import FLOAT32

_MOST_COLUMNS = 8
_MOST_ROWS = 4
_LEAST_FOR_MATH = 4
# Multiply-adds of a tile that are written out.
_STRAIGHT_MADS = 450


def pack_depthwise(weight: np.ndarray, block: int) -> np.ndarray:
    """[C, 1, kh, kw] -> [ceil(C / block)][kh][kw][block], flat, zero beyond C."""
    channels, _, kh, kw = weight.shape
    full = np.zeros((-(-channels // block) * block, kh, kw), np.float32)
    full[:channels] = weight[:, 0]
    return full.reshape(-1, block, kh, kw).transpose(0, 2, 3, 1).reshape(-1)


def pack_depthwise_operands(group: Group, conv: ConvShape, block: int) -> dict[str, np.ndarray]:
    """Packed weights and bias, in this order, by names that no value has."""
    name = conv.weight.name
    bias = group.constants[conv.bias.name] if conv.bias is not None else None
    return {f"{name}@packed": pack_depthwise(group.constants[name], block),
            f"{name}@bias": pack_bias(bias, int(conv.weight.shape[0]), block)}         # type: ignore[arg-type]


def fits_depthwise(conv: ConvShape | None) -> bool:
    """Depthwise, 2-D, some output."""
    return conv is not None and conv.is_depthwise and len(conv.kernel) == 2 and 0 not in conv.y.shape


def tile_cycles(conv: Window, rows: int, columns: int, keeps: bool) -> float:
    """Cycles of one output in a tile inside the image, on two pipes each for multiply-adds and loads.

    A fifth of the shorter side shows as well, and a tile begins and ends.
    """
    lines = [pairs for pairs in meeting(conv, rows) if pairs]
    reads = len(lines) * ((columns - 1) * conv.strides[1] + (conv.kernel[1] - 1) * conv.dilations[1] + 1)
    if not keeps:
        reads += sum(len({k for _, k in pairs}) for pairs in lines) * conv.kernel[1]
    reads += rows * columns                                                           # stores of results
    multiplied = rows * columns * conv.taps
    return (max(multiplied, reads) / 2 + 0.1 * min(multiplied, reads) + 2) / (rows * columns)


def tile_of(conv: ConvShape, profile: Profile, math: bool = False) -> tuple[int, int, bool]:
    """Rows, columns and whether all weights stay in registers: fewest cycles for a row of outputs.

    Epilogues with `math` functions run on neighbouring columns abreast, so there a tile is one wide row.
    """
    height, width = (usual_upper(d) for d in conv.out_spatial)
    return _quickest(window_of(conv), height, width, simd_registers(profile), math)


@cache
def _quickest(window: Window, height: int, width: int, registers: int, math: bool) -> tuple[int, int, bool]:
    found = []
    for rows in range(1, _MOST_ROWS + 1):
        for columns in range(1, _MOST_COLUMNS + 1):
            for keeps in (False, True):
                narrow = math and (rows > 1 or columns < min(width, _LEAST_FOR_MATH))
                if narrow or _unfit(window, height, width, rows, columns, keeps, registers) is not None:
                    continue
                sizes = split_evenly(width, columns)
                cycles = sum(sizes.count(size) * size * tile_cycles(window, rows, size, keeps) for size in set(sizes))
                found.append((cycles, rows, columns, keeps))
    _, rows, columns, keeps = min(found, default=(0.0, 1, 1, False))
    return rows, columns, keeps


def _unfit(conv: Window, height: int, width: int, rows: int, columns: int, keeps: bool,
           registers: int) -> tuple[str, str] | None:
    """(reason, detail) why a tile cannot be; None when it can."""
    if rows > height or columns > width:
        return "shape", f"{rows}x{columns} outputs of {height}x{width}"
    if rows * columns > 1 and rows * columns * conv.taps > _STRAIGHT_MADS:
        return "code", f"{rows * columns * conv.taps} multiply-adds in a tile"
    needed = rows * columns + conv.taps + 1 if keeps else registers_needed(conv, rows, columns)
    if needed > registers and (rows * columns > 1 or keeps):
        return "registers", f"{needed} of {registers}"
    return None


def _line_work(conv: ConvShape) -> int:
    width = conv.out_spatial[1]
    return conv.taps * (width if isinstance(width, int) else 256)


def _variants(group: Group, profile: Profile) -> Iterator[Variant]:
    conv, block = conv_of(group), profile.lanes(FLOAT32)
    if conv is None or block == 1 or not fits_depthwise(conv):
        return
    inputs = operand_layouts(group, extra_inputs(group, conv), 4, block) | {conv.x.name: blocked(block)}
    packed = blocks(conv.out_channels, block) * block * (conv.taps + 1) * 4
    rows, columns, keeps = tile_of(conv, profile, uses_math(group))
    planes = conv.y.shape[0] * blocks(conv.out_channels, block)
    _, lines = cut_planes(planes, conv.out_spatial[0], _line_work(conv), rows)
    knobs = {"rows": rows, "columns": columns, "weights": "kept" if keeps else "loaded", "lines": lines, "ahead": 0}
    variant = Variant("conv_depthwise", "conv_depthwise", inputs, {out: blocked(block) for out in group.outputs},
                      knobs, packed_bytes=packed, flops=conv.flops)
    yield replace(variant, cost=_cost(conv, knobs))


def _cost(conv: ConvShape, knobs: Mapping[str, KnobValue]) -> float:
    """Operations at peak speed: cycles of a tile beside those of its multiply-adds, and what borders cost."""
    rows, columns = int(knobs["rows"]), int(knobs["columns"])
    image = usual_upper(product(conv.y.shape[1:]))
    return 4.0 * tile_cycles(window_of(conv), rows, columns, knobs["weights"] == "kept") * image


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    conv = conv_of(group)
    assert conv is not None
    height = usual_upper(conv.out_spatial[0])
    lines = int(variant.knobs["lines"])
    choices = sorted({lines, max(1, lines // 2), min(height, 2 * lines), height})
    return (Knob("rows", tuple(range(1, _MOST_ROWS + 1))), Knob("columns", tuple(range(1, _MOST_COLUMNS + 1))),
            Knob("weights", ("loaded", "kept")), Knob("lines", tuple(choices)), Knob("ahead", (0, 2, 4, 8)))


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    conv = conv_of(group)
    assert conv is not None
    knobs = {**variant.knobs, **values}
    rows, columns = int(knobs["rows"]), int(knobs["columns"])
    height, width = (usual_upper(d) for d in conv.out_spatial)
    unfit = _unfit(window_of(conv), height, width, rows, columns, knobs["weights"] == "kept", simd_registers(profile))
    if unfit is not None:
        return Refusal(knobs, *unfit)                                                  # type: ignore[arg-type]
    if int(knobs["lines"]) < rows and int(knobs["lines"]) < usual_upper(conv.out_spatial[0]):
        return Refusal(knobs, "alignment", f"chunks of {knobs['lines']} lines, tiles of {rows}")
    return replace(variant, knobs=knobs, cost=_cost(conv, knobs))


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    conv, block, knobs = conv_of(group), profile.lanes(FLOAT32), variant.knobs
    assert conv is not None
    b = Builder("conv_depthwise")
    x, w, bias = (b.input(n, FLOAT32) for n in ("x", "w", "bias"))
    extras = extra_inputs(group, conv)
    buffers = {n: b.input("operand", group.values[n].dtype) for n in extras}
    buffers |= {n: b.output("y", group.values[n].dtype) for n in group.outputs}
    epilogue = Epilogue(group, conv.y, buffers, layouts, block)
    per_image = blocks(conv.out_channels, block)
    planes = conv.y.shape[0] * per_image
    with plane_chunks(b, planes, conv.out_spatial[0], _line_work(conv),
                      rows=int(knobs["lines"])) as (plane, y0, y1):
        n, out_block = b.let(plane // per_image, "n"), b.let(plane % per_image, "ob")
        in_plane = b.dim(product(conv.in_spatial)) * block
        code = DepthwisePlane(b, conv, block, x, w, bias, b.let(plane * in_plane, "x_plane"),
                              b.let(out_block * (conv.taps * block), "w_plane"), b.let(out_block * block, "bias_at"),
                              int(knobs["rows"]), int(knobs["columns"]), knobs["weights"] == "kept",
                              int(knobs["ahead"]), b.dim(planes) * in_plane - 1)

        def finish(acc: Accumulators, y: Expr, column: Expr) -> None:
            epilogue.finish(b, acc, n, out_block, y, column)

        code.lines(y0, y1, finish)
    func, dims = b.finish()
    packed = pack_depthwise_operands(group, conv, block)
    return Lowering((KernelCall(func, (conv.x.name, *packed, *extras, *group.outputs), dims),), packed)


CONV_DEPTHWISE = Kernel("conv_depthwise", ("Conv",), _variants, _lower, _knobs, _tune)
