"""Chains of products over the channels and elementwise nodes, which can be computed with the channels on any axis.

A convolution of one tap is, at every place, the product of the channels with a matrix: what a MatMul over the last axis
or, for one place, a Gemm is. `read_chain` reads any of these, `emit_chain` writes any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from meta_infer.ir.graph import Node
from meta_infer.ops.attrs import bool_of, float_of, int_of, ints_of
from meta_infer.passes.channels import Link, channel_constant, channel_vector, next_link
from meta_infer.passes.draft import Draft
from meta_infer.passes.pieces import Pieces
from meta_infer.passes.rewrite import Edit

Form = Literal["Conv", "MatMul", "Gemm"]


@dataclass(frozen=True)
class Product:
    """`nodes` make channels times `weights` [taken, made] plus `bias` [made], if there is one."""

    nodes: tuple[Node, ...]
    weights: np.ndarray
    bias: np.ndarray | None


Step = Product | Link


def read_product(edit: Edit, node: Node) -> Product | None:
    """A Conv of one group whose window lies at one place only or takes one element, MatMul over the last axis, Gemm."""
    if node.op not in ("Conv", "MatMul", "Gemm") or edit.constant(node.inputs[0]) is not None:
        return None
    weights = edit.constant(node.inputs[1])
    quantized = any(edit.value(name).quant for name in (*node.inputs, *node.outputs) if name)
    if weights is None or weights.dtype.kind != "f" or quantized:
        return None
    bias = None
    if len(node.inputs) > 2 and node.inputs[2]:
        array = edit.constant(node.inputs[2])
        width = edit.value(node.outputs[0]).shape[1]
        vector = channel_vector(array, 2, 1, width) if array is not None and isinstance(width, int) else None
        if vector is None or not isinstance(width, int):
            return None
        bias = np.broadcast_to(vector, (width,))
    if node.op == "MatMul":
        return Product((node,), weights, None) if weights.ndim == 2 and edit.value(node.inputs[0]).rank > 1 else None
    if node.op == "Conv":
        return Product((node,), weights.reshape(len(weights), -1).T, bias) if _is_product(edit, node) else None
    if bool_of(node.attrs, "transA", False) or float_of(node.attrs, "alpha", 1.0) != 1:
        return None
    if bias is not None and float_of(node.attrs, "beta", 1.0) != 1:
        return None
    return Product((node,), weights.T if bool_of(node.attrs, "transB", False) else weights, bias)


def _is_product(edit: Edit, node: Node) -> bool:
    n = len(ints_of(node.attrs, "kernel_shape"))
    if int_of(node.attrs, "group", 1) != 1 or any(ints_of(node.attrs, "pads", (0,) * 2 * n)):
        return False
    return takes_one(node) or covers_input(edit, node)


def takes_one(conv: Node) -> bool:
    """Whether its window is one element, of every place."""
    kernel = ints_of(conv.attrs, "kernel_shape")
    return set(kernel) == {1} and set(ints_of(conv.attrs, "strides", (1,) * len(kernel))) == {1}


def covers_input(edit: Edit, conv: Node) -> bool:
    """Whether its window, not padded, is the whole input: one place comes out."""
    kernel = ints_of(conv.attrs, "kernel_shape")
    dilations = ints_of(conv.attrs, "dilations", (1,) * len(kernel))
    return edit.value(conv.inputs[0]).shape[2:] == kernel and all(
        dilation == 1 or size == 1 for dilation, size in zip(dilations, kernel, strict=True))


def read_chain(edit: Edit, first: Node, axis: int) -> tuple[list[Step], str]:
    """The longest chain from product `first` on, channels on `axis` of what it makes, and the value that it ends in."""
    head, name = read_product(edit, first), first.outputs[0]
    if head is None:
        return [], ""
    found: list[Step] = [head]
    while True:
        link, node = next_link(edit, name, axis), edit.only_user(name)
        last = found[-1]
        if link is not None:
            bias = _added(link) if isinstance(last, Product) and last.bias is None else None
            if bias is not None and isinstance(last, Product):
                width = last.weights.shape[1]
                found[-1] = replace(last, nodes=(*last.nodes, link.node), bias=np.broadcast_to(bias, (width,)))
            else:
                found.append(link)
            name = link.node.outputs[0]
            continue
        product = read_product(edit, node) if node is not None and node.op == first.op else None
        if node is None or product is None or node.inputs[0] != name or node.inputs.count(name) != 1:
            return found, name
        if node.op == "Conv" and not takes_one(node):
            return found, name
        found.append(product)
        name = node.outputs[0]


def _added(link: Link) -> np.ndarray | None:
    """What `link` adds, when it is a bias."""
    return next(iter(link.vectors.values()), None) if link.node.op == "Add" else None


def nodes_of(steps: Sequence[Step]) -> list[Node]:
    return [node for step in steps for node in (step.nodes if isinstance(step, Product) else (step.node,))]


def is_head(edit: Edit, first: Node, axis: int) -> bool:
    """Whether no longer chain has product `first` inside it."""
    name = first.inputs[0]
    if first.op == "Conv" and not takes_one(first):
        return True
    while (node := edit.made_by(name)) is not None and edit.only_user(name) is not None:
        if node.op == first.op and read_product(edit, node) is not None:
            return False
        carried = [given for given in node.inputs if given and edit.constant(given) is None]
        link = next_link(edit, carried[0], axis) if len(carried) == 1 and edit.value(carried[0]).rank else None
        if link is None or link.node is not node:
            return True
        name = carried[0]
    return True


def emit_chain(draft: Draft, steps: Sequence[Step], name: str, form: Form) -> str:
    """The chain on value `name` in another form: channels on axis 1 of a Conv or Gemm, on the last one of a MatMul."""
    for step in steps:
        to = draft.instead_of(*nodes_of([step]))
        axis = len(to.shape(name)) - 1 if form == "MatMul" else 1
        if isinstance(step, Link):
            name = step.emit(to, name, axis)
        else:
            name = _emit_product(to, step, name, form)
    return name


def _emit_product(to: Pieces, step: Product, name: str, form: Form) -> str:
    rank, bias = len(to.shape(name)), step.bias
    if form == "MatMul":
        made = to.emit("MatMul", name, to.constant(np.ascontiguousarray(step.weights), "weights"))
        if bias is None:
            return made
        return to.emit("Add", made, to.constant(channel_constant(np.ascontiguousarray(bias), rank, rank - 1), "bias"))
    rows = np.ascontiguousarray(step.weights.T)
    more = [] if bias is None else [to.constant(np.ascontiguousarray(bias), "bias")]
    if form == "Gemm":
        return to.emit("Gemm", name, to.constant(rows, "weights"), *more, alpha=1.0, beta=1.0, transA=False,
                       transB=True)
    n = rank - 2
    weights = to.constant(rows.reshape(*rows.shape, *(1,) * n), "weights")
    return to.emit("Conv", name, weights, *more, kernel_shape=(1,) * n, strides=(1,) * n, dilations=(1,) * n,
                   pads=(0,) * 2 * n, group=1)


def to_last(rank: int) -> tuple[int, ...]:
    """The permutation of [N, C, H, W] to [N, H, W, C]."""
    return (0, *range(2, rank), 1)


def to_first(rank: int) -> tuple[int, ...]:
    """The permutation of [N, H, W, C] to [N, C, H, W]."""
    return (0, rank - 1, *range(1, rank - 1))


def transposed(node: Node | None, perm: tuple[int, ...]) -> Node | None:
    """`node`, if it is a Transpose by `perm`."""
    return node if node is not None and node.op == "Transpose" and ints_of(node.attrs, "perm") == perm else None


def take_before(edit: Edit, draft: Draft, node: Node) -> str:
    """Leave out `node`, a view or Transpose before a chain, and give what it reads; others that read it keep it."""
    to = draft.instead_of(node)
    if edit.only_user(node.outputs[0]) is None:
        to.put(node)
    return node.inputs[0]


def emit_between(edit: Edit, draft: Draft, steps: Sequence[Step], result: str, form: Form,
                 perm: tuple[int, ...], back: tuple[int, ...]) -> None:
    """The chain in `form` between transposes by `perm` and `back`, which are left out where their inverses stand."""
    nodes = nodes_of(steps)
    before, after = transposed(edit.made_by(nodes[0].inputs[0]), back), transposed(edit.only_user(result), perm)
    if before is not None:
        name = take_before(edit, draft, before)
    else:
        name = draft.instead_of(after or nodes[0]).emit("Transpose", nodes[0].inputs[0], perm=perm)
    name = emit_chain(draft, steps, name, form)
    if after is not None:
        draft.end_in(after)
    else:
        draft.instead_of(before or nodes[-1]).emit("Transpose", name, out=result, perm=back)
