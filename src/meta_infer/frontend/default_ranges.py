"""Ranges for the dimensions that neither the model nor the user gives: usual ones, narrowed until the model fits.

A range is taken by a dimension's name and place. When the model cannot be imported with it (a window does not fit at
the smallest size, sizes that meet differ for odd ones, a weight or a Reshape wants one certain size), narrower ones
are tried in this order, and the first one that gets import further is kept:

1. multiples of 32 and 64, then higher low ends, for all height- and width-like dimensions together, then one by one;
2. higher low ends for one of the others;
3. a range that ends at a number which the failing node speaks of (rows of a table of positions, say);
4. one fixed size: the numbers of the failing node, then the usual ones (height 48 of text lines, 224 of images...).

Those that make differing dims of the node's operands equal go first, so that few are imported in vain. What turns out
not to have been needed is widened again; and an end that only this page set is where memory is planned up to: larger
sizes run as well, in memory obtained while they do. A range so found holds for every size in it: import proves shapes
for whole ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Generic, TypeVar

from meta_infer.frontend.shape_mismatch import ShapeMismatch
from meta_infer.frontend.symbols import DimRange, DimSpec, OpenDim
from meta_infer.ir.graph import Shape
from meta_infer.ir.shapes import UNBOUNDED, Dim, substitute, symbols_of
from meta_infer.support.errors import MetaInferError

Result = TypeVar("Result")

_BATCH = DimRange(1, 8)
_SEQUENCE = DimRange(1, 512)
_SPATIAL = DimRange(32, 640)

_SPATIAL_RANGES = (DimRange(32, 640, 32), DimRange(48, 640), DimRange(64, 640), DimRange(64, 640, 32),
                   DimRange(64, 640, 64), DimRange(128, 640), DimRange(128, 640, 128), DimRange(256, 640, 32))
_SPATIAL_SIZES = (48, 32, 224, 256, 64, 28, 96, 128, 160, 192, 240, 288, 299, 300, 320, 384, 416, 448, 512, 640)
_CHANNELS = (3, 1, 4, 2)
_LOWEST = (2, 4, 8, 16, 32)
_MOST_NUMBERS = 8
_MOST_ELEMENTS = 100_000                                 # larger numbers are no sizes that a list of things has
# The search gives up after so many imports, or, but for the first few, once they have gone through so many nodes.
_MOST_TRIES, _FIRST_TRIES, _MOST_NODES = 120, 12, 20_000

ENDLESS = UNBOUNDED
"""End of a range that the model does not end."""

Choice = Mapping[str, DimSpec]


@dataclass(frozen=True)
class Found(Generic[Result]):
    """What import made, the size or range of every open dimension by its key, and which of them were narrowed."""

    result: Result
    choice: Choice
    narrowed: tuple[str, ...]


def default_range(dim: OpenDim) -> DimRange:
    """A range most models of that kind accept, told by the dimension's name, else by its place."""
    name = dim.param.lower()
    if "batch" in name:
        return _BATCH
    if _mentions(name, ("seq", "len", "tok", "time", "step", "frame")):
        return _SEQUENCE
    if _mentions(name, ("height", "width")):
        return _SPATIAL
    if dim.axis == 0:
        return _BATCH
    return _SPATIAL if dim.rank >= 3 and dim.axis >= 2 else _SEQUENCE


def _mentions(name: str, words: Iterable[str]) -> bool:
    return any(word in name for word in words)


def find_ranges(dims: Sequence[OpenDim], attempt: Callable[[Choice], Result]) -> Found[Result]:
    """The first ranges of `dims` for which `attempt` succeeds, as wide as this page knows.

    `attempt` imports the model with a range for every key and raises ShapeMismatch at a node that these do not fit.
    Raises the first such node's error when no range helps, and whatever else the first import raises.
    """
    usual: dict[str, DimSpec] = {dim.key: default_range(dim) for dim in dims}
    choice, first, tries, nodes = usual, None, 0, 0.0
    while True:
        try:
            result = attempt(choice)
            break
        except ShapeMismatch as error:
            failure = error
        if first is None and (found := _above(usual, failure, attempt)) is not None:
            return found
        first = first or failure
        changes = _narrower(dims, choice, failure)
        for change in sorted(changes, key=lambda c: _disagreements(failure.shapes, dims, c)):
            if tries == _MOST_TRIES or (tries >= _FIRST_TRIES and nodes > _MOST_NODES):
                raise first.error from first
            reached = _reaches({**choice, **change}, attempt)
            tries, nodes = tries + 1, nodes + failure.position
            if reached > failure.position:
                choice = {**choice, **change}
                break
        else:
            raise first.error from first
    for key in sorted((k for k in choice if choice[k] != usual[k]), key=lambda k: isinstance(choice[k], int)):
        wider = {**choice, key: usual[key]}
        try:
            result, choice = attempt(wider), wider
        except (ShapeMismatch, MetaInferError):
            continue
    narrowed = tuple(k for k in choice if choice[k] != usual[k])
    return Found(*_without_end(result, choice, attempt), narrowed)


