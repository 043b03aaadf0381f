"""Concat: every input is copied to its place, one launch each.

In a blocked layout, channels concatenate as whole blocks when every input but the last fills its blocks; else blocks
of the result are merged from those of two inputs, in one launch (channel_moves.py). Knob of the others: `grain`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant, blocked
from meta_infer.ir.loop import minimum
from meta_infer.ir.shapes import Dim, divisible, product, usual_upper
from meta_infer.kernels.grain import Cut, grain_knob, spans_cut, tune_grain
from meta_infer.kernels.kernel import Kernel, KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.kernels.movement.channel_moves import (
    lower_moves,
    moves_knobs,
    moves_of,
    moves_variant,
    tune_moves,
)
from meta_infer.kernels.rows import GRAIN, copy_lanes, copy_run
from meta_infer.support.dtypes import FLOAT32, DType


def _axis(group: Group) -> int:
    axis = group.anchor.attrs["axis"]
    assert isinstance(axis, int)
    return axis


def variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    yield Variant("concat", "plain", {n: PLAIN for n in group.inputs}, {group.outputs[0]: PLAIN}, {"grain": GRAIN})
    out, block = group.values[group.outputs[0]], profile.lanes(FLOAT32)
    if out.dtype != FLOAT32 or out.rank < 3 or not isinstance(out.shape[1], int):
        return
    on_channels = _axis(group) == 1
    whole = all(divisible(group.values[n].shape[1], block) for n in group.anchor.inputs[:-1])
    if not on_channels or whole:
        layout, knobs = blocked(block), {"grain": GRAIN}
        yield Variant("concat", "blocked", {n: layout for n in group.inputs}, {group.outputs[0]: layout}, knobs)
        return
    moves = moves_of(group)
    merged = moves_variant(group, moves, "concat", "merged", profile) if moves is not None else None
    if merged is not None:
        yield merged


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    return (moves_knobs if variant.name == "merged" else grain_knob)(group, variant, profile)


def _cut(group: Group, variant: Variant) -> Cut:
    """Spans of the longest part of an input that stays together."""
    axis, layout = _axis(group), variant.outputs[group.outputs[0]]
    longest = max(usual_upper(product(layout.physical(group.values[n].shape)[axis:])) for n in group.anchor.inputs)
    return spans_cut(1, longest)


_tune_spans = tune_grain(_cut)


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    return (tune_moves if variant.name == "merged" else _tune_spans)(group, variant, values, profile)


def _copy_box(dtype: DType, outer: Dim, inner: Dim, out_inner: Dim, offset: Dim, lanes: int, grain: int) -> tuple:  # type: ignore[type-arg]
    """out[o, offset : offset + inner] = in[o, :] for o < outer."""
    b = Builder("concat")
    src, dst = b.input("part", dtype), b.output("out", dtype)
    width = b.dim(inner)
    pieces = (width + grain - 1) // grain
    with b.chunks(b.dim(outer) * pieces) as chunk:
        row, start = b.let(chunk // pieces, "row"), b.let((chunk % pieces) * grain, "start")
        copy_run(b, src, b.let(row * width + start), dst, b.let(row * b.dim(out_inner) + b.dim(offset) + start),
                 b.let(minimum(width - start, grain)), lanes)
    return b.finish()


def lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    if variant.name == "merged":
        moves = moves_of(group)
        assert moves is not None
        return lower_moves(group, moves, variant, profile, "concat")
    axis, out = _axis(group), group.values[group.outputs[0]]
    layout = layouts[out.name]
    out_shape = layout.physical(out.shape)
    offset: Dim = 0
    calls = []
    for name in group.anchor.inputs:
        shape = layout.physical(group.values[name].shape)
        inner = product(shape[axis:])
        func, dims = _copy_box(out.dtype, product(shape[:axis]), inner, product(out_shape[axis:]), offset,
                               copy_lanes(profile, out.dtype), int(variant.knobs["grain"]))
        calls.append(KernelCall(func, (name, out.name), dims))
        offset = offset + inner
    return Lowering(tuple(calls))


CONCAT = Kernel("concat", ("Concat",), variants, lower, _knobs, _tune)
