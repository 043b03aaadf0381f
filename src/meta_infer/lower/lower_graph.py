"""Plan -> Program: every group becomes commands on buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Graph, Value
from meta_infer.ir.group import PLAIN, Format, Group, Layout, Plan, PlannedGroup, Variant, layouts_of
from meta_infer.ir.pooling import sized_while_running
from meta_infer.ir.program import BufferDecl, Command, Copy, InputDim, Program, SetDim
from meta_infer.ir.shapes import Expr, Symbol, product, symbols_of
from meta_infer.kernels.kernel import Lowering
from meta_infer.lower.concat_views import place_parts
from meta_infer.lower.control_flow import lower_if
from meta_infer.lower.convert_layout import buffer_in_layout
from meta_infer.lower.in_place import ELEMENTWISE, Place, in_place_source, last_reads, merge_output
from meta_infer.lower.join_calls import join_calls
from meta_infer.lower.loop import lower_loop
from meta_infer.lower.program_builder import ProgramBuilder
from meta_infer.lower.size_checks import size_checks
from meta_infer.lower.views import slice_view_offset
from meta_infer.ops.attrs import dims_of
from meta_infer.ops.registry import op_named
from meta_infer.support.errors import UnsupportedError

LowerGroup = Callable[[Group, Variant, Mapping[str, Layout], Profile], Lowering]
"""How a backend turns a chosen variant into loop functions."""


@dataclass(frozen=True)
class Lowerer:
    """What lowering a plan needs at hand: the parts so far and the chip."""

    builder: ProgramBuilder
    profile: Profile
    lower_group: LowerGroup
    given: frozenset[str]                      # symbols whose sizes the inputs tell

    def commands(self, plan: Plan) -> list[Command]:
        """Commands of all groups of `plan`, whose inputs and captures are in `builder.where` already."""
        commands: list[Command] = []
        last = last_reads(plan)
        here = frozenset(name for planned in plan.groups for name in planned.group.outputs)
        joined = place_parts(plan, self.builder, self.given)
        for index, planned in enumerate(plan.groups):
            if planned.group.outputs[0] not in joined:
                self._lower_group(planned, plan, commands, Place(index, last, here))
        return join_calls(commands, self.builder)

    def buffer(self, plan: Plan, commands: list[Command], name: str, layout: Layout = PLAIN) -> str:
        """The buffer of value `name` in `layout`, converting it if needed."""
        return buffer_in_layout(self.builder, commands, plan.graph.values[name], layout,
                                plan.graph.constants.get(name), self.profile)

    def _lower_group(self, planned: PlannedGroup, plan: Plan, commands: list[Command], place: Place) -> None:
        group, variant = planned.group, planned.variant
        commands += size_checks(group)
        if op_named(group.anchor.op).is_control_flow:
            (lower_if if group.anchor.op == "If" else lower_loop)(self, group, plan, commands)
        elif variant.kernel == "view":
            self._lower_view(group, plan, commands)
            if group.anchor.op == "BindDims":
                commands += self._sizes_found(group)
        elif (offset := slice_view_offset(group, variant)) is not None:
            layout = variant.outputs[group.outputs[0]]
            source = self.buffer(plan, commands, group.inputs[0], layout)
            self.builder.view(group.values[group.outputs[0]], source, offset, layout)
        else:
            self._lower_kernel(planned, plan, commands, place)

    def _lower_view(self, group: Group, plan: Plan, commands: list[Command]) -> None:
        out = group.values[group.outputs[0]]
        source = self.buffer(plan, commands, group.inputs[0])
        if (out.name, PLAIN) not in self.builder.where:            # else the source was placed in the output already
            self.builder.view(out, source)

    def _sizes_found(self, group: Group) -> list[Command]:
        """Every symbol that a BindDims group makes known takes its element of the operand."""
        found, source = dims_of(group.anchor.attrs, "sizes"), self.builder.where[group.outputs[0], PLAIN]
        return [SetDim(symbol.name, source, i) for i, size in enumerate(found) for symbol in symbols_of(size)]

    def _lower_kernel(self, planned: PlannedGroup, plan: Plan, commands: list[Command], place: Place) -> None:
        group, variant = planned.group, planned.variant
        layouts = layouts_of(group, variant)
        lowering = self.lower_group(group, variant, layouts, self.profile)
        used = {a for call in lowering.calls for a in call.args}
        args = {n: self.buffer(plan, commands, n, layouts[n]) for n in group.inputs if n in used}
        if variant.kernel == ELEMENTWISE:
            source = in_place_source(self.builder, group, lowering, layouts, place)
            if source is not None:
                out = group.values[group.outputs[0]]
                lowering = merge_output(lowering, source, out.name)
                # The call names the view: who asks which command makes `out` finds it, and `source` keeps its own.
                args[source] = self.builder.view(out, args[source], layout=layouts[out.name])
        for name in group.outputs:
            args[name] = self._output_buffer(group.values[name], plan.formats[name])
        commands += self.builder.calls(lowering, args, group.outputs[0], group.origins, group.label, group.outputs[0])

    def _output_buffer(self, value: Value, format: Format) -> str:
        key = (value.name, format.layout)
        if key not in self.builder.where:
            self.builder.where[key] = self.builder.temp(value.name, format.dtype, value.shape, format.layout,
                                                        value.origin, format.space)
        return self.builder.where[key]


def _place_outputs(plan: Plan, builder: ProgramBuilder) -> None:
    """Let groups that make a graph output, or the source of a view of one, write straight into the caller's memory."""
    views = {p.group.outputs[0]: p.group.inputs[0] for p in plan.groups if p.variant.kernel == "view"}
    given = {d.symbol.name for d in input_dims(plan.graph)}
    made = {n for p in plan.groups if p.variant.kernel not in ("view", "region")
            and slice_view_offset(p.group, p.variant) is None for n in p.group.outputs}
    graph = plan.graph
    for name in dict.fromkeys(graph.outputs):
        source, elements = name, product(graph.values[name].shape)
        # A view whose size is compared while running may be smaller than what is written before that.
        while source in views and product(graph.values[views[source]].shape) == elements:
            source = views[source]
        if source not in made or plan.formats[source].layout != PLAIN:
            continue
        if (source, PLAIN) in builder.where or (source != name and source in graph.outputs):
            continue
        value = graph.values[name]
        placed = BufferDecl(builder.unique(name), value.dtype, value.shape, "output", origin=value.origin)
        if sized_while_running(placed, given):                     # the caller cannot know how much memory to give
            continue
        builder.where[name, PLAIN] = builder.add(placed)
        if source != name:
            builder.view(graph.values[source], builder.where[name, PLAIN])