def _without_end(result: Result, choice: Choice, attempt: Callable[[Choice], Result]) -> tuple[Result, Choice]:
    """Ranges that go on as far as the model allows: their ends become the sizes that memory is planned for."""
    ranges = {key: spec for key, spec in choice.items() if isinstance(spec, DimRange)}
    longer = {key: _endless(spec) for key, spec in ranges.items()}
    wholly = {key: replace(spec, lo=1) for key, spec in longer.items() if spec.step == 1}
    for key, change in [("", wholly), ("", longer), *((key, {key: spec}) for key, spec in longer.items())]:
        if not change:
            continue
        try:
            result, choice = attempt({**choice, **change}), {**choice, **change}
        except (ShapeMismatch, MetaInferError):
            continue
        if not key and len(change) == len(longer):
            break
    return result, choice


def _endless(spec: DimRange) -> DimRange:
    return replace(spec, hi=spec.lo + (ENDLESS - spec.lo) // spec.step * spec.step, usual=spec.usual or spec.hi)


def _above(usual: Choice, failure: ShapeMismatch, attempt: Callable[[Choice], Result]) -> Found[Result] | None:
    """What import makes when only the usual ends were too low: the best hundred of eight, say."""
    most = max((number for number in failure.numbers if number < _MOST_ELEMENTS), default=0)
    open_ended = {key: _endless(replace(spec, usual=max(spec.hi, 2 * most))) if isinstance(spec, DimRange) else spec
                  for key, spec in usual.items()}
    try:
        return Found(attempt(open_ended), open_ended, ())
    except (ShapeMismatch, MetaInferError):
        return None


def _reaches(choice: Choice, attempt: Callable[[Choice], object]) -> float:
    """How many nodes import gets through; -1 when it fails in another way."""
    try:
        attempt(choice)
    except ShapeMismatch as error:
        return error.position
    except MetaInferError:
        return -1
    return float("inf")


def _narrower(dims: Sequence[OpenDim], choice: Choice, failure: ShapeMismatch) -> Iterator[dict[str, DimSpec]]:
    """Changes to try, in the order of this page, of the dimensions that the failing node depends on."""
    involved = {symbol.name for dim in _suspects(failure.shapes) for symbol in symbols_of(dim)}
    open_dims = [dim for dim in dims if dim.symbol in involved and not isinstance(choice[dim.key], int)]
    spatial = [dim.key for dim in open_dims if default_range(dim) == _SPATIAL]
    others = [dim.key for dim in open_dims if default_range(dim) != _SPATIAL]
    together = [spatial, *([key] for key in spatial)] if len(spatial) > 1 else [[key] for key in spatial]
    for keys in together:
        for wanted in _SPATIAL_RANGES:
            yield dict.fromkeys(keys, wanted)
    for key in others:
        for low in _LOWEST:
            if low < _range(choice[key]).hi:
                yield {key: DimRange(low, _range(choice[key]).hi)}
    numbers = failure.numbers[:_MOST_NUMBERS]
    for dim in open_dims:
        given = _range(choice[dim.key])
        for number in sorted(numbers, reverse=True):
            if given.lo < number < given.hi and (number - given.lo) % given.step == 0:
                yield {dim.key: DimRange(given.lo, number, given.step)}
    for dim in open_dims:
        usual = _SPATIAL_SIZES if dim.key in spatial else _CHANNELS if dim.axis else ()
        for size in dict.fromkeys((*numbers, *usual)):
            if size > 0:
                yield {dim.key: size}
    for size in _SPATIAL_SIZES if len(spatial) > 1 else ():
        yield dict.fromkeys(spatial, size)


def _columns(shapes: Sequence[Shape]) -> list[set[Dim]]:
    """For each place, counted from the right, the dims that operands have there, where they differ."""
    columns = (set(column) for column in zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1))
    return [column for column in columns if len(column) > 1]


def _suspects(shapes: Sequence[Shape]) -> list[Dim]:
    """Dims of operands that differ from another's; all dims when none does."""
    return [dim for column in _columns(shapes) for dim in column] or [dim for shape in shapes for dim in shape]


def _disagreements(shapes: Sequence[Shape], dims: Sequence[OpenDim], change: Choice) -> int:
    """How many places of the operands still differ when symbols have the ranges of `change`."""
    narrow = {dim.symbol: dim.sized(change[dim.key]) for dim in dims if dim.key in change}
    return sum(len({substitute(dim, narrow) for dim in column}) > 1 for column in _columns(shapes))


def _range(spec: DimSpec) -> DimRange:
    assert isinstance(spec, DimRange)
    return spec
