"""Channels brought into another order in blocked layouts: Concat, channel shuffles and slices, as one pass.

    {Concat, Reshape [N, 2, C/2, H, W], Transpose, Reshape [N, C, H, W], Slice, Slice}

Whatever moves whole channels is a table: channel c of the result is channel j of source i. Of each block of the result
it is known at build which blocks of which sources hold its lanes, so they are loaded and merged in registers:

    chunk: image n, some positions (the knob `positions`)
        for block of each result:  for position:  y[block] = shuffle(x_i[block], x_k[block], ...)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Node
from meta_infer.ir.group import Group, Layout, Variant, blocked
from meta_infer.ir.loop import Buffer, Expr, Type, const, minimum, shuffle
from meta_infer.ir.shapes import ceildiv, product, usual_upper
from meta_infer.kernels.blocked import blocks
from meta_infer.kernels.guess import ELEMENT_COST
from meta_infer.kernels.kernel import Kernel, KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.ops.attrs import dims_of, ints_of
from meta_infer.support.dtypes import FLOAT32

POSITIONS = 64
"""Of a chunk where nothing else has been chosen."""
_POSITIONS = (16, POSITIONS, 256)
_MOST_BLOCKS = 300


@dataclass(frozen=True)
class ChannelMoves:
    """`tables` has, for each output, the (source, channel) of each of its channels."""

    sources: tuple[str, ...]
    tables: Mapping[str, tuple[tuple[int, int], ...]]


def moves_of(group: Group) -> ChannelMoves | None:
    """The group as channel moves; None when a node does anything else, or sizes are not known."""
    sources = tuple(dict.fromkeys(name for node in group.nodes for name in node.inputs if name in group.inputs))
    first = group.values[sources[0]]
    if first.rank < 3 or any(group.values[name].shape[2:] != first.shape[2:] or group.values[name].dtype != FLOAT32
                             or not isinstance(group.values[name].shape[1], int) for name in sources):
        return None
    # Of every value the channels' numbers, shaped as the dims between the first and the spatial ones.
    numbers: dict[str, np.ndarray] = {}
    start = 0
    for name in sources:
        channels = int(group.values[name].shape[1])                               # type: ignore[arg-type]
        numbers[name] = np.arange(start, start + channels)
        start += channels
    spatial = first.rank - 2
    for node in group.nodes:
        moved = _moved(node, group, numbers, spatial)
        if moved is None:
            return None
        numbers[node.outputs[0]] = moved
    if any(numbers[name].ndim != 1 for name in group.outputs):
        return None
    origin = [(i, c) for i, name in enumerate(sources) for c in range(numbers[name].size)]
    return ChannelMoves(sources, {name: tuple(origin[c] for c in numbers[name].tolist()) for name in group.outputs})


def _moved(node: Node, group: Group, numbers: Mapping[str, np.ndarray], spatial: int) -> np.ndarray | None:
    """Channel numbers of the node's result; None when it does more than move channels."""
    given, shape = numbers[node.inputs[0]], group.values[node.outputs[0]].shape
    before = group.values[node.inputs[0]].shape
    axes = len(before) - spatial                                                   # the first, and the channels' ones
    if node.op == "Concat" and node.attrs["axis"] == 1:
        return np.concatenate([numbers[name] for name in node.inputs])
    if node.op == "Reshape" and shape[0] == before[0] and shape[-spatial:] == before[-spatial:]:
        middle = [d for d in shape[1:-spatial] if isinstance(d, int)]
        return given.reshape(middle) if len(middle) == len(shape) - 1 - spatial else None
    if node.op == "Transpose":
        perm = ints_of(node.attrs, "perm")
        if perm[0] == 0 and perm[axes:] == tuple(range(axes, len(before))):
            return given.transpose([axis - 1 for axis in perm[1:axes]])
    if node.op == "Slice" and axes == 2 and all(shape[i] == before[i] for i in range(len(shape)) if i != 1):
        first, size, step = (dims_of(node.attrs, name)[1] for name in ("starts", "sizes", "steps"))
        steps = dims_of(node.attrs, "steps")
        if all(isinstance(d, int) for d in (first, size, step)) and all(s == 1 for i, s in enumerate(steps) if i != 1):
            return given[int(first) + int(step) * np.arange(int(size))]            # type: ignore[arg-type]
    return None


