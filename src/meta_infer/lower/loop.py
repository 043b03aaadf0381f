"""Loop: its carried values have memory of their own, its scan outputs gather a row in each pass.

A carried value whose sizes change from pass to pass lies in memory that is sized by symbols of the memory (`now_1`),
which the body sees through a view sized by the symbols of the pass:

    assign now_1, size = 0, 0                    before the first pass: sizes of the initial value
    copy %x -> %h/state: [now_1, 8]
    loop {
      setdim i = ...
      ...                                        reads %h: [size, 8], a view; makes %h1: [size + 1, 8]
      assign now_1 = size + 1                    from here on the old value is gone,
      copy %h1 -> %h/state                       and results that lie in it have been moved out before
      assign size = now_1
    }

After the loop the output is a view of that memory. Row i of a scan output is copied to its place when pass i ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from meta_infer.ir.graph import Graph, Value
from meta_infer.ir.graph_text import symbols_used
from meta_infer.ir.group import PLAIN, Group, Plan
from meta_infer.ir.program import CheckDims, Command, Copy, Loop, SetDim
from meta_infer.ir.shapes import UNBOUNDED, Dim, Symbol, dim_min, product, symbols_of, upper
from meta_infer.ir.solve import solve
from meta_infer.lower.control_flow import Lowerer, assign, bring_captures, region_plan, result_buffer
from meta_infer.ops.attrs import dims_of, ints_of
from meta_infer.support.errors import InternalError


@dataclass
class _Sizes:
    """Sizes of carried values that change: `now` maps one as the body sees it to the symbol of the memory.

    `first` are the memory's sizes before the first pass; `own` maps a symbol of the body's to a size that tells it,
    as the body sees it.
    """

    now: dict[Dim, Symbol]
    first: dict[str, Dim]
    own: dict[Symbol, Dim]

    def of_memory(self, shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
        return tuple(self.now[dim].dim if dim in self.now else dim for dim in shape)

    def body_symbols(self, sizes: dict[str, Dim]) -> dict[str, Dim]:
        """The body's symbols when the memory's have these values."""
        found = {}
        for symbol, dim in self.own.items():
            told = solve(dim, symbol, sizes[self.now[dim].name])
            if told is None:
                raise InternalError(f"size {dim} does not tell {symbol}", what="a carried value of a loop")
            found[symbol.name] = told
        return found


def lower_loop(lowerer: Lowerer, group: Group, plan: Plan, commands: list[Command]) -> None:
    """Append the commands of a Loop group."""
    node, builder = group.anchor, lowerer.builder
    bring_captures(lowerer, group, plan, commands)
    region = region_plan(node, 0, plan)
    graph: Graph = region.graph
    carried = node.inputs[2:]
    stem = next(name for name in node.outputs if name)

    trip = lowerer.buffer(plan, commands, node.inputs[0]) if node.inputs[0] else ""
    first = lowerer.buffer(plan, commands, node.inputs[1]) if node.inputs[1] else builder.scalar(f"{stem}/true", True)
    initial = [lowerer.buffer(plan, commands, name) for name in carried]
    iteration, cond = (_state(lowerer, graph.values[name], graph.values[name].shape) for name in graph.inputs[:2])
    sizes = _changing_sizes(lowerer, group, plan, graph)
    inside = [graph.values[name] for name in graph.inputs[2:]]
    state = [_state(lowerer, value, sizes.of_memory(value.shape)) for value in inside]
    rows = _rows(lowerer, group, region)

    untold = dict.fromkeys((name for row in rows for name in row.symbols), 0)
    commands += assign({**sizes.first, **sizes.body_symbols(sizes.first), **untold})
    commands.append(Copy(first, cond, 1))
    commands += [Copy(source, memory, product(plan.graph.values[name].shape))
                 for name, source, memory in zip(carried, initial, state, strict=True)]
    step = next(iter(symbols_of(dims_of(node.attrs, "iteration")[0])))
    with builder.scope():
        body: list[Command] = []
        if rows or step in symbols_used(graph):
            builder.symbols[step.name] = step
            body.append(SetDim(step.name, iteration))
        body += lowerer.commands(region)
        for row in rows:
            row.store(lowerer, region, body, step)
        _carry(lowerer, region, body, [cond, *state], sizes)

    trips = {s.name: s for s in symbols_of(dims_of(node.attrs, "trips")[0]) if s.maker and s.maker in node.outputs}
    builder.symbols.update(trips)
    commands.append(Loop(trip, cond, iteration, tuple(body), next(iter(trips), "")))
    last: dict[str, Dim] = {}
    for name, value, memory in zip(node.outputs, inside, state, strict=False):
        if name:
            last |= _last_sizes(group.values[name], value, sizes, node.outputs)
            builder.view(group.values[name], memory)
    commands += assign(last)


def _state(lowerer: Lowerer, value: Value, shape: tuple[Dim, ...]) -> str:
    """Memory for an input of the body; where its sizes have other symbols, the body sees a view of it."""
    builder = lowerer.builder
    if shape == value.shape:
        return result_buffer(lowerer, value)
    memory = builder.temp(f"{value.name}/state", value.dtype, shape)
    builder.view(value, memory)
    return memory


def _changing_sizes(lowerer: Lowerer, group: Group, plan: Plan, graph: Graph) -> _Sizes:
    node = group.anchor
    step = symbols_of(dims_of(node.attrs, "iteration")[0])
    sizes = _Sizes({}, {}, {})
    for i, (name, inner) in enumerate(zip(node.inputs[2:], graph.inputs[2:], strict=True)):
        out = group.values.get(node.outputs[i])
        for axis, (dim, start) in enumerate(zip(graph.values[inner].shape, plan.graph.values[name].shape, strict=True)):
            if dim == start or dim in sizes.now:
                continue
            most = max(upper(dim), upper(start), upper(out.shape[axis]) if out is not None else UNBOUNDED)
            symbol = Symbol(_fresh(lowerer, "now"), 0, min(most, UNBOUNDED))
            lowerer.builder.symbols[symbol.name] = symbol
            sizes.now[dim], sizes.first[symbol.name] = symbol, start
            for own in symbols_of(dim) - symbols_of(start) - step:
                sizes.own.setdefault(own, dim)
    return sizes


def _fresh(lowerer: Lowerer, stem: str) -> str:
    count = 1
    while f"{stem}_{count}" in lowerer.builder.symbols:
        count += 1
    return f"{stem}_{count}"


def _carry(lowerer: Lowerer, region: Plan, body: list[Command], state: list[str], sizes: _Sizes) -> None:
    """Copy the body's results to the carried values' memory; through other memory when a result lies in it."""
    builder = lowerer.builder
    roots = set(state)
    pending: list[Command] = []
    now: dict[str, Dim] = {}
    for name, inner, memory in zip(region.graph.outputs, region.graph.inputs[1:], state, strict=False):
        value, before = region.graph.values[name], region.graph.values[inner]
        source = lowerer.buffer(region, body, name)
        now |= {sizes.now[dim].name: size for dim, size in zip(before.shape, value.shape, strict=True)
                if dim in sizes.now}
        body += [CheckDims(dim, size, f"{value.origin or value.name!r} should keep its declared size")
                 for dim, size in zip(before.shape, value.shape, strict=True) if dim not in sizes.now and dim != size]
        if source == builder.where[inner, PLAIN]:
            continue
        if builder.root(source) in roots:
            saved = builder.temp(f"{value.name}/carried", value.dtype, value.shape)
            body.append(Copy(source, saved, product(value.shape)))
            source = saved
        pending.append(Copy(source, memory, product(value.shape)))
    body += [*assign(now), *pending]
    body += assign(sizes.body_symbols({symbol.name: symbol.dim for symbol in sizes.now.values()}))


def _last_sizes(out: Value, inside: Value, sizes: _Sizes, outputs: tuple[str, ...]) -> dict[str, Dim]:
    """The symbols of an output's shape, told by the memory's sizes."""
    found: dict[str, Dim] = {}
    for dim, before in zip(out.shape, inside.shape, strict=True):
        for symbol in symbols_of(dim) if before in sizes.now else ():
            told = solve(dim, symbol, sizes.now[before].dim) if symbol.maker and symbol.maker in outputs else None
            if told is not None:
                found[symbol.name] = told
    return found


@dataclass(frozen=True)
class _Row:
    """A scan output: the body's value that is one row of it, and where the rows go."""

    name: str
    shape: tuple[Dim, ...]                               # in the body
    target: str
    out: Value
    backwards: bool

    @property
    def told(self) -> dict[Dim, Dim]:
        """Sizes that the body only tells: as they are called outside, and in the body."""
        return {dim: now for dim, now in zip(self.out.shape[1:], self.shape, strict=True) if dim != now}

    @property
    def symbols(self) -> list[str]:
        """Symbols that take the sizes told, which are 0 when there is no pass."""
        return [str(dim) for dim in self.told if not isinstance(dim, int)]

    def store(self, lowerer: Lowerer, region: Plan, body: list[Command], step: Symbol) -> None:
        """Append the commands that put the row of this pass in its place.

        A size told is that of the first pass, and later rows must have the same.
        """
        source = lowerer.buffer(region, body, self.name)
        body += assign({str(dim): now + (dim - now) * dim_min(step.dim, 1) for dim, now in self.told.items()
                        if not isinstance(dim, int)})
        body += [CheckDims(dim, now, f"rows of scan output {self.out.origin or self.out.name!r} differ in size")
                 for dim, now in self.told.items()]
        place = self.out.shape[0] - 1 - step.dim if self.backwards else step.dim
        body.append(Copy(source, self.target, product(self.shape), 0, place * product(self.out.shape[1:])))


def _rows(lowerer: Lowerer, group: Group, region: Plan) -> list[_Row]:
    node = group.anchor
    count, reverse = len(node.inputs) - 2, ints_of(node.attrs, "reverse")
    pairs = zip(node.outputs[count:], region.graph.outputs[1 + count:], strict=True)
    return [_Row(row, region.graph.values[row].shape, result_buffer(lowerer, group.values[out]), group.values[out],
                 i in reverse) for i, (out, row) in enumerate(pairs) if out]