def _collect_outputs(lowerer: Lowerer, plan: Plan, commands: list[Command]) -> tuple[str, ...]:
    """One distinct buffer per graph output, of kind 'output' or in the pool; copies for what lies elsewhere."""
    builder, found = lowerer.builder, []
    given = {d.symbol.name for d in input_dims(plan.graph)}
    for name in plan.graph.outputs:
        value = plan.graph.values[name]
        have = lowerer.buffer(plan, commands, name)
        decl, root = builder.buffers[have], builder.buffers[builder.root(have)]
        out = BufferDecl(builder.unique(f"{name}:out"), value.dtype, value.shape, "output", origin=value.origin)
        if sized_while_running(out, given):
            out = replace(out, kind="temp")
            there = root.kind == "temp" and sized_while_running(root, given)
        else:
            there = decl.kind == "output" and decl.alias is None
        if there and have not in found:
            found.append(have)
            continue
        commands.append(Copy(have, builder.add(out), out.elements))
        found.append(out.name)
    return tuple(found)


def input_dims(graph: Graph) -> tuple[InputDim, ...]:
    """For every symbol of the inputs, the first axis that is just that symbol.

    Raises UnsupportedError when a symbol appears in compound dims of inputs only.
    """
    found: dict[str, InputDim] = {}
    needed: dict[str, Symbol] = {}
    for name in graph.inputs:
        for axis, dim in enumerate(graph.values[name].shape):
            if not isinstance(dim, Expr):
                continue
            needed |= {s.name: s for s in symbols_of(dim)}
            if len(dim.terms) == 1 and dim.terms[0][1] == 1 and len(dim.terms[0][0]) == 1:
                atom = dim.terms[0][0][0]
                if isinstance(atom, Symbol):
                    found.setdefault(atom.name, InputDim(atom, name, axis))
    for missing in needed.keys() - found.keys():
        raise UnsupportedError(f"dimension {missing} stands in no input by itself", what=f"model {graph.name!r}",
                               hint="fix the dimension with --shape")
    return tuple(found[name] for name in sorted(found))


def lower_graph(plan: Plan, profile: Profile, lower_group: LowerGroup, input_names: tuple[str, ...],
                output_names: tuple[str, ...]) -> Program:
    """The program of a plan. `input_names` and `output_names` are the names users know, in order."""
    graph, builder = plan.graph, ProgramBuilder()
    for name in graph.inputs:
        value = graph.values[name]
        builder.where[name, PLAIN] = builder.add(
            BufferDecl(name, value.dtype, value.shape, "input", origin=value.origin))
    _place_outputs(plan, builder)
    given = frozenset(d.symbol.name for d in input_dims(graph))
    lowerer = Lowerer(builder, profile, lower_group, given)
    commands = lowerer.commands(plan)
    outputs = _collect_outputs(lowerer, plan, commands)
    return Program(graph.name, graph.inputs, outputs, builder.buffers, builder.constants, builder.kernels,
                   (*builder.prepare, *commands), input_dims(graph), graph.symbols | builder.symbols, input_names,
                   output_names, len(builder.prepare))
