"""Slices that need no copy, settled once layouts are known."""

from __future__ import annotations

from meta_infer.ir.group import Group, Variant
from meta_infer.ir.shapes import Dim, Expr, divisible, product


def slice_view_offset(group: Group, variant: Variant) -> Dim | None:
    """Element offset at which a contiguous Slice starts in its input, or None when it must be copied.

    Contiguous: one layout, step 1, and only one axis is cut, with every axis before it of size 1. Of a blocked layout
    that is the axis in blocks, and the slice begins with one.
    """
    node = group.anchor
    if node.op != "Slice" or group.epilogue or group.prologue or group.inputs[0] in group.constants:
        return None
    layout = variant.inputs.get(group.inputs[0])
    if layout is None or layout != variant.outputs.get(group.outputs[0]):
        return None
    shape, out = group.values[group.inputs[0]].shape, group.values[group.outputs[0]].shape
    starts, steps = node.attrs["starts"], node.attrs["steps"]
    assert isinstance(starts, tuple) and isinstance(steps, tuple)
    cut = [axis for axis, (a, b) in enumerate(zip(shape, out, strict=True)) if a != b]
    if any(step != 1 for step in steps) or len(cut) > 1:
        return None
    if not cut:
        return 0
    if any(d != 1 for d in shape[:cut[0]]):
        return None
    start = starts[cut[0]]
    assert isinstance(start, (int, Expr))
    if layout.block and (cut[0] != layout.axis or not divisible(start, layout.block)):
        return None
    return start * product(shape[cut[0] + 1:])
