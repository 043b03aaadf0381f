"""What a search tells of itself."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from meta_infer.ir.group import Plan


@dataclass(frozen=True)
class Contender:
    """A whole plan: what its parts add up to, and what it took; infinite where it was not run."""

    name: str
    plan: Plan
    estimate: float
    measured: float = math.inf


@dataclass
class Story:
    """What a search did, for the report. Seconds are those of one run of the model.

    combinations  kernels with all values of their knobs over all distinct groups
    looked_at     of these, how many the coarse stage guessed the time of; `kept` those that it left
    refused       how many could not be, by reason
    timed         measured by this build, `recalled` known from the library
    taken_over    distinct groups whose first candidates did best on another chip or instruction set
    error         median error of guesses, corrected by what was timed
    gap           share by which a plan of these prices could at most be better than the one found
    ended         why measuring ended early; empty when everything was timed
    """

    combinations: int = 0
    groups: int = 0
    distinct: int = 0
    looked_at: int = 0
    kept: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    timed: int = 0
    recalled: int = 0
    taken_over: int = 0
    error: float = 0.0
    gap: float = 0.0
    sum_of_parts: float = 0.0
    contenders: tuple[Contender, ...] = ()
    ended: str = ""


@dataclass(frozen=True)
class Searched:
    """The plan that won, and how it came to that."""

    plan: Plan
    story: Story
