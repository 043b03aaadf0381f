"""Which commands of a package compute which group, and what that group is: read from its report and debug.json.

A package of an older version says less: what its groups compute is missing, and groups of the same ops for the same
nodes are taken together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from meta_infer.ir.group import Group
from meta_infer.report.group_work import group_of
from meta_infer.runtime.reader import Package, Target
from meta_infer.support.errors import PackageError

HOLDERS = frozenset({"If", "Loop"})
"""Commands whose time is that of their bodies."""
_CONVERSION = "Reorder "


@dataclass(frozen=True)
class Part:
    """Commands that do one thing: a group's, a layout conversion's, or all commands of a sort such as copies.

    `group` is None where nothing tells what is computed; `row` is the report's.
    """

    ops: str
    nodes: tuple[str, ...]
    kernel: str
    commands: tuple[int, ...]
    group: Group | None = None
    row: Mapping[str, Any] = field(default_factory=dict)

    @property
    def repeats(self) -> bool:
        """Whether it lies within a loop, so that a run may compute it often."""
        return bool(self.row.get("repeats"))


@dataclass(frozen=True)
class Parts:
    """All commands of a target, in the order in which each part begins; `free` groups have no command: they are views
    of what others write, or their parts are written in place."""

    parts: tuple[Part, ...]
    holders: tuple[int, ...]
    free: int


def parts_of(package: Package, target: Target, count: int) -> Parts:
    """The parts of one target of a package, which has `count` commands.

    Raises PackageError where the package's texts do not fit it.
    """
    debug, report = package.json(target.debug), package.json("report.json")
    try:
        if len(debug["commands"]) != count:
            raise ValueError(f"{len(debug['commands'])} commands are described, it has {count}")
        return described_parts(debug["commands"], _rows(report, target.isa))
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise PackageError(f"does not tell what its commands are: {error!r}", hint="build the package again",
                           what=f"package {str(package.path)!r}, members {target.debug!r} and 'report.json'") from error


def _rows(report: Mapping[str, Any], isa: str) -> list[Mapping[str, Any]]:
    """The report's groups for an instruction set; none where it has no groups."""
    for one in (report, *report.get("other_targets", ())):
        if one.get("isa") == isa:
            return list(one.get("groups", ()))
    return list(report.get("groups", ()))


def described_parts(commands: list[Mapping[str, Any]], rows: list[Mapping[str, Any]]) -> Parts:
    by_output = {row["output"]: row for row in rows if "output" in row}
    by_nodes = {(row["ops"], tuple(row["nodes"])): row for row in reversed(rows)}
    found: dict[object, list[int]] = {}
    known: dict[object, Mapping[str, Any]] = {}
    holders = []
    for i, command in enumerate(commands):
        if command["op"] in HOLDERS:
            holders.append(i)
            continue
        key: object = command["op"]
        if key == "Call":
            label, nodes = str(command["label"]), tuple(command["origins"])
            row = by_output.get(command.get("output") or None) or by_nodes.get((label, nodes))
            alone = i if label.startswith(_CONVERSION) else 0
            key = row.get("output", (label, nodes)) if row else (label, nodes, alone)
            known[key] = row or {"ops": label, "nodes": nodes, "kernel": _kernel_of(label, command)}
        found.setdefault(key, []).append(i)
    parts = tuple(_part(known[key], places) if key in known else
                  Part(str(key).lower(), (), "", tuple(places)) for key, places in found.items())
    # Calls that are made once, when a package is loaded, come first, though their groups may not.
    order = sorted(parts, key=lambda part: part.commands[-1])
    free = [row for row in rows if row["kernel"] != "region"
            and row.get("output", (row["ops"], tuple(row["nodes"]))) not in found]
    return Parts(tuple(order), tuple(holders), len(free))


def _kernel_of(label: str, command: Mapping[str, Any]) -> str:
    return "reorder" if label.startswith(_CONVERSION) else str(command["kernel"])


def _part(row: Mapping[str, Any], places: list[int]) -> Part:
    group = None
    if "work" in row:
        try:
            group = group_of(row["work"])
        except ValueError:                                     # of a version with other operators: no floor then
            group = None
    return Part(str(row["ops"]), tuple(map(str, row["nodes"])), str(row["kernel"]), tuple(places), group, row)
