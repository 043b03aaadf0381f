"""A convolution as several smaller ones: by output channel, by input channel, or by the parts of a Concat it reads.

    before                                                     after
    %c: float32[1, 4, 9, 9] = Conv(%x, %w)                     %a: float32[1, 2, 9, 9] = Conv(%x, %w[:2])
    %y: float32[1, 4, 9, 9] = Relu(%c)                         %p: float32[1, 2, 9, 9] = Relu(%a)
                                                               %b: float32[1, 2, 9, 9] = Conv(%x, %w[2:])
                                                               %q: float32[1, 2, 9, 9] = Relu(%b)
                                                               %y: float32[1, 4, 9, 9] = Concat(%p, %q)

    %y: float32[1, 4, 9, 9] = Conv(%x, %w)                     %a: float32[1, 4, 9, 9] = Conv(%x[:, :8], %w[:, :8])
                                                               %b: float32[1, 4, 9, 9] = Conv(%x[:, 8:], %w[:, 8:])
                                                               %y: float32[1, 4, 9, 9] = Add(%a, %b)

    %x: float32[1, 12, 9, 9] = Concat(%u, %v)                  %a: float32[1, 4, 9, 9] = Conv(%u, %w[:, :8])
    %y: float32[1, 4, 9, 9] = Conv(%x, %w)                     %b: float32[1, 4, 9, 9] = Conv(%v, %w[:, 8:])
                                                               %y: float32[1, 4, 9, 9] = Add(%a, %b)

The first two keep the weights of a part in the second-level cache of one core where all of them do not fit, and are
proposed only there; parts are whole multiples of the chip's channel alignment. The third saves the copy that a Concat
is, when nobody else reads it. One group and constant weights are needed. The first computes the same sums; sums by
input channel are added in another order, which differs by rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Node
from meta_infer.ops.attrs import int_of
from meta_infer.passes.alignment import channel_step
from meta_infer.passes.channels import Link, next_link
from meta_infer.passes.draft import Draft
from meta_infer.passes.pieces import Pieces
from meta_infer.passes.rewrite import Edit

MOST_PARTS = 4
"""More parts read the input, or write and read the sums, too often."""


def split_conv(edit: Edit, node: Node, profile: Profile | None) -> Iterator[Draft]:
    """At most three ways to compute a convolution in parts. See the module."""
    if node.op != "Conv" or int_of(node.attrs, "group", 1) != 1:
        return
    weights, bias = edit.constant(node.inputs[1]), _bias(edit, node)
    quantized = any(edit.value(name).quant for name in (*node.inputs, *node.outputs) if name)
    if weights is None or quantized or edit.constant(node.inputs[0]) is not None:
        return
    if bias is None and any(node.inputs[2:]):
        return
    parts = _concatenated(edit, node)
    if parts:
        yield _by_concat(edit, node, weights, parts)
    if profile is None or not profile.l2_bytes or weights.nbytes <= profile.l2_bytes:
        return
    count, step = -(-weights.nbytes // profile.l2_bytes), channel_step(profile, edit.value(node.outputs[0]).dtype)
    for axis in (0, 1):
        cuts = _cuts(weights.shape[axis], min(count, MOST_PARTS), step)
        if len(cuts) > 1:
            yield (_by_output if axis == 0 else _by_input)(edit, node, weights, cuts)


def _bias(edit: Edit, node: Node) -> np.ndarray | None:
    return edit.constant(node.inputs[2]) if any(node.inputs[2:]) else None


def _cuts(channels: int, parts: int, step: int) -> list[tuple[int, int]]:
    """(first, count) of about equal parts of `channels`, each but the last a multiple of `step`."""
    each = -(-channels // (parts * step)) * step
    return [(at, min(each, channels - at)) for at in range(0, channels, each)]


def _conv(to: Pieces, node: Node, name: str, weights: np.ndarray, bias: np.ndarray | None) -> str:
    inputs = [name, to.constant(np.ascontiguousarray(weights), "part_weights")]
    if bias is not None:
        inputs.append(to.constant(bias, "part_bias"))
    return to.add("Conv", inputs, node.attrs)


def _by_output(edit: Edit, node: Node, weights: np.ndarray, cuts: Sequence[tuple[int, int]]) -> Draft:
    """Rows of the weight by themselves, each with the elementwise nodes that follow; a Concat after them grows."""
    links: list[Link] = []
    while (link := next_link(edit, links[-1].node.outputs[0] if links else node.outputs[0], 1)) is not None:
        links.append(link)
    result = links[-1].node.outputs[0] if links else node.outputs[0]
    draft, bias = Draft(edit), _bias(edit, node)
    to = draft.instead_of(node, *(link.node for link in links))
    made = []
    for first, count in cuts:
        part = slice(first, first + count)
        name = _conv(to, node, node.inputs[0], weights[part], None if bias is None else bias[part])
        for link in links:
            vectors = {at: v if v.size == 1 else v[part] for at, v in link.vectors.items()}
            name = link.emit(to, name, 1, vectors)
        made.append(name)
    reader = edit.only_user(result)
    if reader is not None and reader.op == "Concat" and int_of(reader.attrs, "axis") == 1:
        names = [part for name in reader.inputs for part in (made if name == result else [name])]
        draft.instead_of(reader).add("Concat", names, reader.attrs, reader.outputs[0])
    else:
        to.add("Concat", made, {"axis": 1}, result)
    return draft


def _by_input(edit: Edit, node: Node, weights: np.ndarray, cuts: Sequence[tuple[int, int]]) -> Draft:
    draft = Draft(edit)
    to = draft.instead_of(node)
    names = [to.sliced(node.inputs[0], 1, first, count) for first, count in cuts]
    _emit_sum(edit, to, node, weights, list(zip(names, cuts, strict=True)))
    return draft


def _concatenated(edit: Edit, node: Node) -> list[tuple[str, tuple[int, int]]]:
    """The parts (value, (first channel, count)) of the Concat that `node` alone reads, if there are few."""
    concat = edit.made_by(node.inputs[0], "Concat")
    if concat is None or edit.only_user(node.inputs[0]) is not node or int_of(concat.attrs, "axis") != 1:
        return []
    if not 1 < len(concat.inputs) <= MOST_PARTS:
        return []
    parts: list[tuple[str, tuple[int, int]]] = []
    first = 0
    for name in concat.inputs:
        value = edit.value(name)
        count = value.shape[1]
        if not isinstance(count, int) or count == 0 or value.quant or edit.constant(name) is not None:
            return []
        parts.append((name, (first, count)))
        first += count
    return parts


def _by_concat(edit: Edit, node: Node, weights: np.ndarray, parts: Sequence[tuple[str, tuple[int, int]]]) -> Draft:
    draft = Draft(edit)
    concat = edit.made_by(node.inputs[0])
    assert concat is not None
    _emit_sum(edit, draft.instead_of(concat, node), node, weights, parts)
    return draft


def _emit_sum(edit: Edit, to: Pieces, node: Node, weights: np.ndarray,
              parts: Sequence[tuple[str, tuple[int, int]]]) -> None:
    """The sum of the parts' convolutions as the result of `node`, the bias being added in the first."""
    total, bias = "", _bias(edit, node)
    for i, (name, (first, count)) in enumerate(parts):
        found = _conv(to, node, name, weights[:, first:first + count], None if i else bias)
        last = node.outputs[0] if i == len(parts) - 1 else ""
        total = to.emit("Add", total, found, out=last) if total else found
