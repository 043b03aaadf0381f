"""A binary heap in loop IR: the best entry of a scratch again and again, without sorting what is never asked for."""

from __future__ import annotations

from dataclasses import dataclass

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Buffer, Expr, Var, const, minimum, select
from meta_infer.support.dtypes import INT64

# Levels of a heap of 2**40 entries.
_LEVELS = 40


@dataclass(frozen=True)
class Heap:
    """Entries are a key and the place it comes from: the largest key is the best, of equal ones the lowest place.

    The first `count` entries of `keys` and `places` are the heap, `levels` its height; see `make_heap`.
    """

    b: Builder
    keys: Buffer
    places: Buffer
    count: Var
    levels: Expr

    def pop(self) -> tuple[Expr, Expr]:
        """Key and place of the best entry, which leaves the heap; there must be one."""
        b = self.b
        key, place = b.let(b.load(self.keys, 0), "best"), b.let(b.load(self.places, 0), "best_place")
        b.assign(self.count, self.count - 1)
        self._put(const(0), *self._entry(self.count))
        self.sift(const(0))
        return key, place

    def sift(self, at: Expr) -> None:
        """The entry at `at` moves down until no child is better; below it all is in order."""
        b = self.b
        hole, going = b.var(at, "hole"), b.var(const(1), "going")
        key, place = self._entry(at)
        with b.loop(0, self.levels, name="level"), b.when(going.eq(1)):
            left = b.let(hole * 2 + 1, "left")
            b.assign(going, const(0))
            with b.when(left.lt(self.count)):
                right = b.let(minimum(left + 1, self.count - 1), "right")
                child = b.let(select(self._better(*self._entry(right), *self._entry(left)), right, left), "child")
                child_key, child_place = self._entry(child)
                with b.when(self._better(child_key, child_place, key, place)):
                    self._put(hole, child_key, child_place)
                    b.assign(hole, child)
                    b.assign(going, const(1))
        self._put(hole, key, place)

    def _entry(self, at: Expr) -> tuple[Expr, Expr]:
        return self.b.let(self.b.load(self.keys, at), "key"), self.b.let(self.b.load(self.places, at), "place")

    def _put(self, at: Expr, key: Expr, place: Expr) -> None:
        self.b.store(self.keys, at, key)
        self.b.store(self.places, at, place)

    def _better(self, key: Expr, place: Expr, other: Expr, other_place: Expr) -> Expr:
        return key.gt(other) | (key.eq(other) & place.lt(other_place))


def make_heap(b: Builder, keys: Buffer, places: Buffer, count: Var) -> Heap:
    """Puts the first `count` entries, in any order, into the order of a heap. `places` are of int64."""
    assert places.dtype == INT64
    levels = b.var(const(0), "levels")
    with b.loop(0, _LEVELS, name="level") as level, b.when((const(1) << level).le(count)):
        b.assign(levels, level + 1)
    heap = Heap(b, keys, places, count, levels)
    half = b.let(count // 2, "half")
    with b.loop(0, half, name="i") as i:
        heap.sift(b.let(half - 1 - i, "at"))
    return heap
