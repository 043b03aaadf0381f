"""Operands whose sizes only running tells get the shapes that a node needs, before the node is typed.

    before (n and m are told by data)               after
    %y = Concat(%a: [n, 4], %b: [m, 4], axis 1)     %c: [n, 4] = AssertShape(%b)        an error of the run if m != n
                                                    %y: [n, 8] = Concat(%a, %c)

    %y = Add(%a: [n], %b: [5])                      %c: [5] = Expand(%a)                n may be 1, or must be 5
                                                    %y: [5] = Add(%c, %b)

So kernels, fusion and layouts only ever meet sizes that are equal or 1 by what the graph says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from meta_infer.ir.graph import Node, Shape
from meta_infer.ir.shapes import Dim, Expr, Symbol, substitute, symbols_of
from meta_infer.ops.broadcast import assumed_equal, better_known, broadcast_shapes, is_found, may_be_one
from meta_infer.ops.infer import counted_symbols, infer_node
from meta_infer.ops.opdef import ShapeError, TensorType
from meta_infer.ops.registry import op_named

_ROUNDS = 8
"""One size is settled per round and symbol; no op compares that many."""

Types = Mapping[str, TensorType]


def settle_sizes(node: Node, types: Types, constants: Mapping[str, np.ndarray],
                 fresh: Callable[[str], str]) -> tuple[tuple[Node, ...], Node]:
    """The AssertShape and Expand nodes that `node` needs in front of it, and the node that reads them.

    Raises ShapeError when two sizes cannot be compared so.
    """
    op = op_named(node.op)
    if node.regions or op.is_view or node.op == "Expand":      # these compare by themselves
        return (), node
    if not any(is_found(*types[name].shape) for name in node.inputs if name):
        return (), node
    changed = dict(_broadcast(node, types) if op.expr is not None else _equal(node, types, constants))
    before = []
    renamed = {}
    for name, (kind, shape) in changed.items():
        renamed[name] = fresh(f"{name}/settled")
        before.append(Node(kind, (name,), (renamed[name],), {"shape": shape}, node.origins))
    return tuple(before), replace(node, inputs=tuple(renamed.get(name, name) for name in node.inputs))


def _broadcast(node: Node, types: Types) -> Iterator[tuple[str, tuple[str, Shape]]]:
    """Operands of an elementwise op: every size that is not known to be 1 becomes the result's."""
    shapes = {name: types[name].shape for name in node.inputs if name}
    result = broadcast_shapes(*shapes.values())
    for name, shape in shapes.items():
        there = result[len(result) - len(shape):]
        wanted = tuple(own if own == 1 else size for own, size in zip(shape, there, strict=True))
        if wanted == shape:
            continue
        repeats = any(own != size and may_be_one(own) for own, size in zip(shape, wanted, strict=True))
        yield name, ("Expand" if repeats else "AssertShape", wanted)


def _equal(node: Node, types: Types, constants: Mapping[str, np.ndarray]) -> Iterator[tuple[str, tuple[str, Shape]]]:
    """Operands of any other op: a symbol stands for whatever it must be equal to."""
    settled: Types = {name: types[name] for name in node.inputs if name}
    for _ in range(_ROUNDS):
        with assumed_equal() as pairs:
            infer_node(node, {**types, **settled}, constants, counted_symbols())
        pairs = [pair for pair in pairs if pair[0] != pair[1]]
        if not pairs:
            break
        settled = _made_equal(settled, *pairs[0])
    else:
        raise ShapeError(f"dimensions {pairs[0][0]} and {pairs[0][1]} cannot be compared")
    for name, found in settled.items():
        if found.shape != types[name].shape:
            yield name, ("AssertShape", found.shape)


def _made_equal(types: Types, a: Dim, b: Dim) -> Types:
    """Operands in whose shapes two dims are equal: one of them, or a symbol that is one of them, is the other.

    Raises ShapeError when data tells neither as such.
    """
    kept = better_known(a, b)
    for old, new in ((b, a), (a, b)) if kept is a else ((a, b), (b, a)):
        if is_found(old) and any(old in found.shape for found in types.values()):
            return {name: replace(found, shape=tuple(new if dim == old else dim for dim in found.shape))
                    for name, found in types.items()}
        symbol = _found_symbol(old)
        if symbol is not None and symbol not in symbols_of(new):
            return {name: replace(found, shape=tuple(substitute(dim, {symbol.name: new}) for dim in found.shape))
                    for name, found in types.items()}
    raise ShapeError(f"dimensions {a} and {b} cannot be proven equal; give them the same name or a fixed size")


def _found_symbol(dim: Dim) -> Symbol | None:
    if not isinstance(dim, Expr) or len(dim.terms) != 1 or not is_found(dim):
        return None
    monomial, coef = dim.terms[0]
    return monomial[0] if coef == 1 and len(monomial) == 1 and isinstance(monomial[0], Symbol) else None
