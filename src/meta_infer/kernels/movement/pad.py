"""Pad: constant borders by rows; reflect, edge and wrap element by element. Negative pads crop.

Knob: `grain`, elements of a chunk (grain.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Buffer, Expr, Type, const, maximum, minimum, select, splat
from meta_infer.kernels.grain import grain_knob, output_rows, tune_grain
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.point import bind
from meta_infer.kernels.rows import GRAIN, along_row, copy_lanes, each_row, strides_of
from meta_infer.ops.attrs import dims_of

MODES = ("constant", "reflect", "edge", "wrap")


def variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue or group.anchor.attrs["mode"] not in MODES:
        return
    yield Variant("pad", "plain", {group.inputs[0]: PLAIN}, {group.outputs[0]: PLAIN}, {"grain": GRAIN})


def _source(b: Builder, mode: str, at: Expr, size: Expr) -> Expr:
    """The input coordinate that position `at` (which may lie outside) shows; size >= 1."""
    if mode == "edge":
        return maximum(minimum(at, size - 1), 0)
    if mode == "wrap":
        return b.let((at + size * const(1 << 20)) % size)
    period = b.let(maximum((size - 1) * 2, 1))
    folded = b.let((at + period * const(1 << 20)) % period)
    return minimum(folded, period - folded)


def lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    pads, mode, fill = dims_of(group.anchor.attrs, "pads"), group.anchor.attrs["mode"], group.anchor.attrs["value"]
    assert isinstance(mode, str) and isinstance(fill, (int, float))
    value, out = group.values[group.inputs[0]], group.values[group.outputs[0]]
    b = Builder(f"pad_{mode}")
    buffers = bind(b, group)
    begins = [b.dim(amount) for amount in pads[:len(pads) // 2]]
    src, dst = buffers[value.name], buffers[out.name]
    strides = strides_of(b, value.shape)
    with each_row(b, out.shape, int(variant.knobs["grain"])) as (coords, base):
        at: Expr = const(0)
        inside: Expr | None = None
        for axis, coord in enumerate(coords):
            place, size = b.let(coord - begins[axis]), b.dim(value.shape[axis])
            if mode == "constant":
                here = place.ge(0) & place.lt(size)
                inside = here if inside is None else inside & here
            else:
                place = b.let(_source(b, mode, place, size))
            at = at + place * strides[axis]
        at = b.let(at, "at")
        width, length = b.dim(out.shape[-1] if out.shape else 1), b.dim(value.shape[-1] if value.shape else 1)
        shift = begins[-1] if begins else const(0)
        if mode == "constant":
            _constant_row(b, src, dst, at, base, inside, shift, length, width, fill, copy_lanes(profile, src.dtype))
        else:
            with b.loop(0, width, name="x") as x:
                b.store(dst, base + x, b.load(src, at + _source(b, mode, b.let(x - shift), length)))
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


def _constant_row(b: Builder, src: Buffer, dst: Buffer, at: Expr, base: Expr, inside: Expr | None, shift: Expr,
                  length: Expr, width: Expr, fill: int | float, lanes: int) -> None:
    """[fill ... | input row | ... fill]; a row that lies wholly outside has no middle."""
    first = b.let(minimum(maximum(shift, 0), width), "first")
    last = b.let(maximum(minimum(length + shift, width), first), "last")
    if inside is not None:
        first, last = b.let(select(inside, first, width)), b.let(select(inside, last, width))
    value = const(fill, Type(src.dtype))

    def border(x: Expr, n: int, count: Expr | None) -> None:
        b.store(dst, base + x, splat(value, n), count)

    along_row(b, 0, first, lanes, border)
    along_row(b, first, last, lanes, lambda x, n, count: b.store(
        dst, base + x, b.load(src, at + x - shift, n, count), count))
    along_row(b, last, width, lanes, border)


PAD = Kernel("pad", ("Pad",), variants, lower, grain_knob, tune_grain(output_rows))
