"""What a search did, as data and as text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from meta_infer.report.plain_table import plain_table
from meta_infer.report.units import count_text, seconds_text
from meta_infer.search.story import Story


def search_rows(story: Story) -> dict[str, Any]:
    """The story of a search as JSON; times are seconds of one run of the model."""
    return {
        "combinations": story.combinations, "groups": story.groups, "distinct_groups": story.distinct,
        "looked_at": story.looked_at, "kept": story.kept, "known": story.timed + story.recalled,
        "refused": dict(sorted(story.refused.items())), "guess_error": story.error, "gap": story.gap,
        "sum_of_parts_s": story.sum_of_parts, "ended": story.ended,
        "plans": [{"name": one.name, "estimate_s": one.estimate,
                   "measured_s": None if math.isinf(one.measured) else one.measured} for one in story.contenders],
    }


def search_parts(rows: Mapping[str, Any]) -> list[RenderableType]:
    """What `build` prints of a search: from how many combinations to how many timed, and the best plans."""
    lines = [
        f"search: {count_text(rows['combinations'])} combinations of kernels and knobs for {rows['distinct_groups']} "
        f"distinct groups; {rows['looked_at']} looked at, {rows['kept']} kept, {rows['known']} timed",
        f"guesses were {rows['guess_error']:.0%} off (median); by these times no plan is more than {rows['gap']:.1%} "
        "quicker",
    ]
    if rows["ended"]:
        lines.append(f"it ended early: {rows['ended']}; a second build goes on from here")
    table = plain_table("plan", "sum of kernels", "whole, measured", right=("sum of kernels", "whole, measured"))
    for plan in rows["plans"]:
        measured = "-" if plan["measured_s"] is None else seconds_text(plan["measured_s"])
        table.add_row(Text(plan["name"]), seconds_text(plan["estimate_s"]), measured)
    return [*map(Text, lines), table, ""]
