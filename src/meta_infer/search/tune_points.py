"""Sizes at which a model with dynamic dims is timed."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from meta_infer.ir.graph import Graph
from meta_infer.ir.shapes import Symbol
from meta_infer.support.errors import UsageError

SHARES = (0.125, 0.75)
"""Shares of a range at which sizes lie when nobody gives them."""


def tune_points(graph: Graph, given: Sequence[str] = (),
                flag: str = "--tune-at") -> tuple[Mapping[str, int], ...]:
    """One assignment of the graph's input dims for every point; a single empty one for a static model.

    `given` holds texts such as 'N=1,L=128'; dims that a text leaves out are as without it: the batch (a dim that is
    the first of an input, and may be 1) at its least, since packages are for latency, all others small in the first
    point and large in the second. Raises UsageError for a text that names no dim, or a size outside its range.
    """
    symbols = graph.input_symbols
    if not symbols:
        if given:
            raise UsageError("the model has no dynamic dimension", what=f"{flag} {given[0]}", hint="leave it out")
        return ({},)
    batches = {str(graph.values[name].shape[0]) for name in graph.inputs if graph.values[name].shape}
    usual = [{s.name: _size(s, 0.0 if s.name in batches and s.lo == 1 else share) for s in symbols.values()}
             for share in SHARES]
    points = [{**usual[0], **_parsed(text, symbols, flag)} for text in given] or usual
    return tuple(point for i, point in enumerate(points) if point not in points[:i])


def _size(symbol: Symbol, share: float) -> int:
    top = symbol.usual or symbol.hi
    return symbol.lo + int((top - symbol.lo) * share) // symbol.step * symbol.step


def _parsed(text: str, symbols: Mapping[str, Symbol], flag: str) -> dict[str, int]:
    point = {}
    for part in text.split(","):
        name, _, size = (piece.strip() for piece in part.partition("="))
        if name not in symbols:
            near = difflib.get_close_matches(name, symbols, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise UsageError(f"names no dynamic dimension {name!r}", what=f"{flag} {text}",
                             hint=f"{hint}the model has {', '.join(symbols)}")
        symbol = symbols[name]
        if not size.isdigit() or not symbol.lo <= int(size) <= symbol.hi or (int(size) - symbol.lo) % symbol.step:
            step = f" in steps of {symbol.step}" if symbol.step > 1 else ""
            problem = f"{name} is {size!r}" if size else f"gives no size of {name}, as {name}=SIZE"
            raise UsageError(f"{problem}, expected {symbol.lo}..{symbol.hi}{step}",
                             what=f"{flag} {text}", hint=f"give a size that the model takes, such as {symbol.lo}")
        point[name] = int(size)
    return point
