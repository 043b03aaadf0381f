"""What a search did, as text: a few lines and two tables, and on request what was refused and where the time goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from meta_infer.report.operators import short_name
from meta_infer.report.plain_table import plain_table
from meta_infer.report.search_report import THIS_RUN
from meta_infer.report.units import count_text, seconds_text
from meta_infer.search.story import CLEARLY

LEVELS: Mapping[str, str] = {
    "none": "each operator in a kernel of its own",
    "elementwise": "chains of elementwise operators",
    "epilogue": "elementwise operators in the kernel before",
    "full": "both of these",
    "anchors": "several convolutions, products or poolings",
    "moves": "operators merged, split, padded, exchanged",
}
"""What each level of fusion puts into one kernel, or into another shape, on top of those before it."""

REASONS: Mapping[str, str] = {
    "registers": "need more vector registers than there are",
    "cache": "keep more in a cache than it holds",
    "alignment": "sizes are no multiples of what the code needs",
    "shape": "are larger than the problem",
    "code": "would be too much code",
    "isa": "need instructions that the chip lacks",
    "custom": "were refused by a kernel of yours",
    "value": "are no values that a knob can have",
    "risk": "round more than is allowed",
}


_LEGEND = ("takes: how much longer the rival takes; less than nothing where its layouts cost more elsewhere,\n"
           "or where the plan by rule won as a whole")


def search_parts(rows: Mapping[str, Any], verbose: bool = False) -> list[RenderableType]:
    """What `build` prints of a search; `verbose` adds refusals, moves and the heaviest groups."""
    lines = _counts(rows, verbose)
    lines += [*_summed(rows.get("tuned_at", ())), *_in_place(rows.get("in_place", ()))]
    if rows["ended"]:
        lines.append(f"it ended early: {rows['ended']}; a greater mode or --search-seconds goes on from here")
    parts: list[RenderableType] = [*map(Text, lines), ""]
    if rows.get("fusion_levels"):
        parts += [levels_table(rows["fusion_levels"]), ""]
    elif rows["groups"]:
        parts += [Text("levels of fusion are not compared: solving each takes long in a model of this size"), ""]
    parts += [plans_table(rows["plans"]), *map(Text, _why_default(rows["plans"])), ""]
    if verbose and rows.get("heaviest"):
        parts += [Text("where the time goes, and what was chosen over what (?: guessed, not timed):"),
                  heaviest_table(rows["heaviest"]), Text(_LEGEND), ""]
    return parts


def _counts(rows: Mapping[str, Any], verbose: bool) -> list[str]:
    """From how many combinations to how many timed, and how wrong guesses were."""
    here = rows.get(THIS_RUN)
    source, place = "", f" on {rows['timed_on']}" if "timed_on" in rows else ""
    if here and here.get("since"):
        source = f"; nothing now: the plan is that of a search at {here['since']}"
    elif here:
        source = f" ({here['timed']} now, {here['from_library']} from the library)"
    lines = [
        f"search: {count_text(rows['combinations'])} combinations of kernels and knobs for {rows['distinct_groups']} "
        f"distinct groups;",
        f"  {rows['looked_at']} guessed, {rows['kept']} kept, {rows['known']} timed{place}{source}",
    ]
    if here and here["groups_from_elsewhere"]:
        lines.append(f"  {here['groups_from_elsewhere']} groups began with what did best on another chip")
    refused = sum(rows["refused"].values())
    if verbose and refused:
        lines.append(f"  {refused} could not be:")
        lines += [f"    {count:6}  {REASONS.get(reason, reason)} ({reason})" for reason, count
                  in sorted(rows["refused"].items(), key=lambda item: -item[1]) if count]
    before = f"{rows['guess_error_uncorrected']:.0%} off, " if "guess_error_uncorrected" in rows else ""
    lines.append(f"guesses of what was timed were {before}{rows['guess_error']:.0%} once corrected by it (median)")
    lines.append(f"by these times no plan is more than {rows['gap']:.1%} quicker")
    if rows.get("threads"):
        lines.append(f"threads of the package, unless a run names others: {rows['threads']}")
    moves = rows.get("moves", {})
    if moves:
        lines.append("rewrites that the plan took: " + ", ".join(f"{count} x {name}" for name, count in moves.items()))
    return lines


def _summed(points: Sequence[Mapping[str, int]]) -> list[str]:
    """What times of a search are of, where there are several sizes."""
    if len(points) < 2:
        return []
    sizes = " and ".join(",".join(f"{name}={size}" for name, size in point.items()) for point in points)
    return [f"times of plans are sums over runs at {sizes};", "  latency and target are the mean of such runs"]


def _in_place(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """The sum of parts beside the whole, for the plan that was solved for first and after each correction."""
    lines = []
    for i, step in enumerate(steps):
        off = step["whole_s"] / step["expected_s"] - 1 if step["expected_s"] else 0.0
        what = "kernels timed alone add up to" if not i else "solved again with these corrected: expected"
        lines.append(f"{what} {seconds_text(step['expected_s'])}, the whole took {seconds_text(step['whole_s'])} "
                     f"({off:+.1%})")
        clear = step["corrected"]
        lines.append(f"  in it, kernels took {step['level']:.2f} times as long as alone; {clear or 'none'} of "
                     f"{step['groups']} {'differs' if clear == 1 else 'differ'} clearly from that")
    return lines


def _why_default(plans: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why the plan by rule was kept, where another one was seen to be quicker."""
    if not plans:
        return []
    first, *others = plans
    took = first["measured_s"]
    if first["name"] != "default" or not took or all((one["measured_s"] or took) >= took for one in others):
        return []
    return [f"another plan takes the default's place when it is quicker by {1 - CLEARLY:.1%} at least, in most parts "
            "of the rounds"]


