"""What the library knows of a piece of work: who won, against whom, and what they took."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from meta_infer.library.decisions import Decision
from meta_infer.library.samples import Sample
from meta_infer.library.store import Library

_VALUE = re.compile(r"%\d+: |const ")
_SHAPE = re.compile(r"\[[^\]]*\]")


@dataclass(frozen=True)
class Contest:
    """Samples whose times compare, quickest first: one group at the same sizes ('batch 8'), CPU, code and threads."""

    group: str
    cpu: str
    isa: str
    threads: int
    sizes: str
    samples: tuple[Sample, ...]

    @property
    def best(self) -> Sample | None:
        """The quickest one; None where all failed."""
        return self.samples[0] if self.samples[0].ok else None


@dataclass(frozen=True)
class Known:
    """All that is known of one group."""

    group: str
    decisions: tuple[Decision, ...]
    contests: tuple[Contest, ...]


def contests_of(samples: Iterable[Sample]) -> tuple[Contest, ...]:
    ordered = sorted(samples, key=lambda s: (*s.context, not s.ok, s.seconds, s.label, s.key))
    return tuple(Contest(group, cpu, isa, threads, sizes, tuple(own)) for (group, cpu, isa, threads, sizes), own
                 in groupby(ordered, key=attrgetter("context")))


def explain(library: Library, text: str) -> tuple[Known, ...]:
    """What is known of the groups that `text` names, by group.

    It is the beginning of a sample's key; or a part, in upper or lower case and with blanks or without, of a group's
    text, of a kernel, variant and knobs as in 'conv_direct/tiled rows=4', or of the name of a decision's model.
    """
    samples, decisions = library.samples(), library.decisions()
    groups = {s.group for s in samples if text and s.key.startswith(text.lower())}
    if not groups:
        wanted = _squeezed(text)
        groups = {s.group for s in samples if wanted in _squeezed(f"{s.group}\n{s.label}")}
        groups |= {d.group for d in decisions if wanted in _squeezed(f"{d.group}\n{d.label}\n{d.model}")}
    contests = contests_of(s for s in samples if s.group in groups)
    return tuple(Known(group, tuple(d for d in decisions if d.group == group),
                       tuple(c for c in contests if c.group == group)) for group in sorted(groups))


def brief(group: str) -> str:
    """A group's text without numbers of values and blanks in shapes: 'Conv(float32[1,64,56,56], ...'."""
    return _SHAPE.sub(lambda shape: shape[0].replace(" ", ""), _VALUE.sub("", group))


def _squeezed(text: str) -> str:
    return brief(text).replace(" ", "").lower()


def nearest(library: Library, text: str) -> Sequence[str]:
    """Kernels and models with names like `text`."""
    names = {s.kernel for s in library.samples()} | {d.model for d in library.decisions() if d.model}
    return difflib.get_close_matches(text, sorted(names), n=3)
