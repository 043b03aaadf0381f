"""Tables of `meta-infer library`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.table import Table

from meta_infer.library.explain import brief
from meta_infer.report.units import seconds_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from meta_infer.library.decisions import Decision
    from meta_infer.library.explain import Contest, Known
    from meta_infer.library.samples import Sample

_KEY = 10
"""Characters of a key that tables show: enough to name it."""


def contest_rows(contests: Iterable[Contest]) -> Table:
    """A line for each group, chip and number of threads."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("group", max_width=30, no_wrap=True, overflow="ellipsis")
    table.add_column("quickest", max_width=24, no_wrap=True, overflow="ellipsis")
    for name in ("time", "tried", "thr"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("code", max_width=9, no_wrap=True, overflow="ellipsis")
    table.add_column("CPU", max_width=10, no_wrap=True, overflow="ellipsis")
    for contest in contests:
        best = contest.best
        table.add_row(f"{contest.sizes}: {brief(contest.group)}" if contest.sizes else brief(contest.group) or "?",
                      best.label if best else "all failed",
                      seconds_text(best.seconds) if best else "-", str(len(contest.samples)), str(contest.threads),
                      contest.isa, contest.cpu)
    return table


def sample_rows(samples: Iterable[Sample], with_group: bool = True) -> Table:
    """A line for each sample."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("choice", max_width=26 if with_group else 45, overflow="fold")
    if with_group:
        table.add_column("group", max_width=17, no_wrap=True, overflow="ellipsis")
    for name in ("time", "spread", "of peak", "rounds"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("made", no_wrap=True)
    table.add_column("key", no_wrap=True)
    for s in samples:
        figures = (seconds_text(s.seconds), f"{s.spread / s.seconds:.1%}",
                   f"{s.share_of_peak:.0%}" if s.share_of_peak else "-") if s.ok else ("failed", "-", "-")
        group = [brief(s.group) or "?"] if with_group else []
        table.add_row(s.label if s.ok else f"{s.label}\n({s.status})", *group, *figures, str(s.rounds),
                      s.made[:10] if with_group else time_of(s.made), s.key[:_KEY])
    return table


def known_parts(known: Known) -> list[RenderableType]:
    """What is known of one group: the decisions with their reasons, and the measured times behind them."""
    parts: list[RenderableType] = [known.group or "a group without a text"]
    for decision in known.decisions:
        parts += ["", *_decided(decision)]
    if not known.decisions:
        parts += ["", "no build has decided on it yet"]
    for contest in known.contests:
        threads = f"{contest.threads} thread{'s' if contest.threads > 1 else ''}"
        parts += ["", f"measured on {contest.cpu or 'an unnamed CPU'}, {contest.isa or 'unknown code'}, {threads}"
                  + (f", {contest.sizes}" if contest.sizes else ""),
                  sample_rows(contest.samples, with_group=False)]
    return parts


def _decided(decision: Decision) -> list[str]:
    layouts = ", ".join(f"{name} {layout}" for name, layout in decision.layouts.items())
    threads = f"{decision.threads} thread{'s' if decision.threads > 1 else ''}"
    lines = [f"decided: {decision.label}" + (f"  ({layouts})" if layouts else ""),
             f"  took {seconds_text(decision.seconds)} on {decision.cpu or 'an unnamed CPU'}, {threads}: "
             f"{decision.capabilities}"]
    if decision.rivals:
        nearest = ""
        if decision.best_rival:
            slower = decision.best_rival_seconds / decision.seconds - 1
            nearest = f"; the nearest, {decision.best_rival}, took {seconds_text(decision.best_rival_seconds)}, " \
                      f"{slower:+.1%}"
        lines.append(f"  beat {decision.rivals} rival{'s' if decision.rivals > 1 else ''}{nearest}")
    else:
        lines.append("  had no rival that was measured")
    origin = f"for {decision.model}, " if decision.model else ""
    lines.append(f"  {origin}{time_of(decision.made)}" + (f", sample {decision.key[:_KEY]}" if decision.key else ""))
    return lines


def time_of(made: str) -> str:
    """'2026-11-30 08:24' of an ISO time in UTC."""
    return made.replace("T", " ")[:16]
