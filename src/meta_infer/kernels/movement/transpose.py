"""Transpose: rows copied where the last axis stays last, squares transposed in registers where it moves.

    x[.., l, .., w], y[.., w, .., l]:   S rows of S neighbours along w are loaded, transposed, stored along l

A chunk is a tile: small enough that lines of x of which one square took a part are still in L1 for the next. Knobs of
tiles: `square`, S, where 1 is an element at a time; `wide`, elements along x's last axis; `long`, along y's. Of rows:
`grain`, elements of a chunk. Between blocked channels and channels that come last: see channels_last.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Shape
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Buffer, Expr, const, minimum
from meta_infer.ir.shapes import product
from meta_infer.kernels.grain import Cut, grain_knob, rows_cut, tune_grain
from meta_infer.kernels.kernel import Kernel, KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.kernels.lane_transpose import transpose_lanes
from meta_infer.kernels.movement.channels_last import (
    FROM_BLOCKED,
    TO_BLOCKED,
    channels_last_knobs,
    channels_last_variants,
    lower_channels_last,
    tune_channels_last,
)
from meta_infer.kernels.point import bind
from meta_infer.kernels.rows import GRAIN, copy_lanes, copy_run, each_row, strides_of, unravel

SQUARES = (1, 2, 4, 8, 16)
_KNOBS = {"square": SQUARES, "wide": (16, 32, 64), "long": (32, 128, 512)}


def collapse(shape: Shape, perm: tuple[int, ...]) -> tuple[Shape, tuple[int, ...]]:
    """Drop axes of size 1 and merge input axes that stay neighbours: fewer, longer axes, same movement."""
    kept = [axis for axis in perm if shape[axis] != 1]
    runs: list[list[int]] = []
    for axis in kept:
        skipped_ones = runs and all(shape[a] == 1 for a in range(runs[-1][-1] + 1, axis)) and axis > runs[-1][-1]
        if skipped_ones:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    order = sorted(range(len(runs)), key=lambda r: runs[r][0])
    new_shape = tuple(product(shape[a] for a in runs[r]) for r in order)
    return new_shape, tuple(order.index(r) for r in range(len(runs)))


def _moved(group: Group) -> tuple[Shape, tuple[int, ...]]:
    perm = group.anchor.attrs["perm"]
    assert isinstance(perm, tuple)
    return collapse(group.values[group.inputs[0]].shape, tuple(int(p) for p in perm))  # type: ignore[arg-type]


def _keeps_rows(group: Group) -> bool:
    perm = _moved(group)[1]
    return not perm or perm[-1] == len(perm) - 1


def _largest_square(group: Group, profile: Profile) -> int:
    """Lanes of a register, though no more than half of the registers hold rows: the others, what becomes of them."""
    lanes = copy_lanes(profile, group.values[group.inputs[0]].dtype)
    return max(size for size in SQUARES if size <= max(min(lanes, profile.vector_registers // 2), 1))


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    found = Variant("transpose", "plain", {group.inputs[0]: PLAIN}, {group.outputs[0]: PLAIN})
    tile = {"square": _largest_square(group, profile), "wide": 32, "long": 128}
    yield replace(found, knobs={"grain": GRAIN} if _keeps_rows(group) else tile)
    yield from channels_last_variants(group, profile)


def _is_blocked(variant: Variant) -> bool:
    return variant.name in (FROM_BLOCKED, TO_BLOCKED)


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    if _is_blocked(variant):
        return channels_last_knobs()
    if _keeps_rows(group):
        return grain_knob(group, variant, profile)
    return tuple(Knob(name, values) for name, values in _KNOBS.items())


def _cut(group: Group, variant: Variant) -> Cut:
    shape = _moved(group)[0]                                       # the last axis stays last
    return rows_cut(product(shape[:-1]), shape[-1] if shape else 1)


_tune_rows = tune_grain(_cut)


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    if _is_blocked(variant):
        return tune_channels_last(group, variant, values, profile)
    if _keeps_rows(group):
        return _tune_rows(group, variant, values, profile)
    full = {**variant.knobs, **values}
    most = _largest_square(group, profile)
    if int(full["square"]) > most:
        return Refusal(full, "registers", f"squares of {full['square']} elements a side, {most} fit")
    return replace(variant, knobs=full)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    if _is_blocked(variant):
        return lower_channels_last(group, variant, profile)
    shape, perm = _moved(group)
    b = Builder("transpose")
    buffers = bind(b, group)
    src, dst = buffers[group.inputs[0]], buffers[group.outputs[0]]
    if _keeps_rows(group):
        strides, rank = strides_of(b, shape), len(shape)
        out_shape = tuple(shape[p] for p in perm)
        with each_row(b, out_shape, int(variant.knobs["grain"])) as (coords, base):
            at = const(0)
            for axis, coord in zip(perm, coords, strict=False):
                at = at + coord * strides[axis]
            copy_run(b, src, b.let(at), dst, base, b.dim(out_shape[-1] if rank else 1), copy_lanes(profile, src.dtype))
    else:
        square, wide, long = (int(variant.knobs[name]) for name in _KNOBS)
        _tiles(b, src, dst, shape, perm, square, wide, long)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


def _tiles(b: Builder, src: Buffer, dst: Buffer, shape: Shape, perm: tuple[int, ...], square: int, wide: int,
           long: int) -> None:
    """Tiles over the input's last axis (read along it) and the output's last axis (written along it)."""
    rank, out_shape = len(shape), tuple(shape[p] for p in perm)
    in_strides, out_strides = strides_of(b, shape), strides_of(b, out_shape)
    width, length = b.dim(shape[rank - 1]), b.dim(out_shape[rank - 1])
    place = perm.index(rank - 1)                                   # where the input's last axis went
    others = tuple(axis for axis in range(rank - 1) if axis != place)
    outer: Shape = tuple(out_shape[axis] for axis in others)
    tiles_w, tiles_l = (width + (wide - 1)) // wide, (length + (long - 1)) // long
    with b.chunks(b.dim(product(outer)) * tiles_w * tiles_l) as chunk:
        row = b.let(chunk // tiles_w, "row")
        coords = unravel(b, b.let(row // tiles_l), outer)
        at_in, at_out = const(0), const(0)
        for axis, coord in zip(others, coords, strict=True):
            at_in = at_in + coord * in_strides[perm[axis]]
            at_out = at_out + coord * out_strides[axis]
        at_in, at_out = b.let(at_in, "at_in"), b.let(at_out, "at_out")
        step_in, step_out = b.let(in_strides[perm[rank - 1]], "step_in"), b.let(out_strides[place], "step_out")
        first_w, first_l = b.let(chunk % tiles_w * wide, "first_w"), b.let(row % tiles_l * long, "first_l")
        end_w = b.let(minimum(first_w + wide, width), "end_w")
        end_l = b.let(minimum(first_l + long, length), "end_l")
        squares_w = b.let(first_w + (end_w - first_w) // square * square, "squares_w")
        squares_l = b.let(first_l + (end_l - first_l) // square * square, "squares_l")

        def single(w: Expr, l: Expr) -> None:  # noqa: E741
            b.store(dst, at_out + w * step_out + l, b.load(src, at_in + w + l * step_in))

        with b.loop(first_w, squares_w, square, name="w") as w, b.loop(first_l, squares_l, square, name="l") as l:  # noqa: E741
            if square == 1:
                single(w, l)
            else:
                rows = [b.let(b.load(src, at_in + w + (l + i) * step_in, square), "r") for i in range(square)]
                for i, column in enumerate(transpose_lanes(b, rows)):
                    b.store(dst, at_out + (w + i) * step_out + l, column)
        if square > 1:
            with b.loop(first_w, squares_w, name="w") as w, b.loop(squares_l, end_l, name="l") as l:  # noqa: E741
                single(w, l)
            with b.loop(squares_w, end_w, name="w") as w, b.loop(first_l, end_l, name="l") as l:  # noqa: E741
                single(w, l)


TRANSPOSE = Kernel("transpose", ("Transpose",), _variants, _lower, _knobs, _tune)
