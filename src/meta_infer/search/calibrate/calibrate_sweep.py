"""Finds the number that channels should be a multiple of, by timing convolutions of many widths.

    time                                 ____
    of all                         ____ |        a core that computes 8 channels together takes as long for 17 as for
    channels                 ____ |              24: the time per channel drops at 8, 16, 24, and rises right after
                            |
           widths     1    8    16   24   32

A width m that is an odd multiple of s tells of the step s alone: it is no multiple of 2s. Its gain is the time per
channel of m-1 and m+1, their geometric mean, over that of m. On a chip whose step is s it is that of the stairs above;
where time grows evenly with the width it is 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log

from meta_infer.search.calibrate.calibrate_cases import Case, convolution

_CHANNELS, _SIZE = 64, 28
_ODD = (1, 3, 5)
_ENOUGH = 0.5
"""Share of the stairs' gain from which a step counts as found: kernels also take time that no width changes."""


def steps(lanes: int) -> tuple[int, ...]:
    """Steps that are looked for, on a chip with this many lanes."""
    found = [2]
    while found[-1] < 4 * lanes:
        found.append(2 * found[-1])
    return tuple(found)


def widths(lanes: int) -> tuple[int, ...]:
    """Numbers of channels to time, up to four registers and one: odd multiples of every step, and their neighbours."""
    centres = {odd * step for step in steps(lanes) for odd in _ODD if odd * step <= 4 * max(lanes, 4)}
    return tuple(sorted({width for centre in centres for width in (centre - 1, centre, centre + 1)}))


def sweep_cases(lanes: int) -> dict[int, Case]:
    """By width, a pointwise convolution with so many output channels."""
    return {width: Case("sweep", convolution(_CHANNELS, _SIZE, width, 1, 1, 1)) for width in widths(lanes)}


def find_step(seconds: Mapping[int, float]) -> int:
    """The least step at which the time per channel drops, from seconds by width; 1 where there is none."""
    step = 2
    while step <= max(seconds, default=0):
        centres = [odd * step for odd in _ODD if {odd * step - 1, odd * step, odd * step + 1} <= seconds.keys()]
        gained = sum(_gain({w: seconds[w] for w in (m - 1, m, m + 1)}) for m in centres)
        expected = sum(_gain({w: float(-(-w // step) * step) for w in (m - 1, m, m + 1)}) for m in centres)
        if centres and gained > _ENOUGH * expected:
            return step
        step *= 2
    return 1


def _gain(around: Mapping[int, float]) -> float:
    """Logarithm of the neighbours' time per channel over that of the width in the middle."""
    below, middle, above = (log(around[width] / width) for width in sorted(around))
    return (below + above) / 2 - middle
