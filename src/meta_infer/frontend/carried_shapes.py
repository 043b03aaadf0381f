"""Which sizes of a loop's carried values stay, which change from pass to pass, and how.

The body is imported for shapes that are assumed, and the shapes it gives back show where the assumption was too
strong; then it is imported for weaker ones, until what goes in and what comes out agree:

    stays      h: [n, 8] in, [n, 8] out; also where the model states the size of the initial value and the body gives
               one that may be another: that is checked in every pass
    linear     h: [0, 8] at first, one row more after each pass: [i, 8] in pass i, without any symbol of its own
    free       anything else: a symbol that has a value of its own in every pass

Counters are known in the same way: an integer that starts at 0 and is one more after each pass is i in pass i.

Free sizes that start a constant apart and change alike keep that distance, so they share one symbol: the keys and the
values of a cache, and the mask that is one longer, still fit each other in the body. By induction over the passes all
of this holds once one import of the body confirms it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from meta_infer.ir.shapes import UNBOUNDED, Apply, Dim, Expr, bounds, symbols_of
from meta_infer.ops.opdef import TensorType

_Key = tuple[int, int]                                   # carried value, axis
_PATIENCE = 8
"""Rounds after which free sizes are taken to have nothing in common."""


@dataclass
class _Group:
    """Free sizes with one symbol: the first key's size is the symbol, the others lie the given distances above it."""

    offsets: dict[_Key, int]
    falls: bool                                          # whether it may be smaller after a pass
    most: int                                            # a bound of its growth in one pass, UNBOUNDED: none known
    symbol: Dim = 0

    @property
    def leader(self) -> _Key:
        return next(iter(self.offsets))


class CarriedShapes:
    """The assumption so far. `step` is the number of the pass as a dim, `most` a bound on the number of passes.

    `stated` are the sizes of the body's inputs by the model, None where it is silent. `count_by` is the first guess
    of how counters count: 0 not at all, None that no value is a counter.
    """

    def __init__(self, initial: Sequence[TensorType], step: Dim, most: int,
                 stated: Sequence[Sequence[int | None]] = (), count_by: int | None = 0) -> None:
        self._initial, self._step, self._most = initial, step, most
        self._stated = {(i, axis) for i, (found, sizes) in enumerate(zip(initial, stated, strict=False))
                        for axis, (dim, size) in enumerate(zip(found.shape, sizes, strict=False)) if dim == size}
        self._outer = {symbol for found in initial for dim in found.shape for symbol in symbols_of(dim)}
        self._linear: dict[_Key, Dim] = {}
        self._groups: list[_Group] = []
        self._steps = {i: (count_by,) * len(found.content) for i, found in enumerate(initial)
                       if found.content is not None and count_by is not None}
        self._before: dict[_Key, Dim] = {}
        self._rounds = 0

    def types(self, fresh: Callable[[str, int, int], Dim]) -> tuple[TensorType, ...]:
        """Types of the carried values at the start of a pass. `fresh(hint, lo, hi)` makes the symbols they need."""
        self._before = {(i, axis): dim for i, found in enumerate(self._initial) for axis, dim in enumerate(found.shape)}
        for key, growth in self._linear.items():
            self._before[key] += growth * self._step
        for group in self._groups:
            group.symbol = fresh("size", *self._range(group))
            self._before.update({key: group.symbol + offset for key, offset in group.offsets.items()})
        return tuple(TensorType(found.dtype, tuple(self._before[i, axis] for axis in range(len(found.shape))),
                                self._content(i, self._step)) for i, found in enumerate(self._initial))

    def learn(self, after: Sequence[TensorType]) -> bool:
        """True when the body, given `types`, gives `after` back as assumed; else the assumption is weaker now.

        A value that comes back with another dtype or rank is left alone: it is an error that inference explains.
        """
        self._rounds += 1
        found = {(i, axis): dim for i, (first, last) in enumerate(zip(self._initial, after, strict=False))
                 if (first.dtype, len(first.shape)) == (last.dtype, len(last.shape))
                 for axis, dim in enumerate(last.shape)}
        stable = all([self._holds(group, found) for group in list(self._groups)])
        stable &= all([self._counts(i, after[i]) for i in list(self._steps)])
        free = {key for group in self._groups for key in group.offsets}
        for key, dim in found.items():
            growth = dim - self._before[key]
            if key in free or growth == self._linear.get(key, 0):
                continue
            if key in self._stated and bounds(growth)[0] <= 0 <= bounds(growth)[1]:
                continue
            stable = False
            if key not in self._linear and self._is_linear(key, growth):
                self._linear[key] = growth
            else:
                self._linear.pop(key, None)
                self._free(key, _rise(dim, self._before[key]))
        return stable

    def _content(self, i: int, step: Dim) -> tuple[Dim, ...] | None:
        """The elements of a carried value at the start of pass `step`, where they are known to count evenly."""
        first = self._initial[i].content
        if first is None or i not in self._steps:
            return None
        return tuple(start + by * step for start, by in zip(first, self._steps[i], strict=True))

    def _counts(self, i: int, after: TensorType) -> bool:
        """Check the elements of one carried value; take them to count by other steps, or to be unknown."""
        before, steps = self._content(i, self._step), self._steps[i]
        if before is None or after.content is None or len(after.content) != len(before):
            del self._steps[i]
            return False
        found = tuple(b - a for a, b in zip(before, after.content, strict=True))
        if found == steps:
            return True
        if any(steps) or not isinstance(self._step, Expr) or not all(isinstance(by, int) for by in found):
            del self._steps[i]
        else:
            self._steps[i] = tuple(by for by in found if isinstance(by, int))
        return False

    def _start(self, key: _Key) -> Dim:
        return self._initial[key[0]].shape[key[1]]

    def _is_linear(self, key: _Key, growth: Dim) -> bool:
        """Whether the same growth every pass is thinkable: of one known number, and never below zero."""
        if not isinstance(self._step, Expr) or not symbols_of(growth) <= self._outer:
            return False
        return bounds(self._start(key) + growth * self._most)[0] >= 0

    def _free(self, key: _Key, rise: tuple[int, int]) -> None:
        """Give a size to a group that starts a constant apart, or to a new one."""
        for i, group in enumerate(self._groups if self._rounds < _PATIENCE else ()):
            offset = self._start(key) - self._start(group.leader)
            if isinstance(offset, int):
                self._groups[i] = _group({**group.offsets, key: offset}, rise, group.falls, group.most)
                return
        self._groups.append(_group({key: 0}, rise))

    def _range(self, group: _Group) -> tuple[int, int]:
        """Bounds of the group's symbol: growth and shrinking that have been seen to go one way only help."""
        low, high = bounds(self._start(group.leader))
        if group.falls:
            low = 0
        if group.most > 0:                               # one pass at least, also where none is made: it has a body
            known = group.most < UNBOUNDED and self._most < UNBOUNDED
            high = min(high + group.most * max(self._most, 1), UNBOUNDED) if known else UNBOUNDED
        return low, high

    def _holds(self, group: _Group, found: dict[_Key, Dim]) -> bool:
        """Check one group against what came back; split or loosen it when it does not hold."""
        alike: dict[Dim, dict[_Key, int]] = {}
        for key, offset in group.offsets.items():
            if key in found:
                alike.setdefault(found[key] - offset, {})[key] = offset
        if not alike:
            return True
        if len(alike) > 1:
            self._groups.remove(group)
            self._groups += [_group(keys, _rise(dim, group.symbol)) for dim, keys in alike.items()]
            return False
        now = _group(group.offsets, _rise(next(iter(alike)), group.symbol))
        if group.falls >= now.falls and group.most >= now.most:
            return True
        if group.most > 0:                               # more than before: it rises with the size itself
            now.most = UNBOUNDED
        now.falls = now.falls or group.falls
        self._groups[self._groups.index(group)] = now
        return False


