"""What a build aimed at beside what it came to, as data and as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from meta_infer.build_config import BuildConfig
from meta_infer.report.units import bytes_text, seconds_text
from meta_infer.search.aims import Aims
from meta_infer.search.whole.baseline import SHARE
from meta_infer.search.whole.outcome import Outcome

GIVEN, BASELINE, PROFILE = "--target-latency-ms", f"{SHARE:.0%} of the un-optimised baseline", "memory of the profile"


def outcome_rows(outcome: Outcome | None) -> dict[str, Any]:
    """The outcome of a search as JSON: seconds and joules of one run, bytes; nothing without one."""
    if outcome is None:
        return {}
    reach = outcome.reach
    return {
        "plan": outcome.name, "latency_s": outcome.seconds, "energy_j": outcome.joules, "memory_bytes": outcome.bytes,
        "baseline_s": outcome.baseline, "target_s": outcome.target,
        "target_from": GIVEN if outcome.is_given else BASELINE if outcome.target is not None else None,
        "target_met": outcome.met, "spent_on": outcome.spent_on, "quickest_s": outcome.quickest,
        "quickest_bytes": outcome.quickest_bytes,
        "bound": None if reach is None else {
            "roofline_s": reach.seconds, "by_peak": reach.by_peak,
            "groups": [{"ops": one.ops, "node": one.node, "count": one.count, "seconds": one.seconds,
                        "share": one.share, "floor_s": one.floor} for one in reach.groups]},
    }


def aims_rows(config: BuildConfig, aims: Aims, memory_bytes: int, found: Mapping[str, Any] | None) -> dict[str, Any]:
    """Aims of a target and what was reached; `found` are the rows of its search's outcome, where it had one."""
    from_where = None if aims.memory_bytes is None else "--memory-limit" if aims.memory_is_given else PROFILE
    own = {"objective": config.objective, "target_s": aims.target_seconds,
           "target_from": None if aims.target_seconds is None else GIVEN}
    return {**own, **(found or {}), "memory_bytes": memory_bytes, "memory_limit_bytes": aims.memory_bytes,
            "memory_limit_from": from_where, "energy_limit_j": aims.joules}


def aims_lines(rows: Mapping[str, Any]) -> list[str]:
    """What `build` prints of it: nothing where nothing was asked for and nothing searched."""
    lines: list[str] = []
    if not rows:
        return lines
    latency, target = rows.get("latency_s"), rows.get("target_s")
    if latency is not None:
        baseline = rows.get("baseline_s")
        beside = "" if baseline is None else (f"; the un-optimised baseline takes {seconds_text(baseline)}, "
                                              f"{baseline / latency:.1f} times as long")
        lines.append(f"latency: {seconds_text(latency)} as a whole{beside}")
        if target is not None:
            word = "met" if rows["target_met"] else "not met"
            lines.append(f"target latency: {seconds_text(target)} ({rows['target_from']}), {word}")
    if rows.get("spent_on"):
        lines.append(f"the target left room, which went into {rows['spent_on']}: the quickest plan takes "
                     f"{seconds_text(rows['quickest_s'])} and {bytes_text(rows['quickest_bytes'])}")
    if rows.get("latency_s") is not None or rows["memory_limit_from"] == "--memory-limit":
        limit = rows["memory_limit_bytes"]
        most = "" if limit is None else f", of at most {bytes_text(limit)} ({rows['memory_limit_from']})"
        lines.append(f"memory: {bytes_text(rows['memory_bytes'])} of weights and tensors{most}")
    if rows.get("energy_j") is not None:
        limit = rows["energy_limit_j"]
        most = "" if limit is None else f", of at most {limit * 1e3:g} mJ"
        lines.append(f"energy: {rows['energy_j'] * 1e3:.3g} mJ a run (estimate: model){most}")
    if rows["objective"] != "latency":
        lines.insert(0, f"objective: {rows['objective']}")
    return lines


def missed(rows: Mapping[str, Any]) -> str | None:
    """The warning of a target that the user gave and that is out of reach: what bounds it, and what to try."""
    if rows.get("target_from") != GIVEN or rows.get("target_met") is not False:
        return None
    target = rows["target_s"]
    text = (f"latency: {seconds_text(rows['latency_s'])} is the nearest to the target of {target * 1e3:g} ms that was "
            "found")
    bound = rows.get("bound") or {}
    least = bound.get("roofline_s")
    if least is not None:
        by = "arithmetic" if bound["by_peak"] >= 0.5 else "memory"
        side = "so no kernels reach the target in fp32" if least > target else "so kernels at their best would reach it"
        text += (f"; by the roofline of this machine these groups take {seconds_text(least)} at least "
                 f"({max(bound['by_peak'], 1 - bound['by_peak']):.0%} of it bound by {by}), {side}")
    for one in bound.get("groups", ()):
        several = f"{one['count']} like " if one["count"] > 1 else ""
        floor = f", at least {seconds_text(one['floor_s'])}" if one["floor_s"] else ""
        text += f"\n  {one['share']:.0%} in {several}{one['node']} ({one['ops']}): {seconds_text(one['seconds'])}"
        text += floor
    return text + ("\n  to try: more --threads, smaller sizes with --shape, --search-mode thorough, a model in int8 "
                   "(--precision generates fp32 alone so far)")
