"""Every pass on its fixtures: CASE.before.ir becomes CASE.after.ir, CASE.unchanged.ir stays; both sides are run."""

from __future__ import annotations

from pathlib import Path

import pytest

from meta_infer.ir.graph import Graph
from meta_infer.ir.graph_parser import parse_graph
from meta_infer.ir.graph_text import print_graph
from meta_infer.ir.same_graph import difference
from meta_infer.passes.check_rewrite import results_differ
from meta_infer.passes.pipeline import CANONICALIZE, name_of
from meta_infer.passes.verify_types import verify

FIXTURES = Path(__file__).parent / "fixtures"
PASSES = {name_of(rewrite): rewrite for rewrite in CANONICALIZE}
CHANGED = sorted(FIXTURES.glob("*/*.before.ir"))
REMOVING = ("fold_constants", "eliminate_dead_code", "remove_identity", "simplify_arithmetic", "cancel_transposes",
            "inline_constant_branch")
UNCHANGED = sorted(FIXTURES.glob("*/*.unchanged.ir"))


def read(path: Path) -> Graph:
    graph = parse_graph(path.read_text(encoding="utf-8"))
    verify(graph)
    return graph


def label(path: Path) -> str:
    return f"{path.parent.name}-{path.name.split('.')[0]}"


def sizes_of(graph: Graph) -> list[dict[str, int]]:
    """Three choices of values of the named dimensions: smallest, a step on, largest."""
    symbols = graph.symbols.values()
    if not symbols:
        return [{}]
    return [{s.name: s.lo for s in symbols}, {s.name: min(s.lo + s.step, s.hi) for s in symbols},
            {s.name: s.hi for s in symbols}]


@pytest.mark.parametrize("path", CHANGED, ids=label)
def test_becomes(path: Path) -> None:
    before, rewrite = read(path), PASSES[path.parent.name]
    wanted = read(path.with_name(path.name.replace(".before.", ".after.")))
    found = rewrite(before)
    verify(found)
    assert difference(found, wanted) is None, print_graph(found)
    for seed, sizes in enumerate(sizes_of(before)):
        assert results_differ(before, wanted, seed, sizes) is None
    assert rewrite(wanted) is wanted, "the pass is not done after one application"


@pytest.mark.parametrize("path", UNCHANGED, ids=label)
def test_stays(path: Path) -> None:
    graph = read(path)
    assert PASSES[path.parent.name](graph) is graph, print_graph(PASSES[path.parent.name](graph))


def test_every_pass_has_both_kinds() -> None:
    assert {path.parent.name for path in CHANGED} == set(PASSES)
    assert {path.parent.name for path in UNCHANGED} == set(PASSES)


def test_every_after_has_a_before() -> None:
    names = {path.name.replace(".after.", ".before.") for path in FIXTURES.glob("*/*.after.ir")}
    assert names == {path.name for path in CHANGED}


@pytest.mark.parametrize("path", [p for p in CHANGED if p.parent.name not in REMOVING], ids=label)
def test_origins_are_kept(path: Path) -> None:
    """No ONNX node that a result depended on is forgotten."""
    before = read(path)
    named = {origin for node in before.nodes for origin in node.origins}
    assert {origin for node in PASSES[path.parent.name](before).nodes for origin in node.origins} == named
