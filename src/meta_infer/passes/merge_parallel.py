"""Convolutions, or matrix products, of one input as one with the filters side by side.

    before                                                     after
    %a: float32[1, 4, 9, 9] = Conv(%x, %u)                     %m: float32[1, 10, 9, 9] = Conv(%x, %uv)
    %p: float32[1, 4, 9, 9] = Relu(%a)                         %r: float32[1, 10, 9, 9] = Relu(%m)
    %b: float32[1, 6, 9, 9] = Conv(%x, %v)                     %p: float32[1, 4, 9, 9] = Slice(%r)   channels 0 to 3
    %q: float32[1, 6, 9, 9] = Relu(%b)                         %q: float32[1, 6, 9, 9] = Slice(%r)   channels 4 to 9

Convolutions must have the same window, strides, pads and dilations and one group; weights and biases are constants.
Elementwise nodes that all branches have alike come along, their constants side by side. The slices are left out where
what reads the branches can read the whole: a Concat of them on the channels, and Attention, whose queries, keys and
values are then heads of one tensor (as Vaswani et al., 2017, write the three projections).

The branches of Inception (Szegedy et al., 2014) and of cross-stage partial networks, the heads of detectors, and the
projections of attention have this form. Each output is the same sum in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Attr, Node
from meta_infer.ops.attrs import bool_of, int_of, text_of
from meta_infer.passes.channels import Link, channel_vector, next_link
from meta_infer.passes.draft import Draft
from meta_infer.passes.pieces import Pieces
from meta_infer.passes.rewrite import Edit


@dataclass(frozen=True)
class Branch:
    """A linear node, its weight and bias [count] (None without one), and what follows it in every branch alike."""

    node: Node
    weights: np.ndarray
    bias: np.ndarray | None
    count: int
    links: tuple[Link, ...] = ()

    @property
    def nodes(self) -> tuple[Node, ...]:
        return (self.node, *(link.node for link in self.links))

    @property
    def result(self) -> str:
        return self.nodes[-1].outputs[0]


def merge_parallel(edit: Edit, node: Node, profile: Profile | None) -> Iterator[Draft]:
    """All branches of the kind of `node` that read its input; proposed once, for the first of them."""
    first = _branch(edit, node)
    if first is None:
        return
    users = edit.users(node.inputs[0])
    found = [branch for user in users if user.op == node.op and (branch := _branch(edit, user)) is not None
             and _alike(first, branch)]
    if len(found) < 2 or found[0].node is not node:
        return
    axis = edit.value(node.outputs[0]).rank - 1 if node.op == "MatMul" else 1
    branches = _with_links(edit, found, axis)
    concat = _concat(edit, branches, axis)
    if concat is not None:
        branches.sort(key=lambda branch: concat.inputs.index(branch.result))
    draft = Draft(edit)
    to = draft.instead_of(*(node for branch in branches for node in branch.nodes))
    whole = _emit_merged(to, branches, axis)
    if concat is not None:
        _emit_concat(draft, branches, concat, whole)
    elif axis != 2 or not _emit_attention(edit, draft, branches, whole):
        start = 0
        for branch in branches:
            to.sliced(whole, axis, start, branch.count, out=branch.result)
            start += branch.count
    yield draft


def _branch(edit: Edit, node: Node) -> Branch | None:
    """`node` as a branch, when its weight and bias are constants that can stand beside others."""
    if node.op not in ("Conv", "MatMul", "Gemm"):
        return None
    weights, out = edit.constant(node.inputs[1]), edit.value(node.outputs[0])
    quantized = any(edit.value(name).quant for name in (*node.inputs, *node.outputs) if name)
    if weights is None or quantized or edit.constant(node.inputs[0]) is not None:
        return None
    if node.op == "Conv":
        if int_of(node.attrs, "group", 1) != 1:
            return None
        count = weights.shape[0]
    else:
        if weights.ndim != 2 or out.rank < 2 or (node.op == "MatMul" and edit.value(node.inputs[0]).rank < 2):
            return None
        count = weights.shape[0 if bool_of(node.attrs, "transB", False) else 1]
    if len(node.inputs) < 3 or not node.inputs[2]:
        return Branch(node, weights, None, count)
    array = edit.constant(node.inputs[2])
    bias = channel_vector(array, 2, 1, count) if array is not None else None
    return None if bias is None else Branch(node, weights, np.broadcast_to(bias, (count,)), count)


def _alike(a: Branch, b: Branch) -> bool:
    """Whether both read the same input in the same way."""
    if a.node.inputs[0] != b.node.inputs[0] or dict(a.node.attrs) != dict(b.node.attrs):
        return False
    return a.weights.dtype == b.weights.dtype and (a.node.op != "Conv" or a.weights.shape[1:] == b.weights.shape[1:])


def _with_links(edit: Edit, branches: Sequence[Branch], axis: int) -> list[Branch]:
    """The branches with the elementwise nodes that follow all of them alike."""
    found = list(branches)
    while True:
        links = [link for branch in found if (link := next_link(edit, branch.result, axis)) is not None]
        if len(links) < len(found) or any(_form(links[0]) != _form(link) for link in links):
            return found
        found = [Branch(b.node, b.weights, b.bias, b.count, (*b.links, link))
                 for b, link in zip(found, links, strict=True)]


def _form(link: Link) -> tuple[object, ...]:
    """What links must share to be one node: all but the constants' numbers."""
    operands = tuple("x" if name == link.name else str(link.vectors[i].dtype) if i in link.vectors else ""
                     for i, name in enumerate(link.node.inputs))
    return link.node.op, dict(link.node.attrs), operands


