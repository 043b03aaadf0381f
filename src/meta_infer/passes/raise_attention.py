"""Recognise attention: the product of queries and keys, its softmax, and the product with values.

    before                                                               after
    %qt: float32[B, 4, S, 8] = Transpose(%q) {perm = (0, 2, 1, 3)}       %y: float32[B, S, 4, 8] =
    %kt: float32[B, 4, 8, S] = Transpose(%k) {perm = (0, 2, 3, 1)}           Attention(%q, %k, %v, %mask)
    %vt: float32[B, 4, S, 8] = Transpose(%v) {perm = (0, 2, 1, 3)}           {scale = 0.125, q_order = "bshd",
    %s: float32[B, 4, S, S] = MatMul(%qt, %kt)                                k_order = "bshd", ...}
    %c: float32[B, 4, S, S] = Div(%s, %eight)
    %m: float32[B, 4, S, S] = Add(%c, %mask)
    %p: float32[B, 4, S, S] = Softmax(%m) {axis = 3}
    %o: float32[B, 4, S, 8] = MatMul(%p, %vt)
    %y: float32[B, S, 4, 8] = Transpose(%o) {perm = (0, 2, 1, 3)}

The scale may be a factor of the scores, of the queries or of the keys, or several. Masks may be added, or put minus
infinity or the lowest number in the place of scores (Where). Products of three dims are attention of one head. Heads
may be cut out of one tensor (attention_operands.py). A constant mask that hides what comes later becomes an attribute.
What lies between the products has no other reader.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meta_infer.ir.graph import Attr, Graph, Node
from meta_infer.ops.attrs import int_of, ints_of
from meta_infer.passes.attention_operands import Operand, operand
from meta_infer.passes.match import keeps_shape, scaled_by
from meta_infer.passes.rewrite import Edit, apply_rule


def raise_attention(graph: Graph) -> Graph:
    """Replace the two products and what is between them by Attention. See the module."""
    return apply_rule(graph, _raise)


LOWEST = -1e30
"""A number that swallows any score added to it, so that adding it is as good as putting it in the score's place."""


@dataclass(frozen=True)
class _Mask:
    """Numbers to add, or with `fill` bools: where they are true (false, with `keeps`) a score becomes `fill`."""

    name: str
    fill: float | None = None
    keeps: bool = True


@dataclass(frozen=True)
class _Scores:
    """What the softmax is of: scale * product, with the masks nearest to it first, and the nodes from it on."""

    product: Node
    scale: float
    masks: tuple[_Mask, ...]
    nodes: tuple[Node, ...]


def _raise(edit: Edit, node: Node) -> bool:
    if node.op != "MatMul" or not edit.value(node.outputs[0]).dtype.is_float:
        return False
    softmax = edit.made_by(node.inputs[0], "Softmax")
    rank = edit.value(node.outputs[0]).rank
    if softmax is None or rank not in (3, 4) or int_of(softmax.attrs, "axis") != rank - 1:
        return False
    scores = _scores(edit, softmax.inputs[0])
    if scores is None or not edit.is_closed([*scores.nodes, softmax], node):
        return False
    q = operand(edit, scores.product.inputs[0])
    k = operand(edit, scores.product.inputs[1], swapped=True)
    v = operand(edit, node.inputs[1], scaled=False)
    if not _fit(edit, q, k, v, node):
        return False
    inner = [*scores.nodes, softmax]
    edit.remove([*inner, node])
    origins = [*inner, node]
    for part in (q, k, v):
        origins = [*_taken(edit, part), *origins]
    attrs: dict[str, Attr] = {"scale": scores.scale * q.scale * k.scale}
    inputs = [_placed(edit, part, name, attrs) for part, name in zip((q, k, v), "qkv", strict=True)]
    if scores.masks:
        mask = _one_mask(edit, scores.masks, rank, origins)
        offset = _frontier(edit.constant(mask))
        if offset is None:
            inputs.append(mask)
        else:
            attrs |= {"causal": True, "offset": offset}
    _emit(edit, node, tuple(inputs), attrs, origins)
    return True


def _scores(edit: Edit, name: str) -> _Scores | None:
    """Follow `name` back to a product through masks and then factors; None when it is something else."""
    masks, nodes, scale = list[_Mask](), list[Node](), 1.0
    while (node := edit.made_by(name)) is not None:
        nodes.insert(0, node)
        if node.op == "MatMul":
            return _Scores(node, scale, tuple(masks), tuple(nodes))
        found = _mask_of(edit, node) if scale == 1.0 else None
        factor = scaled_by(edit, node)
        if found is not None:
            name = found[0]
            masks.insert(0, found[1])
        elif factor is not None:
            name, scale = factor[0], scale * factor[1]
        else:
            return None
    return None


def _mask_of(edit: Edit, node: Node) -> tuple[str, _Mask] | None:
    """(scores, mask) when `node` masks scores."""
    if node.op == "Add":
        for x, other in (node.inputs, node.inputs[::-1]):
            if keeps_shape(edit, x, node) and edit.constant(x) is None and _leads_to_product(edit, x):
                return x, _Mask(other)
    if node.op == "Where":
        condition, first, second = node.inputs
        for x, other, keeps in ((first, second, True), (second, first, False)):
            fill = edit.uniform(other)
            if fill is not None and fill <= LOWEST and keeps_shape(edit, x, node):
                return x, _Mask(condition, fill, keeps)
    return None


