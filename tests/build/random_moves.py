"""Ops of random graphs that move data, work on shapes, or hold regions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .random_graphs import Scope, tame
from .random_ops import COMPUTE, floats, ranked


def anything(a: np.ndarray) -> bool:
    return True


def transpose(s: Scope) -> str | None:
    x = s.pick(lambda a: a.ndim >= 1)
    if x is None:
        return None
    rank = s.find(x)[0].ndim
    perm = s.rng.sample(range(rank), rank)
    if rank == 4 and s.rng.random() < 0.5:
        perm = s.rng.choice(([0, 2, 3, 1], [0, 3, 1, 2]))
    return s.emit("Transpose", [x], perm=perm, exact=s.is_exact(x))


def reshape(s: Scope) -> str | None:
    x = s.pick(anything)
    if x is None:
        return None
    rng, shapes = s.rng, [a.shape for a in s.find(x)]
    sizes = list(zip(*shapes, strict=True))
    way = rng.random()
    if way < 0.25:
        target = [-1]
    elif way < 0.75 and len(sizes) >= 2:
        i = rng.randrange(len(sizes) - 1)                 # two neighbours become one; 0 copies, -1 infers
        target = [0] * i + [-1] + [c[0] for c in sizes[i + 2:]]
        if any(len(set(c)) > 1 for c in sizes[i + 2:]):
            return None
    else:
        target = [0] * len(sizes)
        for i, column in enumerate(sizes):                # one axis becomes two
            parts = [p for p in (1, 2, 3, 4) if len(set(column)) == 1 and column[0] % p == 0]
            if parts and rng.random() < 0.5:
                part = rng.choice(parts)
                rest = [c[0] if len(set(c)) == 1 else -1 for c in sizes[i + 1:]]
                if rest.count(-1) > 1:
                    continue
                target = [*([0] * i), part, column[0] // part, *rest]
                break
    return s.emit("Reshape", [x, s.ints(*target)], exact=s.is_exact(x))


def flatten(s: Scope) -> str | None:
    x = s.pick(anything)
    if x is None:
        return None
    return s.emit("Flatten", [x], axis=s.rng.randint(0, s.find(x)[0].ndim), exact=s.is_exact(x))


def squeeze(s: Scope) -> str | None:
    x = s.pick(lambda a: a.ndim >= 1 and 1 in a.shape)
    if x is None:
        return None
    axes = [i for i in range(s.find(x)[0].ndim) if all(a.shape[i] == 1 for a in s.find(x))]
    if not axes:
        return None
    axes = sorted(s.rng.sample(axes, s.rng.randint(1, len(axes))))
    if s.opset >= 13:
        return s.emit("Squeeze", [x, s.ints(*axes)], exact=s.is_exact(x))
    return s.emit("Squeeze", [x], axes=axes, exact=s.is_exact(x))


def unsqueeze(s: Scope) -> str | None:
    x = s.pick(lambda a: a.ndim < 5)
    if x is None:
        return None
    axes = [s.rng.randint(0, s.find(x)[0].ndim)]
    if s.opset >= 13:
        return s.emit("Unsqueeze", [x, s.ints(*axes)], exact=s.is_exact(x))
    return s.emit("Unsqueeze", [x], axes=axes, exact=s.is_exact(x))


def concat(s: Scope) -> str | None:
    x = s.pick(lambda a: a.ndim >= 1)
    if x is None:
        return None
    arrays = s.find(x)
    axis = 1 if arrays[0].ndim == 4 and s.rng.random() < 0.5 else s.rng.randrange(arrays[0].ndim)

    def rest(a: np.ndarray) -> tuple[int, ...]:
        return (*a.shape[:axis], -1, *a.shape[axis + 1:])

    others = [n for n in s.visible() if s.find(n)[0].dtype == arrays[0].dtype and
              all(p.ndim == q.ndim and rest(p) == rest(q) for p, q in zip(arrays, s.find(n), strict=True))]
    chosen = [x, *s.rng.choices(others, k=s.rng.randint(0, 3))]
    s.rng.shuffle(chosen)
    return s.emit("Concat", chosen, axis=axis - arrays[0].ndim if s.rng.random() < 0.3 else axis,
                  exact=all(map(s.is_exact, chosen)))


def slice_(s: Scope) -> str | None:
    x = s.pick(lambda a: a.ndim >= 1)
    if x is None:
        return None
    rng, rank = s.rng, s.find(x)[0].ndim
    axes = sorted(rng.sample(range(rank), rng.randint(1, min(2, rank))))
    starts, ends, steps = [], [], []
    for _ in axes:
        step = rng.choice((1, 1, 1, 2, 3, -1, -1, -2))
        starts.append(rng.choice((0, 1, -2, 2)) if step > 0 else rng.choice((-1, 4, 100, -2)))
        ends.append(rng.choice((3, -1, 2 ** 31, 5, 2 ** 63 - 1)) if step > 0 else rng.choice((0, -2 ** 31, 1, -4)))
        steps.append(step)
    found = s.emit("Slice", [x, s.ints(*starts), s.ints(*ends), s.ints(*axes), s.ints(*steps)], exact=s.is_exact(x))
    return found


def split(s: Scope) -> str | None:
    x = s.pick(lambda a: a.ndim >= 1 and max(a.shape) >= 2)
    if x is None:
        return None
    axes = [i for i in range(s.find(x)[0].ndim) if len({a.shape[i] for a in s.find(x)}) == 1]
    if not axes:
        return None
    axis = s.rng.choice(axes)
    size = s.find(x)[0].shape[axis]
    cut = sorted(s.rng.choices(range(size + 1), k=s.rng.randint(1, 2)))
    parts = [b - a for a, b in zip([0, *cut], [*cut, size], strict=True)]
    if 0 in parts and s.rng.random() < 0.9:
        return None
    if s.opset >= 18 and s.rng.random() < 0.3 and size >= 2:
        return s.emit("Split", [x], outputs=2, axis=axis, num_outputs=2, exact=s.is_exact(x))
    if s.opset >= 13:
        return s.emit("Split", [x, s.ints(*parts)], outputs=len(parts), axis=axis, exact=s.is_exact(x))
    return s.emit("Split", [x], outputs=len(parts), axis=axis, split=parts, exact=s.is_exact(x))


def gather(s: Scope) -> str | None:
    x = s.pick(lambda a: a.ndim >= 1 and a.size > 0)
    if x is None:
        return None
    axis = s.rng.randrange(s.find(x)[0].ndim)
    size = min(a.shape[axis] for a in s.find(x))
    index = s.pick(lambda v: v.dtype in (np.int64, np.int32) and v.size > 0 and -size <= v.min() <= v.max() < size)
    if index is None or s.rng.random() < 0.5:
        shape = s.rng.choice(((), (1,), (3,), (2, 2)))
        drawn = np.random.default_rng(s.rng.getrandbits(32)).integers(-size, size, shape)
        index = s.const(np.asarray(drawn, s.rng.choice((np.int64, np.int32))))
    return s.emit("Gather", [x, index], axis=axis, exact=s.is_exact(x))


def gather_elements(s: Scope) -> str | None:
    x = s.pick(lambda a: a.ndim >= 1 and a.size > 0)
    if x is None or len({a.shape for a in s.find(x)}) != 1:
        return None
    shape = s.find(x)[0].shape
    axis = s.rng.randrange(len(shape))
    index = np.random.default_rng(s.rng.getrandbits(32)).integers(0, shape[axis], shape)
    return s.emit("GatherElements", [x, s.const(index)], axis=axis, exact=s.is_exact(x))


def pad(s: Scope) -> str | None:
    x = s.pick(lambda a: a.dtype in (np.float32, np.int64) and a.ndim >= 1 and a.size > 0)
    if x is None:
        return None
    rng, rank = s.rng, s.find(x)[0].ndim
    mode = rng.choice(("constant", "constant", "reflect", "edge", *(("wrap",) if s.opset >= 19 else ())))
    low = 0 if mode != "constant" else -1
    smallest = [min(a.shape[i] for a in s.find(x)) for i in range(rank)]
    pads = [rng.randint(low, min(2, smallest[i % rank] - 1)) if rng.random() < 0.6 else 0 for i in range(2 * rank)]
    inputs = [x, s.ints(*pads)]
    if mode == "constant" and rng.random() < 0.4:
        inputs.append(s.const(np.array(2, s.find(x)[0].dtype)))
    found = s.emit("Pad", inputs, mode=mode)
    if found and floats(s.find(found)[0]) and s.find(found)[0].ndim == 4 and rng.random() < 0.5:
        channels = s.find(found)[0].shape[1]
        if len({a.shape[1] for a in s.find(found)}) == 1:
            return s.emit("Conv", [found, s.floats(8, channels, 3, 3, scale=0.2)], kernel_shape=[3, 3])
    return found


def expand(s: Scope) -> str | None:
    x = s.pick(lambda a: a.ndim < 5)
    if x is None:
        return None
    sizes = list(zip(*(a.shape for a in s.find(x)), strict=True))
    target = [s.rng.randint(1, 3) if set(c) == {1} else 1 for c in sizes]
    if s.rng.random() < 0.3:
        target = [2, *target]
    return s.emit("Expand", [x, s.ints(*target)], exact=s.is_exact(x))


def tile(s: Scope) -> str | None:
    x = s.pick(lambda a: a.ndim >= 1)
    if x is None:
        return None
    return s.emit("Tile", [x, s.ints(*s.rng.choices((1, 2), k=s.find(x)[0].ndim))], exact=s.is_exact(x))


def resize(s: Scope) -> str | None:
    x = s.pick(ranked(4))
    if x is None or s.opset < 11:
        return None
    rng = s.rng
    mode = rng.choice(("nearest", "nearest", "linear", "cubic"))
    attrs: dict[str, object] = {"mode": mode, "coordinate_transformation_mode": rng.choice(
        ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"))}
    if mode == "nearest":
        attrs["nearest_mode"] = rng.choice(("floor", "round_prefer_floor", "ceil", "round_prefer_ceil"))
        attrs["coordinate_transformation_mode"] = rng.choice(("half_pixel", "asymmetric", "asymmetric"))
    scales = np.array([1, 1, rng.choice((1, 2, 2, 0.5, 3)), rng.choice((1, 2, 2, 1.5))], np.float32)
    if len({a.shape for a in s.find(x)}) == 1 and rng.random() < 0.3:
        shape = s.find(x)[0].shape
        return s.emit("Resize", [x, "", "", s.ints(*shape[:2], rng.randint(1, 9), rng.randint(1, 9))], **attrs)
    roi = "" if s.opset >= 13 else s.const(np.zeros(0, np.float32))
    return s.emit("Resize", [x, roi, s.const(scales)], **attrs)


def depth_to_space(s: Scope) -> str | None:
    x = s.pick(ranked(4))
    if x is None:
        return None
    if s.rng.random() < 0.5:
        return s.emit("SpaceToDepth", [x], blocksize=2)
    return s.emit("DepthToSpace", [x], blocksize=2, mode=s.rng.choice(("DCR", "CRD")))


def channel_shuffle(s: Scope) -> str | None:
    x = s.pick(lambda a: ranked(4)(a) and a.shape[1] % 2 == 0)
    if x is None or len({a.shape[1:3] for a in s.find(x)}) != 1:
        return None
    c, h = s.find(x)[0].shape[1:3]
    r = s.emit("Reshape", [x, s.ints(0, 2, c // 2, h, -1)])
    r = s.emit("Transpose", [r], perm=[0, 2, 1, 3, 4]) if r else None
    return s.emit("Reshape", [r, s.ints(0, c, h, -1)]) if r else None


def trilu(s: Scope) -> str | None:
    x = s.pick(lambda a: floats(a) and a.ndim >= 2)
    if x is None or s.opset < 14:
        return None
    return s.emit("Trilu", [x, s.const(np.array(s.rng.choice((0, 1, -1))))], upper=s.rng.choice((0, 1)))


def shape_chain(s: Scope) -> str | None:
    """Shape -> Gather -> Unsqueeze -> Concat -> Reshape or Expand, as exporters write `x.view(x.size(0), -1)`."""
    x = s.pick(lambda a: a.ndim >= 1)
    if x is None:
        return None
    axis = s.rng.randrange(s.find(x)[0].ndim)
    sh = s.emit("Shape", [x])
    one = s.emit("Gather", [sh, s.const(np.array(axis))], axis=0) if sh else None
    if one is None:
        return None
    if s.rng.random() < 0.3:
        one = s.emit("Mul", [one, s.const(np.array(1))]) or one
    at = s.emit("Unsqueeze", [one, s.ints(0)]) if s.opset >= 13 else s.emit("Unsqueeze", [one], axes=[0])
    if at is None:
        return None
    parts = s.rng.choice(([at, s.ints(-1)], [s.ints(-1), at], [s.ints(1), at, s.ints(-1)]))
    target = s.emit("Concat", parts, axis=0)
    return s.emit("Reshape", [x, target], exact=s.is_exact(x)) if target else None


def shape_data(s: Scope) -> str | None:
    """A size used as a number: `x / sqrt(size)`."""
    x = s.pick(lambda a: floats(a) and a.ndim >= 1)
    if x is None or s.rng.random() < 0.5:
        return None
    n = s.emit(s.rng.choice(("Shape", "Size")), [x])
    if n and s.find(n)[0].ndim == 1:
        n = s.emit("Gather", [n, s.const(np.array(s.rng.randrange(s.find(x)[0].ndim)))], axis=0)
    f = s.emit("Cast", [n], to=1) if n else None
    f = s.emit("Sqrt", [f]) if f else None
    return s.emit("Div", [x, f]) if f else None


def range_(s: Scope) -> str | None:
    """Positions along an axis, as position embeddings use them."""
    x = s.pick(lambda a: a.ndim >= 1)
    if x is None:
        return None
    n = s.emit("Shape", [x])
    n = s.emit("Gather", [n, s.const(np.array(s.rng.randrange(s.find(x)[0].ndim)))], axis=0) if n else None
    return s.emit("Range", [s.const(np.array(0)), n, s.const(np.array(1))]) if n else None


def lstm(s: Scope) -> str | None:
    x = s.pick(lambda a: ranked(3)(a) and a.shape[0] <= 11)
    if x is None or len({a.shape[2] for a in s.find(x)}) != 1:
        return None
    rng, width, hidden = s.rng, s.find(x)[0].shape[2], s.rng.choice((1, 3, 8, 11))
    direction = rng.choice(("forward", "reverse", "bidirectional"))
    n = 2 if direction == "bidirectional" else 1
    inputs = [x, s.floats(n, 4 * hidden, width, scale=0.4), s.floats(n, 4 * hidden, hidden, scale=0.4)]
    if rng.random() < 0.7:
        inputs.append(s.floats(n, 8 * hidden))
    return s.emit("LSTM", inputs, outputs=rng.choice((1, 2, 3)), hidden_size=hidden, direction=direction)


def condition(s: Scope) -> str | None:
    """A boolean scalar that depends on data."""
    c = s.pick(lambda v: v.dtype == bool and v.ndim == 0)
    if c is not None and s.rng.random() < 0.6:
        return c
    x = s.pick(lambda a: floats(a) and a.size > 0)
    total = s.emit("ReduceMean", [x], keepdims=0) if x else None
    if total is None or s.in_loop:
        return None
    limit = s.const(np.array(0, np.float32))                 # perhaps a shared constant of another value
    if not all(abs(float(a) - float(b)) > 1e-3 for a, b in zip(s.find(total), s.find(limit), strict=True)):
        return None
    return s.emit("Greater", [total, limit])


def branch(s: Scope, shape_like: str, name: str) -> tuple[Scope, str] | None:
    inner = s.inner()
    inner.grow(s.rng.randint(1, 3))
    wanted = [(a.shape, a.dtype) for a in s.find(shape_like)]
    same = [n for n in inner.values if [(a.shape, a.dtype) for a in inner.values[n]] == wanted
            and n not in inner.constants]
    out = s.rng.choice(same) if same else None
    if out is None:
        source = s.rng.choice([n for n in s.visible() if [(a.shape, a.dtype) for a in s.find(n)] == wanted])
        out = inner.emit(s.rng.choice(("Neg", "Identity", "Abs")), [source])
    return (inner, out) if out else None


def if_(s: Scope) -> str | None:
    if s.depth > 1 or s.rng.random() < 0.3:
        return None
    cond, like = condition(s), s.pick(lambda a: a.dtype in (np.float32, np.int64))
    if cond is None or like is None:
        return None
    arms = [branch(s, like, "arm") for _ in range(2)]
    if arms[0] is None or arms[1] is None:
        return None
    then, orelse = (inner.as_region(s.fresh("arm"), [], [out]) for inner, out in arms if inner)
    return s.emit("If", [cond], then_branch=then, else_branch=orelse)


def a_size(s: Scope) -> str | None:
    """A small size of some value, as a scalar."""
    x = s.pick(lambda a: a.ndim >= 1 and min(a.shape) < 5)
    if x is None:
        return None
    axes = [i for i in range(s.find(x)[0].ndim) if max(a.shape[i] for a in s.find(x)) < 5]
    sizes = s.emit("Shape", [x]) if axes else None
    return s.emit("Gather", [sizes, s.const(np.array(s.rng.choice(axes)))], axis=0) if sizes else None


def loop(s: Scope) -> str | None:
    """One or two carried values, captures, perhaps a scan output."""
    if s.depth > 1 or s.rng.random() < 0.3:
        return None
    starts = [n for n in (s.pick(lambda a: a.dtype in (np.float32, np.int64)) for _ in range(s.rng.randint(1, 2))) if n]
    if not starts:
        return None
    body = s.inner(in_loop=True)
    names = [body.fresh(k) for k in ("iter", "go", *["carried"] * len(starts))]
    body.values[names[0]] = [np.array(0, np.int64)] * s.points
    body.values[names[1]] = [np.array(True)] * s.points
    for name, start in zip(names[2:], starts, strict=True):
        body.values[name] = s.find(start)
    body.grow(s.rng.randint(1, 4))
    go = s.rng.random()
    if go < 0.3:                                          # stops early, after a number of passes known or not
        limit = body.pick(lambda v: v.dtype == np.int64 and v.ndim == 0)
        if limit is None or body.rng.random() < 0.5:
            limit = body.const(np.array(1))
        outputs = [body.emit("Less", [names[0], limit])]
    elif go < 0.6:
        outputs = [names[1]]
    else:
        outputs = [body.emit("Identity", [names[1]])]
    for name in names[2:]:
        wanted = [(a.shape, a.dtype) for a in body.values[name]]
        made = [n for node in body.nodes for n in node.output if n]
        same = [n for n in made if [(a.shape, a.dtype) for a in body.values[n]] == wanted and n not in outputs]
        fits = [n for n in names[2:] if [(a.shape, a.dtype) for a in body.values[n]] == wanted and n not in outputs]
        if same and s.rng.random() < 0.8:
            outputs.append(s.rng.choice(same))
        elif fits and s.rng.random() < 0.5:
            outputs.append(s.rng.choice(fits))            # an input as it is, its own or another's
        else:
            outputs.append(body.emit("Identity", [name]))
    made = [n for node in body.nodes for n in node.output if n and n not in outputs]
    if made and s.rng.random() < 0.5:
        scan = s.rng.choice(made)
        if len({a.shape for a in body.values[scan]}) == 1:
            outputs.append(scan)
    if not all(outputs) or not all(tame(a) for n in outputs if n for a in body.values[n]):
        return None
    region = body.as_region(s.fresh("body"), names, [n for n in outputs if n])
    trips = s.pick(lambda v: v.dtype == np.int64 and v.ndim == 0 and 0 <= int(v) < 5)
    if trips is None or s.rng.random() < 0.5:
        trips = s.const(np.array(s.rng.choice((0, 1, 2, 3)))) if s.rng.random() < 0.6 else a_size(s)
    if trips is None:
        return None
    return s.emit("Loop", [trips, s.rng.choice(("", s.const(np.array(True)))), *starts], outputs=len(outputs) - 1,
                  body=region)


OPS: tuple[Callable[[Scope], object], ...] = (
    *COMPUTE, *[transpose] * 4, *[reshape] * 4, flatten, squeeze, unsqueeze, unsqueeze, *[concat] * 5, *[slice_] * 4,
    *[split] * 2, *[gather] * 2, gather_elements, *[pad] * 3, *[expand] * 2, tile, *[resize] * 2, depth_to_space,
    channel_shuffle, trilu, *[shape_chain] * 2, shape_data, range_, lstm, *[if_] * 3, *[loop] * 3,
)
