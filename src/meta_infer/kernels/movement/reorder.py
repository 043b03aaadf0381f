"""Conversion of a tensor between layouts, the only code that no graph op stands for.

    plain [A, C, P]  ->  blocked [A, C/c, P, c]:   c rows of c neighbours are loaded, transposed in registers, stored
    blocked          ->  plain:                    the same backwards
    blocked by c     ->  blocked by d, one axis:   vectors of the smaller block are copied to their new place

A are the axes before the blocked one and P those after it. Padding lanes of the result are zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Value
from meta_infer.ir.group import PLAIN, Layout
from meta_infer.ir.loop import Buffer, Expr, Type, const, minimum
from meta_infer.ir.shapes import Dim, product
from meta_infer.kernels.kernel import KernelCall, Lowering
from meta_infer.kernels.lane_transpose import transpose_lanes
from meta_infer.kernels.plane_chunks import plane_chunks


def reorder(value: Value, source: Layout, target: Layout, profile: Profile) -> Lowering:
    """One call with args ("source", "target") that copies `value` from one layout to the other.

    Raises ValueError when the layouts are equal, or blocked along different axes (go through the plain one).
    """
    if source.block == target.block and source.axis == target.axis or not (source.block or target.block):
        raise ValueError(f"{value} already is {target}")
    if not source.block:
        return Lowering((_to_blocked(value, target),))
    if not target.block:
        return Lowering((_to_plain(value, source),))
    if source.axis != target.axis:
        raise ValueError(f"{value} is blocked along axis {source.axis}; go from {source} to {target} through {PLAIN}")
    return Lowering((_reblock(value, source, target),))


@dataclass(frozen=True)
class _Folded:
    """A shape seen as [before, channels, positions]."""

    before: Dim
    channels: int
    positions: Dim


def _fold(value: Value, axis: int) -> _Folded:
    channels = value.shape[axis]
    assert isinstance(channels, int), f"%{value.name} is dynamic along its blocked axis"
    return _Folded(product(value.shape[:axis]), channels, product(value.shape[axis + 1:]))


def _tiles(b: Builder, block: int, first: Expr, last: Expr, whole: Callable[[Expr], None],
           single: Callable[[Expr], None]) -> None:
    """Positions [first, last) of a plane: `whole(p)` moves `block` of them, `single(p)` one."""
    end = b.let(first + (last - first) // block * block, "end")
    with b.loop(first, end, block, name="p") as p:
        whole(p)
    with b.loop(end, last, name="p") as p:
        single(p)


@dataclass(frozen=True)
class _Plane:
    """A plane of one block: where it begins in the plain tensor and in the blocked one, and what moves it."""

    b: Builder
    x: Buffer
    y: Buffer
    plain: Expr
    blocked: Expr
    positions: Expr
    block: int

    def plain_at(self, channel: int, p: Expr) -> Expr:
        return self.plain + channel * self.positions + p


Move = Callable[[_Plane, Expr, int], None]
"""Moves so many channels of a block at position p, or of as many positions from p on as a block has lanes."""


def _convert(value: Value, layout: Layout, name: str, starts: tuple[str, str], whole: Move, single: Move) -> KernelCall:
    """Planes between the plain layout and `layout`; `starts` are names for where one begins in either."""
    shape, block = _fold(value, layout.axis), layout.block
    b = Builder(name)
    x, y = b.input("source", value.dtype), b.output("target", value.dtype)
    per_image = -(-shape.channels // block)
    with plane_chunks(b, product((shape.before, per_image)), shape.positions, 1.0, block) as (index, first, last):
        positions = b.dim(shape.positions)
        channel = b.let(index % per_image * block, "channel")
        plane = _Plane(b, x, y, b.let((index // per_image * shape.channels + channel) * positions, starts[0]),
                       b.let(index * positions * block, starts[1]), positions, block)
        inside = b.let(minimum(const(shape.channels) - channel, block), "inside")

        def move(channels: int) -> None:
            _tiles(b, block, first, last, lambda p: whole(plane, p, channels), lambda p: single(plane, p, channels))

        _by_channels(b, shape.channels, block, inside, move)
    func, dims = b.finish()
    return KernelCall(func, ("source", "target"), dims)


def _to_blocked(value: Value, target: Layout) -> KernelCall:
    zero = const(0, Type(value.dtype, target.block))

    def whole(at: _Plane, p: Expr, channels: int) -> None:
        rows = [at.b.let(at.b.load(at.x, at.plain_at(c, p), at.block), "r") for c in range(channels)]
        rows += [zero] * (at.block - channels)
        for i, row in enumerate(transpose_lanes(at.b, rows)):
            at.b.store(at.y, at.blocked + (p + i) * at.block, row)

    def single(at: _Plane, p: Expr, channels: int) -> None:
        for c in range(channels):
            at.b.store(at.y, at.blocked + p * at.block + c, at.b.load(at.x, at.plain_at(c, p)))
        for c in range(channels, at.block):
            at.b.store(at.y, at.blocked + p * at.block + c, const(0, Type(value.dtype)))

    return _convert(value, target, "to_blocked", ("at", "to"), whole, single)


def _to_plain(value: Value, source: Layout) -> KernelCall:
    def whole(at: _Plane, p: Expr, channels: int) -> None:
        rows = [at.b.let(at.b.load(at.x, at.blocked + (p + i) * at.block, at.block), "r") for i in range(at.block)]
        for c, row in enumerate(transpose_lanes(at.b, rows)[:channels]):
            at.b.store(at.y, at.plain_at(c, p), row)

    def single(at: _Plane, p: Expr, channels: int) -> None:
        for c in range(channels):
            at.b.store(at.y, at.plain_at(c, p), at.b.load(at.x, at.blocked + p * at.block + c))

    return _convert(value, source, "to_plain", ("to", "at"), whole, single)


def _by_channels(b: Builder, channels: int, block: int, inside: Expr, move: Callable[[int], None]) -> None:
    """Code for full blocks, and code of its own for the last one where it is partly padding."""
    left = channels % block
    if not left:
        move(block)
        return
    if channels < block:
        move(left)
        return
    with b.when(inside.eq(block)):
        move(block)
    with b.otherwise():
        move(left)


def _reblock(value: Value, source: Layout, target: Layout) -> KernelCall:
    """Walk the target's blocks; each takes vectors of the smaller block from where the source has them."""
    shape, step = _fold(value, target.axis), min(source.block, target.block)
    b = Builder("reblock")
    x, y = b.input("source", value.dtype), b.output("target", value.dtype)
    per_image, source_blocks = -(-shape.channels // target.block), -(-shape.channels // source.block)
    zero = const(0, Type(value.dtype, step))
    with plane_chunks(b, product((shape.before, per_image)), shape.positions, 1.0) as (plane, first, last):
        positions = b.dim(shape.positions)
        image = b.let(plane // per_image, "image")
        with b.loop(0, target.block, step, name="lane") as lane, b.loop(first, last, name="p") as p:
            channel = b.let(plane % per_image * target.block + lane, "channel")
            to = b.let((plane * positions + p) * target.block + lane, "to")
            with b.when(channel.lt(source_blocks * source.block)):
                block = image * source_blocks + channel // source.block
                b.store(y, to, b.load(x, (block * positions + p) * source.block + channel % source.block, step))
            with b.otherwise():
                b.store(y, to, zero)
    func, dims = b.finish()
    return KernelCall(func, ("source", "target"), dims)

