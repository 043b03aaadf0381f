"""Which sizes of carried values stay, grow with the number of the pass or get symbols, and which share one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from meta_infer.frontend.carried_shapes import CarriedShapes
from meta_infer.ir.shapes import UNBOUNDED, Dim, Symbol, bounds, dim_max, dim_min
from meta_infer.ops.opdef import TensorType
from meta_infer.support.dtypes import FLOAT32, INT64

N = Symbol("n", 1, 64).dim
STEP = Symbol("i", 0, 9).dim
Body = Callable[..., Sequence[Dim]]


def settle(starts: Sequence[Dim], body: Body, most: int = 10, stated: Sequence[Sequence[int | None]] = ()
           ) -> tuple[Dim, ...]:
    """The sizes of carried vectors at the start of a pass, when `body` maps them to those behind it."""
    count = 0

    def fresh(hint: str, low: int, high: int) -> Dim:
        nonlocal count
        count += 1
        return Symbol(f"s{count}", low, high).dim

    shapes = CarriedShapes([TensorType(FLOAT32, (dim,)) for dim in starts], STEP, most, stated)
    for _ in range(50):
        count = 0
        before = [found.shape[0] for found in shapes.types(fresh)]
        if shapes.learn([TensorType(FLOAT32, (dim,)) for dim in body(*before)]):
            return tuple(before)
    raise AssertionError("never comes to rest")


def test_what_stays_has_no_symbol() -> None:
    assert settle((N, 3, 0), lambda a, b, c: (a, b, c)) == (N, 3, 0)


def test_constant_growth_follows_the_number_of_the_pass() -> None:
    assert settle((N, 0), lambda a, b: (a + 2, b + N)) == (N + 2 * STEP, N * STEP)


def test_what_shrinks_by_a_constant_stays_above_zero() -> None:
    """Ten passes of one less fit into 20, not into n, which may be 1."""
    assert settle((20,), lambda a: (a - 1,)) == (20 - STEP,)
    (size,) = settle((N,), lambda a: (dim_max(a - 1, 0),))
    assert bounds(size) == (0, 64)


def test_what_stays_below_its_bound_keeps_it() -> None:
    (size,) = settle((N,), lambda a: (Symbol("found", 0, bounds(a)[1]).dim,))
    assert bounds(size) == (0, 64)


def test_sizes_that_change_alike_share_a_symbol() -> None:
    def body(a: Dim, b: Dim, c: Dim) -> tuple[Dim, ...]:
        assert isinstance(b - a, int) and isinstance(c - a, int)
        return tuple(size + dim_min(a, 1) for size in (a, b, c))

    a, b, c = settle((1, 3, 2), lambda *sizes: [size + dim_min(STEP, 1) for size in sizes])
    assert (b - a, c - a) == (2, 1) and bounds(a) == (1, 11)
    assert settle((N, N), lambda a, b: (dim_max(a, 7), b + 1))[1] == N + STEP


def test_sizes_that_turn_out_to_differ_part() -> None:
    a, b, c = settle((1, 1, 1), lambda a, b, c: (a + dim_min(STEP, 1), b + dim_min(STEP, 1), c * 2))
    assert a == b and a != c
    assert bounds(c) == (1, UNBOUNDED)


def test_growth_of_unknown_length_has_no_bound() -> None:
    (size,) = settle((1,), lambda a: (a + dim_min(STEP, 1),), UNBOUNDED)
    assert bounds(size) == (1, UNBOUNDED)


def test_factors_of_any_size_come_to_rest() -> None:
    a, b, c = settle((1, 2, N), lambda a, b, c: (3 * a, a + b + c, b * c))
    assert all(bounds(size)[1] == UNBOUNDED for size in (a, b, c))


def test_swapped_sizes() -> None:
    a, b = settle((3, N), lambda a, b: (b, a))
    assert bounds(a)[1] >= 64 and bounds(b)[0] <= 3


def test_counters_are_known_by_the_number_of_the_pass() -> None:
    def scalar(*content: Dim) -> TensorType:
        return TensorType(INT64, (), content or None)

    def settled(body: Callable[[Dim], TensorType]) -> tuple[Dim, ...] | None:
        shapes = CarriedShapes([scalar(N + 3)], STEP, 10)
        while True:
            (before,) = shapes.types(lambda hint, low, high: 0)
            if shapes.learn([body(before.content[0]) if before.content else scalar()]):
                return before.content

    assert settled(lambda c: scalar(c)) == (N + 3,)
    assert settled(lambda c: scalar(c + 2)) == (N + 3 + 2 * STEP,)
    assert settled(lambda c: scalar(c * 2)) is None
    assert settled(lambda c: scalar()) is None
    assert settled(lambda c: scalar(dim_min(c + 1, 7))) is None


def test_stated_sizes_are_kept_only_where_they_may_hold() -> None:
    one_or_none = dim_min(STEP, 1)
    assert settle((1,), lambda a: (one_or_none,), stated=[[1]]) == (1,)
    assert settle((1,), lambda a: (one_or_none,), stated=[[None]]) != (1,)
    assert settle((1,), lambda a: (a + 1,), stated=[[1]]) == (1 + STEP,)