def _leads_to_product(edit: Edit, name: str) -> bool:
    """Whether `name` is a product, with numbers and masks: of two terms, which are the scores."""
    while (node := edit.made_by(name)) is not None and node.op != "MatMul":
        found = scaled_by(edit, node) or _mask_of(edit, node)
        if found is None:
            return False
        name = found[0]
    return node is not None


def _fit(edit: Edit, q: Operand, k: Operand, v: Operand, node: Node) -> bool:
    """Whether the products run over equal batches and heads of known size, with nothing broadcast."""
    dtypes = {edit.value(part.source).dtype for part in (q, k, v)}
    if len(dtypes) > 1 or q.batch != k.batch or q.batch != v.batch or q.steps == 0:
        return False
    if q.size != k.size or k.steps != v.steps or q.heads != k.heads or k.heads != v.heads:
        return False
    return all(isinstance(part.size, int) and part.size > 0 for part in (q, v))


def _taken(edit: Edit, part: Operand) -> list[Node]:
    """Nodes between an operand and its source that nobody else reads any more, removed; nearest to the source first."""
    gone: list[Node] = []
    for node in part.nodes:
        if not edit.has(node):
            continue
        if edit.users(node.outputs[0]) or node.outputs[0] in edit.outputs:
            break
        edit.remove([node])
        gone.insert(0, node)
    return gone


def _placed(edit: Edit, part: Operand, name: str, attrs: dict[str, Attr]) -> str:
    """The tensor that holds an operand, with four dims; how it lies there goes to `attrs`."""
    if part.order != "bhsd":
        attrs[f"{name}_order"] = part.order
    if part.first is not None:
        attrs |= {f"{name}_first": part.first, f"{name}_heads": part.heads}
    if edit.value(part.source).shape == part.shape:
        return part.source
    return edit.emit("Reshape", (part.source,), {"shape": part.shape}, hint=f"{part.source}_heads")


def _one_mask(edit: Edit, masks: tuple[_Mask, ...], rank: int, origins: list[Node]) -> str:
    """All masks as one operand, bools or numbers, of four dims where its own three count the batch."""
    first = masks[0]
    if len(masks) == 1 and first.fill == -np.inf:
        mask = first.name if first.keeps else edit.emit("Not", (first.name,), origins=origins)
    else:
        terms = [_term(edit, one, origins) for one in masks]
        mask = terms[0]
        for term in terms[1:]:
            mask = edit.emit("Add", (mask, term), origins=origins)
    shape = edit.value(mask).shape
    if rank == 3 and len(shape) == 3:
        mask = edit.emit("Reshape", (mask,), {"shape": (shape[0], 1, *shape[1:])}, origins=origins)
    return mask


def _frontier(mask: np.ndarray | None) -> int | None:
    """The offset of the frontier that a constant mask draws, when query i sees just the keys up to i + offset."""
    if mask is None or mask.ndim < 2 or mask.size == 0 or mask.size != mask.shape[-2] * mask.shape[-1]:
        return None
    rows = mask.reshape(mask.shape[-2], mask.shape[-1])
    if rows.dtype == np.bool_:
        seen = rows
    elif bool(((rows == 0) | (rows <= LOWEST)).all()):
        seen = rows == 0
    else:
        return None
    offset = int(seen[0].sum()) - 1
    frontier = np.arange(rows.shape[1]) <= np.arange(rows.shape[0])[:, None] + offset
    return offset if offset >= 0 and not seen.all() and bool((seen == frontier).all()) else None


def _term(edit: Edit, mask: _Mask, origins: list[Node]) -> str:
    """A mask as numbers to add."""
    if mask.fill is None:
        return mask.name
    dtype = edit.value(origins[-1].outputs[0]).dtype.numpy
    zero, fill = (edit.add_constant(np.array(number, dtype), "term") for number in (0.0, mask.fill))
    sides = (zero, fill) if mask.keeps else (fill, zero)
    return edit.emit("Where", (mask.name, *sides), origins=origins)


def _emit(edit: Edit, node: Node, inputs: tuple[str, ...], attrs: dict[str, Attr], origins: list[Node]) -> None:
    """Put Attention in the place of `node`; a Transpose behind it becomes the order of its result."""
    user = edit.only_user(node.outputs[0])
    if edit.value(node.outputs[0]).rank == 3:
        found = edit.emit("Attention", inputs, attrs, origins=origins)
        edit.emit("Reshape", (found,), {"shape": edit.value(node.outputs[0]).shape}, origins=[node],
                  output=node.outputs[0])
    elif user is not None and user.op == "Transpose" and ints_of(user.attrs, "perm") == (0, 2, 1, 3):
        edit.remove([user])
        edit.emit("Attention", inputs, {**attrs, "y_order": "bshd"}, origins=[*origins, user], output=user.outputs[0])
    else:
        edit.emit("Attention", inputs, attrs, origins=origins, output=node.outputs[0])
