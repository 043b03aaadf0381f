"""What keeps a query from a key: causal frontiers, windows, padding and masks, as one tensor that scores are added to.

Query i of Sq stands at position p = i + offset of the keys. `offset` is how many keys come before the queries: the
length of the cache that the node itself extends, or, for a cache from outside, its valid keys less the queries.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meta_infer.ir.shapes import Dim, bounds
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import ImportContext, OnnxNode
from meta_infer.ops.size_math import SizeMath
from meta_infer.support.dtypes import BOOL, DType


@dataclass(frozen=True)
class Rules:
    """Which keys a query may see. Windows count keys to the left and right of its position, -1 is all of them.

    `past` is the length of the node's own cache, `valid` names the valid keys per batch entry of a cache from outside
    (int64 [batch]), '' where there is none.
    """

    queries: Dim
    keys: Dim
    past: Dim = 0
    valid: str = ""
    causal: bool = False
    left: int = -1
    right: int = -1

    @property
    def may_leave_nothing(self) -> bool:
        """Whether a query may be left without any key."""
        return bool(self.valid) or self.left >= 0


def allowed_keys(node: OnnxNode, ctx: ImportContext, rules: Rules) -> str:
    """bool [queries, keys], or [batch, 1, queries or 1, keys] with `valid`; '' when every key may be seen."""
    math, found, valid = SizeMath(node, ctx), list[str](), ""
    keys = math.iota(rules.keys)
    if rules.valid:
        valid = math.view(rules.valid, (*ctx.type_of(rules.valid).shape, 1, 1, 1))
        found.append(math.less(keys, valid))
    right = 0 if rules.causal else rules.right
    if right >= 0 or rules.left >= 0:
        offset = math.sub(valid, math.dims((rules.queries,))) if valid else math.dims((rules.past,))
        position = math.add(math.view(math.iota(rules.queries), (rules.queries, 1)), offset)
        if right >= 0:
            found.append(math.less(keys, math.add(position, right + 1)))
        if rules.left >= 0:
            found.append(math.less(math.sub(position, rules.left + 1), keys))
    allowed = ""
    for more in found:
        allowed = math.both(allowed, more) if allowed else more
    return allowed


def padded_mask(b: NodeBuilder, ctx: ImportContext, mask: str, keys: Dim) -> str:
    """A mask whose last dimension is shorter than the keys, which hides the keys behind it."""
    found = ctx.type_of(mask)
    missing = keys - found.shape[-1]
    if missing == 0 or bounds(missing)[0] < 0:             # sizes that cannot be told apart are held equal
        return mask
    fill = b.scalar(False if found.dtype == BOOL else -np.inf, found.dtype, "hidden")
    rest = b.emit("Expand", fill, shape=(*found.shape[:-1], missing))
    return b.emit("Concat", mask, rest, axis=len(found.shape) - 1)


@dataclass(frozen=True)
class Bias:
    """What is added to the scores, and its rank."""

    name: str
    rank: int


def additive_mask(b: NodeBuilder, ctx: ImportContext, node: OnnxNode, rules: Rules, mask: str, dtype: DType
                  ) -> Bias | None:
    """-inf where a query may not see a key, else the (float) mask or 0; None when there is nothing to add.

    `mask` names one of bools (true: may be seen) or of numbers, '' where absent.
    """
    zero, hidden = (b.scalar(value, dtype, hint) for value, hint in ((0, "zero"), (-np.inf, "hidden")))
    allowed = allowed_keys(node, ctx, rules)
    rank = (4 if rules.valid else 2) if allowed else 0
    if mask:
        given, rank = ctx.type_of(mask), max(rank, len(ctx.type_of(mask).shape))
        mask = padded_mask(b, ctx, mask, rules.keys)
        if given.dtype == BOOL:
            mask = b.emit("Where", mask, zero, hidden)
        elif given.dtype != dtype:
            mask = b.cast(mask, dtype)
    if allowed:
        mask = b.emit("Where", allowed, mask or zero, hidden)
    return Bias(mask, rank) if mask else None
