"""Row by row by a number that is data: ReverseSequence, TensorScatter, OneHot.

Every output row is written once, from one input row or (OneHot) one index: chunks of rows are independent.

No knob: rows are copied once, in the first or the last step of a network.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Expr, cast, const, maximum, minimum, select
from meta_infer.ir.shapes import product
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.point import bind
from meta_infer.kernels.rows import GRAIN, copy_lanes, copy_run
from meta_infer.ops.attrs import int_of, text_of
from meta_infer.support.dtypes import INT64

_KERNELS = {"ReverseSequence": "reverse_sequence", "TensorScatter": "tensor_scatter", "OneHot": "one_hot"}


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    yield Variant(_KERNELS[group.anchor.op], "plain", {n: PLAIN for n in group.inputs},
                  {n: PLAIN for n in group.outputs})


@contextmanager
def _rows(b: Builder, rows: Expr, width: Expr) -> Iterator[Expr]:
    per_chunk = maximum(const(GRAIN) // maximum(width, 1), 1)
    with b.chunks((rows + per_chunk - 1) // per_chunk) as chunk:
        start = b.let(chunk * per_chunk, "start")
        with b.loop(start, minimum(start + per_chunk, rows), name="row") as row:
            yield row


def _reverse_sequence(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    x, lengths = (group.values[n] for n in group.anchor.inputs)
    time_first = int_of(group.anchor.attrs, "time_axis") == 0
    b = Builder("reverse_sequence")
    buffers = bind(b, group)
    src, counts, dst = buffers[x.name], buffers[lengths.name], buffers[group.outputs[0]]
    first, second = b.dim(x.shape[0]), b.dim(x.shape[1])
    steps, inner = first if time_first else second, b.dim(product(x.shape[2:]))
    with _rows(b, first * second, inner) as row:
        i, j = b.let(row // second, "i"), b.let(row % second, "j")
        step, batch = (i, j) if time_first else (j, i)
        length = b.let(minimum(cast(b.load(counts, batch), INT64), steps), "length")
        source = b.let(select(step.lt(length), length - 1 - step, step), "source")
        place = source * second + j if time_first else i * second + source
        copy_run(b, src, b.let(place * inner), dst, b.let(row * inner), inner, copy_lanes(profile, src.dtype))
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


def _tensor_scatter(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    names = group.anchor.inputs
    past, update = group.values[names[0]], group.values[names[1]]
    axis, circular = int_of(group.anchor.attrs, "axis"), text_of(group.anchor.attrs, "mode") == "circular"
    b = Builder("tensor_scatter")
    buffers = bind(b, group)
    src, new, dst = buffers[past.name], buffers[update.name], buffers[group.outputs[0]]
    size, added, inner = b.dim(past.shape[axis]), b.dim(update.shape[axis]), b.dim(product(past.shape[axis + 1:]))
    rows, in_batch = b.dim(product(past.shape[:axis + 1])), b.dim(product(past.shape[1:axis + 1]))
    lanes = copy_lanes(profile, src.dtype)
    with _rows(b, rows, inner) as row:
        outer, at = b.let(row // size, "outer"), b.let(row % size, "at")
        first: Expr = const(0)
        if len(names) > 2 and names[2]:
            first = cast(b.load(buffers[names[2]], row // in_batch), INT64)
            first = b.let(maximum(first, 0) % size if circular else maximum(minimum(first, size), 0), "first")
        step = b.let(at - first, "step")
        if circular:
            step = b.let(select(step.lt(0), step + size, step), "around")
        target = b.let(row * inner, "target")
        with b.when(step.ge(0) & step.lt(added)):
            copy_run(b, new, b.let((outer * added + step) * inner), dst, target, inner, lanes)
        with b.otherwise():
            copy_run(b, src, target, dst, target, inner, lanes)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


def _one_hot(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    """An index outside [-depth, depth) switches nothing on."""
    picks, values = (group.values[n] for n in group.anchor.inputs)
    axis, out = int_of(group.anchor.attrs, "axis"), group.values[group.outputs[0]]
    b = Builder("one_hot")
    buffers = bind(b, group)
    index, pair, dst = buffers[picks.name], buffers[values.name], buffers[out.name]
    depth, inner = b.dim(out.shape[axis]), b.dim(product(out.shape[axis + 1:]))
    with _rows(b, b.dim(product(picks.shape)), depth) as at:
        raw = b.let(cast(b.load(index, at), INT64), "raw")
        hot = b.let(select(raw.lt(0), raw + depth, raw), "hot")
        off, on = b.let(b.load(pair, 0), "off"), b.let(b.load(pair, 1), "on")
        first = b.let(at // inner * depth * inner + at % inner, "first")
        with b.loop(0, depth, name="level") as level:
            b.store(dst, first + level * inner, select(hot.eq(level), on, off))
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


REVERSE_SEQUENCE = Kernel("reverse_sequence", ("ReverseSequence",), _variants, _reverse_sequence)
TENSOR_SCATTER = Kernel("tensor_scatter", ("TensorScatter",), _variants, _tensor_scatter)
ONE_HOT = Kernel("one_hot", ("OneHot",), _variants, _one_hot)
