"""A search as a build asks for it: space, library, timer and budget put together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from meta_infer.backends.base import Backend
from meta_infer.hardware.device import Board
from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Graph
from meta_infer.ir.group import Plan
from meta_infer.library.store import Library
from meta_infer.passes.moves import MOVES
from meta_infer.runtime.cpu import available_cores
from meta_infer.search.aims import NO_AIMS, Aims
from meta_infer.search.budget import BUDGETS, Budget
from meta_infer.search.default_plan import Variants
from meta_infer.search.remembered import Effort, PlanFound, question, recall, remember
from meta_infer.search.search import search
from meta_infer.search.space.coarse import Keeps, anything
from meta_infer.search.space.guesses import roofline_model
from meta_infer.search.space.space import make_space
from meta_infer.search.story import Searched, Story
from meta_infer.search.time_left import TimeLeft, seconds_left
from meta_infer.search.timing import Timer
from meta_infer.search.tune_points import tune_points
from meta_infer.search.whole.baseline import baseline_plan
from meta_infer.search.whole.thread_count import best_threads
from meta_infer.search.whole.whole import Inputs
from meta_infer.support.switches import read_switches
from meta_infer.support.trace import Trace
from meta_infer.verify.samples import random_inputs


@dataclass(frozen=True)
class SearchRequest:
    """What a build asks of its search; fields as in BuildConfig, but for `chosen`: all else that the user has chosen
    and that bears on the plan, as texts."""

    mode: str
    seconds: float | None = None
    tune_at: tuple[str, ...] = ()
    threads: int | None = None
    seed: int = 0
    aims: Aims = NO_AIMS
    chosen: tuple[str, ...] = ()


def search_plan(graph: Graph, default: Plan, profile: Profile, backend: Backend, variants: Variants,
                disabled: frozenset[str], request: SearchRequest, trace: Trace,
                rows_of: Callable[[Story], dict[str, Any]], keeps: Keeps = anything,
                board: Board | None = None) -> PlanFound:
    """The best plan that a search in `request.mode` finds; `default` is the one without a search.

    Times go into the experience library, and come from there alone with META_INFER_MEASURE=replay. They are taken on
    this machine, or on a connected `board`. A question that a search has answered before is not searched again.
    `rows_of` tells a search as the report has it. Raises UsageError, UnsupportedError, ToolchainError.
    """
    switches = read_switches()
    is_replay = switches.measure == "replay"
    points = tune_points(graph, request.tune_at)
    with ExitStack() as stack:
        library = (Library.open_to_read(switches.library) if is_replay
                   else Library.open_or_warn(switches.library, trace.warn))
        if library is not None:
            stack.enter_context(library)
        timer = Timer(backend, profile, points, request.threads or 1, library=library, is_replay=is_replay,
                      board=board, warn=trace.warn)
        asked = question(graph, timer, (request.threads, request.aims, *sorted(disabled), *request.chosen))
        trace.on_step("search, known plans")
        effort = Effort(request.mode, _budget(request).seconds)
        if not is_replay and (known := recall(timer, asked, effort, graph, variants, disabled)) is not None:
            return known
        inputs = [random_inputs(graph, point, request.seed) for point in points]
        if request.threads is None:
            trace.on_step("search, number of threads")
            processors = board.profile.cores if board else available_cores()
            timer = replace(timer, threads=best_threads(default, timer, inputs, processors))
        found = _searched(graph, default, variants, disabled, request, timer, inputs, keeps, trace)
        rows = rows_of(found.story) | {"threads": timer.threads, "tuned_at": [dict(point) for point in points]}
        answer = PlanFound(found.plan, timer.threads, rows, is_cut=bool(found.story.ended))
        if not is_replay:
            remember(timer, asked, effort, answer)
        return answer


def _budget(request: SearchRequest) -> Budget:
    budget = BUDGETS[request.mode]
    return budget if request.seconds is None else replace(budget, seconds=request.seconds)


def _searched(graph: Graph, default: Plan, variants: Variants, disabled: frozenset[str], request: SearchRequest,
              timer: Timer, inputs: Inputs, keeps: Keeps, trace: Trace) -> Searched:
    profile, budget = timer.profile, _budget(request)
    left = TimeLeft(budget.seconds, budget.tries / (1 + budget.rivals), budget.in_place)
    timer.on_time = _progress(timer, left, trace)
    space = make_space(graph, profile, variants, disabled if budget.moves else disabled | frozenset(MOVES))
    return search(space, default, profile, roofline_model(profile), timer, budget, inputs, request.aims, keeps,
                  baseline_plan(graph, profile, variants, disabled), _stages(left, trace), left.wants)


def _stages(left: TimeLeft, trace: Trace) -> Callable[[str], None]:
    def begin(stage: str) -> None:
        left.begin(stage)
        trace.on_step(f"search, {stage}")
        trace.on_share(left.share)

    return begin


def _progress(timer: Timer, left: TimeLeft, trace: Trace) -> Callable[[int], None]:
    """Tells after every batch how much is known, how long it may still take, and what an interruption would leave."""
    timed = 0

    def tell(count: int) -> None:
        nonlocal timed
        left.done(count, timer.timed > timed)
        timed = timer.timed
        known = f", {timer.recalled} known" if timer.recalled else ""
        trace.on_progress(f"{timer.timed} kernels timed{known}; about {seconds_left(left.in_stage)} left, "
                          f"{seconds_left(left.in_all)} in all")
        trace.on_share(left.share)
        if timed and timer.library is not None and timer.library.writable:
            trace.kept = (f"the times of {timer.timed} kernels that this build has measured are kept in "
                          f"{timer.library.path}: the same command goes on from there")

    return tell
