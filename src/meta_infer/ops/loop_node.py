"""The Loop node: what its attributes say, and how importers make one.

    %last: float32[n, 8], %rows: float32[trips, 8] = Loop(%m, %cond, %x) {
        iteration = ([i],), trips = ([trips],), shapes = (([n], 8), ([trips], 8)), contents = (none,),
        reverse = ()} regions {body}

iteration   the number of the pass as a dim, in the body only: its sizes and positions may be computed from it
trips       how many passes there are in all
shapes      what the outputs' shapes are outside, where sizes that change from pass to pass have their last value
contents    elements of the carried values at the start of a pass, which count evenly: ([i + 3],); none where not known
reverse     scan outputs (0 is the first of them) that are written from the end: row trips - 1 - i in pass i
"""

from __future__ import annotations

from collections.abc import Sequence

from meta_infer.ir.graph import Attr, Graph, Node, Shape, free_names, walk_graphs
from meta_infer.ir.shapes import UNBOUNDED, Dim, Symbol, bounds, dim_max, substitute, symbols_of
from meta_infer.ops.opdef import ImportContext


def own_symbols(body: Graph, starts: Sequence[Shape], iteration: Dim) -> set[Symbol]:
    """Symbols that have a value inside the body only. `starts` are the shapes of carried values before the first pass.

    These are the number of the pass, the carried values' changing sizes, and what values of the body tell.
    """
    defined = {name for graph in walk_graphs(body) for name in graph.values}
    inside = body.symbols.values()
    around = {s for shape in starts for dim in shape for s in symbols_of(dim)}
    changing = {s for name in body.inputs for dim in body.values[name].shape for s in symbols_of(dim)} - around
    return {s for s in inside if s.maker in defined} | changing | symbols_of(iteration)


def never_stops(body: Graph, starts_true: bool) -> bool:
    """True when the first condition is true and the body's condition is constant true or passes it on."""
    if not starts_true:
        return False
    name, producers = body.outputs[0], body.producers()
    while name in producers and producers[name].op == "Identity":
        name = producers[name].inputs[0]
    return name == body.inputs[1] or (name in body.constants and bool(body.constants[name].all()))


def most_trips(count: tuple[Dim, ...] | None) -> int:
    """A bound on the number of passes when the trip count has this content."""
    return UNBOUNDED if count is None else min(max(bounds(count[0])[1], 0), UNBOUNDED)


def loop_node(inputs: Sequence[str], starts: Sequence[Shape], outputs: Sequence[str], body: Graph, iteration: Dim,
              origin: str, ctx: ImportContext, contents: Attr = (), reverse: tuple[int, ...] = ()) -> Node:
    """The node for Loop(M, condition, carried...), whose body was imported with `iteration` as its first input.

    `starts` are the carried values' shapes before the first pass; the body's inputs have those of any pass. Rows that
    nobody reads are not gathered.
    """
    trip, cond, *carried = inputs
    outputs = (*outputs, *[""] * (len(body.outputs) - 1 - len(outputs)))
    kept = [i for i, name in enumerate(outputs[len(carried):]) if name]
    outputs = (*outputs[:len(carried)], *(outputs[len(carried) + i] for i in kept))
    reverse = tuple(place for place, i in enumerate(kept) if i in reverse)
    body = body.replace(outputs=(*body.outputs[:1 + len(carried)], *(body.outputs[1 + len(carried) + i] for i in kept)))
    body = body.replace(captures=free_names(body))
    count = ctx.type_of(trip).content if trip else None
    maker = next((name for name in outputs if name), "")
    own = own_symbols(body, starts, iteration)
    scans = body.outputs[1 + len(carried):]
    linear = any(symbols_of(iteration) & symbols_of(dim) for name in body.inputs for dim in body.values[name].shape)

    trips: Dim = 0
    if count is not None and never_stops(body, not cond or _is_true(cond, ctx)):
        trips = dim_max(count[0], 0)
    elif linear or any(outputs[len(carried):]):
        trips = ctx.fresh_symbol("trips", 0, most_trips(count), maker)

    last: dict[str, Dim] = {s.name: trips for s in symbols_of(iteration)}
    shapes = []
    for name, start in zip(body.inputs[2:], starts, strict=False):
        for before, first in zip(body.values[name].shape, start, strict=False):
            for symbol in symbols_of(before) - symbols_of(first):
                if symbol.name not in last:
                    last[symbol.name] = ctx.fresh_symbol(symbol.name, symbol.lo, symbol.hi, maker)
        shapes.append(tuple(substitute(dim, last) for dim in body.values[name].shape))
    rows: dict[Dim, Dim] = {}
    for name in scans:
        shape = (body.values[name] if name in body.values else ctx.type_of(name)).shape
        for dim in shape:
            if symbols_of(dim) & own and dim not in rows:
                low, high = bounds(dim)
                rows[dim] = ctx.fresh_symbol("row", max(low, 0) if low == high else 0, min(high, UNBOUNDED), maker)
        shapes.append((trips, *(rows.get(dim, dim) for dim in shape)))
    attrs: dict[str, Attr] = {"iteration": (iteration,), "trips": (trips,), "shapes": tuple(shapes),
                              "contents": contents, "reverse": reverse}
    return Node("Loop", tuple(inputs), tuple(outputs), attrs, (origin,), (body,))


def _is_true(name: str, ctx: ImportContext) -> bool:
    known = ctx.known(name)
    return known is not None and bool(known.all())
