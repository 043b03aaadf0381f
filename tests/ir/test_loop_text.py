"""Loop IR as text: it reads back to the same IR."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import LoopFunc, Type, Un, cast, const, minimum, shuffle
from meta_infer.ir.loop_parser import LoopSyntaxError, parse_func
from meta_infer.ir.loop_text import print_func
from meta_infer.ir.shapes import Symbol
from meta_infer.ir.verify_loop import verify_func
from meta_infer.support.dtypes import FLOAT32, INT32
from tests.ir.random_loops import loop_funcs

SCALE = """\
kernel scale(in x: float32, out y: float32) dims(d) chunk in (d + 1023) // 1024:
    scratch tmp: float32[d * 8]
    let t: int64 = chunk * 1024
    let t_1: int64 = min(t + 1024, d)
    for i in range(t, t_1, 8):
        let count: int64 = min(t_1 - i, 8)
        store(y, i, load(x, i, 8, count) * splat(float32(2.0), 8), count)
"""


def scale() -> LoopFunc:
    b = Builder("scale")
    x, y = b.input("x", FLOAT32), b.output("y", FLOAT32)
    n = b.dim(Symbol("N").dim)
    b.scratch("tmp", FLOAT32, n * 8)
    with b.chunks((n + 1023) // 1024) as chunk:
        start = b.let(chunk * 1024)
        stop = b.let(minimum(start + 1024, n))
        with b.loop(start, stop, 8) as i:
            count = b.let(minimum(stop - i, 8), "count")
            b.store(y, i, b.load(x, i, 8, count) * 2.0, count)
    return b.finish()[0]


def test_text_of_a_small_function() -> None:
    assert print_func(scale()) == SCALE
    assert parse_func(SCALE) == scale()


# NaN constants are equal in text only.
@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(loop_funcs())
def test_random_functions_read_back(func: LoopFunc) -> None:
    text = print_func(func)
    again = parse_func(text)
    assert print_func(again) == text
    assert "nan" in text or again == func
    verify_func(func)
    verify_func(again)


def test_odd_constants_and_nesting() -> None:
    b = Builder("odd")
    y, z = b.output("y", FLOAT32), b.output("z", INT32)
    with b.chunks(1):
        a = const(float("-inf"), Type(FLOAT32))
        b.store(y, 0, (a - (a - a)) / (a / a) * -1e-45)
        b.store(y, 1, Un("neg", Un("neg", a, a.type), a.type))
        b.store(z, 0, cast(const(-7), INT32) - const(-3, Type(INT32)))
        b.store(z, 1, shuffle(const(1, Type(INT32)), const(2, Type(INT32)), (1, 0, 1, 1)))
        with b.when(const(1).lt(2)):
            pass
        with b.otherwise():
            b.prefetch(y, 0)
            b.fence()
    func = b.finish()[0]
    assert parse_func(print_func(func)) == func


@pytest.mark.parametrize(("old", "new"), [
    ("kernel", "colonel"), ("in x", "into x"), ("float32[d", "float99[d"),
    ("let t: int64 = chunk", "let t: int64 = junk"),
    ("store(y, i,", "stow(y, i,"), ("range(t, t_1, 8)", "range(t, t_1)"), ("    let t_1", "      let t_1"),
    ("chunk * 1024", "chunk *"), ("load(x, i, 8, count)", "load(y0, i, 8, count)"), ("d + 1023", "d + 'a'"),
])
def test_wrong_text_is_refused(old: str, new: str) -> None:
    assert old in SCALE
    with pytest.raises(LoopSyntaxError):
        parse_func(SCALE.replace(old, new))
    with pytest.raises(LoopSyntaxError):
        parse_func("")
