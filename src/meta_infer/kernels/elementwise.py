"""Groups of elementwise ops alone: one pass over the output, any rank, any broadcasting, plain or blocked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Shape, Value
from meta_infer.ir.group import PLAIN, Group, Layout, Variant, blocked
from meta_infer.ir.loop import Buffer, Expr, const, maximum, minimum
from meta_infer.ir.shapes import ceildiv, divisible, product
from meta_infer.kernels.collapse import collapse, unflatten
from meta_infer.kernels.fold import each_vector, row_chunks
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.math_use import waits_for_itself
from meta_infer.kernels.point import Point, apply_nodes, bind, channel_count, store_outputs
from meta_infer.ops.registry import OPS
from meta_infer.support.dtypes import FLOAT32

# Elements of a chunk: tens of microseconds where memory is the limit.
GRAIN = 16384
# Vectors that go through math functions together, as one long vector.
_ABREAST = 4


def _operands(group: Group) -> dict[str, Value]:
    return {name: group.values[name] for name in (*group.inputs, *group.outputs)}


def _block_of(group: Group, profile: Profile) -> int:
    """The channel block this group could work in, 0 for none."""
    shape, lanes = group.values[group.outputs[0]].shape, profile.lanes(FLOAT32)
    if len(shape) < 3 or lanes == 1 or not isinstance(shape[1], int) or shape[1] == 1:
        return 0
    for name in group.inputs:
        value = group.values[name]
        channel = 1 - (len(shape) - value.rank)
        strided = channel >= 0 and value.shape[channel] != 1 and any(d != 1 for d in value.shape[channel + 1:])
        if strided and (name in group.constants or value.rank != len(shape)):
            return 0                                      # such an operand exists in plain order only
    return lanes


def _wants_block(value: Value, shape: Shape) -> bool:
    return value.rank == len(shape) and value.shape[1] != 1


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    shape = group.values[group.outputs[0]].shape
    if any(group.values[name].shape != shape for name in group.outputs):
        return
    inputs = [name for name in group.inputs if name not in group.constants]
    yield Variant("elementwise", "plain", {n: PLAIN for n in inputs}, {n: PLAIN for n in group.outputs})
    block = _block_of(group, profile)
    if block:
        wanted = {n: blocked(block) if _wants_block(group.values[n], shape) else PLAIN for n in inputs}
        yield Variant("elementwise", f"blocked{block}", wanted, {n: blocked(block) for n in group.outputs},
                      {"block": block})


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    b = Builder("elementwise")
    buffers = bind(b, group)
    shape, block = group.values[group.outputs[0]].shape, int(variant.knobs.get("block", 0))
    if not block:
        cut = _plain(b, group, shape, buffers, profile)
    elif divisible(shape[1], block) and all(v.shape == shape for v in _operands(group).values()) and (
            not group.constants):
        flat = (product(blocked(block).physical(shape)),)      # the same order in all of them: any order will do
        values = {name: replace(value, shape=flat) for name, value in _operands(group).items()}
        cut = _plain(b, replace(group, values={**group.values, **values}), flat, buffers, profile)
    else:
        cut = _blocked(b, group, shape, buffers, layouts, block)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims, pieces=_pieces(group, layouts, cut)),))


def _pieces(group: Group, layouts: Mapping[str, Layout], cut: str) -> dict[str, str]:
    """The operands that lie in memory as the output does: they are cut as it is."""
    first = group.outputs[0]
    return {name: cut for name in (*group.inputs, *group.outputs)
            if group.values[name].shape == group.values[first].shape
            and layouts.get(name, PLAIN) == layouts.get(first, PLAIN)}


def _plain(b: Builder, group: Group, shape: Shape, buffers: Mapping[str, Buffer], profile: Profile) -> str:
    """The loops, and how the output's memory is cut into chunks."""
    space = collapse(shape, _operands(group))
    merged, layouts = space.group(group), dict.fromkeys(buffers, PLAIN)
    lead, axis = space.shape[:-1], len(space.shape) - 1
    rows, width, lanes = b.dim(product(lead)), b.dim(space.shape[-1]), profile.lanes(FLOAT32)
    abreast = _ABREAST * lanes if lanes > 1 and waits_for_itself(group.nodes, group.values) else lanes
    strips = maximum((width + (GRAIN - 1)) // GRAIN, 1)
    per_chunk = maximum(const(GRAIN) // maximum(width, 1), 1)
    with b.chunks((rows + (per_chunk - 1)) // per_chunk * strips) as chunk:
        some, parts = b.let(per_chunk, "per_chunk"), b.let(strips, "strips")
        first_row, first = b.let(chunk // parts * some, "row_first"), b.let(chunk % parts * GRAIN, "first")
        last = b.let(minimum(first + GRAIN, width), "last")
        with b.loop(first_row, minimum(first_row + some, rows), 1, "row") as row:
            coords = unflatten(b, row, lead)

            def visit(at: Expr, count: Expr | None, together: int = lanes) -> None:
                point = Point(space.shape, (*coords, at), axis, together, count)
                known = apply_nodes(b, group.nodes, merged.values, {}, buffers, layouts, point)
                store_outputs(b, merged, known, buffers, layouts, point)

            start = first
            if abreast > lanes:
                start = b.let(first + (last - first) // abreast * abreast, "start")
                with b.loop(first, start, abreast, "i") as i:
                    visit(i, None, abreast)
            each_vector(b, start, last, lanes, visit)
    return f"{product(lead)} x {space.shape[-1]} by {GRAIN}"


def _blocked(b: Builder, group: Group, shape: Shape, buffers: Mapping[str, Buffer],
             layouts: Mapping[str, Layout], block: int) -> str:
    """The loops, and how the output's memory is cut into chunks."""
    space = collapse(shape, _operands(group), (1, 2))
    merged, axis, spatial = space.group(group), space.starts[1], space.shape[space.starts[2]:]
    inner = {name: blocked(block, axis) if layouts.get(name, PLAIN).block else PLAIN for name in buffers}
    lead = (*space.shape[:axis], ceildiv(space.shape[axis], block))
    width = b.dim(product(spatial))
    with row_chunks(b, b.dim(product(lead)), width * block, GRAIN) as (first, last):
        with b.loop(first, last, 1, "row") as row:
            *outer, channel_block = unflatten(b, row, lead)
            channel = b.let(channel_block * block, "channel")
            count = channel_count(b, space.shape, axis, channel, block)
            with b.loop(0, width, 1, "i") as i:
                point = Point(space.shape, (*outer, channel, *unflatten(b, i, spatial)), axis, block, count)
                known = apply_nodes(b, group.nodes, merged.values, {}, buffers, inner, point)
                store_outputs(b, merged, known, buffers, inner, point)
    return f"rows of {product(spatial) * block}, {product(lead)} of them, by {GRAIN}"


ELEMENTWISE = Kernel("elementwise", tuple(op.name for op in OPS if op.expr is not None), _variants, _lower)
