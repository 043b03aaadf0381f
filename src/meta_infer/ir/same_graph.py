"""Structural equality of graphs: `==` cannot be used because constants are arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from meta_infer.ir.graph import Attr, Graph, Node


def difference(a: Graph, b: Graph) -> str | None:
    """The first thing in which `a` and `b` differ, in words; None when they are the same IR.

    Names count, the order of `values` and `constants` does not. Constants are compared bit by bit.
    """
    for field in ("name", "inputs", "outputs", "captures"):
        if getattr(a, field) != getattr(b, field):
            return f"{field}: {getattr(a, field)} and {getattr(b, field)}"
    for name in sorted({*a.values, *b.values}):
        if a.values.get(name) != b.values.get(name):
            return f"%{name}: {a.values.get(name)!r} and {b.values.get(name)!r}"
    if set(a.constants) != set(b.constants):
        return f"constants: only one side has {sorted(set(a.constants) ^ set(b.constants))}"
    for name, array in a.constants.items():
        if not same_array(array, b.constants[name]):
            return f"contents of constant %{name}"
    if len(a.nodes) != len(b.nodes):
        return f"{len(a.nodes)} and {len(b.nodes)} nodes"
    for left, right in zip(a.nodes, b.nodes, strict=True):
        found = _node_difference(left, right)
        if found:
            return f"{left.label}: {found}"
    return None


def same_array(a: np.ndarray, b: np.ndarray) -> bool:
    """Same dtype, shape and bits."""
    return (a.dtype == b.dtype and a.shape == b.shape
            and np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes())


def same_attrs(a: Mapping[str, Attr], b: Mapping[str, Attr]) -> bool:
    """Equal attributes of equal kinds: 1, 1.0 and True are three different attributes."""
    return a.keys() == b.keys() and all(_same_attr(a[key], b[key]) for key in a)


def _same_attr(a: Attr, b: Attr) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same_attr, a, b))
    return repr(a) == repr(b) if isinstance(a, float) else a == b


def _node_difference(a: Node, b: Node) -> str | None:
    for field in ("op", "inputs", "outputs", "origins"):
        if getattr(a, field) != getattr(b, field):
            return f"{field}: {getattr(a, field)} and {getattr(b, field)}"
    if not same_attrs(a.attrs, b.attrs):
        return f"attributes: {dict(a.attrs)} and {dict(b.attrs)}"
    if len(a.regions) != len(b.regions):
        return "number of regions"
    inner = (difference(x, y) for x, y in zip(a.regions, b.regions, strict=True))
    return next((found for found in inner if found), None)
