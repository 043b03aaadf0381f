"""Concats that need no copy: whoever makes their parts writes them where they belong.

    %a = conv(..); %b = conv(..); %y = concat(%a, %b)    ->    %a, %b = views of %y; conv(.. %a); conv(.. %b)

The mirror image of views.py: the parts of a Concat lie one after the other where every axis before its own has size 1
in memory, and each is made, in the Concat's layout, by a kernel of the same plan. Others may read a part as well: it
is written once. A part is no graph output, no value that a region captures, and lies in one Concat only, or in several
of which one has the parts of another in a row. Views of all of a part (a Reshape) are followed to what was written.
Sizes that only running can tell are left alone: the memory of the whole has to be known when the first part is
written.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from meta_infer.ir.group import PLAIN, Format, Group, Layout, Plan, Variant
from meta_infer.ir.pooling import late_symbols
from meta_infer.ir.program import BufferDecl
from meta_infer.ir.shapes import Dim, divisible, product
from meta_infer.lower.program_builder import ProgramBuilder
from meta_infer.lower.views import slice_view_offset


def part_offsets(group: Group, variant: Variant) -> tuple[Dim, ...] | None:
    """Element offset at which each input of a Concat lies in the result, or None when they do not lie in one piece."""
    node = group.anchor
    if node.op != "Concat" or group.epilogue or group.prologue:
        return None
    layout, axis = variant.outputs[group.outputs[0]], node.attrs["axis"]
    assert isinstance(axis, int)
    shapes = [group.values[name].shape for name in node.inputs]
    if len(shapes) < 2 or any(product(shape) == 0 for shape in shapes):
        return None                                            # nothing to join
    if any(variant.inputs.get(name) != layout for name in node.inputs):
        return None
    if any(dim != 1 for dim in layout.physical(group.values[group.outputs[0]].shape)[:axis]):
        return None
    if layout.block and axis == layout.axis and not all(divisible(shape[axis], layout.block) for shape in shapes[:-1]):
        return None                                            # parts share a block
    offsets: list[Dim] = [0]
    for shape in shapes[:-1]:
        offsets.append(offsets[-1] + product(layout.physical(shape)))
    return tuple(offsets)


@dataclass(frozen=True)
class _Makers:
    """What a plan says of who makes its values, and which of them stay where they are."""

    made: frozenset[str]                       # by kernels, which may write anywhere
    views: dict[str, str]                      # of all of another value
    kept: frozenset[str]


def _makers(plan: Plan) -> _Makers:
    views: dict[str, str] = {}
    made, kept = set(), set(plan.graph.outputs)
    for planned in plan.groups:
        group = planned.group
        kept |= {name for region in group.anchor.regions for name in region.captures}
        if planned.variant.kernel == "view":
            source, out = group.values[group.inputs[0]], group.values[group.outputs[0]]
            # A view whose size is compared while running may be smaller than what is written before that.
            if product(source.shape) == product(out.shape):
                views[out.name] = source.name
        elif planned.variant.kernel != "region" and slice_view_offset(group, planned.variant) is None:
            made |= set(group.outputs)
    return _Makers(frozenset(made), views, frozenset(kept))


def _written(plan: Plan, makers: _Makers, name: str, layout: Layout) -> str | None:
    """The value that a kernel writes where `name` is read; None when it cannot be written elsewhere."""
    while name not in makers.kept:
        if name in makers.made:
            return name if plan.formats[name] == Format(plan.graph.values[name].dtype, layout) else None
        if name not in makers.views or layout != PLAIN:
            return None
        name = makers.views[name]
    return None


def _in_order(builder: ProgramBuilder, places: Sequence[BufferDecl], offsets: Sequence[Dim]) -> bool:
    """Whether all are views of one buffer of the arena that lie there as they do in the result."""
    first = places[0]
    return first.alias is not None and builder.buffers[builder.root(first.alias)].kind == "temp" and all(
        place.alias == first.alias and place.offset == first.offset + offset
        for place, offset in zip(places, offsets, strict=True))


def place_parts(plan: Plan, builder: ProgramBuilder, given: Collection[str]) -> frozenset[str]:
    """Give the parts of Concats their places in `builder.where`; the results that nothing is left to do for.

    The last Concat comes first: one that is a part of another has its own place by then, and one whose parts lie one
    after the other in the result of another is a view of that. `given` are the symbols that inputs tell.
    """
    makers, done = _makers(plan), set()
    for planned in reversed(plan.groups):
        offsets = part_offsets(planned.group, planned.variant)
        if offsets is None:
            continue
        whole = planned.group.values[planned.group.outputs[0]]
        layout = planned.variant.outputs[whole.name]
        written = [_written(plan, makers, name, layout) for name in planned.group.anchor.inputs]
        parts = [name for name in written if name is not None]
        if whole.name in makers.kept or len({*parts}) != len(written) or late_symbols(product(whole.shape), given):
            continue
        key = whole.name, layout
        places = [builder.buffers[builder.where[name, layout]] for name in parts if (name, layout) in builder.where]
        if not places:
            if key not in builder.where:
                builder.where[key] = builder.temp(whole.name, whole.dtype, whole.shape, layout, whole.origin)
            elif builder.buffers[builder.root(builder.where[key])].kind != "temp":
                continue
            for name, offset in zip(parts, offsets, strict=True):
                builder.view(plan.graph.values[name], builder.where[key], offset, layout)
        elif key not in builder.where and len(places) == len(parts) and _in_order(builder, places, offsets):
            assert places[0].alias is not None
            builder.view(whole, places[0].alias, places[0].offset, layout)
        else:
            continue
        done.add(whole.name)
    return frozenset(done)
