"""How much a search may do, by mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """seconds  for measuring, as a backstop: what a search does depends on times only where it runs into this
    rivals   ways of each distinct group that are timed in the fine stage
    counted  times as many are lowered, for the cost model to choose them from
    taken    ways of each group that are taken over from other chips
    slack    times the least guess that a way may be guessed to take and still be timed
    keep     ways of each distinct group that the coarse stage leaves
    kernels  ways and conversions that are timed in all; the parts of the first plan may be more
    tuning   how many of these the fine stage leaves to the finetune stage
    tries    ways of each distinct group that are timed in the finetune stage
    in_place whether the plan is run with a clock around every group, and solved again with what that tells
    beside   plans of the next best ways that run there in turns with it
    moves    whether the graph's moves are in the space
    plans    whole plans that are built and timed against each other at the end
    """

    seconds: float
    rivals: int
    counted: int
    taken: int
    slack: float
    keep: int
    kernels: int
    tuning: int
    tries: int
    in_place: bool
    beside: int
    moves: bool
    plans: int


BUDGETS: Mapping[str, Budget] = {
    "fast": Budget(seconds=40, rivals=3, counted=2, taken=1, slack=1.3, keep=8, kernels=240, tuning=0, tries=0,
                   in_place=False, beside=0, moves=False, plans=3),
    "balanced": Budget(seconds=180, rivals=5, counted=3, taken=2, slack=1.5, keep=16, kernels=480, tuning=150, tries=10,
                       in_place=True, beside=3, moves=True, plans=5),
    "thorough": Budget(seconds=1800, rivals=12, counted=3, taken=2, slack=2.0, keep=48, kernels=4800, tuning=2400,
                       tries=60, in_place=True, beside=6, moves=True, plans=5),
}
