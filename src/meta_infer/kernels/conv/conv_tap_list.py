"""The taps that a chunk of a convolution needs, found while running: their places in its input and in the weights.

Taps that meet nothing but zeros for a whole chunk are left out: the planes before and after the depth of a 3-D image,
the far taps of a dilated kernel near a border.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import prod

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Buffer, Expr, const
from meta_infer.kernels.conv.conv_patch import Corner, Spread
from meta_infer.kernels.conv.conv_taps import TapConv
from meta_infer.support.dtypes import INT64


@dataclass(frozen=True)
class TapList:
    """For each tap its `place` (an element offset in the input) and its `number` in the kernel; `starts` of phases."""

    place: Buffer
    number: Buffer
    starts: Buffer


def list_sizes(taps: TapConv, axes: int) -> tuple[int, int]:
    """Taps and phases of the first `axes` axes."""
    return prod(taps.kernel[:axes]), prod(taps.out_step[:axes])


def tap_list(b: Builder, taps: TapConv, axes: int) -> TapList:
    """Room for all taps of the first `axes` axes."""
    count, phases = list_sizes(taps, axes)
    return TapList(b.scratch("tap_place", INT64, count), b.scratch("tap_number", INT64, count),
                   b.scratch("phase_starts", INT64, phases + 1))


@contextmanager
def each_phase(b: Builder, taps: TapConv, axes: int) -> Iterator[tuple[Expr, tuple[Expr, ...]]]:
    """A loop over the phases of the first `axes` axes: (its number, the first output it makes on each of them)."""
    with ExitStack() as stack:
        firsts = [const(0) if step == 1 else stack.enter_context(b.loop(0, step, name="phase"))
                  for step in taps.out_step[:axes]]
        number = const(0)
        for step, first in zip(taps.out_step, firsts, strict=False):
            number = number * step + first
        yield b.let(number, "phase"), tuple(firsts)


def _axis_tap(b: Builder, taps: TapConv, axis: int, first: Expr, k: Expr) -> tuple[Expr, Expr | None]:
    """The place of kernel number `k`, and whether this phase has it (None: it has)."""
    begin = (0,) * (2 - len(taps.conv.kernel)) + taps.conv.begin
    dilation = (1,) * (2 - len(taps.conv.kernel)) + taps.conv.dilations
    if not taps.is_transposed:
        return b.let(k * dilation[axis] - begin[axis], "place"), None
    step = taps.out_step[axis]
    above = -(-(taps.kernel[axis] * dilation[axis] + max(0, -begin[axis])) // step)     # keeps the dividend positive
    reach = b.let(first + begin[axis] + above * step - k * dilation[axis], "reach")
    return b.let(reach // step - above, "place"), (reach % step).eq(0)


def list_taps(b: Builder, spread: Spread, found: TapList, corner: Corner, counts: Sequence[Expr],
              steps: Sequence[Expr | int]) -> None:
    """Fill the list for a chunk of `counts` rows and columns; `steps` are elements from one place to the next, for
    each of the axes that are listed.

    Places are counted from the least one of their axis, on leading axes from slot to slot.
    """
    taps, rank, axes = spread.taps, len(spread.taps.kernel), len(steps)
    count = b.var(const(0), "count")
    q = (*corner.lead, corner.row, corner.column)
    sizes = (*(const(1) for _ in corner.lead), *counts)
    with each_phase(b, taps, axes) as (phase, firsts):
        b.store(found.starts, phase, count)
        with ExitStack() as stack:
            number, place = const(0), const(0)
            for axis in range(axes):
                k = const(0)
                if taps.kernel[axis] > 1:
                    k = stack.enter_context(b.loop(0, taps.kernel[axis], name="k"))
                at, has = _axis_tap(b, taps, axis, firsts[axis], k)
                if has is not None and taps.out_step[axis] > 1:
                    stack.enter_context(b.when(has))
                if taps.has_border:
                    step = taps.in_step[axis]
                    met = (q[axis] * step + at).lt(b.dim(taps.in_spatial[axis]))
                    last = (q[axis] + sizes[axis] - 1) * step + at
                    stack.enter_context(b.when(met & last.ge(0)))
                number = number * taps.kernel[axis] + k
                low = taps.places(axis)[0]
                slot = k if axis < rank - 2 and not taps.is_transposed else at - low
                place = place + slot * steps[axis]
            b.store(found.place, count, place)
            b.store(found.number, count, number)
            b.assign(count, count + 1)
    b.store(found.starts, list_sizes(taps, axes)[1], count)
