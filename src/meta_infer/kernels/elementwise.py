"""Groups of elementwise ops alone: one pass over the output, any rank, any broadcasting, plain or blocked.

Knobs: `vectors`, registers that go through the ops together as one long vector, so that a chain of operations that
waits for itself fills its gaps with others; `grain`, elements of a chunk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Shape, Value
from meta_infer.ir.group import PLAIN, Group, Layout, Variant, blocked
from meta_infer.ir.loop import Buffer, Expr, const, maximum, minimum
from meta_infer.ir.shapes import Dim, ceildiv, divisible, product, usual_upper
from meta_infer.kernels.abreast import run_abreast
from meta_infer.kernels.collapse import collapse, unflatten
from meta_infer.kernels.fold import each_vector, row_chunks
from meta_infer.kernels.grain import grain_knob, grain_refusal, rows_cut, spans_cut
from meta_infer.kernels.kernel import Kernel, KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.kernels.math_use import waits_for_itself
from meta_infer.kernels.point import Point, apply_nodes, bind, channel_count, store_outputs
from meta_infer.kernels.rows import GRAIN
from meta_infer.ops.registry import OPS
from meta_infer.support.dtypes import FLOAT32

VECTORS = (1, 2, 4, 8)
# Of nodes that wait for themselves: math functions and the like.
_ABREAST = 4
# Registers that such a node keeps busy for every one of its vectors.
_HELD = 4


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
    knobs = {"vectors": _default_vectors(group, profile), "grain": GRAIN}
    yield Variant("elementwise", "plain", {n: PLAIN for n in inputs}, {n: PLAIN for n in group.outputs}, knobs)
    block = _block_of(group, profile)
    if block:
        wanted = {n: blocked(block) if _wants_block(group.values[n], shape) else PLAIN for n in inputs}
        yield Variant("elementwise", f"blocked{block}", wanted, {n: blocked(block) for n in group.outputs}, knobs)


def _is_flat(group: Group, block: int) -> bool:
    """Whether blocked operands all have the same elements in the same order: then any order will do."""
    shape = group.values[group.outputs[0]].shape
    return divisible(shape[1], block) and all(v.shape == shape for v in _operands(group).values()) and (
        not group.constants)


def _default_vectors(group: Group, profile: Profile) -> int:
    return _ABREAST if profile.lanes(FLOAT32) > 1 and waits_for_itself(group.nodes, group.values) else 1


def _row(group: Group, block: int) -> tuple[Dim, Dim]:
    """Rows, and elements of a row, that chunks are cut from."""
    shape = group.values[group.outputs[0]].shape
    if not block:
        merged = collapse(shape, _operands(group)).shape
        return product(merged[:-1]), merged[-1]
    if _is_flat(group, block):
        return 1, product(blocked(block).physical(shape))
    space = collapse(shape, _operands(group), (1, 2))
    axis, first = space.starts[1], space.starts[2]
    return product((*space.shape[:axis], ceildiv(space.shape[axis], block))), product(space.shape[first:]) * block


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    held, most = _registers(group), profile.vector_registers if profile.lanes(FLOAT32) > 1 else 1
    vectors = tuple(count for count in VECTORS if count == 1 or count * held <= most)
    return Knob("vectors", vectors), *grain_knob(group, variant, profile)


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    full, block = {**variant.knobs, **values}, variant.outputs[group.outputs[0]].block
    vectors, lanes, (rows, width) = int(full["vectors"]), profile.lanes(FLOAT32), _row(group, block)
    if vectors not in VECTORS:
        return Refusal(full, "alignment", f"{vectors} vectors are none of {VECTORS}")
    if vectors not in (1, _default_vectors(group, profile)):
        if lanes == 1:
            return Refusal(full, "isa", f"{vectors} vectors abreast where there are none")
        if vectors * _registers(group) > profile.vector_registers:
            return Refusal(full, "registers", f"{vectors} vectors of {_registers(group)} registers")
        if vectors * lanes > usual_upper(width):
            return Refusal(full, "shape", f"rows of {width} are less than {vectors} vectors")
    cut = rows_cut(rows, width) if block and not _is_flat(group, block) else spans_cut(rows, width)
    return grain_refusal(full, cut) or replace(variant, knobs=full)


def _registers(group: Group) -> int:
    """Those that the group needs at least for every vector abreast: of its operands, or of one long node."""
    if waits_for_itself(group.nodes, group.values):
        return _HELD
    widest = max(value.dtype.bits for value in _operands(group).values())
    return (len(group.inputs) + 1) * max(1, widest // 32)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    b = Builder("elementwise")
    buffers = bind(b, group)
    shape, block = group.values[group.outputs[0]].shape, layouts[group.outputs[0]].block
    vectors, grain = int(variant.knobs["vectors"]), int(variant.knobs["grain"])
    if not block:
        cut = _plain(b, group, shape, buffers, profile.lanes(FLOAT32), vectors, grain)
    elif _is_flat(group, block):
        flat = (product(blocked(block).physical(shape)),)
        values = {name: replace(value, shape=flat) for name, value in _operands(group).items()}
        cut = _plain(b, replace(group, values={**group.values, **values}), flat, buffers, block, vectors, grain)
    else:
        cut = _blocked(b, group, shape, buffers, layouts, block, vectors, grain)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims, pieces=_pieces(group, layouts, cut)),))


def _pieces(group: Group, layouts: Mapping[str, Layout], cut: str) -> dict[str, str]:
    """The operands that lie in memory as the output does: they are cut as it is."""
    first = group.outputs[0]
    return {name: cut for name in (*group.inputs, *group.outputs)
            if group.values[name].shape == group.values[first].shape
            and layouts.get(name, PLAIN) == layouts.get(first, PLAIN)}


def _plain(b: Builder, group: Group, shape: Shape, buffers: Mapping[str, Buffer], lanes: int, vectors: int,
           grain: int) -> str:
    """The loops, and how the output's memory is cut into chunks."""
    space = collapse(shape, _operands(group))
    merged, layouts = space.group(group), dict.fromkeys(buffers, PLAIN)
    lead, axis = space.shape[:-1], len(space.shape) - 1
    rows, width, abreast = b.dim(product(lead)), b.dim(space.shape[-1]), vectors * lanes
    strips = maximum((width + (grain - 1)) // grain, 1)
    per_chunk = maximum(const(grain) // maximum(width, 1), 1)
    with b.chunks((rows + (per_chunk - 1)) // per_chunk * strips) as chunk:
        some, parts = b.let(per_chunk, "per_chunk"), b.let(strips, "strips")
        first_row, first = b.let(chunk // parts * some, "row_first"), b.let(chunk % parts * grain, "first")
        last = b.let(minimum(first + grain, width), "last")
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
    return f"{product(lead)} x {space.shape[-1]} by {grain}"


def _blocked(b: Builder, group: Group, shape: Shape, buffers: Mapping[str, Buffer],
             layouts: Mapping[str, Layout], block: int, vectors: int, grain: int) -> str:
    """The loops, and how the output's memory is cut into chunks."""
    space = collapse(shape, _operands(group), (1, 2))
    merged, axis, spatial = space.group(group), space.starts[1], space.shape[space.starts[2]:]
    inner = {name: blocked(block, axis) if layouts.get(name, PLAIN).block else PLAIN for name in buffers}
    lead = (*space.shape[:axis], ceildiv(space.shape[axis], block))
    width = b.dim(product(spatial))
    with row_chunks(b, b.dim(product(lead)), width * block, grain) as (first, last):
        with b.loop(first, last, 1, "row") as row:
            *outer, channel_block = unflatten(b, row, lead)
            channel = b.let(channel_block * block, "channel")
            count = channel_count(b, space.shape, axis, channel, block)

            def visit(at: Expr, together: int) -> None:
                points = [Point(space.shape, (*outer, channel, *unflatten(b, at + j if j else at, spatial)), axis,
                                block, count) for j in range(together)]
                if together == 1:
                    found = [apply_nodes(b, group.nodes, merged.values, {}, buffers, inner, points[0])]
                else:
                    found = run_abreast(b, merged, group.nodes, {}, buffers, inner, points)
                for point, known in zip(points, found, strict=True):
                    store_outputs(b, merged, known, buffers, inner, point)

            start: Expr = const(0)
            if vectors > 1:
                start = b.let(width // vectors * vectors, "start")
                with b.loop(0, start, vectors, "i") as i:
                    visit(i, vectors)
            with b.loop(start, width, 1, "i") as i:
                visit(i, 1)
    return f"rows of {product(spatial) * block}, {product(lead)} of them, by {grain}"


ELEMENTWISE = Kernel("elementwise", tuple(op.name for op in OPS if op.expr is not None), _variants, _lower,
                     _knobs, _tune)
