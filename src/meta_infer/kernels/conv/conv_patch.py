"""The part of a convolution's input that a chunk of outputs meets, with zeros around the image.

    patch [lead slot][input block][rows][columns][in_block]        (per-thread scratch)

A chunk has one place on every leading axis (depth of a 3-D convolution), some rows and some columns. The slots are
the planes of the leading axes that its taps meet. A convolution without borders can read the input in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Buffer, Expr, Type, const, maximum, minimum
from meta_infer.kernels.conv.conv_taps import TapConv
from meta_infer.support.dtypes import FLOAT32


@dataclass(frozen=True)
class Spread:
    """The sizes of a patch for chunks of `rows` x `width` positions of a phase."""

    taps: TapConv
    rows: int
    width: int

    def _extent(self, axis: int, count: int) -> int:
        low, high = self.taps.places(axis)
        return (count - 1) * self.taps.in_step[axis] + high - low + 1

    @property
    def height(self) -> int:
        return self._extent(len(self.taps.kernel) - 2, self.rows)

    @property
    def pitch(self) -> int:
        """Columns of the patch."""
        return self._extent(len(self.taps.kernel) - 1, self.width)

    @property
    def slots(self) -> tuple[int, ...]:
        """Planes met on each leading axis."""
        taps = self.taps
        if not taps.is_transposed:
            return taps.kernel[:-2]
        return tuple(high - low + 1 for low, high in map(taps.places, range(len(taps.kernel) - 2)))

    @property
    def slot_count(self) -> int:
        count = 1
        for slots in self.slots:
            count *= slots
        return count

    def slot_place(self, axis: int, slot: Expr) -> Expr:
        """The place on a leading axis that a slot holds."""
        taps = self.taps
        dilation = 1 if taps.is_transposed else taps.conv.dilations[axis]
        return slot * dilation + taps.places(axis)[0]

    def elements(self, in_blocks: int, in_block: int) -> int:
        return self.slot_count * in_blocks * self.height * self.pitch * in_block


@dataclass(frozen=True)
class Corner:
    """Where a chunk is: its image, its place on each leading axis, first row and first column, all in q."""

    n: Expr
    lead: Sequence[Expr]
    row: Expr
    column: Expr


def fill_patch(b: Builder, spread: Spread, patch: Buffer, x: Buffer, corner: Corner, in_first: Expr,
               in_count: Expr | int, in_total: int, in_block: int) -> None:
    """Copy what the image has of input blocks [in_first, in_first + in_count), of `in_total`; zeros elsewhere."""
    taps = spread.taps
    rank = len(taps.kernel)
    height, width = (b.dim(size) for size in taps.in_spatial[-2:])
    top = b.let(corner.row * taps.in_step[-2] + taps.places(rank - 2)[0], "top")
    left = b.let(corner.column * taps.in_step[-1] + taps.places(rank - 1)[0], "left")
    low = b.let(minimum(maximum(const(0) - left, 0), spread.pitch), "low")
    high = b.let(maximum(minimum(width - left, spread.pitch), low), "high")
    zero = const(0.0, Type(FLOAT32, in_block))
    with ExitStack() as stack:
        slot, plane = const(0), const(0)
        inside = None
        for axis, slots in enumerate(spread.slots):
            i = stack.enter_context(b.loop(0, slots, name="slot"))
            size = b.dim(taps.in_spatial[axis])
            source = b.let(corner.lead[axis] * taps.in_step[axis] + spread.slot_place(axis, i), "source")
            met = source.ge(0) & source.lt(size)
            inside = met if inside is None else inside & met
            slot, plane = slot * slots + i, plane * size + source
        ib = stack.enter_context(b.loop(0, in_count, name="ib"))
        depth = const(1)
        for planes in taps.in_spatial[:-2]:
            depth = depth * b.dim(planes)
        image = b.let(((corner.n * in_total + in_first + ib) * depth + plane) * height, "image")
        row = stack.enter_context(b.loop(0, spread.height, name="r"))
        to = b.let(((slot * in_count + ib) * spread.height + row) * spread.pitch, "to")
        source_row = b.let(top + row, "row")
        met = source_row.ge(0) & source_row.lt(height)
        with b.when(met if inside is None else inside & met):
            source = b.let(((image + source_row) * width + left) * in_block, "source")
            with b.loop(0, low, name="c") as c:
                b.store(patch, (to + c) * in_block, zero)
            with b.loop(low, high, name="c") as c:
                b.store(patch, (to + c) * in_block, b.load(x, source + c * in_block, in_block))
            with b.loop(high, spread.pitch, name="c") as c:
                b.store(patch, (to + c) * in_block, zero)
        with b.otherwise(), b.loop(0, spread.pitch, name="c") as c:
            b.store(patch, (to + c) * in_block, zero)
