"""Random inputs that fit a model, for verification, benchmarks and the bundled test vector."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from meta_infer.ir.graph import Graph, Value
from meta_infer.ir.shapes import Symbol, evaluate, upper
from meta_infer.support.dtypes import BOOL

_TRANSPARENT = frozenset({"Cast", "Identity", "Reshape", "Transpose", "Slice", "Expand", "Concat"})


def shape_points(symbols: Mapping[str, Symbol], count: int = 3) -> list[dict[str, int]]:
    """`count` assignments of the named dims: smallest, then spread up to the largest. One empty for a static model."""
    if not symbols:
        return [{}]
    points = []
    for i in range(count):
        share = i / max(count - 1, 1)
        points.append({s.name: s.lo + round((s.hi - s.lo) * share) // s.step * s.step for s in symbols.values()})
    return points


def small_point(symbols: Mapping[str, Symbol], limit: int = 64) -> dict[str, int]:
    """One modest assignment: near `limit` where the range reaches that far. Keeps test vectors small."""
    return {s.name: s.lo + max(min(s.hi, limit) - s.lo, 0) // s.step * s.step for s in symbols.values()}


def index_limit(graph: Graph, name: str) -> int | None:
    """The smallest size among the axes that an integer input picks from (through Gather), None when it picks none."""
    limits: list[int] = []
    for node in graph.nodes:
        if name not in node.inputs:
            continue
        if node.op == "Gather" and len(node.inputs) > 1 and node.inputs[1] == name:
            axis = node.attrs["axis"]
            assert isinstance(axis, int)
            limits.append(upper(graph.values[node.inputs[0]].shape[axis]))
        elif node.op in _TRANSPARENT:
            found = index_limit(graph, node.outputs[0])
            limits += [found] if found is not None else []
    return min(limits) if limits else None


def random_input(value: Value, dims: Mapping[str, int], limit: int | None, rng: np.random.Generator) -> np.ndarray:
    """Standard normal floats; integers below `limit` (or 0 and 1 where nothing is picked by them)."""
    shape = tuple(evaluate(d, dims) for d in value.shape)
    if value.dtype == BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if value.dtype.is_integer:
        return rng.integers(0, limit if limit is not None else 2, shape).astype(value.dtype.numpy)
    return rng.standard_normal(shape).astype(value.dtype.numpy)


def random_inputs(graph: Graph, dims: Mapping[str, int], seed: int) -> dict[str, np.ndarray]:
    """Inputs by ONNX name for one assignment of the named dims."""
    rng = np.random.default_rng(seed)
    return {graph.values[n].origin or n: random_input(graph.values[n], dims, index_limit(graph, n), rng)
            for n in graph.inputs}
