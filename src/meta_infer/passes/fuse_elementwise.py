"""Groups of elementwise ops alone: every chain or diamond with one result becomes one pass over memory.

    before (three groups)                          after (one group)
    %a: float32[N, 8] = Exp(%x)                    {%a = Exp(%x);
    %b: float32[N, 8] = Tanh(%z)                    %b = Tanh(%z);
    %y: float32[N, 8] = Add(%a, %b)                 %y = Add(%a, %b)}

All results have one shape, and what is made inside is read inside only, but for the last value.
"""

from __future__ import annotations

from collections.abc import Set

from meta_infer.ir.graph import Node, Shape
from meta_infer.passes.fuse_epilogue import MAX_NODES, Flow, fuse_epilogue, is_elementwise
from meta_infer.passes.rewrite import key_of


def fuse_elementwise(flow: Flow, first: Node, taken: Set[str]) -> frozenset[str]:
    """Keys of the group of `first`, the earliest elementwise node not `taken`: what follows, and what feeds that."""
    keys = fuse_epilogue(flow, first, taken)
    shape = flow.graph.values[key_of(first)].shape
    while len(keys) <= MAX_NODES:
        feeding = _feeding(flow, keys, taken, shape)
        if feeding is None:
            return keys
        keys |= {feeding}
    return keys


def _feeding(flow: Flow, keys: frozenset[str], taken: Set[str], shape: Shape) -> str | None:
    """A free elementwise node whose result is read in the group only."""
    for name in sorted({name for key in keys for name in flow.nodes[key].reads}):
        key = flow.makers.get(name, "")
        if not key or key in keys or key in taken or name in flow.outputs:
            continue
        fits = is_elementwise(flow.nodes[key]) and flow.graph.values[key].shape == shape
        if fits and keys.issuperset(flow.readers[name]):
            return key
    return None
