"""Which input an elementwise group may overwrite with its output.

Allowed only for the last use of a buffer's memory: same shape, layout and dtype, hence one index map; never a model
input or output, a constant, a value from outside the region, or memory that another operand also reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from meta_infer.ir.group import Group, Layout, Plan
from meta_infer.kernels.kernel import Lowering
from meta_infer.lower.program_builder import ProgramBuilder
from meta_infer.schedule.in_place import write_in_place

ELEMENTWISE = "elementwise"
"""The kernel whose loads and stores share one index map."""


@dataclass(frozen=True)
class Place:
    """Where a group stands in its plan: its index, who reads what last, and the values made by the plan's groups."""

    index: int
    last: Mapping[str, int]
    here: frozenset[str]


def last_reads(plan: Plan) -> dict[str, int]:
    """Value name -> index of the last group that reads it; the number of groups for what must outlive them all."""
    last: dict[str, int] = {}
    for index, planned in enumerate(plan.groups):
        group = planned.group
        captured = [name for region in group.anchor.regions for name in region.captures]
        last.update(dict.fromkeys((*group.inputs, *captured), index))
    last.update(dict.fromkeys(plan.graph.outputs, len(plan.groups)))
    return last


def in_place_source(builder: ProgramBuilder, group: Group, lowering: Lowering, layouts: Mapping[str, Layout],
                    place: Place) -> str | None:
    """The input whose memory the group's output may take, or None."""
    out = group.values[group.outputs[0]]
    if len(lowering.calls) != 1 or len(group.outputs) != 1 or (out.name, layouts[out.name]) in builder.where:
        return None
    roots = {n: builder.root(builder.where[n, layouts[n]]) for n in group.inputs if (n, layouts[n]) in builder.where}
    for name in group.inputs:
        value = group.values[name]
        if name not in roots or (value.shape, value.dtype, layouts[name]) != (out.shape, out.dtype, layouts[out.name]):
            continue
        root = builder.buffers[roots[name]]
        if root.kind != "temp" or name not in place.here or list(roots.values()).count(root.name) != 1:
            continue
        sharing = [v for (v, _), buffer in builder.where.items() if builder.root(buffer) == root.name]
        if lowering.calls[0].args.count(name) == 1 and all(
                v in place.here and place.last.get(v, -1) <= place.index for v in sharing):
            return name
    return None


def merge_output(lowering: Lowering, source: str, target: str) -> Lowering:
    """The lowering with its output written over `source`."""
    call = lowering.calls[0]
    params = dict(zip(call.args, call.func.params, strict=True))
    func = write_in_place(call.func, params[source].name, params[target].name)
    args = tuple(a for a in call.args if a != target)
    return replace(lowering, calls=(replace(call, func=func, args=args),))
