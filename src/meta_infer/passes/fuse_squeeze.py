"""The gate of squeeze-and-excitation: each channel's mean, two small products, a sigmoid.

    plain (three groups)                                alternative (one group)
    {%m = GlobalAveragePool(%x)}                        {%m = GlobalAveragePool(%x);
    {%f = Conv(%m, %w); %r = Relu(%f)}                   %f = Conv(%m, %w); %r = Relu(%f);
    {%h = Conv(%r, %v); %g = Sigmoid(%h)}                %h = Conv(%r, %v); %g = Sigmoid(%h)}

Only when nobody else reads what passes between them. (Hu et al., Squeeze-and-Excitation Networks, CVPR 2018.)
"""

from __future__ import annotations

from collections.abc import Iterator

from meta_infer.passes.neighbours import Neighbours


def fuse_squeeze(near: Neighbours, i: int) -> Iterator[tuple[int, ...]]:
    """Groups that could be one with group `i` as the last. See the module."""
    parts = [i]
    for op in ("Conv", "Conv", "GlobalAveragePool"):
        if near.groups[parts[0]].anchor.op != op:
            return
        if op == "GlobalAveragePool":
            yield tuple(parts)
            return
        before = near.before(parts[0])
        if before is None:
            return
        parts.insert(0, before)
