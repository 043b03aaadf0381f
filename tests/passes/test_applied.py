"""Rewrites are counted by the pass that made them, and every pass says what it does."""

from __future__ import annotations

import numpy as np

from meta_infer.ir.graph import Graph, Node, Value
from meta_infer.passes.applied import Applied, meaning
from meta_infer.passes.moves import MOVES
from meta_infer.passes.pipeline import CANONICALIZE, canonicalize, name_of
from meta_infer.support.dtypes import FLOAT32


def doubled() -> Graph:
    """Two equal nodes, an Identity, and a node that nobody reads."""
    values = {name: Value(name, FLOAT32, (4,)) for name in ("x", "a", "b", "c", "d", "y", "w")}
    nodes = (Node("Relu", ("x",), ("a",)), Node("Relu", ("x",), ("b",)), Node("Identity", ("b",), ("c",)),
             Node("Sigmoid", ("x",), ("d",)), Node("Add", ("a", "c"), ("y",)))
    return Graph("g", ("x",), ("y",), nodes, values, {"w": np.ones(4, np.float32)})


def test_passes_are_counted() -> None:
    applied = Applied()
    after = canonicalize(doubled(), observer=applied)
    rows = {row["pass"]: row for row in applied.rows()}
    assert rows["remove_identity"]["removed"] == 1
    assert rows["eliminate_common_subexpressions"]["removed"] + rows["eliminate_dead_code"]["removed"] == 2
    assert len(after.nodes) == 2
    again = Applied()
    canonicalize(after, observer=again)
    assert again.rows() == []


def test_every_rewrite_says_what_it_does() -> None:
    for name in {*(name_of(rewrite) for rewrite in CANONICALIZE), *MOVES}:
        assert len(meaning(name)) > 15, name
