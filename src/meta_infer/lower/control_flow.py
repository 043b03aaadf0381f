"""If and what it shares with Loop (lower/loop.py): regions stay regions, and results cross their border by copies.

Every output of an If gets a buffer; each branch ends by giving the sizes that only it knows to the symbols of the
outputs' shapes, and by copying its results there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from meta_infer.ir.graph import Node, Value
from meta_infer.ir.group import PLAIN, Group, Layout, Plan
from meta_infer.ir.program import AssignDims, Command, Copy, If
from meta_infer.ir.shapes import Dim, product, symbols_of
from meta_infer.ir.solve import solve
from meta_infer.lower.program_builder import ProgramBuilder
from meta_infer.support.errors import InternalError


class Lowerer(Protocol):
    """What control flow needs of lowering: the parts so far, a plan's commands, and a value's buffer."""

    @property
    def builder(self) -> ProgramBuilder: ...

    def commands(self, plan: Plan) -> list[Command]: ...

    def buffer(self, plan: Plan, commands: list[Command], name: str, layout: Layout = PLAIN) -> str: ...


def bring_captures(lowerer: Lowerer, group: Group, plan: Plan, commands: list[Command]) -> None:
    """Captured values: plain, and before a region starts that may not run, or run often."""
    for region in group.anchor.regions:
        for name in region.captures:
            if name in plan.graph.values:
                lowerer.buffer(plan, commands, name)


def region_plan(node: Node, index: int, plan: Plan) -> Plan:
    """The plan of a region with the types of captured outer values added, so that it can name them."""
    region = plan.regions[next(name for name in node.outputs if name), index]
    outer = {n: plan.graph.values[n] for n in region.graph.captures if n in plan.graph.values}
    constants = {n: plan.graph.constants[n] for n in region.graph.captures if n in plan.graph.constants}
    graph = region.graph.replace(values={**outer, **region.graph.values},
                                 constants={**constants, **region.graph.constants})
    return replace(region, graph=graph)


def result_buffer(lowerer: Lowerer, value: Value) -> str:
    """The buffer of a value that regions write."""
    builder = lowerer.builder
    if (value.name, PLAIN) not in builder.where:
        builder.where[value.name, PLAIN] = builder.temp(value.name, value.dtype, value.shape, origin=value.origin)
    return builder.where[value.name, PLAIN]


def assign(sizes: dict[str, Dim]) -> list[Command]:
    return [AssignDims(tuple(sizes), tuple(sizes.values()))] if sizes else []


def lower_if(lowerer: Lowerer, group: Group, plan: Plan, commands: list[Command]) -> None:
    """Append the commands of an If group."""
    node = group.anchor
    bring_captures(lowerer, group, plan, commands)
    results = {name: result_buffer(lowerer, group.values[name]) for name in node.outputs if name}
    cond = lowerer.buffer(plan, commands, node.inputs[0])
    branches = []
    for i in range(2):
        region = region_plan(node, i, plan)
        with lowerer.builder.scope():
            body = lowerer.commands(region)
            made = {out: name for out, name in zip(node.outputs, region.graph.outputs, strict=True) if out}
            sources = {out: lowerer.buffer(region, body, name) for out, name in made.items()}
            sizes: dict[str, Dim] = {}
            for out, name in made.items():
                sizes |= _sizes_told(group.values[out], region.graph.values[name], node)
            body += assign(sizes)
            body += [Copy(source, results[out], product(region.graph.values[made[out]].shape))
                     for out, source in sources.items()]
        branches.append(tuple(body))
    commands.append(If(cond, branches[0], branches[1]))


def _sizes_told(out: Value, made: Value, node: Node) -> dict[str, Dim]:
    """The sizes by which `made`, a branch's result, makes the shape of `out` known."""
    found: dict[str, Dim] = {}
    for dim, size in zip(out.shape, made.shape, strict=True):
        if dim == size:
            continue
        for symbol in symbols_of(dim):
            if symbol.maker and symbol.maker in node.outputs:
                told = solve(dim, symbol, size)
                if told is None:
                    raise InternalError(f"{made} does not tell {symbol} of {out}", what=node.label)
                found[symbol.name] = told
    return found
