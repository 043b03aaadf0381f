"""A convolution with what makes its input: elementwise nodes, a depthwise convolution, or that and one more.

    plain (two groups)                                  alternative (one group)
    {%d = Conv(%x, %v) {group = 32, ...};               {%d = Conv(%x, %v) {group = 32, ...};
     %e = Clip(%d)}                                      %e = Clip(%d);
    {%y = Conv(%e, %w) {kernel_shape = (1, 1)}}          %y = Conv(%e, %w) {kernel_shape = (1, 1)}}

Only when nobody else reads what passes between them.
"""

from __future__ import annotations

from collections.abc import Iterator

from meta_infer.ir.group import Group
from meta_infer.ops.attrs import int_of
from meta_infer.passes.fuse_epilogue import is_elementwise
from meta_infer.passes.neighbours import Neighbours


def fuse_conv_chain(near: Neighbours, i: int) -> Iterator[tuple[int, ...]]:
    """Groups that could be one with group `i` as the last. See the module."""
    groups = near.groups
    middle = near.before(i) if groups[i].anchor.op == "Conv" else None
    if middle is None:
        return
    if is_elementwise(groups[middle].anchor):
        yield (middle, i)
    if _is_depthwise(groups[middle]):
        yield (middle, i)
        first = near.before(middle)
        if first is not None and groups[first].anchor.op == "Conv":
            yield (first, middle, i)


def _is_depthwise(group: Group) -> bool:
    if group.anchor.op != "Conv":
        return False
    weight = group.in_value(1)
    return weight is not None and 1 < int_of(group.anchor.attrs, "group", 1) == weight.shape[0]
