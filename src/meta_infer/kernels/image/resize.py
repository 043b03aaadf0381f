"""Resize: nearest, linear and cubic, any number of axes.

    blocked   the last two axes at most, channels in blocks: resize_rows.py
    rows      the last two axes at most, plain: resize_rows.py
    any       for output element:  sum over the product of the taps of all resized axes (resize_taps.py)

Knob of the first two: `lines`, output lines of a chunk; the third has none, it takes what is rare.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product as combinations

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant, blocked
from meta_infer.ir.loop import Buffer, Expr, const
from meta_infer.ir.shapes import product
from meta_infer.kernels.blocked import blocks
from meta_infer.kernels.image.resize_rows import RowsResize, lower_rows
from meta_infer.kernels.image.resize_taps import TRANSFORMS, AxisResize, Tap
from meta_infer.kernels.kernel import Kernel, KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.kernels.plane_chunks import cut_planes, lines_knob, lines_refusal
from meta_infer.kernels.point import bind
from meta_infer.kernels.rows import copy_lanes, each_row, strides_of
from meta_infer.ops.attrs import floats_of
from meta_infer.support.dtypes import FLOAT32


def _axes(group: Group) -> list[AxisResize]:
    attrs = group.anchor.attrs
    x, y = group.values[group.inputs[0]], group.values[group.outputs[0]]
    scales: Sequence[float | None] = floats_of(attrs, "scales", ()) or (None,) * x.rank
    return [AxisResize(attrs, size, out, scale) for size, out, scale in zip(x.shape, y.shape, scales, strict=True)]


def _rows(group: Group, name: str, lines: int, profile: Profile) -> RowsResize | None:
    """The group line by line, as variant `name` does it; None when other axes are resized too, or none is."""
    x, axes = group.values[group.inputs[0]], _axes(group)
    if not axes or all(axis.is_same for axis in axes[-2:]) or not all(axis.is_same for axis in axes[:-2]):
        return None
    single = AxisResize(group.anchor.attrs, 1, 1, None)                # a row is a plane of one line
    if name == "rows":
        vertical = axes[-2] if len(axes) > 1 else single
        planes = product(axis.size for axis in axes[:-2])
        return RowsResize(x.dtype, planes, vertical, axes[-1], 1, copy_lanes(profile, x.dtype), lines)
    block = profile.lanes(FLOAT32)
    if block == 1 or x.dtype != FLOAT32 or len(axes) < 3 or not axes[1].is_same or not isinstance(axes[1].size, int):
        return None
    vertical = axes[-2] if len(axes) > 3 else single
    planes = product((axes[0].size, blocks(axes[1].size, block), *(axis.size for axis in axes[2:-2])))
    return RowsResize(x.dtype, planes, vertical, axes[-1], block, block, lines)


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    attrs, source, target = group.anchor.attrs, group.inputs[0], group.outputs[0]
    if group.epilogue or group.prologue or attrs["coordinate_transformation_mode"] not in TRANSFORMS:
        return
    if group.values[source].dtype != FLOAT32 and attrs["mode"] != "nearest":
        return
    for name in ("blocked", "rows"):
        plan = _rows(group, name, 0, profile)
        if plan is None:
            continue
        layout = PLAIN if name == "rows" else blocked(plan.block)
        _, lines = cut_planes(plan.planes, plan.vertical.out, plan.line_work)
        yield Variant("resize", name, {source: layout}, {target: layout}, {"lines": lines})
    yield Variant("resize", "any", {source: PLAIN}, {target: PLAIN})


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    plan = _rows(group, variant.name, 0, profile)
    if plan is None or not variant.knobs:
        return ()
    return (lines_knob(int(variant.knobs["lines"]), plan.vertical.out),)


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    full = {**variant.knobs, **values}
    plan = _rows(group, variant.name, 0, profile)
    refused = lines_refusal(full, plan.vertical.out) if plan is not None and full else None
    return refused or Variant("resize", variant.name, variant.inputs, variant.outputs, full)


def _weighted_sum(b: Builder, taps: Sequence[Sequence[Tap]], strides: Sequence[Expr], base: Expr,
                  src: Buffer) -> Expr:
    total: Expr | None = None
    for combination in combinations(*taps):
        at, weight = base, None
        for (position, w), stride in zip(combination, strides, strict=True):
            at = at + position * stride
            if w is not None:
                weight = w if weight is None else weight * w
        value = b.load(src, at)
        term = value if weight is None else value * weight
        total = term if total is None else b.let(total + term)
    assert total is not None
    return total


def _lower_any(group: Group) -> Lowering:
    value, out, axes = group.values[group.inputs[0]], group.values[group.outputs[0]], _axes(group)
    b = Builder(f"resize_{group.anchor.attrs['mode']}")
    buffers = bind(b, group)
    src, dst = buffers[value.name], buffers[out.name]
    strides = strides_of(b, value.shape)

    def axis_taps(axis: AxisResize, x: Expr) -> list[Tap]:
        return [(x, None)] if axis.is_same else axis.taps(b, x)

    with each_row(b, out.shape) as (coords, base):
        outer = [axis_taps(axes[i], x) for i, x in enumerate(coords)]
        fixed = const(0)
        moving, moving_strides = [], []
        for taps, stride in zip(outer, strides, strict=False):
            if len(taps) == 1 and taps[0][1] is None:
                fixed = fixed + taps[0][0] * stride
            else:
                moving.append(taps)
                moving_strides.append(stride)
        fixed = b.let(fixed, "fixed")
        with b.loop(0, b.dim(out.shape[-1]), name="x") as x:
            taps = axis_taps(axes[-1], x)
            b.store(dst, base + x, _weighted_sum(b, [*moving, taps], [*moving_strides, strides[-1]], fixed, src))
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    if variant.name == "any":
        return _lower_any(group)
    plan = _rows(group, variant.name, int(variant.knobs["lines"]), profile)
    assert plan is not None
    return Lowering((lower_rows(plan, f"resize_{plan.mode}", (group.inputs[0], group.outputs[0])),))


RESIZE = Kernel("resize", ("Resize",), _variants, _lower, _knobs, _tune)
