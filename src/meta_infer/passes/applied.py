"""Which rewrites a graph had: a count for each pass that changed something, for reports."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

from meta_infer.ir.graph import Graph, Node, walk_graphs
from meta_infer.passes.pipeline import CANONICALIZE, name_of
from meta_infer.passes.rewrite import key_of


class Applied:
    """An observer of `canonicalize` that counts nodes: what a pass made or altered, and what it took out."""

    def __init__(self) -> None:
        self.changed: Counter[str] = Counter()
        self.removed: Counter[str] = Counter()

    def __call__(self, name: str, before: Graph, after: Graph) -> None:
        old, new = _nodes(before), _nodes(after)
        self.changed[name] += sum(node is not old.get(key) and node != old.get(key) for key, node in new.items())
        self.removed[name] += sum(key not in new for key in old)

    def rows(self) -> list[dict[str, Any]]:
        """In the order of the pipeline: pass, what it does, and how many nodes it changed and removed."""
        known = dict.fromkeys(name_of(rewrite) for rewrite in CANONICALIZE)
        return [{"pass": name, "does": meaning(name), "changed": self.changed[name], "removed": self.removed[name]}
                for name in known if self.changed[name] or self.removed[name]]


def meaning(name: str) -> str:
    """What a pass or a move does: the first line of the module that is named after it."""
    module = sys.modules.get(f"{__package__}.{name}")
    return ((module.__doc__ if module else None) or "").partition("\n")[0]


def _nodes(graph: Graph) -> dict[str, Node]:
    return {key_of(node): node for one in walk_graphs(graph) for node in one.nodes}
