"""What a search did, as data."""

from __future__ import annotations

import math
from typing import Any

from meta_infer.report.aims import outcome_rows
from meta_infer.search.remembered import PlanFound
from meta_infer.search.story import Story

THIS_RUN = "this_run"
"""The key of what tells of one build alone: a package does not hold it, because a replay has to give the same bytes."""


def search_rows(story: Story) -> dict[str, Any]:
    """The story of a search as JSON; times are seconds of one run of the model, errors and shares parts of 1."""
    return {
        "combinations": story.combinations, "groups": story.groups, "distinct_groups": story.distinct,
        "looked_at": story.looked_at, "kept": story.kept, "known": story.timed + story.recalled,
        "refused": dict(sorted(story.refused.items())), "guess_error": story.error,
        "guess_error_uncorrected": story.raw_error, "gap": story.gap,
        "sum_of_parts_s": story.sum_of_parts, "ended": story.ended,
        "plans": [{"name": one.name, "estimate_s": one.estimate, "measured_s": _finite(one.measured)}
                  for one in story.contenders],
        "in_place": [{"expected_s": one.expected, "parts_s": one.in_place, "whole_s": one.whole, "level": one.level,
                      "groups": one.groups, "corrected": one.clear} for one in story.context],
        "fusion_levels": [{"level": one.name, "seconds": _finite(one.seconds), "gain": one.gain,
                           "guessed": one.guessed, "kernels": one.kernels, "offers": one.offers}
                          for one in story.levels],
        "moves": dict(sorted(story.moves.items())),
        "heaviest": [{"ops": one.ops, "node": one.node, "count": one.count, "seconds": one.seconds,
                      "share": one.share, "chosen": one.chosen, "timed": one.is_timed, "rival": one.rival,
                      "rival_s": _finite(one.rival_seconds)} for one in story.heaviest],
        "outcome": outcome_rows(story.outcome),
        THIS_RUN: {"timed": story.timed, "from_library": story.recalled, "groups_from_elsewhere": story.taken_over},
    }


def found_rows(found: PlanFound) -> dict[str, Any]:
    """Those of a search, or of the earlier one that had answered the same question."""
    if not found.since:
        return found.rows
    return found.rows | {THIS_RUN: {"timed": 0, "from_library": 0, "groups_from_elsewhere": 0, "since": found.since}}


def of_every_run(rows: dict[str, Any]) -> dict[str, Any]:
    """What a package holds of them."""
    return {key: value for key, value in rows.items() if key != THIS_RUN}


def _finite(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None
