"""NonMaxSuppression: every image and class picks its boxes, best first, in parallel; then all write (counted.py).

A box is compared with those picked so far, a register of them at a time.

No knob: a chunk is one image and class, and how many boxes it compares is data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Value
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Buffer, Expr, Type, cast, const, maximum, minimum, reduce, select, splat
from meta_infer.ir.shapes import Dim
from meta_infer.kernels.counted import BEGINS, COUNTS, count_temps, place_parts
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering, Temp
from meta_infer.kernels.reduction.heap import make_heap
from meta_infer.ops.attrs import bool_of
from meta_infer.ops.non_max_suppression import most_picked
from meta_infer.support.dtypes import FLOAT32, INT64

_PICKED = "temp:picked"
_SCORE = Type(FLOAT32)


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    yield Variant("non_max_suppression", "plain", {n: PLAIN for n in group.inputs}, {n: PLAIN for n in group.outputs})


@dataclass(frozen=True)
class _Box:
    """Edges and area, in registers."""

    left: Expr
    right: Expr
    low: Expr
    high: Expr
    area: Expr

    @property
    def parts(self) -> tuple[Expr, ...]:
        return self.left, self.right, self.low, self.high, self.area


def _box_at(b: Builder, boxes: Buffer, at: Expr, centered: bool) -> _Box:
    first, second, third, fourth = (b.let(b.load(boxes, at + i), "edge") for i in range(4))
    if centered:
        wide, tall = b.let(third / 2.0, "wide"), b.let(fourth / 2.0, "tall")
        left, right, low, high = first - wide, first + wide, second - tall, second + tall
    else:
        left, right = minimum(second, fourth), maximum(second, fourth)
        low, high = minimum(first, third), maximum(first, third)
    left, right, low, high = (b.let(edge, "edge") for edge in (left, right, low, high))
    return _Box(left, right, low, high, b.let((right - left) * (high - low), "area"))


def _overlap_too_much(b: Builder, one: _Box, other: _Box, most: Expr) -> Expr:
    """Lanes in which the boxes' intersection over union is above `most`; boxes without area overlap nothing."""
    lanes = other.left.type.lanes
    left, right, low, high, area = (splat(part, lanes) for part in one.parts)
    width = b.let(minimum(right, other.right) - maximum(left, other.left), "width")
    height = b.let(minimum(high, other.high) - maximum(low, other.low), "height")
    both = b.let(width * height, "both")
    union = b.let(area + other.area - both, "union")
    solid = width.gt(0) & height.gt(0) & both.gt(0) & area.gt(0) & other.area.gt(0) & union.gt(0)
    return solid & (both / union).gt(splat(most, lanes))


def _operands(group: Group) -> tuple[Value | None, ...]:
    """Boxes, scores, limit, overlap, least score; None for those that are absent."""
    names = (*group.anchor.inputs, "", "", "")[:5]
    return tuple(group.values[name] if name else None for name in names)


