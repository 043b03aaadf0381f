"""If and Loop: regions stay regions, and results cross their border by copies.

If     every output gets a buffer; each branch ends by copying its results there.
Loop   every carried value gets a buffer, filled from its initial value, read by the body and overwritten at the end
       of each pass; a scan output gets the rows of all passes, row i written in pass i.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from meta_infer.ir.graph import Graph, Value
from meta_infer.ir.group import PLAIN, Group, Layout, Plan
from meta_infer.ir.program import Command, Copy, If, Loop, SetDim
from meta_infer.ir.shapes import Symbol, product, upper
from meta_infer.lower.program_builder import ProgramBuilder


class Lowerer(Protocol):
    """What control flow needs of lowering: the parts so far, a plan's commands, and a value's buffer."""

    @property
    def builder(self) -> ProgramBuilder: ...

    def commands(self, plan: Plan) -> list[Command]: ...

    def buffer(self, plan: Plan, commands: list[Command], name: str, layout: Layout = PLAIN) -> str: ...


def lower_control_flow(lowerer: Lowerer, group: Group, plan: Plan, commands: list[Command]) -> None:
    """Append the commands of an If or Loop group."""
    for region in group.anchor.regions:                      # captured values: plain, and before the region starts
        for name in region.captures:
            if name in plan.graph.values:
                lowerer.buffer(plan, commands, name)
    if group.anchor.op == "If":
        _lower_if(lowerer, group, plan, commands)
    else:
        _lower_loop(lowerer, group, plan, commands)


def _result(lowerer: Lowerer, value: Value) -> str:
    builder = lowerer.builder
    if (value.name, PLAIN) not in builder.where:
        builder.where[value.name, PLAIN] = builder.temp(value.name, value.dtype, value.shape, origin=value.origin)
    return builder.where[value.name, PLAIN]


def _region_values(region: Plan, plan: Plan) -> Plan:
    """The region's plan with the types of captured outer values added, so that it can name them."""
    outer = {n: plan.graph.values[n] for n in region.graph.captures if n in plan.graph.values}
    constants = {n: plan.graph.constants[n] for n in region.graph.captures if n in plan.graph.constants}
    graph = region.graph.replace(values={**outer, **region.graph.values},
                                 constants={**constants, **region.graph.constants})
    return replace(region, graph=graph)


def _lower_if(lowerer: Lowerer, group: Group, plan: Plan, commands: list[Command]) -> None:
    node = group.anchor
    results = [_result(lowerer, group.values[n]) for n in node.outputs]
    cond = lowerer.buffer(plan, commands, node.inputs[0])
    branches = []
    for i in range(2):
        region = _region_values(plan.regions[node.outputs[0], i], plan)
        with lowerer.builder.scope():
            body = lowerer.commands(region)
            for name, result in zip(region.graph.outputs, results, strict=True):
                source = lowerer.buffer(region, body, name)
                body.append(Copy(source, result, product(region.graph.values[name].shape)))
        branches.append(tuple(body))
    commands.append(If(cond, branches[0], branches[1]))


def _lower_loop(lowerer: Lowerer, group: Group, plan: Plan, commands: list[Command]) -> None:
    node, builder = group.anchor, lowerer.builder
    region = _region_values(plan.regions[node.outputs[0], 0], plan)
    graph: Graph = region.graph
    carried = len(node.inputs) - 2
    trip = lowerer.buffer(plan, commands, node.inputs[0]) if node.inputs[0] else ""
    stem = node.outputs[0] or "loop"

    iteration = _region_input(lowerer, graph.values[graph.inputs[0]])
    cond = _region_input(lowerer, graph.values[graph.inputs[1]])
    first = lowerer.buffer(plan, commands, node.inputs[1]) if node.inputs[1] else builder.scalar(f"{stem}/true", True)
    commands.append(Copy(first, cond, 1))
    state = [_region_input(lowerer, graph.values[n]) for n in graph.inputs[2:]]
    for name, buffer in zip(node.inputs[2:], state, strict=True):
        source = lowerer.buffer(plan, commands, name)
        commands.append(Copy(source, buffer, builder.buffers[buffer].elements))

    rows = _scans(group, carried)
    for value in rows:
        _result(lowerer, value)
    with builder.scope():
        body: list[Command] = []
        if rows:
            step = Symbol(f"{_identifier(stem)}_pass", 0, min(upper(v.shape[0]) for v in rows))
            builder.symbols[step.name] = step
            body.append(SetDim(step.name, iteration))
        body += lowerer.commands(region)
        if rows:
            _store_rows(lowerer, group, region, body, step, carried)
        _carry(lowerer, region, body, [cond, *state])

    symbol = _trip_symbol(rows)
    commands.append(Loop(trip, cond, iteration, tuple(body), symbol))
    for name, buffer in zip(node.outputs[:carried], state, strict=True):
        if name:
            value = group.values[name]
            commands.append(Copy(buffer, _result(lowerer, value), product(value.shape)))


def _region_input(lowerer: Lowerer, value: Value) -> str:
    name = lowerer.builder.temp(value.name, value.dtype, value.shape, origin=value.origin)
    lowerer.builder.where[value.name, PLAIN] = name
    return name


def _carry(lowerer: Lowerer, region: Plan, body: list[Command], state: list[str]) -> None:
    """Copy the body's results to the carried buffers; through temporaries when a result lies in one of them."""
    builder = lowerer.builder
    roots = {buffer for buffer in state}
    pending: list[tuple[str, str, Value]] = []
    for name, buffer in zip(region.graph.outputs, state, strict=False):
        value = region.graph.values[name]
        source = lowerer.buffer(region, body, name)
        if source == buffer:
            continue
        if builder.root(source) in roots:
            saved = builder.temp(f"{value.name}/carried", value.dtype, value.shape)
            body.append(Copy(source, saved, product(value.shape)))
            source = saved
        pending.append((source, buffer, value))
    body += [Copy(source, buffer, product(value.shape)) for source, buffer, value in pending]


def _store_rows(lowerer: Lowerer, group: Group, region: Plan, body: list[Command], step: Symbol,
                carried: int) -> None:
    for out, row in zip(group.anchor.outputs[carried:], region.graph.outputs[1 + carried:], strict=True):
        if not out:
            continue
        shape = region.graph.values[row].shape
        source = lowerer.buffer(region, body, row)
        target = _result(lowerer, group.values[out])
        body.append(Copy(source, target, product(shape), 0, step.dim * product(shape)))


def _scans(group: Group, carried: int) -> list[Value]:
    return [group.values[n] for n in group.anchor.outputs[carried:] if n]


def _trip_symbol(rows: list[Value]) -> str:
    """The symbol that stands for the number of passes in the scan outputs' shapes, '' when it is known at build."""
    for value in rows:
        dim = value.shape[0]
        if not isinstance(dim, int) and len(dim.terms) == 1:
            atoms = dim.terms[0][0]
            if len(atoms) == 1 and isinstance(atoms[0], Symbol):
                return atoms[0].name
    return ""


def _identifier(text: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in text)
