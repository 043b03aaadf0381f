"""Convolutions of one tap as matrix products, where the channels lie last already, or at a single place.

    before                                                     after
    %t: float32[1, 8, 9, 9] = Transpose(%x)                    %m: float32[1, 9, 9, 4] = MatMul(%x, %v)
    %c: float32[1, 4, 9, 9] = Conv(%t, %w)                     %r: float32[1, 9, 9, 4] = Relu(%m)
    %y: float32[1, 4, 9, 9] = Relu(%c)                         %y: float32[1, 4, 9, 9] = Transpose(%r)

    %c: float32[N, 4, 1, 1] = Conv(%x, %w)                     %f: float32[N, 8] = Reshape(%x)
    %y: float32[N, 4, 1, 1] = Relu(%c)                         %g: float32[N, 4] = Gemm(%f, %w')
                                                               %r: float32[N, 4] = Relu(%g)
                                                               %y: float32[N, 4, 1, 1] = Reshape(%r)

The first needs a Transpose from channels last before the chain of convolutions and elementwise nodes, or one to
channels last behind it: at least as many go as come. The second needs the window of the first convolution to be its
whole input (1 x 1, or the last 7 x 7 of a classifier). Constant weights, one group; elementwise nodes with constants
along the channels come along. Each output is the same sum in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import product
from meta_infer.passes.draft import Draft
from meta_infer.passes.pointwise_chain import (
    Step,
    covers_input,
    emit_between,
    emit_chain,
    is_head,
    nodes_of,
    read_chain,
    takes_one,
    to_first,
    to_last,
    transposed,
)
from meta_infer.passes.rewrite import Edit


def conv_to_matmul(edit: Edit, node: Node, profile: Profile | None) -> Iterator[Draft]:
    """The chain that begins with convolution `node` as products over the last axis, or of one place."""
    if node.op != "Conv":
        return
    steps, result = read_chain(edit, node, 1)
    if not steps or not is_head(edit, node, 1):
        return
    if covers_input(edit, node):
        yield _as_gemm(edit, node, steps, result)
        return
    rank = edit.value(result).rank
    if not all(takes_one(one) for one in nodes_of(steps) if one.op == "Conv"):
        return
    if transposed(edit.made_by(node.inputs[0]), to_first(rank)) or transposed(edit.only_user(result), to_last(rank)):
        draft = Draft(edit)
        emit_between(edit, draft, steps, result, "MatMul", to_last(rank), to_first(rank))
        yield draft


def _as_gemm(edit: Edit, node: Node, steps: list[Step], result: str) -> Draft:
    draft, shape = Draft(edit), edit.value(node.inputs[0]).shape
    flat = draft.instead_of(node).reshape(node.inputs[0], (shape[0], product(shape[1:])))
    name = emit_chain(draft, steps, flat, "Gemm")
    draft.instead_of(nodes_of(steps)[-1]).reshape(name, edit.value(result).shape, out=result)
    return draft
