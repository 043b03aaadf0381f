"""TreeWalk: the leaf of every decision tree that every row of a matrix ends in.

    %leaf: int64[rows, trees] = TreeWalk(%x: [rows, features], %feature, %split, %mode, %true, %false, %missing,
                                         %members, %ends, %roots) {depth = 7, members = false}

Tables have one element per inner node: x[feature] is compared with split by mode, and the walk goes to node `true` or
`false`; a negative number n there, or in roots, is leaf -1 - n. NaN takes the true branch where `missing` is 1. The set
of node i, for mode MEMBER, is members[ends[i]:ends[i + 1]].
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from meta_infer.ir.graph import Attr
from meta_infer.ir.shapes import Dim, product
from meta_infer.ops.attrs import Attrs, int_of
from meta_infer.ops.elementwise import floats
from meta_infer.ops.opdef import InferContext, OpDef, Sample, ShapeError, TensorType
from meta_infer.support.dtypes import INT64

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
"""By number, as TreeEnsemble of ai.onnx.ml version 5 numbers them."""
MEMBER = 6
_COMPARE = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)


def _infer(ctx: InferContext) -> tuple[TensorType, ...]:
    x, split, roots = ctx.input(0), ctx.input(2), ctx.input(9)
    if len(x.shape) != 2 or split.dtype != x.dtype:
        raise ShapeError(f"walks rows of a matrix of {split.dtype}, not {x.dtype}{list(x.shape)}")
    return (TensorType(INT64, (x.shape[0], roots.shape[0])),)


def _reference(attrs: Attrs, arrays: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    x, feature, split, mode, true, false, missing, members, ends, roots = (a for a in arrays if a is not None)
    node = np.broadcast_to(roots, (len(x), len(roots))).copy()
    rows = np.arange(len(x))[:, None]
    for _ in range(int_of(attrs, "depth")):
        at = np.maximum(node, 0)
        value = x[rows, feature[at]] if len(feature) else np.zeros(node.shape)
        goes = np.zeros(node.shape, np.bool_)
        for number, compare in enumerate(_COMPARE):
            goes |= (mode[at] == number) & compare(value, split[at])
        for r, t in np.argwhere((mode[at] == MEMBER) & (node >= 0)):
            i = at[r, t]
            goes[r, t] = value[r, t] in members[ends[i]:ends[i + 1]]
        goes |= np.isnan(value.astype(np.float64)) & (missing[at] == 1)
        node = np.where(node < 0, node, np.where(goes, true[at], false[at]))
    return (-1 - node,)


def _flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    return product(outputs[0].shape) * int_of(attrs, "depth")


def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    """Full trees of depth 3: node i of a tree has children 2 i + 1 and 2 i + 2, the eight leaves follow."""
    for rows, trees in ((1, 1), (5, 3), (0, 2)):
        count = 7 * trees
        inner = np.arange(count) % 7
        children = [np.where(inner < 3, np.arange(count) // 7 * 7 + 2 * inner + k,
                             -1 - (np.arange(count) // 7 * 8 + (inner - 3) * 2 + k - 1)) for k in (1, 2)]
        mode = rng.integers(0, 7, count)
        ends = np.concatenate([[0], np.cumsum(np.where(mode == MEMBER, 2, 0))])
        x = np.rint(floats(rng, (rows, 4)))
        if x.size:
            x[0, 0] = np.nan
        attrs: dict[str, Attr] = {"depth": 3, "members": True}
        yield Sample((x, rng.integers(0, 4, count), np.rint(floats(rng, (count,))), mode, *children,
                      rng.integers(0, 2, count), np.rint(floats(rng, (int(ends[-1]),))), ends,
                      np.arange(trees) * 7), attrs, onnx_op="-")


TREE_WALK = OpDef("TreeWalk", _infer, _reference, _samples, flops=_flops)

OPS: tuple[OpDef, ...] = (TREE_WALK,)
