"""Which step is running: a spinner on a terminal, one plain line per step in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from meta_infer.cli.screen import note, notes

if TYPE_CHECKING:
    from rich.progress import BarColumn

_QUIET = 10.0
"""Seconds between two lines that a log gets of one step."""


class StepNames:
    """To be called with a step's name when it begins; `progress` with how far a long step has come, and `share` with
    the part of it that is done, where that is known."""

    def __init__(self, begin: Callable[[str], None], progress: Callable[[str, str], None],
                 share: Callable[[float], None] = lambda share: None) -> None:
        self._begin, self._progress, self.share, self._name = begin, progress, share, ""

    def __call__(self, name: str) -> None:
        self._name = name
        self._begin(name)

    def progress(self, text: str) -> None:
        self._progress(self._name, text)


@contextmanager
def step_names(task: str) -> Iterator[StepNames]:
    """Shows names of steps and seconds on standard error, and how far a long step has come.

    A terminal gets one moving line (`build: compile, 1.3 s`) that is gone afterwards, with a bar while a step says
    which share of it is done. Elsewhere each step is a line of its own, written when the step begins: the last line of
    a log that stopped names the step that hangs. A long step adds a line now and then.
    """
    console, start, told = notes(), time.perf_counter(), time.perf_counter()

    def line(name: str) -> None:
        note(f"{task}: {name} ({time.perf_counter() - start:.1f} s)")

    def now_and_then(name: str, text: str) -> None:
        nonlocal told
        if time.perf_counter() - told > _QUIET:
            told = time.perf_counter()
            line(f"{name}: {text}")

    if not console.is_terminal:
        yield StepNames(line, now_and_then)
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), _bar_column(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        shown = progress.add_task(f"{task}: starting", total=None)

        def begin(name: str) -> None:
            progress.tasks[0].total = None                      # whose share is done nobody knows yet
            progress.update(shown, description=f"{task}: {name}")

        yield StepNames(begin,
                        lambda name, text: progress.update(shown, description=f"{task}: {name}, {text}"),
                        lambda share: progress.update(shown, total=1.0, completed=share))


def _bar_column() -> BarColumn:
    """A bar for tasks that say how far they are, nothing for others."""
    from rich.progress import BarColumn, Task
    from rich.progress_bar import ProgressBar

    class Bar(BarColumn):
        def render(self, task: Task) -> ProgressBar:
            return super().render(task) if task.total is not None else ProgressBar(total=1.0, width=0)

    return Bar(bar_width=20)


@contextmanager
def counted(task: str, total: int) -> Iterator[Callable[[str], None]]:
    """A function to call with a name when one of `total` things is done: a bar with the time left on a terminal.

    Elsewhere a line is written at every tenth of the way.
    """
    console, start, count = notes(), time.perf_counter(), 0

    def line(name: str) -> None:
        nonlocal count
        count += 1
        if count * 10 // total != (count - 1) * 10 // total:
            note(f"{task}: {count} of {total}, {name} ({time.perf_counter() - start:.0f} s)")

    if not console.is_terminal:
        yield line
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        shown = progress.add_task(task, total=total)
        yield lambda name: progress.update(shown, advance=1, description=f"{task}: {name}")
