"""No two buffers that are live at once may overlap, and no plan may beat the lower bound."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from meta_infer.ir.program import BufferDecl, Call, Command, Copy, Fill, If, InputDim, Loop, Program
from meta_infer.ir.shapes import UNBOUNDED, Symbol
from meta_infer.memory.liveness import live_ranges
from meta_infer.memory.planner import ALIGNMENT, plan_memory
from meta_infer.support.dtypes import BOOL, FLOAT32, INT64


def _program(buffers: dict[str, BufferDecl], commands: tuple[Command, ...]) -> Program:
    return Program("p", (), (), buffers, {}, {}, commands)


def _temp(name: str, *shape: int, alias: str | None = None) -> BufferDecl:
    return BufferDecl(name, FLOAT32, shape, "temp", alias=alias)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40))
def test_live_buffers_never_overlap(seed: int, count: int) -> None:
    rng = random.Random(seed)
    buffers = {f"t{i}": _temp(f"t{i}", rng.choice([0, 1, 7, 100, 4096])) for i in range(count)}
    commands = tuple(Call("k", tuple(rng.sample(sorted(buffers), min(count, rng.randint(1, 3))))) for _ in range(count))
    program = _program(buffers, commands)
    plan, ranges = plan_memory(program), live_ranges(program)
    assert set(plan.placements) == set(ranges)
    for a in ranges:
        assert plan.placements[a].offset % ALIGNMENT == 0
        for b in ranges:
            if a < b and ranges[a].overlaps(ranges[b]):
                p, q = plan.placements[a], plan.placements[b]
                assert p.offset + p.nbytes <= q.offset or q.offset + q.nbytes <= p.offset
    assert plan.sizes["ram"] >= plan.lower_bounds["ram"]
    assert plan.sizes["ram"] <= sum(p.nbytes for p in plan.placements.values())


def test_a_chain_needs_two_buffers() -> None:
    buffers = {f"t{i}": _temp(f"t{i}", 1024) for i in range(10)}
    commands = tuple(Call("k", (f"t{i}", f"t{i + 1}")) for i in range(9))
    plan = plan_memory(_program(buffers, commands))
    assert plan.sizes["ram"] == plan.lower_bounds["ram"] == 2 * 4096


def test_views_live_as_long_as_their_last_reader() -> None:
    buffers = {"a": _temp("a", 64), "v": _temp("v", 8, 8, alias="a"), "b": _temp("b", 64), "c": _temp("c", 64)}
    program = _program(buffers, (Fill("a", 0), Fill("b", 0), Call("k", ("v", "b", "c"))))
    ranges = live_ranges(program)
    assert (ranges["a"].first, ranges["a"].last) == (0, 2)
    assert plan_memory(program).roots["v"] == "a"


def test_what_a_loop_reads_from_outside_lives_to_its_end() -> None:
    buffers = {n: _temp(n, 16) for n in ("outer", "inner", "late", "state")}
    buffers |= {"n": BufferDecl("n", INT64, (), "temp"), "go": BufferDecl("go", BOOL, (), "temp"),
                "i": BufferDecl("i", INT64, (), "temp")}
    body = (Call("k", ("outer", "inner")), Call("k", ("inner", "late")), Copy("late", "state", 16))
    program = _program(buffers, (Fill("outer", 0), Fill("state", 0), Fill("n", 3), Fill("go", 1),
                                 Loop("n", "go", "i", body), Call("k", ("state",))))
    ranges = live_ranges(program)
    assert ranges["outer"].last == 7                      # the loop's last command, not its first reader
    assert ranges["i"].last == 7 and ranges["n"].last == 7
    assert (ranges["inner"].first, ranges["inner"].last) == (5, 6)
    assert ranges["state"].last == 8


def test_what_all_passes_of_a_loop_write_is_live_from_its_start() -> None:
    buffers = {n: _temp(n, 16) for n in ("rows", "inner", "early")}
    buffers |= {"n": BufferDecl("n", INT64, (), "temp"), "i": BufferDecl("i", INT64, (), "temp")}
    body = (Fill("early", 0), Call("k", ("early", "inner")), Copy("inner", "rows", 1))
    ranges = live_ranges(_program(buffers, (Fill("n", 3), Loop("n", "", "i", body), Call("k", ("rows",)))))
    assert (ranges["rows"].first, ranges["rows"].last) == (1, 5)
    assert not ranges["early"].overlaps(ranges["n"]) or ranges["n"].last == 4
    assert (ranges["early"].first, ranges["early"].last) == (2, 3)


def test_both_branches_of_an_if_are_numbered() -> None:
    buffers = {n: _temp(n, 16) for n in ("x", "a", "b", "y")} | {"c": BufferDecl("c", BOOL, (), "temp")}
    program = _program(buffers, (
        Fill("c", 1), If("c", (Call("k", ("x", "a")), Copy("a", "y", 16)), (Call("k", ("x", "b")), Copy("b", "y", 16))),
        Call("k", ("y",))))
    ranges = live_ranges(program)
    assert (ranges["y"].first, ranges["y"].last) == (3, 6)
    assert (ranges["a"].first, ranges["a"].last) == (2, 3) and (ranges["b"].first, ranges["b"].last) == (4, 5)


def test_dynamic_buffers_take_their_upper_bound() -> None:
    width = Symbol("W", 32, 960)
    program = _program({"a": BufferDecl("a", FLOAT32, (2, width.dim), "temp")}, (Fill("a", 0),))
    assert plan_memory(program).sizes["ram"] == 2 * 960 * 4


def test_rounds_close_a_gap_that_every_order_leaves() -> None:
    """Lives (first, last) and sizes in lines of 64 bytes for which placing in one order needs 10 lines, not 9."""
    lives = {"a": (1, 3, 5), "b": (2, 0, 3), "c": (4, 6, 8), "d": (3, 3, 6), "e": (2, 1, 4), "f": (2, 4, 6)}
    buffers = {name: _temp(name, lines * 16) for name, (lines, _, _) in lives.items()}
    commands = tuple(Call("k", tuple(n for n, (_, first, last) in lives.items() if first <= at <= last))
                     for at in range(9))
    plan = plan_memory(_program(buffers, commands))
    assert plan.sizes["ram"] == plan.lower_bounds["ram"] == 9 * 64


def test_late_sizes_without_a_useful_bound_are_in_no_arena() -> None:
    """Of a late symbol, small buffers stay in the arena, large and unbounded ones do not; given ones never count."""
    given = Symbol("N", 1, 1 << 24)
    small, large, free = Symbol("small", 0, 1000), Symbol("large", 0, 1 << 20), Symbol("free", 0, UNBOUNDED)
    buffers = {name: BufferDecl(name, FLOAT32, shape, "temp") for name, shape in {
        "a": (small.dim,), "b": (large.dim,), "c": (large.dim, 17), "d": (free.dim,), "e": (free.dim // 1000,),
        "f": (given.dim, 4), "g": (given.dim, small.dim)}.items()}
    buffers["view"] = BufferDecl("view", FLOAT32, (16,), "temp", alias="d")
    buffers["x"] = BufferDecl("x", FLOAT32, (given.dim,), "input")
    commands = (*(Fill(name, 0) for name in "abcdefg"), Fill("view", 0))
    program = Program("p", ("x",), (), buffers, {}, {}, commands, (InputDim(given, "x", 0),),
                      {s.name: s for s in (given, small, large, free)})
    plan = plan_memory(program)
    assert set(plan.placements) == {"a", "b", "f"} and set(plan.pooled) == {"c", "d", "e", "g"}
    assert plan.pooled["c"].bound == 4 * 17 << 20 and plan.pooled["d"].bound is None
    assert plan.pooled["e"].bound is None and plan.pooled["g"].symbols == (small,)
    assert (plan.pooled["d"].first, plan.pooled["d"].last) == (3, 7)
    assert plan.sizes["ram"] == plan.lower_bounds["ram"] == max(p.nbytes for p in plan.placements.values())


def test_outputs_in_the_pool_outlive_the_program() -> None:
    free = Symbol("free", 0, UNBOUNDED)
    buffers = {"a": BufferDecl("a", FLOAT32, (free.dim,), "temp"),
               "out": BufferDecl("out", FLOAT32, (free.dim, 1), "temp", alias="a"), "b": _temp("b", 4)}
    program = Program("p", (), ("out",), buffers, {}, {}, (Fill("a", 0), Fill("b", 0), Fill("b", 1)), (),
                      {"free": free})
    assert live_ranges(program)["a"].last == 3 and live_ranges(program)["b"].last == 2
    plan = plan_memory(program)
    assert plan.pooled["a"].last == 3 and "b" in plan.placements
