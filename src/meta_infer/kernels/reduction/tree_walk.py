"""TreeWalk: every row goes down every decision tree, one comparison a level, to the leaf it ends in.

A walk takes as many steps as the deepest tree; one that has reached its leaf stays there.

No knob: a walk waits for one load after another, and rows are dealt out finely enough for any number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Buffer, Expr, const, select
from meta_infer.kernels.fold import row_chunks
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.point import bind
from meta_infer.ops.attrs import bool_of, int_of
from meta_infer.ops.tree_walk import MEMBER

# Comparisons of a chunk: tens of microseconds.
GRAIN = 4096


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    yield Variant("tree_walk", "plain", {n: PLAIN for n in group.inputs}, {group.outputs[0]: PLAIN})


def _is_member(b: Builder, value: Expr, node: Expr, members: Buffer, ends: Buffer) -> Expr:
    found = b.var(const(0), "found")
    first = b.let(b.load(ends, node), "first")
    with b.loop(first, b.load(ends, node + 1), 1, "member") as member:
        b.assign(found, select(b.load(members, member).eq(value), const(1), found))
    return found


def _compared(value: Expr, split: Expr, mode: Expr) -> Expr:
    """The comparison that `mode` names, as 0 or 1 (see ops/tree_walk.py)."""
    result = const(0)
    for number, holds in enumerate((value.le(split), value.lt(split), value.ge(split), value.gt(split),
                                    value.eq(split), value.ne(split))):
        result = select(mode.eq(number), select(holds, const(1), const(0)), result)
    return result


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    anchor, x = group.anchor, group.values[group.anchor.inputs[0]]
    b = Builder("tree_walk")
    buffers = bind(b, group)
    table = [buffers[name] for name in anchor.inputs]
    data, features, splits, modes, true, false, missing, members, ends, roots = table
    rows, width = b.dim(x.shape[0]), b.dim(x.shape[1])
    trees, depth = b.dim(group.values[anchor.inputs[-1]].shape[0]), int_of(anchor.attrs, "depth")
    with row_chunks(b, rows, trees * depth, GRAIN) as (first, last):
        with b.loop(first, last, 1, "row") as row, b.loop(0, trees, 1, "tree") as tree:
            node = b.var(b.load(roots, tree), "node")
            with b.loop(0, depth, 1, "level"), b.when(node.ge(0)):
                value = b.let(b.load(data, row * width + b.load(features, node)), "value")
                mode = b.let(b.load(modes, node), "mode")
                goes = b.var(_compared(value, b.load(splits, node), mode), "goes")
                if bool_of(anchor.attrs, "members", False):
                    with b.when(mode.eq(MEMBER)):
                        b.assign(goes, _is_member(b, value, node, members, ends))
                if x.dtype.is_float:
                    tracked = select(value.ne(value), b.load(missing, node), const(0))
                    b.assign(goes, goes | tracked)
                b.assign(node, select(goes.ne(0), b.load(true, node), b.load(false, node)))
            b.store(buffers[group.outputs[0]], row * trees + tree, -1 - node)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


TREE_WALK = Kernel("tree_walk", ("TreeWalk",), _variants, _lower)
