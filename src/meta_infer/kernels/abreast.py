"""Epilogues on several vectors abreast: one chain of operations waits for itself, three of them fill each other's gaps.

A math function is a chain of some fifteen dependent operations, and a processor's scheduler holds hardly more than
two such chains. So neighbouring vectors are joined into a long one, the nodes run on that (the compiler turns each
operation into one per register, side by side), and the results are cut up again where they are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Node
from meta_infer.ir.group import Group, Layout
from meta_infer.ir.loop import Buffer, Expr, shuffle
from meta_infer.kernels.point import Point, load_operand
from meta_infer.ops.registry import op_named


def join(parts: Sequence[Expr]) -> Expr:
    """Vectors of equal length behind each other; their number is a power of two."""
    if len(parts) == 1:
        return parts[0]
    first, second = join(parts[:len(parts) // 2]), join(parts[len(parts) // 2:])
    return shuffle(first, second, tuple(range(2 * first.type.lanes)))


def part_of(whole: Expr, i: int, lanes: int) -> Expr:
    """The i-th of the vectors of `lanes` that were joined to `whole`."""
    return whole if whole.type.lanes == lanes else shuffle(whole, whole, tuple(range(i * lanes, (i + 1) * lanes)))


def apply_abreast(b: Builder, group: Group, name: str, parts: Sequence[Expr], buffers: Mapping[str, Buffer],
                  layouts: Mapping[str, Layout], points: Sequence[Point]) -> list[dict[str, Expr]]:
    """Run the group's epilogue on value `name`, of which `parts` are at `points`; per point the values known there."""
    start = {name: b.let(join(parts), "abreast")}
    return run_abreast(b, group, group.epilogue, start, buffers, layouts, points)


def run_abreast(b: Builder, group: Group, nodes: Iterable[Node], known: Mapping[str, Expr],
                buffers: Mapping[str, Buffer], layouts: Mapping[str, Layout],
                points: Sequence[Point]) -> list[dict[str, Expr]]:
    """Run elementwise `nodes` on the long vectors `known`; per point what the group yields there."""
    known = dict(known)
    for node in nodes:
        for operand in filter(None, node.inputs):
            if operand not in known:
                loaded = [b.let(load_operand(b, buffers[operand], group.values[operand], layouts[operand], point), "op")
                          for point in points]
                known[operand] = b.let(join(loaded), "op")
        expr = op_named(node.op).expr
        assert expr is not None, f"{node.op} is not elementwise"
        known[node.outputs[0]] = b.let(expr(node.attrs, [known[operand] for operand in node.inputs if operand]), "e")
    lanes = points[0].lanes
    return [{n: b.let(part_of(known[n], i, lanes), "part") for n in group.outputs} for i in range(len(points))]
