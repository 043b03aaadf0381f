"""Random graphs with fixed seeds: a short form of `python -m tests.build.fuzz`, which docs/testing.md describes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from .fuzz import Verdict, check, check_graph, reduce
from .random_graphs import Case, random_case
from .random_rare import ALL
from .tiny_models import info, model, node

COMPILED = range(70_000, 70_032)
"""Seeds that are compiled and run. Other numbers are as good; these are fixed so that a failure can be repeated."""
GRAPHS_ONLY = range(71_000, 71_100)


@pytest.mark.parametrize("seed", COMPILED)
def test_package_equals_onnx_runtime(seed: int, tmp_path: Path) -> None:
    case = random_case(seed, ALL, most_nodes=8)
    verdict = check(case, tmp_path)
    assert not verdict.failed, f"{verdict.detail}\n{onnx.printer.to_text(case.model)[:2000]}"


@pytest.mark.parametrize("first", GRAPHS_ONLY[::20])
def test_passes_change_no_result(first: int, tmp_path: Path) -> None:
    """Import, canonicalize and legalize, each rewrite run on both sides."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("META_INFER_VERIFY", "3")
        for seed in range(first, first + 20):
            case = random_case(seed, ALL)
            verdict = check_graph(case, tmp_path)
            assert not verdict.failed, f"seed {seed}: {verdict.detail}\n{onnx.printer.to_text(case.model)[:2000]}"


def test_a_seed_always_draws_the_same_model() -> None:
    one, two = random_case(5, ALL), random_case(5, ALL)
    assert one.model.SerializeToString(deterministic=True) == two.model.SerializeToString(deterministic=True)


def test_most_random_graphs_are_taken(tmp_path: Path) -> None:
    verdicts = [check_graph(random_case(seed, ALL), tmp_path).kind for seed in range(72_000, 72_040)]
    assert verdicts.count("refused") <= 2 and verdicts.count("ok") >= 38


def test_reduction_keeps_only_what_fails(tmp_path: Path) -> None:
    """A fault seeded into one op is cut down to that op."""
    nodes = [node("Exp", ["x"], ["a"]), node("Tanh", ["a"], ["b"]), node("Add", ["b", "x"], ["c"]),
             node("Sigmoid", ["c"], ["d"]), node("Neg", ["d"], ["e"])]
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    values = {"x": [x], "a": [np.exp(x)], "b": [np.tanh(np.exp(x))], "c": [x], "d": [x], "e": [x]}
    case = Case(model(nodes, [info("x", [2, 3])], [info("e", [2, 3]), info("a", [2, 3])]), {"x": [x]}, values)

    def fails_on_tanh(candidate: Case, folder: Path) -> Verdict:
        found = any(n.op_type == "Tanh" for n in candidate.model.graph.node)
        return Verdict("mismatch", "Tanh") if found else Verdict("ok")

    small, verdict = reduce(case, Verdict("mismatch", "Tanh"), tmp_path, fails_on_tanh)
    assert [n.op_type for n in small.model.graph.node] == ["Tanh"] and verdict.failed
