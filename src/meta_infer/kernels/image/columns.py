"""Between images and columns: Col2Im adds overlapping blocks up, DeformColumns samples shifted blocks.

    Col2Im:         for plane, pixel:  sum over taps whose block covers the pixel          (no two chunks meet)
    DeformColumns:  for image, offset group, tap, position:  the sampled pixel of every channel of the group

No knob: the time goes to reads at places that only the data says, or to overlaps of one channel at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Expr, Type, cast, const, maximum, minimum
from meta_infer.ir.shapes import product
from meta_infer.kernels.image.sampling import bounded, linear_taps, real_of, sample_of
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.picks import unless_empty
from meta_infer.kernels.point import bind
from meta_infer.kernels.rows import GRAIN, unravel
from meta_infer.ops.attrs import dims_of, int_of, ints_of
from meta_infer.ops.col2im import block_counts


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    kernel = "col2im" if group.anchor.op == "Col2Im" else "deform_columns"
    yield Variant(kernel, "plain", {n: PLAIN for n in group.inputs}, {n: PLAIN for n in group.outputs})


def _lower_col2im(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    attrs, x, y = group.anchor.attrs, group.values[group.inputs[0]], group.values[group.outputs[0]]
    block, strides, pads, dilations = dims_of(attrs, "block_shape"), *(
        ints_of(attrs, n) for n in ("strides", "pads", "dilations"))
    counts = block_counts(attrs)
    b = Builder("col2im")
    buffers = bind(b, group)
    src, dst = buffers[x.name], buffers[y.name]
    plane, taps, blocks = b.dim(product(y.shape[2:])), b.dim(product(block)), b.dim(product(counts))
    total = b.dim(product(y.shape))
    per_chunk = maximum(const(GRAIN) // maximum(taps, 1), 1)
    with b.chunks((total + per_chunk - 1) // per_chunk) as chunk:
        start = b.let(chunk * per_chunk, "start")
        with b.loop(start, minimum(start + per_chunk, total), name="at") as at:
            places = unravel(b, at % plane, y.shape[2:])
            total_here = b.var(const(0, Type(x.dtype)), "sum")
            with ExitStack() as stack:
                tap, place = const(0), const(0)
                for axis, at_axis in enumerate(places):
                    k = stack.enter_context(b.loop(0, b.dim(block[axis]), name="k"))
                    reach = b.let(at_axis + pads[axis] - k * dilations[axis], "reach")
                    forward = b.let(maximum(reach, 0), "forward")
                    step = b.let(forward // strides[axis], "step")
                    fits = reach.ge(0) & (forward % strides[axis]).eq(0) & step.lt(b.dim(counts[axis]))
                    stack.enter_context(b.when(fits))
                    tap, place = tap * b.dim(block[axis]) + k, place * b.dim(counts[axis]) + step
                source = ((at // plane) * taps + tap) * blocks + place
                if x.shape[2] != product(counts):         # sizes from data need not fit the columns
                    source = minimum(source, b.dim(product(x.shape)) - 1)
                b.assign(total_here, total_here + b.load(src, source))
            b.store(dst, at, total_here)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


def _lower_deform(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    attrs, names = group.anchor.attrs, group.anchor.inputs
    image, shifts = group.values[names[0]], group.values[names[1]]
    kernel, strides, pads, dilations = (ints_of(attrs, n) for n in ("kernel_shape", "strides", "pads", "dilations"))
    groups, rank = int_of(attrs, "offset_group"), image.rank - 2
    real, spatial = real_of(image.dtype), shifts.shape[2:]
    b = Builder("deform_columns")
    buffers = bind(b, group)
    src, offsets, dst = buffers[names[0]], buffers[names[1]], buffers[group.outputs[0]]
    mask = buffers[names[2]] if len(names) > 2 and names[2] else None
    sizes = [b.dim(d) for d in image.shape[2:]]
    plane, channels, length = b.dim(product(image.shape[2:])), b.dim(image.shape[1]), b.dim(product(spatial))
    taps = int(product(kernel))  # type: ignore[arg-type]
    rows = unless_empty(b, b.dim(product((image.shape[0], *spatial))) * (groups * taps), product(image.shape[2:]))
    in_group = channels // groups
    per_chunk = maximum(const(GRAIN // 4) // maximum(in_group, 1), 1)
    with b.chunks((rows + per_chunk - 1) // per_chunk) as chunk:
        start = b.let(chunk * per_chunk, "start")
        with b.loop(start, minimum(start + per_chunk, rows), name="row") as row:
            at, line = b.let(row % length, "at"), b.let(row // length, "line")      # line: (image, group, tap)
            tap, part = b.let(line % taps, "tap"), b.let(line // taps % groups, "part")
            n = b.let(line // (taps * groups), "n")
            axes = []
            for axis, (place, step) in enumerate(zip(unravel(b, at, spatial), unravel(b, tap, kernel), strict=True)):
                shift = cast(b.load(offsets, (line * rank + axis) * length + at), real)
                regular: Expr = cast(place * strides[axis] - pads[axis] + step * dilations[axis], real)
                axes.append(linear_taps(b, bounded(b, regular + shift), sizes[axis]))
            sample = sample_of(b, axes, sizes)
            weight = None if mask is None else b.let(cast(b.load(mask, line * length + at), real), "mask")
            first = b.let(part * in_group, "first")
            with b.loop(first, first + in_group, name="channel") as channel:
                map_at = b.let(n * channels + channel, "map_at")
                value = sample.read(b, src, b.let(map_at * plane, "plane"), real)
                value = value if weight is None else value * weight
                b.store(dst, (map_at * taps + tap) * length + at, cast(value, dst.dtype))
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


COL2IM = Kernel("col2im", ("Col2Im",), _variants, _lower_col2im)
DEFORM_COLUMNS = Kernel("deform_columns", ("DeformColumns",), _variants, _lower_deform)
