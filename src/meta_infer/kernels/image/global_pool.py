"""Global average and max pooling: each channel's plane to one number.

    blocked: x [N, CB, P, c] -> one vector per block, kept in several registers until the end of the plane
    plain:   x [N, C, P]     -> vectors along the plane, their lanes joined at the end

A blocked input may give a plain output: [N, C, 1, 1] is then dense, ready for the views that follow it. Knobs:
`vectors`, accumulators of a plane, and `planes` of a chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Value
from meta_infer.ir.group import PLAIN, Group, Layout, Variant, blocked
from meta_infer.ir.loop import Buffer, Expr, Type, cast, const, maximum, reduce
from meta_infer.ir.shapes import Dim, product, usual_upper
from meta_infer.kernels.blocked import blockable, blocks, operand_layouts
from meta_infer.kernels.fold import identity
from meta_infer.kernels.kernel import Kernel, KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.kernels.plane_chunks import cut_planes, plane_chunks
from meta_infer.kernels.point import Point, apply_nodes, bind, channel_count, store_outputs
from meta_infer.support.dtypes import FLOAT32

WAYS = 4
"""Accumulators where nothing else has been chosen."""
_VECTORS = (1, 2, 4, 8)


def _variants(group: Group, profile: Profile) -> Iterator[Variant]:
    x, y, block = group.in_value(0), group.values[group.anchor.outputs[0]], profile.lanes(FLOAT32)
    if x is None or group.prologue or any(group.values[n.outputs[0]].shape != y.shape for n in group.epilogue):
        return
    if block > 1 and x.dtype == FLOAT32 and blockable(group) and x.name not in _epilogue_reads(group):
        others = operand_layouts(group, [n for n in group.inputs if n != x.name], y.rank, block)
        for name, layout in (("blocked_to_plain", PLAIN), ("blocked", blocked(block))):
            yield Variant("global_pool", name, others | {x.name: blocked(block)}, {n: layout for n in group.outputs},
                          _default(x, block))
    yield Variant("global_pool", "plain", {n: PLAIN for n in group.inputs}, {n: PLAIN for n in group.outputs},
                  _default(x, 1))


def _planes(x: Value, block: int) -> Dim:
    return product((x.shape[0], blocks(x.shape[1], block) if block > 1 else x.shape[1]))


def _default(x: Value, block: int) -> dict[str, KnobValue]:
    return {"vectors": WAYS, "planes": cut_planes(_planes(x, block), 1, usual_upper(product(x.shape[2:])))[0]}


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    planes = int(variant.knobs["planes"])
    return Knob("vectors", _VECTORS), Knob("planes", tuple(sorted({max(1, planes // 4), planes, 4 * planes})))


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    x, full = group.in_value(0), {**variant.knobs, **values}
    assert x is not None
    block = variant.inputs[x.name].block or 1
    default, vectors, planes = _default(x, block), int(full["vectors"]), int(full["planes"])
    most, size = usual_upper(_planes(x, block)), usual_upper(product(x.shape[2:]))
    if vectors not in _VECTORS:
        return Refusal(full, "alignment", f"{vectors} accumulators are none of {_VECTORS}")
    if vectors != default["vectors"] and not vectors * (profile.lanes(x.dtype) if block == 1 else 1) <= size:
        return Refusal(full, "shape", f"{vectors} vectors of a plane of {size}")
    if planes != default["planes"] and not 0 < planes <= most:
        return Refusal(full, "shape", f"chunks of {planes} planes of {most}")
    return replace(variant, knobs=full)


def _epilogue_reads(group: Group) -> set[str]:
    return {name for node in group.epilogue for name in node.inputs}


def fold_plane(b: Builder, x: Buffer, first: Expr, count: Expr, lanes: int, is_max: bool,
               ways: int = WAYS) -> Expr:
    """Sum or maximum of `count` vectors of `lanes` one after another from element `first`, in `ways` accumulators."""
    start = const(identity("max", x.dtype) if is_max else 0, Type(x.dtype, lanes))
    acc = [b.var(start, "acc") for _ in range(ways)]

    def join(a: Expr, c: Expr) -> Expr:
        return maximum(a, c) if is_max else a + c

    whole = b.let(count // ways * ways, "whole")
    with b.loop(0, whole, ways, name="p") as p:
        for j in range(ways):
            b.assign(acc[j], join(b.load(x, first + (p + j) * lanes, lanes), acc[j]))
    with b.loop(whole, count, name="p") as p:
        b.assign(acc[0], join(b.load(x, first + p * lanes, lanes), acc[0]))
    sums: list[Expr] = list(acc)
    while len(sums) > 1:
        sums = [join(a, c) for a, c in zip(sums[::2], sums[1::2], strict=True)]
    return b.let(sums[0], "total")


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    x, y = group.in_value(0), group.values[group.anchor.outputs[0]]
    assert x is not None
    is_max = group.anchor.op == "GlobalMaxPool"
    block = layouts[x.name].block or 1
    b = Builder("global_max_pool" if is_max else "global_average_pool")
    buffers = bind(b, group)
    channels: Dim = blocks(x.shape[1], block) if block > 1 else x.shape[1]
    size = product(x.shape[2:])
    ways, planes = int(variant.knobs["vectors"]), int(variant.knobs["planes"])
    with plane_chunks(b, _planes(x, block), 1, usual_upper(size), planes_of_chunk=planes) as (plane, _, _):
        n, channel = b.let(plane // b.dim(channels), "n"), b.let(plane % b.dim(channels) * block, "channel")
        positions = b.dim(size)
        first = b.let(plane * positions * block, "first")
        if block > 1:
            total = fold_plane(b, buffers[x.name], first, positions, block, is_max, ways)
        else:
            total = _plain_total(b, buffers[x.name], x, first, positions, is_max, profile, ways)
        value = total if is_max else b.let(total / cast(maximum(positions, 1), x.dtype), "mean")
        count = channel_count(b, y.shape, 1, channel, block) if block > 1 else None
        point = Point(y.shape, (n, channel, *(const(0) for _ in y.shape[2:])), 1, block, count)
        known = apply_nodes(b, group.epilogue, group.values, {y.name: value}, buffers, layouts, point)
        store_outputs(b, group, known, buffers, layouts, point)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


def _plain_total(b: Builder, buffer: Buffer, x: Value, first: Expr, positions: Expr, is_max: bool,
                 profile: Profile, ways: int) -> Expr:
    """Fold a dense plane: whole vectors, then what is left one by one."""
    lanes = profile.lanes(x.dtype)
    vectors = b.let(positions // lanes, "vectors")
    total = b.var(reduce("max" if is_max else "+", fold_plane(b, buffer, first, vectors, lanes, is_max, ways)), "sum")
    with b.loop(b.let(positions // lanes * lanes, "rest"), positions, name="p") as p:
        value = b.load(buffer, first + p)
        b.assign(total, maximum(value, total) if is_max else total + value)
    return total


GLOBAL_POOL = Kernel("global_pool", ("GlobalAveragePool", "GlobalMaxPool"), _variants, _lower, _knobs, _tune)
