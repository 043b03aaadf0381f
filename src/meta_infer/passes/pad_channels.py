"""Channels up to the next multiple of the chip's alignment, filled with zero weights.

    before                                                     after, on a chip that computes 8 channels together
    %c: float32[1, 6, 9, 9] = Conv(%x, %w)                     %d: float32[1, 8, 9, 9] = Conv(%x, %w and 2 zero rows)
    %r: float32[1, 6, 9, 9] = Relu(%c)                         %s: float32[1, 8, 9, 9] = Relu(%d)
    %y: float32[1, 9, 9, 9] = Conv(%r, %v)                     %y: float32[1, 9, 9, 9] = Conv(%s, %v and 2 zero columns)

The padding channels hold what the elementwise nodes make of 0, which must be finite: the next convolution multiplies
it by 0. (Where the input is infinite they hold NaN, and so do all sums over them; results are the same where values are
finite.) Depthwise convolutions and pools between the two pad their channels as well. That convolution, when unaligned
too, is padded along with it, and so on. Where no convolution takes the channels, a Slice behind the elementwise nodes
drops them. Where the profile states an alignment, unaligned inputs are padded by a Pad as well.

One group (or depthwise) and constant weights are needed. `waste` is the share of multiplications that comes on top; a
move that would more than double them is not proposed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Node, Shape
from meta_infer.ir.shapes import product, usual_upper
from meta_infer.ops.attrs import int_of
from meta_infer.ops.registry import op_named
from meta_infer.ops.run_reference import run_reference
from meta_infer.passes.alignment import channel_step
from meta_infer.passes.channels import Link, next_link
from meta_infer.passes.draft import Draft
from meta_infer.passes.pieces import Pieces
from meta_infer.passes.rewrite import Edit

MOST_WASTE = 1.0
POOLS = ("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")


@dataclass(frozen=True)
class Padded:
    """A convolution with `more_in` and `more_out` channels, and what of the nodes behind it carries them along."""

    conv: Node
    more_in: int
    more_out: int
    behind: tuple[Node | Link, ...] = ()


def pad_channels(edit: Edit, node: Node, profile: Profile | None) -> Iterator[Draft]:
    """The channels that `node` makes, and those that it takes, padded. See the module."""
    if profile is None or not _is_dense(edit, node):
        return
    step = channel_step(profile, edit.value(node.outputs[0]).dtype)
    weights = _weights(edit, node)
    if -weights.shape[0] % step:
        yield from _worthwhile(_pad_made(edit, node, step))
    if profile.aligned_channel > 1 and -weights.shape[1] % step:
        yield from _worthwhile(_pad_taken(edit, node, step))


def _worthwhile(draft: Draft) -> Iterator[Draft]:
    if draft.waste <= MOST_WASTE:
        yield draft


def _weights(edit: Edit, node: Node) -> np.ndarray:
    array = edit.constant(node.inputs[1])
    assert array is not None
    return array


def _is_constant(edit: Edit, node: Node) -> bool:
    """Whether `node` is a convolution of constant float weights, unquantized."""
    if node.op != "Conv" or any(edit.value(name).quant for name in (*node.inputs, *node.outputs) if name):
        return False
    arrays = [edit.constant(name) for name in node.inputs[1:] if name]
    return all(array is not None and array.dtype.kind == "f" for array in arrays)


def _is_dense(edit: Edit, node: Node) -> bool:
    return (_is_constant(edit, node) and int_of(node.attrs, "group", 1) == 1
            and edit.constant(node.inputs[0]) is None)


def _is_depthwise(edit: Edit, node: Node) -> bool:
    """One filter for each channel."""
    if not _is_constant(edit, node):
        return False
    weights = _weights(edit, node)
    return bool(1 < int_of(node.attrs, "group", 1) == weights.shape[0] and weights.shape[1] == 1)


def _pad_made(edit: Edit, conv: Node, step: int) -> Draft:
    """From `conv` on, as far as channels are unaligned."""
    run, more_in, taker = [], 0, conv
    while True:
        more_out = -_weights(edit, taker).shape[0] % step
        behind, after = _behind(edit, taker) if more_out else ((), None)
        run.append(Padded(taker, more_in, more_out, behind))
        if after is None:
            break
        taker, more_in = after, more_out
    return _emit_run(edit, run)


def _behind(edit: Edit, conv: Node) -> tuple[tuple[Node | Link, ...], Node | None]:
    """Nodes that carry the padding channels of `conv`, and the convolution that then takes them, if there is one."""
    found: list[Node | Link] = []
    name, held = conv.outputs[0], 0.0
    while True:
        node, link = edit.only_user(name), next_link(edit, name, 1)
        if link is not None and (after := _held_after(edit, link, held)) is not None:
            found.append(link)
            held, name = after, link.node.outputs[0]
        elif node is not None and node.inputs[0] == name and node.inputs.count(name) == 1 and (
                _is_depthwise(edit, node) or (node.op in POOLS and len(node.outputs) == 1)):
            found.append(node)
            held, name = 0.0 if node.op == "Conv" else held, node.outputs[0]
        elif node is not None and node.inputs[0] == name and _is_dense(edit, node):
            return tuple(found), node
        else:
            break
    alone = next((i for i, one in enumerate(found) if isinstance(one, Node)), len(found))
    return tuple(found[:alone]), None


def _held_after(edit: Edit, link: Link, held: float) -> float | None:
    """What padding channels hold after `link`, their constants being 1; None where that is not finite."""
    dtypes = [edit.value(name).dtype for name in (link.name, link.node.outputs[0])]
    arrays = [np.full((1,), held, dtypes[0].numpy) if name == link.name else
              (link.vectors[i] if link.vectors[i].size == 1 else np.ones(1, link.vectors[i].dtype)).reshape(1)
              if i in link.vectors else None for i, name in enumerate(link.node.inputs)]
    with np.errstate(all="ignore"):
        (result,) = run_reference(op_named(link.node.op), link.node.attrs, arrays, dtypes[1:])
    found = float(np.asarray(result).reshape(-1)[0])
    return found if np.isfinite(found) and dtypes[1].is_float else None


def _grown(array: np.ndarray, *more: int) -> np.ndarray:
    """`array` with zeros behind its first axes."""
    return np.pad(array, [(0, n) for n in (*more, *(0,) * (array.ndim - len(more)))])


def _emit_conv(edit: Edit, to: Pieces, node: Node, name: str, more_out: int, more_in: int, out: str = "") -> str:
    inputs = [name, to.constant(_grown(_weights(edit, node), more_out, more_in), "padded_weights")]
    if len(node.inputs) > 2 and node.inputs[2]:
        bias = edit.constant(node.inputs[2])
        assert bias is not None
        inputs.append(to.constant(_grown(bias, more_out), "padded_bias") if more_out else node.inputs[2])
    groups = int_of(node.attrs, "group", 1)
    return to.add("Conv", inputs, {**node.attrs, "group": groups + more_out if groups > 1 else 1}, out)


def _emit_run(edit: Edit, run: list[Padded]) -> Draft:
    draft, name = Draft(edit), run[0].conv.inputs[0]
    old = new = 0
    for padded in run:
        conv, more = padded.conv, padded.more_out
        name = _emit_conv(edit, draft.instead_of(conv), conv, name, more, padded.more_in,
                          "" if more else conv.outputs[0])
        shape = _weights(edit, conv).shape
        positions = _positions(edit.value(conv.outputs[0]).shape)
        old += positions * shape[0] * shape[1] * int(np.prod(shape[2:]))
        new += positions * (shape[0] + more) * (shape[1] + padded.more_in) * int(np.prod(shape[2:]))
        for one in padded.behind:
            if isinstance(one, Link):
                vectors = {at: v if v.size == 1 else np.concatenate([v, np.ones(more, v.dtype)])
                           for at, v in one.vectors.items()}
                name = one.emit(draft.instead_of(one.node), name, 1, vectors)
            elif one.op == "Conv":
                name = _emit_conv(edit, draft.instead_of(one), one, name, more, 0)
                taps = _positions(edit.value(one.outputs[0]).shape) * int(np.prod(_weights(edit, one).shape[2:]))
                old, new = old + taps * (shape[0]), new + taps * (shape[0] + more)
            else:
                name = draft.instead_of(one).add(one.op, (name, *one.inputs[1:]), one.attrs)
    last = run[-1]
    if last.more_out:
        result = _result(last.behind[-1]) if last.behind else last.conv.outputs[0]
        draft.instead_of(last.conv).sliced(name, 1, 0, _weights(edit, last.conv).shape[0], out=result)
    draft.waste = new / old - 1 if old else 0.0
    return draft


def _result(one: Node | Link) -> str:
    return (one.node if isinstance(one, Link) else one).outputs[0]


def _positions(shape: Shape) -> int:
    """Places at which a convolution of this output is computed, at usual sizes."""
    return usual_upper(product((shape[0], *shape[2:])))


def _pad_taken(edit: Edit, conv: Node, step: int) -> Draft:
    """Zeros behind the input's channels, and in the weights for them."""
    draft, weights = Draft(edit), _weights(edit, conv)
    to, more, n = draft.instead_of(conv), -weights.shape[1] % step, weights.ndim - 2
    wide = to.emit("Pad", conv.inputs[0], pads=(0,) * (n + 3) + (more,) + (0,) * n, mode="constant", value=0.0)
    _emit_conv(edit, to, conv, wide, 0, more, conv.outputs[0])
    draft.waste = more / weights.shape[1]
    return draft