def moves_variant(group: Group, moves: ChannelMoves, kernel: str, name: str, profile: Profile) -> Variant | None:
    """The variant, or None where blocks have one lane or there are very many."""
    block = profile.lanes(FLOAT32)
    elements = sum(usual_upper(product(group.values[name].shape[1:])) for name in group.outputs)
    count = sum(-(-len(table) // block) for table in moves.tables.values())
    if block == 1 or not 0 < count <= _MOST_BLOCKS:
        return None
    return Variant(kernel, name, {n: blocked(block) for n in moves.sources}, {n: blocked(block) for n in group.outputs},
                   {"positions": POSITIONS}, cost=1.5 * ELEMENT_COST * elements)


def moves_knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    return (Knob("positions", _POSITIONS),)


def tune_moves(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    full = {**variant.knobs, **values}
    positions, plane = int(full["positions"]), usual_upper(product(group.values[group.outputs[0]].shape[2:]))
    cuts_alike = any(plane <= other for other in _POSITIONS if other < positions)
    if positions != POSITIONS and (positions < 1 or cuts_alike):
        return Refusal(full, "shape", f"chunks of {positions} of {plane} positions")
    return replace(variant, knobs=full)


def _merge(b: Builder, parts: Mapping[tuple[int, int], Expr], lanes: Sequence[tuple[tuple[int, int], int] | None],
           block: int) -> Expr:
    """A vector whose lane l is lane `lanes[l][1]` of the vector `parts[lanes[l][0]]`, or zero."""
    zero = const(0.0, Type(FLOAT32, block))
    sources = [*parts.items(), *([(None, zero)] if None in lanes else [])]
    (first, result), *others = sources
    picks = [lane[1] if lane is not None and lane[0] == first else 0 for lane in lanes]
    if not others:
        return result if picks == list(range(block)) else shuffle(result, result, tuple(picks))
    for place, vector in others:
        for at, lane in enumerate(lanes):
            if (lane[0] if lane is not None else None) == place:
                picks[at] = block + (lane[1] if lane is not None else 0)
        result = b.let(shuffle(result, vector, tuple(picks)), "v")
        picks = list(range(block))                                   # what is merged is in its place
    return result


def lower_moves(group: Group, moves: ChannelMoves, variant: Variant, profile: Profile, name: str) -> Lowering:
    """The loop nest of the module's note."""
    block, positions = profile.lanes(FLOAT32), int(variant.knobs["positions"])
    b = Builder(name)
    buffers = {n: b.input("x", FLOAT32) for n in moves.sources} | {n: b.output("y", FLOAT32) for n in group.outputs}
    first = group.values[moves.sources[0]]
    plane = product(first.shape[2:])
    parts = ceildiv(plane, positions)
    counts = {n: blocks(group.values[n].shape[1], block) for n in (*moves.sources, *group.outputs)}
    with b.chunks(b.dim(first.shape[0] * parts)) as chunk:
        n, p0 = b.let(chunk // b.dim(parts), "n"), b.let(chunk % b.dim(parts) * positions, "p0")
        p1 = b.let(minimum(p0 + positions, b.dim(plane)), "p1")
        for out, table in moves.tables.items():
            for m in range(counts[out]):
                lanes = [((i, c // block), c % block) for i, c in table[m * block:(m + 1) * block]]
                padded = [*lanes, *(None,) * (block - len(lanes))]
                with b.loop(p0, p1, name="p") as p:
                    loaded = {place: b.let(_load(b, buffers[moves.sources[place[0]]], n, place[1],
                                                 counts[moves.sources[place[0]]], b.dim(plane), p, block), "x")
                              for place in dict.fromkeys(place for place, _ in lanes)}
                    at = ((n * counts[out] + m) * b.dim(plane) + p) * block
                    b.store(buffers[out], at, _merge(b, loaded, padded, block))
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*moves.sources, *group.outputs), dims),))


def _load(b: Builder, buffer: Buffer, n: Expr, place: int, count: int, plane: Expr, p: Expr, block: int) -> Expr:
    return b.load(buffer, ((n * count + place) * plane + p) * block, block)


def _variants(group: Group, profile: Profile) -> Iterator[Variant]:
    moves = moves_of(group) if group.prologue else None
    variant = moves_variant(group, moves, "channel_moves", "channel_moves", profile) if moves is not None else None
    if variant is not None:
        yield variant


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    moves = moves_of(group)
    assert moves is not None
    return lower_moves(group, moves, variant, profile, "channel_moves")


CHANNEL_MOVES = Kernel("channel_moves", ("Concat", "Transpose", "Slice"), _variants, _lower, moves_knobs, tune_moves)
