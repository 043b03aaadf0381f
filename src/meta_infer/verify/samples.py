"""Random inputs that fit a model, for verification, benchmarks and the bundled test vector."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from meta_infer.ir.graph import Graph, Shape, Value, walk_graphs
from meta_infer.ir.shapes import Symbol, evaluate, symbols_of, usual_upper
from meta_infer.support.dtypes import BOOL

_TRANSPARENT = frozenset({"Cast", "Identity", "Reshape", "Transpose", "Slice", "Expand", "Concat"})


MOST_INPUT_BYTES, MOST_VALUE_BYTES = 64 << 20, 256 << 20
"""What all inputs of one sample, and its largest tensor, may take."""


def shape_points(symbols: Mapping[str, Symbol], count: int = 3, reach: float = 1.0) -> list[dict[str, int]]:
    """`count` assignments of the named dims: smallest, then spread up to the largest, or to the share `reach` of each
    range. One empty assignment for a static model."""
    if not symbols:
        return [{}]
    return [_point(symbols, reach * i / max(count - 1, 1)) for i in range(count)]


def _point(symbols: Mapping[str, Symbol], share: float) -> dict[str, int]:
    return {s.name: s.lo + round(((s.usual or s.hi) - s.lo) * share) // s.step * s.step for s in symbols.values()}


def sample_reach(graph: Graph) -> float:
    """The largest share of the ranges of all named dims, 0 to 1, at which a sample keeps to the limits of this page.

    0 keeps the smallest sizes even where these exceed them: some sample there must be.
    """
    symbols, fits = graph.input_symbols, _size_check(graph)
    if not symbols or fits(_point(symbols, 1.0)):
        return 1.0
    low, high = 0.0, 1.0
    while _point(symbols, low) != _point(symbols, high):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if fits(_point(symbols, middle)) else (low, middle)
    return low


def _size_check(graph: Graph) -> Callable[[Mapping[str, int]], bool]:
    """(assignment) -> whether inputs and tensors are within the limits; what only a run can size counts as small."""
    known = graph.input_symbols.keys()
    values = {(value.shape, value.dtype.bytes) for inner in walk_graphs(graph) for value in inner.values.values()
              if all(s.name in known for dim in value.shape for s in symbols_of(dim))}
    given = [graph.values[name] for name in graph.inputs]
    dims = {dim for shape, _ in values for dim in shape} | {dim for value in given for dim in value.shape}

    def fits(point: Mapping[str, int]) -> bool:
        sizes = {dim: evaluate(dim, point) for dim in dims}

        def nbytes(shape: Shape, element: int) -> int:
            return math.prod(sizes[dim] for dim in shape) * element

        return (sum(nbytes(value.shape, value.dtype.bytes) for value in given) <= MOST_INPUT_BYTES
                and all(nbytes(shape, element) <= MOST_VALUE_BYTES for shape, element in values))
    return fits


def sampled_sizes(graph: Graph, count: int) -> str:
    """Which sizes `count` samples reach, where the limits of this page keep them from the largest; '' otherwise."""
    symbols, reach = graph.input_symbols, sample_reach(graph)
    top = shape_points(symbols, count, reach)[-1]
    if reach == 1.0 or count < 2:
        return ""
    shown = ", ".join(f"{s.name} {s.lo}..{top[s.name]} of {s.lo}..{s.usual or s.hi}" for s in symbols.values())
    return (f"samples are compared at {shown}: inputs of more than {MOST_INPUT_BYTES >> 20} MiB, and tensors of more "
            f"than {MOST_VALUE_BYTES >> 20} MiB, are left out")


def small_point(symbols: Mapping[str, Symbol], limit: int = 64) -> dict[str, int]:
    """One modest assignment: near `limit` where the range reaches that far. Keeps test vectors small."""
    return {s.name: s.lo + max(min(s.usual or s.hi, limit) - s.lo, 0) // s.step * s.step for s in symbols.values()}


def index_limit(graph: Graph, name: str) -> int | None:
    """The smallest size among the axes that an integer input picks from (through Gather), None when it picks none."""
    limits: list[int] = []
    for node in graph.nodes:
        if name not in node.inputs:
            continue
        if node.op == "Gather" and len(node.inputs) > 1 and node.inputs[1] == name:
            axis = node.attrs["axis"]
            assert isinstance(axis, int)
            limits.append(usual_upper(graph.values[node.inputs[0]].shape[axis]))
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
