"""Ops of random graphs whose sizes data tells, and sizes, axes and positions that are computed while running."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .random_graphs import Scope
from .random_ops import floats


def exact_or_whole(s: Scope, least: int = 1) -> str | None:
    """A value that every implementation computes alike, so that which elements are picked does not depend on it."""
    x = s.pick(lambda a: a.ndim >= least and a.size > 0 and a.dtype in (np.float32, np.int64, np.int32))
    if x is None or (s.find(x)[0].dtype.kind == "f" and not s.is_exact(x)):
        return s.pick(lambda a: a.ndim >= least and a.size > 0 and a.dtype in (np.int64, np.int32))
    return x


def distinct(s: Scope, x: str) -> bool:
    """Whether no two elements of a float value are so near that rounding could change their order."""
    return all(np.diff(np.sort(a, axis=None)).min(initial=1) > 1e-4 for a in s.find(x))


def non_zero(s: Scope) -> str | None:
    x = exact_or_whole(s)
    if x is None:
        return None
    places = s.emit("NonZero", [x])
    if places is None or s.rng.random() < 0.4:
        return places
    rows = s.emit("Transpose", [places], perm=[1, 0])
    if rows is None or s.opset < 13 or s.rng.random() < 0.3:
        return rows
    return s.emit("GatherND", [x, rows]) or rows


def compress(s: Scope) -> str | None:
    x = s.pick(lambda a: a.ndim >= 1 and a.size > 0)
    if x is None:
        return None
    axis = s.rng.choice((None, s.rng.randrange(s.find(x)[0].ndim)))
    if s.rng.random() < 0.5:
        size = min(a.size if axis is None else a.shape[axis] for a in s.find(x))
        mask = s.const(np.random.default_rng(s.rng.getrandbits(32)).random(min(size, 9)) < 0.6)
    else:
        mask = s.pick(lambda a: a.dtype == bool and a.ndim == 1) or a_mask(s)
    return s.emit("Compress", [x, mask], axis=axis, exact=s.is_exact(x)) if mask else None


def a_mask(s: Scope) -> str | None:
    """A bool vector that depends on an input."""
    x = s.pick(lambda a: a.dtype in (np.int64, np.int32) and a.ndim == 1 and a.size > 0)
    if x is None:
        y = s.pick(lambda a: floats(a) and a.size > 0)
        if y is None or not s.is_exact(y):
            return None
        x = s.emit("Reshape", [y, s.ints(-1)], exact=True)
    return s.emit("Greater", [x, s.const(np.array(0, s.find(x)[0].dtype))]) if x else None


def top_k(s: Scope) -> str | None:
    x = s.pick(lambda a: a.dtype in (np.float32, np.int64) and a.ndim >= 1 and a.size > 0)
    if x is None or (floats(s.find(x)[0]) and not distinct(s, x)):
        return None
    axis = s.rng.randrange(s.find(x)[0].ndim)
    size = min(a.shape[axis] for a in s.find(x))
    k = s.pick(lambda a: a.dtype == np.int64 and a.shape == (1,) and 0 <= a[0] <= size)
    if k is None or s.rng.random() < 0.6:
        k = s.ints(s.rng.randint(0, size))
    return s.emit("TopK", [x, k], outputs=2, axis=axis, largest=s.rng.choice((0, 1)))


def unique(s: Scope) -> str | None:
    x = exact_or_whole(s)
    if x is None:
        return None
    axis = s.rng.choice((None, None, s.rng.randrange(s.find(x)[0].ndim)))
    return s.emit("Unique", [x], outputs=s.rng.choice((1, 2, 4)), axis=axis, sorted=s.rng.choice((0, 1)),
                  exact=s.is_exact(x))


def non_max_suppression(s: Scope) -> str | None:
    boxes, classes = s.rng.choice((1, 5, 9)), s.rng.choice((1, 2))
    drawn = np.random.default_rng(s.rng.getrandbits(32))
    corners = drawn.random((1, boxes, 2), np.float32) * 4
    found = s.const(np.concatenate([corners, corners + drawn.random((1, boxes, 2), np.float32) * 3 + 0.2], 2))
    scores = s.const(drawn.permutation(classes * boxes).reshape(1, classes, boxes).astype(np.float32))
    x = s.pick(lambda a: floats(a) and a.size > 0)
    if x is None:
        return None
    zero = s.emit("ReduceMax", [x], keepdims=0)
    zero = s.emit("Mul", [zero, s.const(np.array(0, np.float32))]) if zero else None
    found = s.emit("Add", [found, zero], exact=True) if zero else None
    return s.emit("NonMaxSuppression", [found, scores, s.const(np.array(s.rng.choice((1, 3, 20)), np.int64)),
                                        s.const(np.array(s.rng.choice((0.0, 0.3, 0.7)), np.float32))],
                  center_point_box=s.rng.choice((0, 0, 1))) if found else None


def a_number(s: Scope, least: int, most: int) -> str | None:
    """An int64 vector of one element in [least, most] that depends on data, never a constant."""
    x = s.pick(lambda a: a.dtype in (np.int64, np.int32) and a.size > 0) or s.pick(
        lambda a: a.dtype == bool and a.size > 0)
    if x is None:
        return None
    total = s.emit("Cast", [x], to=7)
    total = s.emit("ReduceMax", [total], keepdims=0) if total else None
    total = s.emit("Reshape", [total, s.ints(1)]) if total else None
    total = s.emit("Min", [total, s.ints(most)]) if total and s.opset >= 12 else None
    return s.emit("Max", [total, s.ints(least)]) if total else None


def sized_by_data(s: Scope) -> str | None:
    """Slice, Tile, Expand, Range, ConstantOfShape, Reshape, Pad or Split by numbers that are computed."""
    x = s.pick(lambda a: a.dtype in (np.float32, np.int64) and a.ndim >= 1 and a.size > 0)
    n = a_number(s, 0, 3)
    if x is None or n is None:
        return None
    rank = s.find(x)[0].ndim
    axis = s.rng.randrange(rank)
    kind = s.rng.choice(("Slice", "Slice", "Tile", "Expand", "Range", "ConstantOfShape", "Reshape", "Pad", "Axis"))
    exact = s.is_exact(x)
    if kind == "Slice":
        step = s.rng.choice((1, 1, 2, -1))
        ends = [n, s.ints(2 ** 40)] if step > 0 else [n, s.ints(-2 ** 40)]
        if s.rng.random() < 0.5 and step > 0:
            ends = [s.ints(0), n]
        return s.emit("Slice", [x, *ends, s.ints(axis), s.ints(step)], exact=exact)
    if kind == "Axis":
        at = s.emit("Min", [n, s.ints(rank - 1)])
        return s.emit("Slice", [x, s.ints(0), s.ints(1), at], exact=exact) if at else None
    if kind == "Tile":
        parts = [n if i == axis else s.ints(1) for i in range(rank)]
        repeats = s.emit("Concat", parts, axis=0)
        return s.emit("Tile", [x, repeats], exact=exact) if repeats else None
    if kind == "Expand":
        shape = s.emit("Concat", [n, *[s.ints(1)] * rank], axis=0)
        return s.emit("Expand", [x, shape], exact=exact) if shape else None
    if kind == "ConstantOfShape":
        shape = s.emit("Concat", [n, s.ints(2)], axis=0)
        return s.emit("ConstantOfShape", [shape]) if shape else None
    if kind == "Range":
        stop = s.emit("Reshape", [n, s.ints()])
        return s.emit("Range", [s.const(np.array(0)), stop, s.const(np.array(1))]) if stop else None
    if kind == "Reshape":
        one = s.emit("Max", [n, s.ints(1)])
        one = s.emit("Min", [one, s.ints(1)]) if one else None
        shape = s.emit("Concat", [one, s.ints(-1)], axis=0) if one else None
        return s.emit("Reshape", [x, shape], exact=exact) if shape else None
    amounts = [n if i == axis else s.ints(0) for i in range(2 * rank)]
    pads = s.emit("Concat", amounts, axis=0)
    return s.emit("Pad", [x, pads], exact=exact) if pads else None


def growing_loop(s: Scope) -> str | None:
    """A carried value that gets longer, shorter or as long as data tells, in every pass."""
    x = s.pick(lambda a: a.dtype in (np.float32, np.int64) and a.ndim >= 1 and 0 < a.size < 400)
    if x is None or s.depth > 1:
        return None
    arrays = s.find(x)
    axis = s.rng.randrange(arrays[0].ndim)
    body = s.inner(in_loop=True)
    names = [body.fresh(k) for k in ("iter", "go", "carried")]
    body.values[names[0]] = [np.array(0, np.int64)] * s.points
    body.values[names[1]] = [np.array(True)] * s.points
    body.values[names[2]] = arrays
    kind = s.rng.choice(("more", "double", "fewer", "change"))
    if kind == "more":
        row = body.emit("Slice", [names[2], body.ints(0), body.ints(1), body.ints(axis)])
        out = body.emit("Concat", [names[2], row], axis=axis) if row else None
    elif kind == "double":
        out = body.emit("Concat", [names[2], names[2]], axis=axis)
    elif kind == "fewer":
        out = body.emit("Slice", [names[2], body.ints(1), body.ints(2 ** 40), body.ints(axis)])
    else:
        most = body.emit("Add", [names[0], body.const(np.array(1))])
        stop = body.emit("Reshape", [most, body.ints(1)]) if most else None
        out = body.emit("Slice", [x, body.ints(0), stop, body.ints(axis)]) if stop else None
    go = body.emit("Identity", [names[1]])
    if out is None or go is None:
        return None
    region = body.as_region(s.fresh("body"), names, [go, out])
    for info in (region.input[2], region.output[1]):
        info.type.tensor_type.shape.dim[axis].Clear()
    trips = s.const(np.array(s.rng.choice((0, 1, 2, 3))))
    if s.rng.random() < 0.4:
        n = a_number(s, 0, 3)
        trips = (s.emit("Reshape", [n, s.ints()]) if n else None) or trips
    return s.emit("Loop", [trips, "", x], body=region)


def scan(s: Scope) -> str | None:
    """A running sum along an axis, in either direction."""
    x = s.pick(lambda a: floats(a) and a.ndim >= 2 and a.size > 0 and a.shape[0] < 12)
    if x is None or s.depth > 1:
        return None
    rows = [a[0] for a in s.find(x)]
    if len({r.shape for r in rows}) != 1:
        return None
    start = s.floats(*rows[0].shape)
    body = s.inner(in_loop=True)
    names = [body.fresh(k) for k in ("state", "row")]
    body.values[names[0]], body.values[names[1]] = s.find(start), rows
    scaled = body.emit("Mul", [names[0], body.const(np.array(0.5, np.float32))])
    total = body.emit("Add", [scaled, names[1]]) if scaled else None
    made = body.emit("Tanh", [total]) if total else None
    if total is None or made is None:
        return None
    region = body.as_region(s.fresh("body"), names, [total, made])
    return s.emit("Scan", [start, x], outputs=2, body=region, num_scan_inputs=1,
                  scan_input_directions=[s.rng.choice((0, 1))], scan_output_directions=[s.rng.choice((0, 1))])


def uneven_if(s: Scope) -> str | None:
    """Branches that give different sizes."""
    x = s.pick(lambda a: a.dtype in (np.float32, np.int64) and a.ndim >= 1 and a.size > 0)
    n = a_number(s, 0, 1)
    if x is None or n is None or s.depth > 1:
        return None
    cond = s.emit("Cast", [n], to=9)
    cond = s.emit("Reshape", [cond, s.ints()]) if cond else None
    if cond is None:
        return None
    axis = s.rng.randrange(s.find(x)[0].ndim)
    arms = []
    for kind in s.rng.sample(("Concat", "Slice", "Identity"), 2):
        inner = s.inner()
        if kind == "Concat":
            out = inner.emit("Concat", [x, x], axis=axis)
        elif kind == "Slice":
            out = inner.emit("Slice", [x, inner.ints(0), inner.ints(1), inner.ints(axis)])
        else:
            out = inner.emit("Identity", [x])
        if out is None:
            return None
        arms.append(inner.as_region(s.fresh("arm"), [], [out]))
    return s.emit("If", [cond], then_branch=arms[0], else_branch=arms[1], exact=s.is_exact(x))


FOUND: tuple[Callable[[Scope], object], ...] = (
    *[non_zero] * 2, *[compress] * 2, *[top_k] * 2, *[unique] * 2, non_max_suppression, *[sized_by_data] * 5,
    *[growing_loop] * 2, scan, *[uneven_if] * 2,
)
