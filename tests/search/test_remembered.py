"""Whole plans from the library: taken where they answer the question with code that is still the same, else not."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from meta_infer.report.search_report import THIS_RUN
from meta_infer.search.timing import TimeOver
from meta_infer.search.whole import thread_count
from meta_infer.search.whole.built import Built
from meta_infer.search.whole.thread_count import best_threads, thread_counts
from meta_infer.search.whole.whole import Took
from tests.search.test_search import build, choices, library, small_model

__all__ = ["library"]


def test_only_what_answers_the_question(tmp_path: Path, library: Path) -> None:
    model = small_model(tmp_path)

    def edit(statement: str) -> None:
        with sqlite3.connect(library) as db:
            db.execute(statement)
        db.close()

    def since(**fields: Any) -> str:
        nonlocal last
        result = build(model, "m.bin", threads=1, **fields)
        found = str(result.report["searches"][0][THIS_RUN].get("since", ""))
        assert not found or choices(result) == choices(last)
        last = result
        return found

    first = last = build(model, "m.bin", threads=1)
    assert first.report["searches"][0]["threads"] == 1
    assert since() == since(seed=1) != "", "inputs are no part of the question"
    assert not since(memory_limit_mib=64.0), "another limit is another question"
    edit("UPDATE plans SET mode = 'thorough', seconds = 600")
    assert since(), "a greater effort answers a lesser one"
    assert not since(search_seconds=601), "time had run out, and there is more of it now"
    edit("DELETE FROM plans WHERE mode = 'thorough'")
    edit("UPDATE plans SET whole = 'other code'")
    assert not since(), "the code that was timed has changed; a search takes its place"
    assert since()
    edit("UPDATE plans SET choices = replace(choices, 'conv_', 'gone_')")
    assert not since(), "a kernel is gone"
    edit("UPDATE plans SET mode = 'none'")
    assert not since()


@pytest.mark.parametrize(("processors", "counts"), [(1, (1,)), (2, (1, 2)), (6, (1, 2, 4, 6)), (8, (1, 2, 4, 8))])
def test_thread_counts(processors: int, counts: tuple[int, ...]) -> None:
    assert thread_counts(processors) == counts


@pytest.mark.parametrize(("seconds", "best"), [
    ((1.0, 0.6, 0.35, 0.34), 4), ((1.0, 0.9, 2.0, 3.0), 2), ((1.0, 1.0, 1.0, 0.98), 1),
    ((math.inf, math.inf, math.inf, math.inf), 8), ((math.inf, 0.5, math.inf, 0.7), 2)])
def test_the_fewest_threads_that_are_about_as_quick(seconds: Sequence[float], best: int,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def compare(built: Sequence[Built], *rest: object, **options: object) -> list[Took]:
        asked.extend(one.threads for one in built)
        return [Took(one) for one in seconds]

    timer: Any = SimpleNamespace(build=lambda plan: Built(plan, None, "code", 1, "cpu"))     # type: ignore[arg-type]
    monkeypatch.setattr(thread_count, "compare_built", compare)
    assert best_threads(None, timer, [{}], 8) == best and asked == [1, 2, 4, 8]              # type: ignore[arg-type]

    def over(*rest: object, **options: object) -> list[Took]:
        raise TimeOver("whole plans")

    monkeypatch.setattr(thread_count, "compare_built", over)
    assert best_threads(None, timer, [{}], 8) == 8                                           # type: ignore[arg-type]
    assert best_threads(None, timer, [{}], 1) == 1                                           # type: ignore[arg-type]
