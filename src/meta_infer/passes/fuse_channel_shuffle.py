"""A channel shuffle with the Concat before it and the slices behind it: channels in another order, in one pass.

    plain (six groups)                                        alternative (one group)
    {%c = Concat(%a, %b) {axis = 1}}                          {%c = Concat(%a, %b) {axis = 1};
    {%r = Reshape(%c) {shape = (N, 2, 58, H, W)}}              %r = Reshape(%c); %t = Transpose(%r); %s = Reshape(%t);
    {%t = Transpose(%r) {perm = (0, 2, 1, 3, 4)}}              %y = Slice(%s) {...}; %z = Slice(%s) {...}}
    {%s = Reshape(%t) {shape = (N, 116, H, W)}}
    {%y = Slice(%s) {...}}  {%z = Slice(%s) {...}}

Only when what passes between them is read by nobody else, and the slices take all or none of %s.
(Ma et al., ShuffleNet V2, ECCV 2018.)
"""

from __future__ import annotations

from collections.abc import Iterator

from meta_infer.passes.neighbours import Neighbours


def fuse_channel_shuffle(near: Neighbours, i: int) -> Iterator[tuple[int, ...]]:
    """Groups that could be one around the Transpose of group `i`. See the module."""
    groups = near.groups
    if groups[i].anchor.op != "Transpose":
        return
    before = near.before(i)
    after = near.readers.get(groups[i].outputs[0], ())
    if before is None or groups[before].anchor.op != "Reshape" or len(after) != 1 or near.before(after[0]) != i or (
            groups[after[0]].anchor.op != "Reshape"):
        return
    parts = [before, i, after[0]]
    joined = near.before(before)
    if joined is not None and groups[joined].anchor.op == "Concat":
        parts.insert(0, joined)
    yield tuple(parts)
    result = groups[after[0]].outputs[0]
    slices = near.readers.get(result, ())
    if result not in near.kept and slices and all(groups[part].anchor.op == "Slice" for part in slices):
        yield (*parts, *slices)