def assumptions(initial: Sequence[TensorType], step: Dim, most: int,
                stated: Sequence[Sequence[int | None]]) -> Iterator[CarriedShapes]:
    """What to begin with, in the order in which to try, when the body cannot be imported for one of them.

    A body that takes one slice at its counter may not fit a counter that stays. Sizes that a model states of its
    body's inputs are often stale: they are relied on only where it cannot be done without.
    """
    for sizes in ((), stated) if any(size is not None for row in stated for size in row) else ((),):
        for count_by in (0, 1, None) if any(found.content is not None for found in initial) else (0,):
            yield CarriedShapes(initial, step, most, sizes, count_by)


def _group(offsets: dict[_Key, int], rise: tuple[int, int], falls: bool = False, most: int = 0) -> _Group:
    """A group of what is known so far of its growth in one pass, and a `rise` seen; the smallest size leads."""
    first = min(offsets.values())
    ordered = sorted(offsets.items(), key=lambda item: item[1])
    return _Group({key: offset - first for key, offset in ordered}, falls or rise[0] < 0,
                  min(max(most, rise[1], 0), UNBOUNDED))


def _rise(after: Dim, before: Dim) -> tuple[int, int]:
    """Bounds of what a pass adds to a size. None is below 0 when the range of sizes is not left downwards, and none
    above 0 when it is not left upwards: a size in [0, n] that becomes another in [0, n] needs no wider range."""
    low, high = _difference(after, before)
    (after_low, after_high), (before_low, before_high) = bounds(after), bounds(before)
    return (max(low, 0) if after_low >= before_low else low), (min(high, 0) if after_high <= before_high else high)


def _difference(after: Dim, before: Dim) -> tuple[int, int]:
    """Bounds of after - before, where max(a, b) - c is max(a - c, b - c): so max(size - 1, 0) is no more than size."""
    low, high = bounds(after - before)
    for monomial, factor in after.terms if isinstance(after, Expr) else ():
        atom = monomial[0] if len(monomial) == 1 and factor == 1 else None
        if isinstance(atom, Apply) and atom.op in ("min", "max"):
            rest, pick = after - Expr(((monomial, 1),)), min if atom.op == "min" else max
            (a_low, a_high), (b_low, b_high) = (_difference(rest + side, before) for side in (atom.a, atom.b))
            return max(low, pick(a_low, b_low)), min(high, pick(a_high, b_high))
    return low, high
