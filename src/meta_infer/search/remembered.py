"""What an earlier search found for the same question: the same build need not search again.

The library keeps, beside every time, the plan that a search came to. It answers a later build that asks the
same of the same model on the same chip, if no greater effort is asked for, and if its code is still, to the byte, the
code that was timed: a change of the compiler's, of a kernel or of a rule leads to another search. Values of large
constants are no part of the question: a retrained model has the plan of the one before.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from meta_infer.ir.graph import Graph
from meta_infer.ir.graph_text import print_graph
from meta_infer.ir.group import Plan
from meta_infer.kernels.registry import rival_digests
from meta_infer.library.plans import FoundPlan
from meta_infer.search.budget import BUDGETS
from meta_infer.search.default_plan import Variants
from meta_infer.search.experience import capabilities
from meta_infer.search.locked import locked_choices, locked_plan
from meta_infer.search.measure.measure_protocol import VERSION
from meta_infer.search.timing import Timer
from meta_infer.support.errors import InputError, LibraryUnwritableError

_CONTENTS = re.compile(r"= #[0-9a-f]{16}$", re.MULTILINE)


@dataclass(frozen=True)
class Effort:
    """How much a search may do: its mode, and the seconds it may spend on timing kernels."""

    mode: str
    seconds: float


@dataclass(frozen=True)
class PlanFound:
    """The plan that won, the number of threads that it is for, and what the report says of the search.

    `is_cut`: whether time ran out before everything was timed. `since` says when the plan was found, where an earlier
    search had answered the same question, and is empty else.
    """

    plan: Plan
    threads: int
    rows: dict[str, Any]
    is_cut: bool = False
    since: str = ""


def question(graph: Graph, timer: Timer, asked: Sequence[object]) -> str:
    """A hash of all that decides the plan of a search, but for its effort. `asked` are the user's choices: threads,
    limits, pins, passes left out; kernels that the user brings are others."""
    parts = [_CONTENTS.sub("= #", print_graph(graph)), capabilities(timer.profile), timer.cpu, timer.compiler,
             str(VERSION), repr(timer.points), repr(rival_digests()), *map(repr, asked)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def remember(timer: Timer, asked: str, effort: Effort, found: PlanFound) -> None:
    """Keeps what a search found, where the library can be written."""
    if timer.library is None or not timer.library.writable:
        return
    row = FoundPlan(asked, effort.mode, effort.seconds if found.is_cut else math.inf,
                    json.dumps(locked_choices(found.plan)), json.dumps(found.rows), timer.build(found.plan).key,
                    found.plan.graph.name, str(timer.profile.isa), timer.cpu, found.threads, VERSION, timer.compiler)
    try:
        timer.library.keep_plan(row)
    except LibraryUnwritableError:
        return                                                  # the timer has said so


def recall(timer: Timer, asked: str, effort: Effort, graph: Graph, variants: Variants,
           disabled: frozenset[str]) -> PlanFound | None:
    """What a search of this effort or more has found, if its code is still the same."""
    library = timer.library
    if library is None:
        return None
    plans, modes = library.plans(asked), list(BUDGETS)
    for row in (plans[one] for one in reversed(modes[modes.index(effort.mode):]) if one in plans):
        if row.seconds < effort.seconds:
            continue                                            # it was cut where this one may go on
        try:
            plan = locked_plan(graph, json.loads(row.choices), "the library", timer.profile, variants, disabled)
        except InputError:
            continue                                            # a kernel that is gone, or has other variants
        if replace(timer.build(plan), threads=row.threads).key == row.whole:
            return PlanFound(plan, row.threads, json.loads(row.told), math.isfinite(row.seconds), row.made)
    return None