def _joined(vectors: Sequence[np.ndarray], counts: Sequence[int]) -> np.ndarray:
    """Constants of the branches side by side; one number where all are the same one."""
    if all(vector.size == 1 and np.array_equal(vector, vectors[0]) for vector in vectors):
        return vectors[0]
    return np.concatenate([np.broadcast_to(vector, (count,)) for vector, count in zip(vectors, counts, strict=True)])


def _emit_merged(to: Pieces, branches: Sequence[Branch], axis: int) -> str:
    """The one linear node, and the nodes that follow it."""
    node, counts = branches[0].node, [branch.count for branch in branches]
    rows = node.op == "Conv" or bool_of(node.attrs, "transB", False)
    weights = np.concatenate([branch.weights for branch in branches], axis=0 if rows else 1)
    inputs = [node.inputs[0], to.constant(weights, "merged_weights")]
    if any(branch.bias is not None for branch in branches):
        zero = np.zeros(1, weights.dtype)
        biases = [zero if branch.bias is None else branch.bias for branch in branches]
        full = np.concatenate([np.broadcast_to(b, (n,)) for b, n in zip(biases, counts, strict=True)])
        inputs.append(to.constant(full, "merged_bias"))
    name = to.add(node.op, inputs, node.attrs)
    for i, link in enumerate(branches[0].links):
        vectors = {at: _joined([branch.links[i].vectors[at] for branch in branches], counts) for at in link.vectors}
        name = link.emit(to, name, axis, vectors)
    return name


def _concat(edit: Edit, branches: Sequence[Branch], axis: int) -> Node | None:
    """The Concat on the channels in which the branches, and nothing else reads them, stand side by side."""
    nodes = [edit.only_user(branch.result) for branch in branches]
    concat = nodes[0]
    if concat is None or concat.op != "Concat" or any(node is not concat for node in nodes):
        return None
    results = [branch.result for branch in branches]
    if int_of(concat.attrs, "axis") != axis or any(concat.inputs.count(name) != 1 for name in results):
        return None
    places = sorted(map(concat.inputs.index, results))
    return concat if places == list(range(places[0], places[0] + len(places))) else None


def _emit_concat(draft: Draft, branches: Sequence[Branch], concat: Node, whole: str) -> None:
    """`whole` where the branches stood in the Concat, or as its result."""
    results = {branch.result for branch in branches}
    inputs = [whole if name == branches[0].result else name for name in concat.inputs
              if name == branches[0].result or name not in results]
    if len(inputs) == 1:
        draft.end_in(concat)
    else:
        draft.instead_of(concat).emit("Concat", *inputs, out=concat.outputs[0], **concat.attrs)


def _emit_attention(edit: Edit, draft: Draft, branches: Sequence[Branch], whole: str) -> bool:
    """Queries, keys or values that are heads side by side in `whole`; False where that is not what reads them."""
    reshapes = [edit.only_user(branch.result) for branch in branches]
    readers = [edit.only_user(node.outputs[0]) if node is not None and node.op == "Reshape" else None
               for node in reshapes]
    node = readers[0]
    if node is None or node.op != "Attention" or any(reader is not node for reader in readers):
        return False
    attrs: dict[str, Attr] = dict(node.attrs)
    names, first, size = list(node.inputs), 0, None
    batch = edit.value(branches[0].result).shape[:2]
    for reshape in reshapes:
        assert reshape is not None
        made, shape = reshape.outputs[0], edit.value(reshape.outputs[0]).shape
        if len(shape) != 4 or shape[:2] != batch or not all(isinstance(dim, int) for dim in shape[2:]):
            return False
        places = [i for i, name in enumerate(node.inputs) if name == made]
        if len(places) != 1 or places[0] > 2 or size not in (None, shape[3]):
            return False
        part, size = "qkv"[places[0]], shape[3]
        if text_of(attrs, f"{part}_order", "bhsd") != "bshd" or f"{part}_first" in attrs or f"{part}_heads" in attrs:
            return False
        heads = int(shape[2])                                # type: ignore[arg-type]
        attrs |= {f"{part}_first": first, f"{part}_heads": heads}
        names[places[0]], first = "", first + heads
    to = draft.instead_of(*(reshape for reshape in reshapes if reshape is not None))
    assert size is not None
    heads_of_all = to.reshape(whole, (*batch, first, size))
    draft.instead_of(node).add("Attention", [name if name or not given else heads_of_all
                                             for name, given in zip(names, node.inputs, strict=True)], attrs,
                               node.outputs[0])
    return True
