"""Whole plans that searches came to, so that the same build need not search again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from meta_infer.library.fields import COUNT, FROM_ONE, NAME, SECONDS, TEXT, TIME, Kind


@dataclass(frozen=True)
class FoundPlan:
    """What a search of one mode took for a model, one row per key and mode.

    key      hash of all that a search is asked: model, chip, threads, limits, what was pinned or left out
    mode     'fast', 'balanced', 'thorough'
    seconds  that it had for timing kernels, where these ran out; infinite where everything was timed
    choices  those of a lock, as JSON
    told     what the report of the build said of the search, as JSON
    whole    key of the sample of the whole plan's time: a hash of its code
    model    the model's name

    It stays in this library: what travels is a package's lock, and the samples that the plan came from.
    """

    key: str
    mode: str
    seconds: float
    choices: str
    told: str
    whole: str
    model: str = ""
    isa: str = ""
    cpu: str = ""
    threads: int = 1
    protocol: int = 0
    compiler: str = ""
    made: str = ""


PLAN_FIELDS: Mapping[str, Kind] = {
    "key": NAME, "mode": NAME, "seconds": SECONDS, "choices": NAME, "told": NAME, "whole": NAME,
    "model": TEXT, "isa": TEXT, "cpu": TEXT, "threads": FROM_ONE, "protocol": COUNT, "compiler": TEXT, "made": TIME,
}