def _select(group: Group, capacity: Dim, lanes: int) -> KernelCall:
    """The boxes that each image and class picks, `capacity` places for each, and how many they are."""
    boxes, scores, limit, overlap, least = _operands(group)
    assert boxes is not None and scores is not None
    b = Builder("nms_select")
    given = [value for value in (boxes, scores, limit, overlap, least) if value is not None]
    buffers = {value.name: b.input(f"in{i}", value.dtype) for i, value in enumerate(given)}
    picked, counts = b.output("picked", INT64), b.output("counts", INT64)
    size, classes, room = b.dim(scores.shape[2]), b.dim(scores.shape[1]), b.dim(capacity)
    keys, places = b.scratch("keys", FLOAT32, size), b.scratch("places", INT64, size)
    kept_boxes = tuple(b.scratch(name, FLOAT32, room + lanes) for name in ("left", "right", "low", "high", "area"))

    with b.chunks(b.dim(scores.shape[0]) * classes) as chunk:
        first_box = b.let(chunk // classes * size, "first_box")
        most = const(0) if limit is None else b.let(
            maximum(minimum(cast(b.load(buffers[limit.name], 0), INT64), room), 0), "most")
        too_much = b.let(b.load(buffers[overlap.name], 0) if overlap is not None else const(0, _SCORE), "too_much")
        count = b.var(const(0), "count")
        with b.loop(0, size, name="box") as box:
            score = b.let(b.load(buffers[scores.name], chunk * size + box), "score")
            wanted = most.gt(0)
            if least is not None:
                wanted = wanted & score.gt(b.load(buffers[least.name], 0))
            with b.when(wanted):
                b.store(keys, count, score)
                b.store(places, count, box)
                b.assign(count, count + 1)
        heap, kept = make_heap(b, keys, places, count), b.var(const(0), "kept")
        candidates = b.var(count, "candidates")            # the heap shrinks, its first size stays
        with b.loop(0, candidates), b.when(kept.lt(most)):
            _, box = heap.pop()
            mine = _box_at(b, buffers[boxes.name], b.let((first_box + box) * 4), bool_of(group.anchor.attrs,
                                                                                        "center_point_box"))
            hits = b.var(const(0.0, _SCORE), "hits")
            with b.loop(0, kept, lanes, name="j") as j, b.when(hits.eq(0)):
                others = _Box(*(b.let(b.load(part, j, lanes), "other") for part in kept_boxes))
                bad = _overlap_too_much(b, mine, others, too_much)
                ones, none = const(1.0, others.left.type), const(0.0, others.left.type)
                b.assign(hits, reduce("max", select(bad, ones, none)))
            with b.when(hits.eq(0)):
                with b.when((kept % lanes).eq(0)):
                    # Lanes that hold no box yet have no area, so they overlap nothing.
                    b.store(kept_boxes[-1], kept, splat(const(0.0, _SCORE), lanes))
                for part, value in zip(kept_boxes, mine.parts, strict=True):
                    b.store(part, kept, value)
                b.store(picked, chunk * room + kept, box)
                b.assign(kept, kept + 1)
        b.store(counts, chunk, kept)
    func, dims = b.finish()
    return KernelCall(func, (*(value.name for value in given), _PICKED, COUNTS), dims)


def _write(group: Group, capacity: Dim) -> KernelCall:
    out = group.values[group.outputs[0]]
    scores = group.values[group.anchor.inputs[1]]
    b = Builder("nms_write")
    picked, counts, begins = (b.input(name, INT64) for name in ("picked", "counts", "begins"))
    rows = b.output("rows", INT64)
    classes, room = b.dim(scores.shape[1]), b.dim(capacity)
    with b.chunks(b.dim(scores.shape[0]) * classes) as chunk:
        begin = b.let(b.load(begins, chunk), "begin")
        with b.loop(0, b.let(b.load(counts, chunk), "count"), name="i") as i:
            row = b.let((begin + i) * 3, "row")
            b.store(rows, row, chunk // classes)
            b.store(rows, row + 1, chunk % classes)
            b.store(rows, row + 2, b.load(picked, chunk * room + i))
    func, dims = b.finish()
    return KernelCall(func, (_PICKED, COUNTS, BEGINS, out.name), dims)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    scores, out = group.values[group.anchor.inputs[1]], group.values[group.outputs[0]]
    limit = _operands(group)[2]
    capacity = 0 if limit is None else most_picked(scores.shape[2], group.constants.get(limit.name))
    parts = scores.shape[0] * scores.shape[1]
    calls = (_select(group, capacity, profile.lanes(FLOAT32)), place_parts(parts, out.shape[0]),
             _write(group, capacity))
    return Lowering(calls, temps=(Temp(_PICKED, INT64, (parts, capacity)), *count_temps(parts)))


NON_MAX_SUPPRESSION = Kernel("non_max_suppression", ("NonMaxSuppression",), _variants, _lower)
