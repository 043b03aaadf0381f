"""Einsum, any equation: diagonals, sums and products of pairs, all in core ops.

    ij,jk->ik      MatMul
    bij,bjk->bik   MatMul of batches
    ii->i          Gather of every (n + 1)-th element of the flattened axes
    i,j->ij        Mul of [i, 1] and [1, j]
    ...ij->...     ReduceSum

Operands are contracted two at a time, in the order that numpy's greedy planner finds for the sizes. A label is a
letter, or (k,) for the k-th dimension from the right of what an ellipsis stands for; dimensions of 1 broadcast.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meta_infer.ir.graph import Attr, Node, Shape
from meta_infer.ir.shapes import Dim, product, upper
from meta_infer.ops.broadcast import broadcast_shapes, text
from meta_infer.ops.importing import attr_text, core_node, unsupported
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode, ShapeError
from meta_infer.ops.size_math import SizeMath

Label = str | tuple[int]

_MOST_PLANNED = 1 << 10
_TERM = re.compile(r"^[A-Za-z]*(\.\.\.)?[A-Za-z]*$")


@dataclass(frozen=True)
class _Operand:
    """A tensor and the label of each of its dimensions, which differ."""

    name: str
    labels: tuple[Label, ...]


def _labels(term: str, rank: int) -> tuple[Label, ...]:
    """The label of each of `rank` dimensions. Raises ShapeError when the term does not fit."""
    front, dots, back = term.partition("...")
    covered = rank - len(front) - len(back)
    if covered < 0 or (covered and not dots):
        raise ShapeError(f"term {term!r} of the equation does not fit a tensor of {rank} dimensions")
    return (*front, *((covered - 1 - i,) for i in range(covered)), *back)


def _parse(node: OnnxNode, ranks: Sequence[int]) -> tuple[list[tuple[Label, ...]], tuple[Label, ...]]:
    """Labels of every operand and of the result, an implicit one worked out."""
    equation = attr_text(node, "equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks) or not all(_TERM.match(term) for term in (*terms, right)):
        raise unsupported(node, f"equation {equation!r} does not fit {len(ranks)} operands",
                          "correct the node: it breaks the specification")
    operands = [_labels(term, rank) for term, rank in zip(terms, ranks, strict=True)]
    covered = max((label[0] + 1 for labels in operands for label in labels if isinstance(label, tuple)), default=0)
    if arrow:
        return operands, _labels(right, len(right.replace("...", "")) + (covered if "..." in right else 0))
    letters = [label for labels in operands for label in labels if isinstance(label, str)]
    once = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
    return operands, (*((covered - 1 - i,) for i in range(covered)), *once)


class _Builder:
    """Adds the nodes that an equation needs; every step gives the operand that stands for its result."""

    def __init__(self, node: OnnxNode, ctx: ImportContext) -> None:
        self._node, self._ctx = node, ctx

    def shape(self, name: str) -> Shape:
        return self._ctx.type_of(name).shape

    def emit(self, op: str, inputs: tuple[str, ...], **attrs: Attr) -> str:
        made = self._ctx.fresh(self._node.outputs[0])
        self._ctx.emit(core_node(self._node, op, inputs, (made,), **attrs))
        return made

    def reshaped(self, name: str, shape: Sequence[Dim]) -> str:
        return name if self.shape(name) == tuple(shape) else self.emit("Reshape", (name,), shape=tuple(shape))

    def ordered(self, x: _Operand, labels: Sequence[Label]) -> str:
        """The tensor with its dimensions in the order of `labels`, which are all of its own."""
        perm = tuple(x.labels.index(label) for label in labels)
        return x.name if perm == tuple(range(len(perm))) else self.emit("Transpose", (x.name,), perm=perm)

    def diagonal(self, x: _Operand) -> _Operand:
        """Labels that stand twice walk both dimensions at once."""
        while (twice := next((label for label in x.labels if x.labels.count(label) > 1), None)) is not None:
            first = x.labels.index(twice)
            second = x.labels.index(twice, first + 1)
            rest = [axis for axis in range(len(x.labels)) if axis not in (first, second)]
            shape = self.shape(x.name)
            size = shape[first]
            if size != shape[second]:
                raise ShapeError(f"label {twice!r} stands for {size} and {shape[second]}, which are not the same size")
            moved = self.emit("Transpose", (x.name,), perm=(*rest, first, second))
            flat = self.reshaped(moved, (*(shape[axis] for axis in rest), size * size))
            math = SizeMath(self._node, self._ctx)
            places = math.mul(math.iota(size), math.add(math.dims((size,)), 1))
            x = _Operand(self.emit("Gather", (flat, places), axis=len(rest)),
                         (*(x.labels[axis] for axis in rest), twice))
        return x

    def summed(self, x: _Operand, kept: Sequence[Label]) -> _Operand:
        """Dimensions whose label is not among `kept` summed up."""
        axes = tuple(i for i, label in enumerate(x.labels) if label not in kept)
        if not axes:
            return x
        return _Operand(self.emit("ReduceSum", (x.name,), axes=axes, keepdims=False),
                        tuple(label for label in x.labels if label in kept))

    def pair(self, a: _Operand, b: _Operand, kept: Sequence[Label]) -> _Operand:
        """The product of two tensors, summed over the labels of both that nobody needs any more."""
        a = self.summed(a, (*kept, *b.labels))
        b = self.summed(b, (*kept, *a.labels))
        # A label of size 1 in one operand broadcasts: where it goes away, the other is summed first.
        alone = [label for label in a.labels if label in b.labels and label not in kept and
                 (self._size(a, label) == 1) != (self._size(b, label) == 1)]
        a, b = (self.summed(x, [label for label in x.labels if label not in alone]) for x in (a, b))
        shared = [label for label in a.labels if label in b.labels]
        batch, inner = [x for x in shared if x in kept], [x for x in shared if x not in kept]
        left, right = ([x for x in operand.labels if x not in shared] for operand in (a, b))
        labels = (*batch, *left, *right)
        a_name, b_name = self.ordered(a, (*batch, *left, *inner)), self.ordered(b, (*batch, *inner, *right))
        a_sizes, b_sizes = self._sizes(a, (*batch, *left)), self._sizes(b, (*batch, *right))
        lead = len(batch)
        if not inner or not self._ctx.type_of(a.name).dtype.is_float:
            ones = (1,) * len(left)
            inside = self._sizes(a, inner)
            a_name = self.reshaped(a_name, (*a_sizes, *inside, *(1,) * len(right)))
            b_name = self.reshaped(b_name, (*b_sizes[:lead], *ones, *inside, *b_sizes[lead:]))
            made = _Operand(self.emit("Mul", (a_name, b_name)), (*batch, *left, *inner, *right))
            return self.summed(made, labels)
        depth = product(self._sizes(a, inner))
        a_name = self.reshaped(a_name, (*a_sizes[:lead], product(a_sizes[lead:]), depth))
        b_name = self.reshaped(b_name, (*b_sizes[:lead], depth, product(b_sizes[lead:])))
        batches = broadcast_shapes(a_sizes[:lead], b_sizes[:lead])
        made_name = self.emit("MatMul", (a_name, b_name))
        return _Operand(self.reshaped(made_name, (*batches, *a_sizes[lead:], *b_sizes[lead:])), labels)

    def _size(self, x: _Operand, label: Label) -> Dim:
        return self.shape(x.name)[x.labels.index(label)]

    def _sizes(self, x: _Operand, labels: Sequence[Label]) -> Shape:
        return tuple(self._size(x, label) for label in labels)


def _order(operands: Sequence[_Operand], result: Sequence[Label], shapes: Sequence[Shape]) -> list[tuple[int, ...]]:
    """Positions of the operands to contract at each step; what a step makes goes to the end of the list."""
    if len(operands) < 3:
        return [tuple(range(len(operands)))]
    numbers: dict[Label, int] = {}
    arguments: list[Any] = []
    for operand, shape in zip(operands, shapes, strict=True):
        sizes = tuple(max(min(upper(d), _MOST_PLANNED), 1) for d in shape)
        arguments += [np.broadcast_to(np.float32(0), sizes),
                      [numbers.setdefault(label, len(numbers)) for label in operand.labels]]
    path = np.einsum_path(*arguments, [numbers[label] for label in result], optimize="greedy")[0]
    return [tuple(step) for step in path[1:]]


def _import(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    shapes = [ctx.type_of(name).shape for name in node.inputs]
    terms, result = _parse(node, [len(shape) for shape in shapes])
    known = {label for labels in terms for label in labels}
    if len(set(result)) != len(result) or not known.issuperset(result):
        raise unsupported(node, f"the result of equation {attr_text(node, 'equation')!r} does not follow from operands "
                          f"{', '.join(text(s) for s in shapes)}", "correct the node: it breaks the specification")
    b = _Builder(node, ctx)
    left = [b.diagonal(_Operand(name, labels)) for name, labels in zip(node.inputs, terms, strict=True)]
    for step in _order(left, result, [b.shape(x.name) for x in left]):
        chosen = [left[i] for i in sorted(step)]
        left = [x for i, x in enumerate(left) if i not in step]
        done = chosen[0]
        for i, other in enumerate(chosen[1:], 1):
            needed = [label for x in (*left, *chosen[i + 1:]) for label in x.labels]
            done = b.pair(done, other, (*result, *needed))
        left.append(done)
    (whole,) = left
    return (core_node(node, "Identity", (b.ordered(b.summed(whole, result), result),), node.outputs),)


IMPORTS: tuple[OnnxImport, ...] = (OnnxImport("Einsum", 12, convert=_import),)
