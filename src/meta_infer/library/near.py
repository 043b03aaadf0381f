"""Which choices of elsewhere to try first: those that did best where they were measured."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter

from meta_infer.library.samples import Sample


def best_first(samples: Iterable[Sample], group: str = "", isa: str = "") -> list[Sample]:
    """One sample of each (kernel, variant, knobs), the most promising first; failed ones are left out.

    Times of two chips or two sizes do not compare: what counts is how close each came to the best of its own chip,
    size and thread count. Samples of the very group `group` come before those of other sizes, and among equals those
    of the instruction set `isa` first.
    """
    context = attrgetter("context")
    ranked = []
    for _, own in groupby(sorted((s for s in samples if s.ok), key=context), key=context):
        members = list(own)
        least = min(s.seconds for s in members)
        ranked += [((s.group != group, s.seconds / least, s.isa != isa, s.label, s.key), s) for s in members]
    best: dict[str, Sample] = {}
    for _, sample in sorted(ranked, key=lambda item: item[0]):
        best.setdefault(f"{sample.label} {sorted(sample.layouts.items())}", sample)
    return list(best.values())
