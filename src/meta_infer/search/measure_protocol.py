"""How measuring is done, in numbers that the measuring process and its parent share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

VERSION = 1
"""Rises whenever a change makes old times incomparable with new ones: it is part of every recorded key."""

FEWEST_ROUNDS = 5
GOOD_SPREAD = 0.02
"""Rounds end when the spread of every candidate is at most this share of its median."""

TURN_SECONDS = 0.002
"""A turn repeats a candidate until it takes about this long, 40 000 times the resolution of the clock."""

CACHE_FACTOR = 2
"""Weights are spread over this many times the last-level cache."""

CACHE_UNKNOWN = 64 << 20
"""Bytes taken for the last-level cache where the machine does not state it."""


def median_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """The median, and half the width of the interval that holds the middle half of the values."""
    low, middle, high = np.percentile(values, (25, 50, 75))
    return float(middle), float(high - low) / 2
