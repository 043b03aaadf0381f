"""What a probe is: a question asked of a model, whose answers the items of the checklist turn into findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from meta_infer.checklist.subject import Subject
from meta_infer.hardware.schema import Section


@dataclass(frozen=True)
class Fact:
    """One answer: values for the message's placeholders, and the nodes or tensors it is about."""

    values: Mapping[str, object]
    where: tuple[str, ...] = field(default=())


class NoParams(Section):
    """A probe that takes none."""


@dataclass(frozen=True)
class Probe:
    """`ask(subject, params)` gives facts, all of which have a value for each name of `values`.

    `about` says in one line what is looked for; `params` are checked against a model of their own before anything
    runs.
    """

    name: str
    about: str
    ask: Callable[[Subject, Any], Iterable[Fact]]
    values: tuple[str, ...]
    params: type[Section] = NoParams


ALWAYS = ("where", "count")
"""Placeholders that every message may use: the nodes or tensors it is about, and how many."""
