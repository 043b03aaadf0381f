"""Transposes between blocked channels and channels as the plain tensor's last axis: runs of a block are moved whole.

    x blocked [N, C/c, P, c]  ->  y plain [.., P, C]:   y[p, m*c : m*c + c] = x[m, p, 0 : c]
    x plain [.., P, C]        ->  y blocked:            the same backwards, padding lanes zero

A chunk is a tile of `positions` along the blocked tensor's last axis and `blocks` along the plain one's: reads of one
and writes of the other are contiguous for as long. Both are knobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Shape
from meta_infer.ir.group import PLAIN, Group, Variant, blocked
from meta_infer.ir.loop import Buffer, Expr, const, minimum
from meta_infer.ir.shapes import Dim, product, usual_upper
from meta_infer.kernels.kernel import KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.kernels.point import bind
from meta_infer.kernels.rows import unravel
from meta_infer.ops.attrs import ints_of
from meta_infer.support.dtypes import FLOAT32

KNOBS = {"positions": (8, 32, 128), "blocks": (4, 16, 64)}
_DEFAULT = {"positions": 32, "blocks": 16}
FROM_BLOCKED, TO_BLOCKED = "from_blocked", "to_blocked"


def channels_last_variants(group: Group, profile: Profile) -> Iterable[Variant]:
    """Of a Transpose of float32 that brings axis 1 to the end, or the last one to axis 1; channels known at build."""
    source, target = group.values[group.inputs[0]], group.values[group.outputs[0]]
    perm, block = ints_of(group.anchor.attrs, "perm"), profile.lanes(FLOAT32)
    if source.dtype != FLOAT32 or source.rank < 3 or block == 1:
        return
    if perm[-1] == 1 and isinstance(source.shape[1], int):
        yield Variant("transpose", FROM_BLOCKED, {source.name: blocked(block)}, {target.name: PLAIN}, dict(_DEFAULT))
    if perm[1] == source.rank - 1 and isinstance(target.shape[1], int):
        yield Variant("transpose", TO_BLOCKED, {source.name: PLAIN}, {target.name: blocked(block)}, dict(_DEFAULT))


def channels_last_knobs() -> tuple[Knob, ...]:
    return tuple(Knob(name, values) for name, values in KNOBS.items())


def tune_channels_last(group: Group, variant: Variant, values: Mapping[str, KnobValue],
                       profile: Profile) -> Variant | Refusal:
    full = {**variant.knobs, **values}
    move = _move_of(group, variant, profile.lanes(FLOAT32))
    for name, size in (("positions", usual_upper(move.positions.size)), ("blocks", move.blocks)):
        tile = int(full[name])
        if tile < 1 or tile != _DEFAULT[name] and any(size <= other for other in KNOBS[name] if other < tile):
            return Refusal(full, "shape", f"tiles of {tile} {name} of {size}")
    return replace(variant, knobs=full)


@dataclass(frozen=True)
class _Axis:
    """An axis other than the channels': steps in elements of the tensors in memory."""

    size: Dim
    blocked_step: Dim
    plain_step: Dim


@dataclass(frozen=True)
class _Move:
    """Axes around the tiles, the one along them, and the channels; `block_step` lies between blocks of the former."""

    outer: tuple[_Axis, ...]
    positions: _Axis
    channels: int
    block: int
    block_step: Dim

    @property
    def blocks(self) -> int:
        return -(-self.channels // self.block)


def _steps(shape: Shape) -> tuple[Dim, ...]:
    return tuple(product(shape[axis + 1:]) for axis in range(len(shape)))


def _move_of(group: Group, variant: Variant, block: int) -> _Move:
    source, target = group.values[group.inputs[0]], group.values[group.outputs[0]]
    perm, forth = ints_of(group.anchor.attrs, "perm"), variant.name == FROM_BLOCKED
    # Axis a of the blocked tensor is axis where[a] of the plain one.
    where = tuple(perm.index(a) for a in range(source.rank)) if forth else perm
    shape, plain = (source.shape, target.shape) if forth else (target.shape, source.shape)
    channels = shape[1]
    assert isinstance(channels, int)
    steps, plain_steps = _steps(blocked(block).physical(shape)), _steps(plain)
    axes: list[_Axis] = []
    for a in range(source.rank):
        axis = _Axis(shape[a], steps[a], plain_steps[where[a]])
        if a == 1 or axis.size == 1:
            continue
        if axes and (axes[-1].blocked_step, axes[-1].plain_step) == (axis.blocked_step * axis.size,
                                                                     axis.plain_step * axis.size):
            axis = replace(axis, size=axes.pop().size * axis.size)             # neighbours in both
        axes.append(axis)
    *outer, positions = axes or [_Axis(1, block, channels)]
    return _Move(tuple(outer), positions, channels, block, steps[1])


def lower_channels_last(group: Group, variant: Variant, profile: Profile) -> Lowering:
    """The loop nest of the module's note."""
    move = _move_of(group, variant, profile.lanes(FLOAT32))
    forth, block, full = variant.name == FROM_BLOCKED, move.block, move.channels // move.block
    wide, long = int(variant.knobs["positions"]), min(int(variant.knobs["blocks"]), move.blocks)
    b = Builder(f"transpose_{variant.name}")
    buffers = bind(b, group)
    src, dst = buffers[group.inputs[0]], buffers[group.outputs[0]]
    count = b.dim(move.positions.size)
    tiles_p, tiles_m = (count + (wide - 1)) // wide, -(-move.blocks // long)
    sizes = tuple(axis.size for axis in move.outer)
    with b.chunks(b.dim(product(sizes)) * tiles_p * tiles_m) as chunk:
        row = b.let(chunk // tiles_m, "row")
        coords = unravel(b, b.let(row // tiles_p), sizes)
        blocked_at, plain_at = const(0), const(0)
        for axis, coord in zip(move.outer, coords, strict=True):
            blocked_at = blocked_at + coord * b.dim(axis.blocked_step)
            plain_at = plain_at + coord * b.dim(axis.plain_step)
        first_p, first_m = b.let(row % tiles_p * wide, "first_p"), b.let(chunk % tiles_m * long, "first_m")
        end_p = b.let(minimum(first_p + wide, count), "end_p")
        end_m = b.let(minimum(first_m + long, full), "end_m")
        blocked_at, plain_at = b.let(blocked_at, "blocked_at"), b.let(plain_at, "plain_at")
        step = b.let(b.dim(move.block_step), "step")
        with b.loop(first_p, end_p, name="p") as p:
            in_block = b.let(blocked_at + p * b.dim(move.positions.blocked_step), "in_block")
            in_row = b.let(plain_at + p * b.dim(move.positions.plain_step), "in_row")

            def run(m: Expr, lanes: int | None) -> None:
                _run(b, src, dst, in_block + m * step, in_row + m * block, forth, block, lanes)

            with b.loop(first_m, end_m, name="m") as m:
                run(m, None)
            if move.channels % block:
                with b.when(const(full).lt(first_m + long)):
                    run(const(full), move.channels % block)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


def _run(b: Builder, src: Buffer, dst: Buffer, in_block: Expr, in_row: Expr, forth: bool, block: int,
         lanes: int | None) -> None:
    """One block of channels at one position; of the last one `lanes` are no padding."""
    count = None if lanes is None else const(lanes)
    if forth:
        b.store(dst, in_row, b.load(src, in_block, block), count)
    else:
        b.store(dst, in_block, b.load(src, in_row, block, count))
