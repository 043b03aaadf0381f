"""Where the maxima of a MaxPool are: flat positions in the whole input, the first of equal ones.

    for output element:  for tap inside the image:  compare;  remember the better one's position

The position counts rows first, or columns first (the first spatial axis being the fastest) with `column_major`.

No knob: elements are compared one by one, and networks that run on it are few.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import INDEX, const, maximum, minimum
from meta_infer.ir.shapes import product
from meta_infer.kernels.image.pool import pool_of, window
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.point import bind
from meta_infer.kernels.rows import GRAIN, unravel
from meta_infer.ops.attrs import bool_of


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    yield Variant("pool_indices", "plain", {n: PLAIN for n in group.inputs}, {n: PLAIN for n in group.outputs})


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    pool = pool_of(group)
    assert pool is not None
    b = Builder("pool_indices")
    buffers = bind(b, group)
    src, dst = buffers[pool.x.name], buffers[pool.y.name]
    sizes, out_plane = [b.dim(d) for d in pool.in_spatial], b.dim(product(pool.out_spatial))
    plane, total = b.dim(product(pool.in_spatial)), b.dim(product(pool.y.shape))
    rank, column_major = len(sizes), bool_of(group.anchor.attrs, "column_major")
    taps = int(product(pool.kernel))  # type: ignore[arg-type]
    per_chunk = const(max(GRAIN // (2 * taps), 1))
    with b.chunks((total + per_chunk - 1) // per_chunk) as chunk:
        start = b.let(chunk * per_chunk, "start")
        with b.loop(start, minimum(start + per_chunk, total), name="at") as at:
            first = b.let(at // out_plane * plane, "first")
            places = unravel(b, b.let(at % out_plane), pool.out_spatial)
            windows = [window(b, pool, axis, place) for axis, place in enumerate(places)]
            corner = [b.let(place * pool.strides[axis] - pool.begin[axis] + windows[axis][0] * pool.dilations[axis])
                      for axis, place in enumerate(places)]
            lead = const(0)
            for size, place in zip(sizes, corner, strict=True):
                lead = lead * size + minimum(maximum(place, 0), size - 1)
            best = b.var(b.load(src, first + lead), "best")
            found = b.var(lead if not column_major else const(0, INDEX), "found")
            fresh = b.var(const(1), "fresh")
            with ExitStack() as stack:
                by_rows, steps = const(0), []
                for axis, (low, high) in enumerate(windows):
                    k = stack.enter_context(b.loop(low, high, name="k"))
                    step = b.let(places[axis] * pool.strides[axis] + k * pool.dilations[axis] - pool.begin[axis])
                    by_rows = by_rows * sizes[axis] + step
                    steps.append(step)
                by_columns = const(0)
                for axis in reversed(range(rank)):
                    by_columns = by_columns * sizes[axis] + steps[axis]
                value = b.let(b.load(src, first + by_rows), "value")
                with b.when(fresh.eq(1) | value.gt(best)):
                    b.assign(best, value)
                    b.assign(found, by_columns if column_major else by_rows)
                    b.assign(fresh, const(0))
            b.store(dst, at, first + found)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


POOL_INDICES = Kernel("pool_indices", ("MaxPoolIndices",), _variants, _lower)
