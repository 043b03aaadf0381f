"""At which sizes a model with dynamic dims is timed."""

from __future__ import annotations

import re

import pytest

from meta_infer.ir.graph import Graph, Value
from meta_infer.ir.shapes import Symbol
from meta_infer.search.tune_points import tune_points
from meta_infer.support.dtypes import FLOAT32
from meta_infer.support.errors import UsageError

N, L = Symbol("N", 1, 8).dim, Symbol("L", 1, 257, 4).dim


def graph(*shape: object) -> Graph:
    return Graph("g", ("x",), ("x",), (), {"x": Value("x", FLOAT32, tuple(shape))}, {})        # type: ignore[arg-type]


def test_static_models_have_one_point() -> None:
    assert tune_points(graph(1, 3)) == ({},)
    with pytest.raises(UsageError, match="no dynamic dimension"):
        tune_points(graph(1, 3), ["N=1"])


def test_the_batch_is_small_and_sizes_are_spread() -> None:
    assert tune_points(graph(N, L)) == ({"N": 1, "L": 33}, {"N": 1, "L": 193})
    assert tune_points(graph(N, 3)) == ({"N": 1},), "equal points are one"
    assert tune_points(graph(L, N)) == ({"L": 1, "N": 1}, {"L": 1, "N": 6}), "a first dim that may be 1 is a batch"


def test_given_points() -> None:
    assert tune_points(graph(N, L), ["N=8,L=257", "L=1"]) == ({"N": 8, "L": 257}, {"N": 1, "L": 1})


@pytest.mark.parametrize("text, match", [("M=1", "the model has"), ("LL=1", "did you mean"),
                                         ("N=9", r"expected 1\.\.8"), ("N=0", r"1\.\.8"),
                                         ("L=2", "in steps of 4"), ("N", "no size of N"), ("N=x", "'x'"), ("", "''")])
def test_bad_points(text: str, match: str) -> None:
    with pytest.raises(UsageError) as error:
        tune_points(graph(N, L), [text])
    assert text in str(error.value) or not text
    assert re.search(match, str(error.value))
