"""Let a convolution or average pooling do the zero padding before it.

    before                                                          after
    %p: float32[1, 3, 6, 6] = Pad(%x) {mode = "constant",           %y: float32[1, 8, 4, 4] = Conv(%x, %w)
        pads = (0, 0, 1, 1, 0, 0, 1, 1), value = 0.0}                   {pads = (1, 1, 1, 1), ...}
    %y: float32[1, 8, 4, 4] = Conv(%p, %w) {pads = (0, 0, 0, 0), ...}

Only when nobody else reads %p, and it pads spatial axes only and by no negative number. AveragePool then counts
the padding (count_include_pad), so its own pads must be zero or counted already, and ceil_mode off.
"""

from __future__ import annotations

from meta_infer.ir.graph import Graph, Node
from meta_infer.ops.attrs import bool_of, dims_of, float_of, ints_of, text_of
from meta_infer.passes.rewrite import Edit, apply_rule


def fuse_pad(graph: Graph) -> Graph:
    """Add the amounts of Pad to the pads of its only reader, a Conv or AveragePool. See the module."""
    return apply_rule(graph, _fuse)


def _fuse(edit: Edit, node: Node) -> bool:
    pad = edit.made_by(node.inputs[0], "Pad") if node.op in ("Conv", "AveragePool") else None
    if pad is None or edit.only_user(pad.outputs[0]) is not node or node.inputs.count(pad.outputs[0]) > 1:
        return False
    amounts = _spatial_amounts(pad)
    if amounts is None:
        return False
    attrs = dict(node.attrs)
    own = ints_of(attrs, "pads", (0,) * len(amounts))
    if node.op == "AveragePool":
        counted = bool_of(attrs, "count_include_pad", False) or not any(own)
        if not counted or bool_of(attrs, "ceil_mode", False):
            return False
        attrs["count_include_pad"] = 1
    attrs["pads"] = tuple(a + b for a, b in zip(own, amounts, strict=True))
    edit.remove([pad, node])
    edit.emit(node.op, (pad.inputs[0], *node.inputs[1:]), attrs, origins=[pad, node], output=node.outputs[0])
    return True


def _spatial_amounts(pad: Node) -> tuple[int, ...] | None:
    """Amounts (begin..., end...) of the axes from 2 on of a zero padding; None when it is another."""
    dims = dims_of(pad.attrs, "pads")
    pads = [dim for dim in dims if isinstance(dim, int)]
    if len(pads) < len(dims) or any(amount < 0 for amount in pads):
        return None
    if text_of(pad.attrs, "mode", "constant") != "constant" or float_of(pad.attrs, "value", 0.0) != 0.0:
        return None
    rank = len(pads) // 2
    if any(pads[:2]) or any(pads[rank:rank + 2]):
        return None
    return (*pads[2:rank], *pads[rank + 2:])
