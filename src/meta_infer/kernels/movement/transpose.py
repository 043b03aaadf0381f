"""Transpose: rows copied where the last axis stays last, 16 x 16 tiles where it moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Shape
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import const, minimum
from meta_infer.ir.shapes import product
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.point import bind
from meta_infer.kernels.rows import copy_lanes, copy_run, each_row, strides_of, unravel

TILE = 16


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


def variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    yield Variant("transpose", "plain", {group.inputs[0]: PLAIN}, {group.outputs[0]: PLAIN})


def lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    perm_attr = group.anchor.attrs["perm"]
    assert isinstance(perm_attr, tuple)
    shape, perm = collapse(group.values[group.inputs[0]].shape, tuple(int(p) for p in perm_attr))  # type: ignore[arg-type]
    b = Builder("transpose")
    buffers = bind(b, group)
    src, dst = buffers[group.inputs[0]], buffers[group.outputs[0]]
    lanes = copy_lanes(profile, src.dtype)
    rank, out_shape = len(shape), tuple(shape[p] for p in perm)
    strides = strides_of(b, shape)
    if rank == 0 or perm[-1] == rank - 1:
        with each_row(b, out_shape) as (coords, base):
            at = const(0)
            for axis, coord in zip(perm, coords, strict=False):
                at = at + coord * strides[axis]
            copy_run(b, src, b.let(at), dst, base, b.dim(out_shape[-1] if rank else 1), lanes)
    else:
        _tiles(b, src, dst, shape, perm)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


def _tiles(b: Builder, src, dst, shape: Shape, perm: tuple[int, ...]) -> None:  # type: ignore[no-untyped-def]
    """Tiles over the input's last axis (read along it) and the output's last axis (written along it)."""
    rank, out_shape = len(shape), tuple(shape[p] for p in perm)
    in_strides, out_strides = strides_of(b, shape), strides_of(b, out_shape)
    wide, long = b.dim(shape[rank - 1]), b.dim(out_shape[rank - 1])
    place = perm.index(rank - 1)                                   # where the input's last axis went
    others = tuple(axis for axis in range(rank - 1) if axis != place)
    outer: Shape = tuple(out_shape[axis] for axis in others)
    tiles_w, tiles_l = (wide + TILE - 1) // TILE, (long + TILE - 1) // TILE
    with b.chunks(b.dim(product(outer)) * tiles_w) as chunk:
        tile_w = b.let((chunk % tiles_w) * TILE, "tw")
        coords = unravel(b, b.let(chunk // tiles_w), outer)
        at_in, at_out = const(0), const(0)
        for axis, coord in zip(others, coords, strict=True):
            at_in = at_in + coord * in_strides[perm[axis]]
            at_out = at_out + coord * out_strides[axis]
        at_in, at_out = b.let(at_in, "at_in"), b.let(at_out, "at_out")
        end_w = b.let(minimum(tile_w + TILE, wide))
        with b.loop(0, tiles_l, name="tl") as tile:
            start = b.let(tile * TILE)
            end = b.let(minimum(start + TILE, long))
            with b.loop(tile_w, end_w, name="w") as w, b.loop(start, end, name="l") as l:  # noqa: E741
                value = b.load(src, at_in + w + l * in_strides[perm[rank - 1]])
                b.store(dst, at_out + w * out_strides[place] + l, value)


TRANSPOSE = Kernel("transpose", ("Transpose",), variants, lower)
