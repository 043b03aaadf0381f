"""What an earlier search found for the same question: the same build need not search again.

The library keeps, beside every time, the plan that a completed search came to. It answers a later build that asks the
same of the same model on the same chip, if no other effort is asked for, and if its code is still, to the byte, the
code that was timed: a change of the compiler's, of a kernel or of a rule leads to another search. Values of large
constants are no part of the question: a retrained model has the plan of the one before.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Graph
from meta_infer.ir.graph_text import print_graph
from meta_infer.ir.group import Plan
from meta_infer.library.plans import FoundPlan
from meta_infer.library.store import Library
from meta_infer.search.budget import BUDGETS
from meta_infer.search.default_plan import Variants
from meta_infer.search.experience import capabilities
from meta_infer.search.locked import locked_choices, locked_plan
from meta_infer.search.measure_protocol import VERSION
from meta_infer.support.errors import InputError, LibraryUnwritableError

_CONTENTS = re.compile(r"= #[0-9a-f]{16}$", re.MULTILINE)


@dataclass(frozen=True)
class Question:
    """What decides the plan of a search, but for its effort: `text` is hashed."""

    text: str
    model: str
    isa: str
    cpu: str
    threads: int
    compiler: str

    @property
    def key(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:32]


def question(graph: Graph, profile: Profile, cpu: str, threads: int, compiler: str,
             asked: Sequence[object]) -> Question:
    """`asked` are the user's choices: limits, pins, passes left out, sizes at which the model is timed."""
    parts = [_CONTENTS.sub("= #", print_graph(graph)), capabilities(profile), cpu, str(threads), compiler, str(VERSION),
             *map(repr, asked)]
    return Question("\0".join(parts), graph.name, str(profile.isa), cpu, threads, compiler)


def remember(library: Library | None, asked: Question, mode: str, plan: Plan, whole: str,
             told: Mapping[str, Any]) -> None:
    """Keeps what a completed search found; `whole` is the key of the plan's time, `told` what the report says."""
    if library is None or not library.writable:
        return
    found = FoundPlan(asked.key, mode, json.dumps(locked_choices(plan)), json.dumps(told), whole, asked.model,
                      asked.isa, asked.cpu, asked.threads, VERSION, asked.compiler)
    try:
        library.keep_plan(found)
    except LibraryUnwritableError:
        return                                                  # the timer has said so


def recall(library: Library | None, asked: Question, mode: str, graph: Graph, profile: Profile, variants: Variants,
           disabled: frozenset[str], whole_of: Callable[[Plan], str]) -> tuple[Plan, dict[str, Any], str] | None:
    """(plan, what the report said, when it was found) of a search of this effort or more, if its code is still the
    same: `whole_of` gives the key of a plan's time."""
    if library is None:
        return None
    plans, modes = library.plans(asked.key), list(BUDGETS)
    for found in (plans[one] for one in reversed(modes[modes.index(mode):]) if one in plans):
        try:
            plan = locked_plan(graph, json.loads(found.choices), "the library", profile, variants, disabled)
        except InputError:
            continue                                            # a kernel that is gone, or has other variants
        whole = whole_of(plan)
        if whole == found.whole and whole in library.known([whole]):
            return plan, json.loads(found.told), found.made
    return None
