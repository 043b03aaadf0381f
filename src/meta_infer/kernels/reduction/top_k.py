"""TopK: the k best elements of every line along one axis and where they are, best first.

    few wanted:  a sorted list of the best so far; an element that beats the worst of them is inserted
    many:        candidates for twice as many; when they are full they are sorted and the worse half dropped, and from
                 then on only what beats the worst one left is a candidate

Both are stable: of equal elements the one with the lower index comes first. NaN counts as the largest number.

No knob: what it takes depends on the data more than on how lines are dealt out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Buffer, Expr, Type, Var, cast, const, maximum, minimum, select
from meta_infer.ir.shapes import dim_min, product
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.point import bind
from meta_infer.kernels.reduction.sorting import merge_sort
from meta_infer.kernels.rows import GRAIN
from meta_infer.ops.attrs import bool_of, int_of
from meta_infer.support.dtypes import INT64, DType

# An insertion moves up to this many elements; beyond, sorting candidates costs less.
_FEW = 32


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    yield Variant("top_k", "plain", {n: PLAIN for n in group.inputs}, {n: PLAIN for n in group.outputs})


@dataclass(frozen=True)
class _Lines:
    """Scratch of one line: `keys` and `places` hold twice `room` candidates each, for the sort."""

    b: Builder
    dtype: DType
    largest: bool
    keys: Buffer
    places: Buffer
    room: Expr

    def beats(self, a: Expr, b: Expr) -> Expr:
        """Whether key `a` comes before key `b` whatever their places."""
        if not self.largest:
            a, b = b, a
        better = a.gt(b)
        return better | (a.ne(a) & b.eq(b)) if self.dtype.is_float else better

    def entry_before(self, a: Expr, b: Expr) -> Expr:
        return self.beats(self.b.let(self.b.load(self.keys, a), "key"), self.b.let(self.b.load(self.keys, b), "key"))

    def put(self, at: Expr, key: Expr, place: Expr) -> None:
        self.b.store(self.keys, at, key)
        self.b.store(self.places, at, place)

    def move(self, source: Expr, target: Expr) -> None:
        self.put(target, self.b.load(self.keys, source), self.b.load(self.places, source))


def _select_few(lines: _Lines, src: Buffer, first: Expr, stride: Expr, size: Expr, wanted: Expr) -> None:
    """The best `wanted` of the line at the front of the scratch."""
    b = lines.b
    kept = b.var(const(0), "kept")
    with b.loop(0, size, name="at") as at:
        key = b.let(b.load(src, first + at * stride), "key")
        with b.when(kept.lt(wanted)):
            _insert(lines, key, at, kept)
            b.assign(kept, kept + 1)
        with b.otherwise(), b.when(lines.beats(key, b.let(b.load(lines.keys, kept - 1), "worst"))):
            _insert(lines, key, at, kept - 1)


def _insert(lines: _Lines, key: Expr, place: Expr, count: Expr) -> None:
    """Insert behind every one of the first `count` elements that does not lose to `key`; the rest move on."""
    b = lines.b
    before = b.var(const(0), "before")
    with b.loop(0, count, name="j") as j:
        loses = lines.beats(key, b.load(lines.keys, j))
        b.assign(before, before + select(loses, const(0), const(1)))
    with b.loop(0, count - before, name="j") as j:
        lines.move(b.let(count - 1 - j), b.let(count - j))
    lines.put(before, key, place)


def _select_many(lines: _Lines, src: Buffer, first: Expr, stride: Expr, size: Expr, wanted: Expr) -> Var:
    """The best `wanted` of the line in order; returns the element of the scratch where they begin.

    Candidates that are left stand in order before newer ones, so a stable sort keeps lower indices first.
    """
    b = lines.b
    count, is_full = b.var(const(0), "count"), b.var(const(0), "is_full")
    worst = b.var(const(0, Type(lines.dtype)), "worst")
    with b.loop(0, size, name="at") as at:
        key = b.let(b.load(src, first + at * stride), "key")
        with b.when(is_full.eq(0) | lines.beats(key, worst)):
            lines.put(count, key, at)
            b.assign(count, count + 1)
            with b.when(count.eq(lines.room) & lines.room.lt(size)):
                best = merge_sort(b, lines.room, lines.entry_before, lines.move)
                with b.when(best.gt(0)), b.loop(0, wanted, name="j") as j:
                    lines.move(best + j, j)
                b.assign(worst, b.load(lines.keys, wanted - 1))
                b.assign(count, wanted)
                b.assign(is_full, const(1))
    return merge_sort(b, count, lines.entry_before, lines.move)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    anchor, x = group.anchor, group.values[group.anchor.inputs[0]]
    axis = int_of(anchor.attrs, "axis")
    made = next(name for name in anchor.outputs if name in group.outputs)
    b = Builder("top_k")
    buffers = bind(b, group)
    src, outputs = buffers[x.name], [buffers.get(name) for name in anchor.outputs]
    size, wanted = b.dim(x.shape[axis]), b.dim(group.values[made].shape[axis])
    inner, rows = b.dim(product(x.shape[axis + 1:])), b.dim(product((*x.shape[:axis], *x.shape[axis + 1:])))
    room = b.dim(dim_min(group.values[made].shape[axis] * 2, x.shape[axis]))
    lines = _Lines(b, x.dtype, bool_of(anchor.attrs, "largest"), b.scratch("keys", x.dtype, room * 2),
                   b.scratch("places", INT64, room * 2), room)
    per_chunk = maximum(const(GRAIN // 4) // maximum(size, 1), 1)
    with b.chunks((rows + per_chunk - 1) // per_chunk) as chunk:
        start = b.let(chunk * per_chunk, "start")
        with b.loop(start, minimum(start + per_chunk, rows), name="row") as row:
            outer, column = b.let(row // inner, "outer"), b.let(row % inner, "column")
            first = b.let(outer * size * inner + column, "first")
            found = b.var(const(0), "found")
            with b.when(wanted.le(_FEW)), b.when(wanted.gt(0)):
                _select_few(lines, src, first, inner, size, wanted)
            with b.when(wanted.gt(_FEW)):
                b.assign(found, _select_many(lines, src, first, inner, size, wanted))
            with b.loop(0, wanted, name="rank") as rank:
                target = b.let((outer * wanted + rank) * inner + column, "target")
                for output, held in zip(outputs, (lines.keys, lines.places), strict=False):
                    if output is not None:
                        b.store(output, target, cast(b.load(held, found + rank), output.dtype))
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


TOP_K = Kernel("top_k", ("TopK",), _variants, _lower)
