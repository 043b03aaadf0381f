"""Unique: places are sorted by what lies there, and equal neighbours are one.

    find    sort the places of all items (stable: the first of equals comes first), number the groups of equals
    write   the number of groups is the size of the outputs: copy one item of each

No knob: the sort takes the time, and it is one chunk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Buffer, Expr, Var, cast, const, maximum, minimum, select
from meta_infer.ir.shapes import Dim, product
from meta_infer.kernels.counted import COUNTS, TOTAL
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering, Temp, sizes_found
from meta_infer.kernels.reduction.sorting import merge_sort
from meta_infer.kernels.rows import GRAIN, copy_lanes, copy_run
from meta_infer.ops.attrs import bool_of
from meta_infer.ops.unique import axis_of
from meta_infer.support.dtypes import BOOL, INT32, INT64

# Elements of a slice that are compared before asking whether the rest matters.
_STEP = 16
_FIRSTS = "temp:firsts"


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    yield Variant("unique", "plain", {n: PLAIN for n in group.inputs}, {n: PLAIN for n in group.outputs})


@dataclass(frozen=True)
class _Items:
    """`count` slices of `outer` x `inner` elements each; element e of item i lies at `place(i, e)`."""

    b: Builder
    src: Buffer
    count: Expr
    outer: Expr
    inner: Expr

    def place(self, item: Expr, element: Expr) -> Expr:
        return (element // self.inner * self.count + item) * self.inner + element % self.inner

    def before(self, x: Expr, y: Expr) -> Expr:
        """Whether item `x` comes before item `y` in lexicographic order. Writes statements."""
        length = self.outer * self.inner
        if length == const(1):
            return self.less(self.src, x, self.src, y)
        b, order = self.b, self.b.var(const(0), "order")             # 1: before, 2: behind, 0: equal so far
        length = b.let(length, "length")
        with b.loop(0, length, _STEP, name="step") as step, b.when(order.eq(0)):
            with b.loop(step, minimum(step + _STEP, length), name="e") as e, b.when(order.eq(0)):
                mine, other = b.let(self.place(x, e), "mine"), b.let(self.place(y, e), "other")
                b.assign(order, select(self.less(self.src, mine, self.src, other), const(1),
                                       select(self.less(self.src, other, self.src, mine), const(2), const(0))))
        return order.eq(1)

    def less(self, one: Buffer, at: Expr, other: Buffer, there: Expr) -> Expr:
        """Whether one[at] < other[there]. NaN is greater than any number, and equal to itself."""
        x, y = self.b.let(self.b.load(one, at), "key"), self.b.let(self.b.load(other, there), "key")
        if one.dtype == BOOL:
            x, y = cast(x, INT32), cast(y, INT32)
        return x.lt(y) | (x.eq(x) & y.ne(y)) if one.dtype.is_float else x.lt(y)


def _find(group: Group, items: Dim, outer: Dim, inner: Dim, count: Dim) -> KernelCall:
    """Fills `firsts` (an item of each group, in the outputs' order), `counts`, the inverse, and `total`."""
    x, anchor = group.values[group.inputs[0]], group.anchor
    inverse = anchor.outputs[2] if len(anchor.outputs) > 2 else ""
    b = Builder("unique_find")
    src, firsts, counts = b.input("x", x.dtype), b.output("firsts", INT64), b.output("counts", INT64)
    total = b.output("total", INT64)
    groups = b.output("inverse", INT64) if inverse else None
    size = b.dim(items)
    slices = _Items(b, src, size, b.dim(outer), b.dim(inner))
    places = b.scratch("places", INT64, size * 2)
    with b.chunks(1):
        here = _sorted_places(b, slices, places)
        found = b.var(const(0), "found")
        if bool_of(anchor.attrs, "sorted"):
            _number(b, slices, places, here, found, firsts, counts, groups)
        else:
            # By rank first; then new numbers in the order of the groups' first items.
            own = b.scratch("group_of", INT64, size)
            rank_first, rank_count = b.scratch("rank_first", INT64, size), b.scratch("rank_count", INT64, size)
            renamed = b.scratch("renamed", INT64, size)
            ranks = b.var(const(0), "ranks")
            _number(b, slices, places, here, ranks, rank_first, rank_count, own)
            with b.loop(0, size, name="item") as item:
                rank = b.let(b.load(own, item), "rank")
                with b.when(b.load(rank_first, rank).eq(item)):
                    b.store(renamed, rank, found)
                    b.store(firsts, found, item)
                    b.store(counts, found, b.load(rank_count, rank))
                    b.assign(found, found + 1)
                if groups is not None:
                    b.store(groups, item, b.load(renamed, rank))
        b.store(total, 0, found)
    func, dims = b.finish()
    args = (x.name, _FIRSTS, COUNTS, TOTAL, *((inverse,) if inverse else ()))
    return KernelCall(func, args, dims, sizes_found(count, TOTAL))


def _sorted_places(b: Builder, slices: _Items, places: Buffer) -> Var:
    """Fills `places` with all items in order; gives where they begin. Single elements move along with their places."""
    size, single = slices.count, slices.outer * slices.inner == const(1)
    keys = b.scratch("keys", slices.src.dtype, size * 2) if single else places
    with b.loop(0, size, name="item") as item:
        b.store(places, item, item)
        if single:
            b.store(keys, item, b.load(slices.src, item))

    def before(p: Expr, q: Expr) -> Expr:
        if single:
            return slices.less(keys, p, keys, q)
        return slices.before(b.let(b.load(places, p), "x"), b.let(b.load(places, q), "y"))

    def move(source: Expr, target: Expr) -> None:
        b.store(places, target, b.load(places, source))
        if single:
            b.store(keys, target, b.load(keys, source))

    return merge_sort(b, size, before, move)


def _number(b: Builder, slices: _Items, places: Buffer, here: Expr, found: Var, firsts: Buffer, counts: Buffer,
            groups: Buffer | None) -> None:
    """Numbers the groups of equals in the sorted places from `here` on; `found` becomes their number."""
    with b.loop(0, slices.count, name="rank") as rank:
        item = b.let(b.load(places, here + rank), "item")
        new = b.var(const(1), "new")
        with b.when(rank.gt(0)):
            previous = b.let(b.load(places, here + rank - 1), "previous")
            b.assign(new, select(slices.before(previous, item), const(1), const(0)))
        with b.when(new.eq(1)):
            b.store(firsts, found, item)
            b.store(counts, found, const(0))
            b.assign(found, found + 1)
        b.store(counts, found - 1, b.load(counts, found - 1) + 1)
        if groups is not None:
            b.store(groups, item, found - 1)


def _write(group: Group, items: Dim, outer: Dim, inner: Dim, count: Dim, profile: Profile) -> KernelCall | None:
    """Copies what the groups' first items are, and the two vectors; None when no such output is wanted."""
    anchor, x = group.anchor, group.values[group.inputs[0]]
    y, indices, _, counted = (*anchor.outputs, "", "", "")[:4]
    wanted = [name for name in (y, indices, counted) if name]
    if not wanted:
        return None
    b = Builder("unique_write")
    firsts, counts = b.input("firsts", INT64), b.input("counts", INT64)
    src, dst = (b.input("x", x.dtype), b.output("y", x.dtype)) if y else (None, None)
    vectors = [(source, b.output(name, INT64)) for name, source, out in (
        ("indices", firsts, indices), ("numbers", counts, counted)) if out]
    size, length, total = b.dim(count), b.dim(inner), b.dim(items)
    rows = (b.dim(outer) if y else const(1)) * size
    per_chunk = maximum(const(GRAIN) // maximum(length if y else const(1), 1), 1)
    with b.chunks((rows + per_chunk - 1) // per_chunk) as chunk:
        start = b.let(chunk * per_chunk, "start")
        with b.loop(start, minimum(start + per_chunk, rows), name="row") as row:
            if src is not None and dst is not None:
                first = b.let(b.load(firsts, row % size), "first")
                source = b.let((row // size * total + first) * length, "source")
                copy_run(b, src, source, dst, b.let(row * length), length, copy_lanes(profile, src.dtype))
            with b.when(row.lt(size)):
                for source_buffer, target in vectors:
                    b.store(target, row, b.load(source_buffer, row))
    func, dims = b.finish()
    return KernelCall(func, (_FIRSTS, COUNTS, *((x.name, y) if y else ()),
                             *(name for name in (indices, counted) if name)), dims)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    x, anchor = group.values[group.inputs[0]], group.anchor
    axis = axis_of(anchor.attrs)
    outer, items, inner = (1, product(x.shape), 1) if axis is None else (
        product(x.shape[:axis]), x.shape[axis], product(x.shape[axis + 1:]))
    axes = {0: axis or 0, 1: 0, 3: 0}                    # where the outputs have the size
    count = next((group.values[name].shape[axes[i]] for i, name in enumerate(anchor.outputs) if name and i in axes), 0)
    calls = (_find(group, items, outer, inner, count), _write(group, items, outer, inner, count, profile))
    return Lowering(tuple(call for call in calls if call is not None), temps=(
        Temp(_FIRSTS, INT64, (items,)), Temp(COUNTS, INT64, (items,)), Temp(TOTAL, INT64, (1,))))


UNIQUE = Kernel("unique", ("Unique",), _variants, _lower)
