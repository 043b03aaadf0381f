"""Symbolic dims against plain integers: whatever the engine folds must hold for every value of the symbols."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meta_infer.ir.shapes import (
    Dim,
    Symbol,
    bounds,
    ceildiv,
    dim_max,
    dim_min,
    divisible,
    evaluate,
    floordiv,
    parse_dim,
    substitute,
    symbols_of,
)

SYMBOLS = {"W": Symbol("W", 32, 96, 32), "B": Symbol("B", 1, 4), "S": Symbol("S", 0, 9)}
VALUES = [{"W": w, "B": b, "S": s} for w in (32, 64, 96) for b in (1, 3, 4) for s in (0, 5, 9)]

leaves = st.one_of(st.integers(-9, 9), st.sampled_from([s.dim for s in SYMBOLS.values()]))


def _grow(inner: st.SearchStrategy[tuple]) -> st.SearchStrategy[tuple]:
    return st.one_of(
        st.tuples(st.sampled_from("+-*"), inner, inner),
        st.tuples(st.sampled_from(["//", "ceil"]), inner, st.integers(1, 12)),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner),
    )


trees = st.recursive(leaves.map(lambda x: ("leaf", x)), _grow, max_leaves=8)


def _dim(tree: tuple) -> Dim:
    match tree:
        case ("leaf", x):
            return x
        case ("+", a, b):
            return _dim(a) + _dim(b)
        case ("-", a, b):
            return _dim(a) - _dim(b)
        case ("*", a, b):
            return _dim(a) * _dim(b)
        case ("//", a, k):
            return floordiv(_dim(a), k)
        case ("ceil", a, k):
            return ceildiv(_dim(a), k)
        case ("min", a, b):
            return dim_min(_dim(a), _dim(b))
        case ("max", a, b):
            return dim_max(_dim(a), _dim(b))
    raise AssertionError(tree)


def _number(tree: tuple, values: dict[str, int]) -> int:
    match tree:
        case ("leaf", x):
            return x if isinstance(x, int) else values[str(x)]
        case ("+", a, b):
            return _number(a, values) + _number(b, values)
        case ("-", a, b):
            return _number(a, values) - _number(b, values)
        case ("*", a, b):
            return _number(a, values) * _number(b, values)
        case ("//", a, k):
            return _number(a, values) // k
        case ("ceil", a, k):
            return -(-_number(a, values) // k)
        case ("min", a, b):
            return min(_number(a, values), _number(b, values))
        case ("max", a, b):
            return max(_number(a, values), _number(b, values))
    raise AssertionError(tree)


@settings(max_examples=300, deadline=None)
@given(trees)
def test_every_folding_is_true_and_reads_back(tree: tuple) -> None:
    dim = _dim(tree)
    low, high = bounds(dim)
    for values in VALUES:
        number = _number(tree, values)
        assert evaluate(dim, values) == number
        assert low <= number <= high
    assert parse_dim(str(dim), SYMBOLS) == dim
    if divisible(dim, 4):
        assert all(_number(tree, v) % 4 == 0 for v in VALUES)


def test_chains_that_models_contain_fold() -> None:
    width, batch, length = (Symbol("W", 32, 960).dim, Symbol("B", 1, 8).dim, Symbol("S", 1, 256).dim)
    assert floordiv(batch * length * 384, batch * length) == 384
    assert floordiv(floordiv(width, 2), 2) == floordiv(width, 4)
    assert floordiv(4 * width + 3, 4) == width
    assert (8 * width) % 8 == 0
    assert floordiv(width - 1, 2) + 1 == floordiv(width + 1, 2)
    assert dim_max(width, 3) == width
    assert floordiv(width * batch + batch, width + 1) == batch
    assert substitute(floordiv(width, 4), {"W": batch * 4}) == batch


def test_a_range_of_one_value_is_a_number() -> None:
    assert Symbol("N", 3, 3).dim == 3


def test_missing_symbol_is_named() -> None:
    with pytest.raises(KeyError, match="'W'"):
        evaluate(SYMBOLS["W"].dim + 1, {"B": 1})


def test_unknown_text_is_refused() -> None:
    for text in ("W ** 2", "Q + 1", "W / 2", "f(W)"):
        with pytest.raises(ValueError, match="not a dimension"):
            parse_dim(text, SYMBOLS)


def test_symbols_inside_divisions_are_found() -> None:
    dim = floordiv(SYMBOLS["W"].dim + SYMBOLS["B"].dim, 3)
    assert {s.name for s in symbols_of(dim)} == {"W", "B"}


def test_sizes_that_are_multiples_divide_through_padding() -> None:
    width = Symbol("W", 32, 960, 32).dim
    half = width
    for _ in range(4):
        half = (half + 1) // 2
    assert half == width // 16
    assert 2 * ((half + 1) // 2) == half and 32 * ((half + 1) // 2) == width
    odd = Symbol("V", 33, 961, 32).dim
    assert (odd + 1) // 2 != odd // 2


def test_bounds_of_remainders() -> None:
    """Paddings to a multiple, as exporters compute them: tight. Random sums of quotients: sound."""
    w = Symbol("w", 5, 700).dim
    rest = w % 32
    assert bounds(rest) == (0, 31)
    assert bounds((32 - rest) % 32) == (0, 31)
    assert bounds(w + (32 - rest) % 32) == (5, 731)
    rng = np.random.default_rng(0)
    for _ in range(300):
        a, b, c, d = (int(v) for v in rng.integers(-6, 7, 4))
        m, n = (int(v) for v in rng.integers(1, 9, 2))
        dim = (w * a + b) // m * (c * m) + (w + d) // n * (a * n) - w * c
        low, high = bounds(dim)
        for value in (5, 6, 7, 13, 31, 64, 333, 700):
            assert low <= evaluate(dim, {"w": value}) <= high
