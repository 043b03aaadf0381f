"""The trace of a build: what each step did and how long it took. It travels along and is only appended to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

OF_THIS_RUN = frozenset({"compiler_calls"})
"""Figures that tell of one run of the compiler, not of what it made."""


@dataclass(frozen=True)
class Step:
    """One finished step: seconds it took, and figures for the report (numbers or short texts)."""

    name: str
    seconds: float
    figures: Mapping[str, object]


@dataclass
class Trace:
    """Steps so far, and warnings. `on_step(name)` is called when a step begins, for progress displays.

    `on_progress(text)` tells how far a long step has come, `on_share` which part of it, where known; `kept` says
    what an interrupted build leaves. `searches` holds what the search of each target did, `rewrites` what passes did to
    the graph. `decisions` says what became of each op (passes/decisions.py), for `--explain`.
    """

    on_step: Callable[[str], None] = lambda name: None
    on_progress: Callable[[str], None] = lambda text: None
    on_share: Callable[[float], None] = lambda share: None
    kept: str = ""
    steps: list[Step] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    decisions: list[Any] = field(default_factory=list)
    searches: list[dict[str, Any]] = field(default_factory=list)
    rewrites: list[dict[str, Any]] = field(default_factory=list)

    @contextmanager
    def step(self, name: str, **known: object) -> Iterator[dict[str, object]]:
        """Times a step; its figures are those `known` and what the block adds. A step that raises leaves no entry."""
        self.on_step(name)
        figures = dict(known)
        start = time.perf_counter()
        yield figures
        self.steps.append(Step(name, time.perf_counter() - start, figures))

    def warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def as_json(self) -> dict[str, object]:
        """Plain data for report.json, without times and what caches saved: equal builds give equal reports."""
        steps = [{"name": s.name, **{k: v for k, v in s.figures.items() if k not in OF_THIS_RUN}} for s in self.steps]
        return {"steps": steps, "warnings": list(self.warnings)}
