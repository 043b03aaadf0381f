"""How many threads a package uses when nobody says: the fewest that are about as quick as any number.

The plan by rule is run with one thread, with two, four and so on up to all processors, in turns. More threads do not
always help (small networks, slow memory, busy machines), and a thread that brings little is better left to others.
"""

from __future__ import annotations

import math
from dataclasses import replace

from meta_infer.ir.group import Plan
from meta_infer.runtime.native import MAX_THREADS
from meta_infer.search.timing import TimeOver, Timer
from meta_infer.search.whole.whole import Inputs, compare_built

_ABOUT = 1.03
"""Times the least that a run may take with fewer threads."""
_ROUNDS, _SECONDS = 11, 2.0


def thread_counts(processors: int) -> tuple[int, ...]:
    """1, 2, 4, ... and all of them."""
    most = min(processors, MAX_THREADS)
    return (*(count for count in (1 << i for i in range(most.bit_length())) if count < most), most)


def best_threads(plan: Plan, timer: Timer, inputs: Inputs, processors: int) -> int:
    """The number of threads for a package, measured or known from the library; all where a replay does not know."""
    counts = thread_counts(processors)
    if len(counts) == 1:
        return counts[0]
    built = timer.build(plan)
    try:
        found = compare_built([replace(built, threads=count) for count in counts], timer, inputs, rounds=_ROUNDS,
                              seconds=_SECONDS)
    except TimeOver:
        return counts[-1]
    least = min(took.seconds for took in found)
    if not math.isfinite(least):
        return counts[-1]
    return next(count for count, took in zip(counts, found, strict=True) if took.seconds <= _ABOUT * least)