def levels_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The best plan of each level of fusion, by the prices that the search came to."""
    table = plain_table("fusion", "allows", "kernels", "estimate", "gain", "guessed",
                        right=("kernels", "estimate", "gain", "guessed"))
    for i, row in enumerate(rows):
        known = row["seconds"] is not None
        gain = f"{row['gain']:.1%}" if known and i and rows[i - 1]["seconds"] is not None else "-"
        if not row["offers"]:
            gain = "none here"
        table.add_row(row["level"], LEVELS.get(row["level"], ""), str(row["kernels"]) if known else "-",
                      seconds_text(row["seconds"]) if known else "does not fit", gain,
                      f"{row['guessed']:.0%}" if known else "-")
    return table


def plans_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Whole plans, the chosen one first: what their parts add up to, and what they took as a whole."""
    table = plain_table("plan", "estimate", "measured", "off", right=("estimate", "measured", "off"))
    for row in rows:
        measured = row["measured_s"]
        off = f"{measured / row['estimate_s'] - 1:+.1%}" if measured and row["estimate_s"] else "-"
        table.add_row(Text(row["name"]), seconds_text(row["estimate_s"]),
                      "-" if measured is None else seconds_text(measured), off)
    return table


def heaviest_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Groups that take most, with the nearest rival of each and by how much longer that takes."""
    table = plain_table("n", "time", "ops", "node", "chosen", "nearest rival", "takes", right=("n", "time", "takes"))
    for row in rows:
        rival = row["rival_s"]
        takes = "-" if rival is None or not row["seconds"] else f"{rival / row['seconds'] - 1:+.0%}"
        time = seconds_text(row["count"] * row["seconds"]) + ("" if row["timed"] else " ?")
        table.add_row(str(row["count"]), time, Text(_beginning(row["ops"])), Text(short_name(row["node"], 16)),
                      Text(_kernel(row["chosen"])), Text(_rival(row["chosen"], row["rival"])), takes)
    return table


def _kernel(way: str) -> str:
    """'conv_winograd/f4' of 'conv_winograd/winograd_f4 groups=2'; 'conv_direct' of 'conv_direct/conv_direct'."""
    kernel, _, variant = way.partition(" ")[0].partition("/")
    word = kernel.rpartition("_")[2]
    return kernel if variant == kernel else f"{kernel}/{variant.removeprefix(f'{word}_')}"


def _rival(chosen: str, rival: str) -> str:
    """'conv_direct/tiled', or of the same variant the knobs that differ: 'rows=4'."""
    if not rival:
        return "none timed"
    mine, theirs = chosen.split(" "), rival.split(" ")
    if mine[0] != theirs[0]:
        return _kernel(rival)
    return " ".join(word for word in theirs[1:] if word not in mine) or "other layouts"


def _beginning(text: str, most: int = 16) -> str:
    return text if len(text) <= most else f"{text[:most - 3]}..."


def rewrites_parts(rows: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    """What passes did to the graph before kernels were chosen: nodes that each changed and took out."""
    if not rows:
        return []
    table = plain_table("pass", "what it does", "changed", "removed", right=("changed", "removed"))
    for row in rows:
        table.add_row(row["pass"], Text(row["does"]), str(row["changed"]), str(row["removed"]))
    return [Text("rewrites of the model, nodes:"), table, ""]
