"""A convolution and the pooling of its result.

    plain (two groups)                                  alternative (one group)
    {%c = Conv(%x, %w) {...}; %r = Relu(%c)}            {%c = Conv(%x, %w) {...}; %r = Relu(%c);
    {%y = MaxPool(%r) {...}}                             %y = MaxPool(%r) {...}}

Only when nobody else reads %r.
"""

from __future__ import annotations

from collections.abc import Iterator

from meta_infer.passes.neighbours import Neighbours


def fuse_conv_pool(near: Neighbours, i: int) -> Iterator[tuple[int, ...]]:
    """Groups that could be one with group `i` as the last. See the module."""
    if near.groups[i].anchor.op in ("MaxPool", "AveragePool"):
        first = near.before(i)
        if first is not None and near.groups[first].anchor.op == "Conv":
            yield (first, i)
