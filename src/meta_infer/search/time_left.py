"""How long a search will go on, as far as it can tell: from what it has left to time and how long that took so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

FIRST_GUESS = 0.5
"""Seconds that timing one kernel takes, compiling included, before any was timed."""
_SURE = 6
"""Kernels after which what they took counts for more than the first guess."""
_MORE = 0.3
"""Share of what a round of the fine stage times that later rounds add."""
_AFTER = {"coarse": 3.0, "in place": 5.0, "whole plans": 15.0}
"""Seconds that stages take in which no kernel is timed by itself."""
_STAGES = ("coarse", "fine", "finetune", "in place", "whole plans")


@dataclass
class TimeLeft:
    """To be told of stages, of what each has left to time, and of what was timed; `most` are the seconds that timing
    may take in all, `tunes` how many kernels the finetune stage may time of each that the fine stage times, `places`
    whether plans run in place."""

    most: float
    tunes: float = 0.0
    places: bool = True
    clock: Callable[[], float] = time.monotonic
    stage: str = ""
    _begun: float = field(init=False)
    _stage_begun: float = field(init=False)
    _left: int = 0
    _timed: int = 0
    _timing: float = 0.0
    _last: float = field(init=False)

    def __post_init__(self) -> None:
        self._begun = self._stage_begun = self._last = self.clock()

    def begin(self, stage: str) -> None:
        self.stage, self._left = stage, 0
        self._stage_begun = self._last = self.clock()

    def wants(self, count: int) -> None:
        """The stage has `count` more kernels to time, as it knows now."""
        self._left = count
        self._last = self.clock()

    def done(self, count: int, is_new: bool) -> None:
        """`count` kernels are known since the last call; `is_new` when they were timed, and not remembered."""
        now = self.clock()
        if is_new:
            self._timed += count
            self._timing += now - self._last
        self._left = max(0, self._left - count)
        self._last = now

    @property
    def spent(self) -> float:
        return self.clock() - self._begun

    @property
    def per_kernel(self) -> float:
        """Seconds, the first guess weighing as much as some kernels do."""
        return (FIRST_GUESS * _SURE + self._timing) / (_SURE + self._timed)

    @property
    def in_stage(self) -> float:
        """Seconds that the present stage will still take."""
        if self.stage in _AFTER:
            return max(1.0, _AFTER[self.stage] - (self.clock() - self._stage_begun))
        return min(self._left * self.per_kernel, max(0.0, self.most - self.spent))

    @property
    def in_all(self) -> float:
        """Seconds that all of the search will still take."""
        at = _STAGES.index(self.stage) if self.stage in _STAGES else 0
        later = _STAGES[at + 1:]
        timing = self.in_stage if self.stage not in _AFTER else 0.0
        if self.stage == "fine":
            timing *= 1 + _MORE
        if "finetune" in later:
            timing += max(self._timed, self._left) * self.tunes * self.per_kernel
        timing = min(timing, max(0.0, self.most - self.spent))
        others = sum(_AFTER.get(stage, 0.0) for stage in later if stage != "in place" or self.places)
        return timing + others + (self.in_stage if self.stage in _AFTER else 0.0)

    @property
    def share(self) -> float:
        """The part of the search that is done."""
        spent = self.spent
        return spent / (spent + self.in_all) if spent else 0.0


def seconds_left(seconds: float) -> str:
    """'35 s', '4 min': no finer than an estimate is."""
    if seconds < 90:
        return f"{max(1, round(seconds / 5) * 5 if seconds > 10 else round(seconds))} s"
    return f"{seconds / 60:.0f} min"
