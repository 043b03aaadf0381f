"""How measuring is done, in numbers that the measuring process and its parent share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

VERSION = 2
"""Rises whenever a change makes old times incomparable with new ones: it is part of every recorded key."""

FEWEST_ROUNDS = 5
GOOD_SPREAD = 0.02
"""Rounds end when the spread of every candidate is at most this share of its median."""

BATCH_SECONDS = 0.0005
"""A batch repeats a candidate until it takes about this long, 10 000 times the resolution of the clock."""

BATCHES = 4
"""Batches in a turn; the quickest counts, because one that was interrupted says nothing."""

LONGEST_TURN = 0.02
"""Seconds that the batches of a turn may take together; where one run takes longer, it is the only one."""

PROBE_EVERY = 0.02
"""Seconds after which the probe is timed again within a round, so that a share of the peak is one of about now."""

CACHE_FACTOR = 2
"""Weights are spread over this many times the last-level cache."""

CACHE_UNKNOWN = 64 << 20
"""Bytes taken for the last-level cache where the machine does not state it."""


def rest_of(seconds: float, spent: float) -> float:
    """Seconds left to candidates of a group after one of them has spent some: enough to tell something in any case."""
    return max(seconds - spent, seconds / 4)


def median_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """The median, and half the width of the interval that holds the middle half of the values."""
    low, middle, high = np.percentile(values, (25, 50, 75))
    return float(middle), float(high - low) / 2
