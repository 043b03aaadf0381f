"""Checks of one rewrite, as META_INFER_VERIFY asks: 1 the IR, 2 its text form, 3 its results.

A fault names the pass. Level 3 runs both sides in float64 with numpy on random inputs, named dimensions small.
"""

from __future__ import annotations

import numpy as np

from meta_infer.ir.graph import Graph
from meta_infer.ir.graph_parser import parse_graph
from meta_infer.ir.graph_text import constant_table, print_graph
from meta_infer.ir.same_graph import difference
from meta_infer.ir.shapes import Symbol, evaluate
from meta_infer.ops.execute import execute_graph
from meta_infer.ops.opdef import ShapeError
from meta_infer.passes.verify_types import verify
from meta_infer.support.dtypes import FLOAT64
from meta_infer.support.errors import InternalError

SMALL_DIMS = (3, 16, 64)
"""Sizes that named dimensions take, the first at which the model can be run (a window may not fit into less)."""
TOLERANCE = 1e-4
"""Largest |difference| / max|result| of a rewrite: float32 weights are rounded once or twice on the way."""


def check_rewrite(name: str, before: Graph, after: Graph, level: int) -> None:
    """Check what pass `name` made of `before`. Raises InternalError naming the pass and what is wrong."""
    what = f"pass {name}"
    if level >= 1:
        try:
            verify(after)
        except InternalError as error:
            raise InternalError(f"left broken IR: {error.what}: {error.problem}", what=what,
                                hint=error.hint) from error
    if level >= 2 and (found := text_difference(after)):
        raise InternalError(f"its result does not survive printing and parsing: {found}", what=what)
    if level >= 3 and (found := results_differ(before, after)):
        raise InternalError(f"changes the results: {found}", what=what,
                            hint=f"build with --disable {name} and report this as a fault of meta-infer")


def text_difference(graph: Graph) -> str | None:
    """What of `graph` is lost when it is printed and parsed; None when nothing is."""
    return difference(graph, parse_graph(print_graph(graph), constant_table(graph)))


def random_inputs(graph: Graph, rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Arrays for every input: floats from a normal distribution, integers 0 or 1 (valid indices of most things)."""
    arrays = {}
    for name in graph.inputs:
        value = graph.values[name]
        shape = tuple(evaluate(dim, sizes) for dim in value.shape)
        drawn = rng.standard_normal(shape) if value.dtype.is_float else rng.integers(0, 2, shape)
        arrays[name] = np.asarray(drawn).astype(value.dtype.numpy)
    return arrays


def near_size(symbol: Symbol, wanted: int) -> int:
    """A value of `symbol` near `wanted`."""
    steps = max(0, -(-(wanted - symbol.lo) // symbol.step))
    return symbol.lo + min(steps, (symbol.hi - symbol.lo) // symbol.step) * symbol.step


def results_differ(before: Graph, after: Graph, seed: int = 0, sizes: dict[str, int] | None = None) -> str | None:
    """How the results of two graphs of equal interface differ on random inputs; None when they do not.

    `sizes` gives named dimensions their values; small ones when it is left out.
    """
    chosen = [sizes] if sizes is not None else [
        {name: near_size(symbol, wanted) for name, symbol in before.symbols.items()} for wanted in SMALL_DIMS]
    for i, used in enumerate(chosen):
        inputs = random_inputs(before, np.random.default_rng(seed), used)
        try:
            wanted = execute_graph(before, inputs, FLOAT64)
        except ShapeError:
            if i == len(chosen) - 1:
                raise
            continue
        except (ValueError, IndexError):                 # places or sizes in data that no user would give: no result
            continue
        problem = _outputs_differ(wanted, execute_graph(after, inputs, FLOAT64))
        return f"{problem} (seed {seed}, sizes {used})" if problem else None
    return None


def _outputs_differ(wanted: dict[str, np.ndarray], found: dict[str, np.ndarray]) -> str | None:
    if list(wanted) != list(found):
        return f"outputs {', '.join(wanted)} became {', '.join(found)}"
    problems = ((name, _array_differs(wanted[name], found[name])) for name in wanted)
    return next((f"output %{name}: {problem}" for name, problem in problems if problem), None)


def _array_differs(wanted: np.ndarray, found: np.ndarray) -> str | None:
    if wanted.shape != found.shape or wanted.dtype != found.dtype:
        return f"{wanted.dtype}{list(wanted.shape)} became {found.dtype}{list(found.shape)}"
    if wanted.dtype.kind != "f":
        unequal = int((wanted != found).sum())
        return f"{unequal} of {wanted.size} elements differ" if unequal else None
    finite = np.isfinite(wanted)
    if not np.array_equal(wanted[~finite], found[~finite], equal_nan=True) or not np.isfinite(found[finite]).all():
        return "NaN or infinity in other places"
    if not finite.any():
        return None
    worst = float(np.abs(wanted[finite] - found[finite]).max())
    scale = max(float(np.abs(wanted[finite]).max()), 1e-12)
    return f"max |difference| {worst:.3g} where max |result| is {scale:.3g}" if worst > TOLERANCE * scale else None
