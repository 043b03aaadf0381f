"""What a search tells of itself."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from meta_infer.ir.group import Plan
from meta_infer.search.whole.outcome import Outcome

CLEARLY = 0.995
"""Share of the default plan's time below which another plan counts as quicker, if three in four parts of the rounds say
so: half of them lie within a spread of the middle. In the final, which has more rounds, three in five are enough."""


@dataclass(frozen=True)
class Contender:
    """A whole plan: what its parts add up to, and what it took, with the spread of rounds beside the default plan;
    infinite where it was not run. `bytes` are those of weights, arena and what is prepared at load; 0 where it was not
    built. `doubt`: spreads by which it must be quicker than the default plan to win. `is_out`: it was slower than those
    that came to the final."""

    name: str
    plan: Plan
    estimate: float
    measured: float = math.inf
    spread: float = 0.0
    bytes: int = 0
    doubt: float = 1.0
    is_out: bool = False


@dataclass(frozen=True)
class Level:
    """A level of fusion: seconds of the best plan of this level and those below (infinite where none covers the model
    within its limits), the share of the level below's time that it saves, the share of its own that is guessed rather
    than timed, how many kernels the plan has, and whether the model `offers` anything at this level."""

    name: str
    seconds: float
    gain: float
    guessed: float
    kernels: int
    offers: bool


@dataclass(frozen=True)
class InContext:
    """One run of a chosen plan with a clock around every group.

    expected  seconds that the whole was expected to take: the sum of its parts, and once one plan has run, the sum at
              corrected prices by what the parts of that one added up to
    in_place  what its groups and conversions took within the run, together
    whole     what the run took
    level     by which factor groups took more in place than alone, the middle one by time
    groups    distinct groups that were compared, of which `clear` were clearly off the level
    """

    expected: float
    in_place: float
    whole: float
    level: float
    groups: int
    clear: int


@dataclass(frozen=True)
class Heavy:
    """A distinct group of a plan, `count` times there: what it computes, its first node, seconds of one, the share of
    all, the chosen way and the nearest rival; '' where none was timed."""

    ops: str
    node: str
    count: int
    seconds: float
    share: float
    chosen: str
    is_timed: bool
    rival: str
    rival_seconds: float


@dataclass
class Story:
    """What a search did, for the report. Seconds are those of one run of the model.

    combinations  kernels with all values of their knobs over all distinct groups
    looked_at     of these, how many the coarse stage guessed the time of; `kept` those that it left
    refused       how many could not be, by reason
    timed         measured by this build, `recalled` known from the library
    taken_over    distinct groups whose first candidates did best on another chip or instruction set
    raw_error     median error of guesses of what was timed, `error` that of guesses corrected by what was timed
    gap           share by which a plan of these prices could at most be better than the one found
    levels        of fusion, from none to all; empty where solving them would have taken long
    context       runs of chosen plans in place, each at prices that the one before corrected
    heaviest      groups of the plan that won
    moves         rewrites of the graph that the plan took, by name
    outcome       the plan that won beside what was aimed at
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
    raw_error: float = 0.0
    error: float = 0.0
    gap: float = 0.0
    sum_of_parts: float = 0.0
    contenders: tuple[Contender, ...] = ()
    levels: tuple[Level, ...] = ()
    context: tuple[InContext, ...] = ()
    heaviest: tuple[Heavy, ...] = ()
    moves: Counter[str] = field(default_factory=Counter)
    outcome: Outcome | None = None
    ended: str = ""


@dataclass(frozen=True)
class Searched:
    """The plan that won, and how it came to that."""

    plan: Plan
    story: Story
