"""What became of each op on the way to the chip, as tables and as data: what `--explain` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from meta_infer.passes.decisions import VERDICTS, Decision, group_decisions, listed
from meta_infer.report.plain_table import plain_table

_DETAIL = {"native": "{}", "decomposed": "into {}", "host": "{}", "impossible": "{}"}


MOST_NAME = 24
"""Longest node name that the table of ops shows whole."""


def short_name(name: str, most: int = MOST_NAME) -> str:
    """The end of a long name, which tells most: exporters write the path of modules before it."""
    return name if len(name) <= most else f"...{name[3 - most:]}"


def operator_rows(decisions: Sequence[Decision]) -> list[dict[str, Any]]:
    """One row per op of the graph: op, nodes (ONNX names), verdict, detail, and the profile's field that decides it."""
    order = sorted(decisions, key=lambda decision: VERDICTS.index(decision.verdict))
    return [asdict(decision) for decision in order]


def operator_parts(decisions: Sequence[Decision]) -> list[RenderableType]:
    """A table of the ops, equal ones in one row, the worst first, and a line of counts."""
    table = plain_table("op", "n", "verdict", "detail", "nodes", right=("n",))
    for group in group_decisions(decisions):
        detail = _DETAIL[group.verdict].format(group.detail)
        if group.field and group.field not in detail:
            detail += f" (profile: {group.field})"
        nodes = listed([short_name(name) for name in group.nodes], 1)
        table.add_row(group.op, str(group.count), group.verdict, Text(detail), Text(nodes))
    counts = [f"{n} {verdict}" for verdict in reversed(VERDICTS)
              if (n := sum(decision.verdict == verdict for decision in decisions))]
    return [table, "", Text(f"operators: {', '.join(counts) or 'none'}"), ""]
