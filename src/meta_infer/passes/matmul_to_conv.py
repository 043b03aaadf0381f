"""Matrix products over the channels as convolutions of one tap, where the channels lay on axis 1 before.

    before                                                     after
    %t: float32[1, 9, 9, 8] = Transpose(%x)                    %c: float32[1, 4, 9, 9] = Conv(%x, %v, %b)
    %m: float32[1, 9, 9, 4] = MatMul(%t, %w)                   %r: float32[1, 4, 9, 9] = Gelu(%c)
    %a: float32[1, 9, 9, 4] = Add(%m, %b)                      %y: float32[1, 9, 9, 4] = Transpose(%r)
    %y: float32[1, 9, 9, 4] = Gelu(%a)

    %p: float32[N, 8, 1, 1] = GlobalAveragePool(%x)            %p: float32[N, 8, 1, 1] = GlobalAveragePool(%x)
    %f: float32[N, 8] = Reshape(%p)                            %c: float32[N, 4, 1, 1] = Conv(%p, %v)
    %y: float32[N, 4] = Gemm(%f, %w)                           %y: float32[N, 4] = Reshape(%c)

The first needs a Transpose to channels last before the chain, or one from it behind the chain; the second a view that
drops axes of size 1. So the values may stay in whichever layout convolutions around them have. Constant weights;
elementwise nodes with constants along the channels come along. Each output is the same sum in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Node
from meta_infer.passes.draft import Draft
from meta_infer.passes.pointwise_chain import (
    Step,
    emit_between,
    emit_chain,
    is_head,
    read_chain,
    take_before,
    to_first,
    to_last,
    transposed,
)
from meta_infer.passes.rewrite import Edit


def matmul_to_conv(edit: Edit, node: Node, profile: Profile | None) -> Iterator[Draft]:
    """The chain that begins with `node`, a MatMul or Gemm, as convolutions."""
    if node.op not in ("MatMul", "Gemm"):
        return
    rank = edit.value(node.outputs[0]).rank
    if node.op == "MatMul" and rank < 3:
        return
    steps, result = read_chain(edit, node, rank - 1)
    if not steps:
        return
    if node.op == "Gemm":
        view = _squeezed(edit, node)
        if view is not None:
            yield _at_one_place(edit, node, steps, result, view)
        return
    before, after = transposed(edit.made_by(node.inputs[0]), to_last(rank)), edit.only_user(result)
    if before is not None or (transposed(after, to_first(rank)) and is_head(edit, node, rank - 1)):
        draft = Draft(edit)
        emit_between(edit, draft, steps, result, "Conv", to_first(rank), to_last(rank))
        yield draft


def _squeezed(edit: Edit, node: Node) -> Node | None:
    """The Reshape of [N, C, 1, 1] to [N, C] that `node` reads."""
    view = edit.made_by(node.inputs[0], "Reshape")
    if view is None:
        return None
    shape = edit.value(view.inputs[0]).shape
    fits = len(shape) in (3, 4) and all(dim == 1 for dim in shape[2:]) and shape[:2] == edit.value(node.inputs[0]).shape
    return view if fits and not edit.value(view.inputs[0]).quant else None


def _at_one_place(edit: Edit, node: Node, steps: list[Step], result: str, view: Node) -> Draft:
    draft = Draft(edit)
    name = emit_chain(draft, steps, take_before(edit, draft, view), "Conv")
    draft.instead_of(view).reshape(name, edit.value(result).shape, out=result)
    return draft
