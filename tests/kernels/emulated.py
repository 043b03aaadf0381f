"""Kernels on processors that this machine does not have: many groups as one package, run by an emulator.

Each group is a piece of one graph of its own inputs and outputs, planned with the variant under test, so that the
code goes the way that packages go: lowering, memory planning, emitter, compiler, command table, runtime.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from meta_infer.backends.base import Execution
from meta_infer.backends.cpu.backend import CPU
from meta_infer.backends.cpu.emulated import execute_emulated
from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Graph, Node
from meta_infer.ir.group import Format, Group, Plan, PlannedGroup, Variant
from meta_infer.kernels.kernel import Kernel
from meta_infer.lower.lower_graph import lower_graph
from meta_infer.memory.planner import plan_memory
from meta_infer.package.writer import CompiledTarget, write_package

from .harness import Case, corner_variants, reference


def _renamed(group: Group, prefix: str) -> Group:
    def new(name: str) -> str:
        return f"{prefix}{name}" if name else ""

    def node(one: Node) -> Node:
        return replace(one, inputs=tuple(map(new, one.inputs)), outputs=tuple(map(new, one.outputs)))

    return replace(
        group, anchor=node(group.anchor), inputs=tuple(map(new, group.inputs)), outputs=tuple(map(new, group.outputs)),
        values={new(n): replace(v, name=new(n)) for n, v in group.values.items()},
        constants={new(n): a for n, a in group.constants.items()},
        prologue=tuple(map(node, group.prologue)), epilogue=tuple(map(node, group.epilogue)))


def _planned(group: Group, variant: Variant, prefix: str) -> PlannedGroup:
    def new(layouts: Mapping[str, object]) -> dict[str, object]:
        return {f"{prefix}{name}": layout for name, layout in layouts.items()}

    return PlannedGroup(_renamed(group, prefix), replace(variant, inputs=new(variant.inputs),       # type: ignore[arg-type]
                                                         outputs=new(variant.outputs)))             # type: ignore[arg-type]


def plan_of(chosen: Sequence[tuple[Case, Variant]]) -> Plan:
    """One plan for groups of static shapes, each with its variant; number i's names begin with `c<i>_`."""
    groups = [_planned(case.group, variant, f"c{i}_") for i, (case, variant) in enumerate(chosen)]
    values = {n: v for p in groups for n, v in p.group.values.items()}
    constants = {n: a for p in groups for n, a in p.group.constants.items()}
    inputs = tuple(n for p in groups for n in p.group.inputs if n not in constants)
    outputs = tuple(n for p in groups for n in p.group.outputs)
    graph = Graph("kernels", inputs, outputs, tuple(n for p in groups for n in p.group.nodes), values, constants)
    formats = {n: Format(values[n].dtype) for n in (*inputs, *constants)}
    formats |= {n: Format(values[n].dtype, p.variant.outputs[n]) for p in groups for n in p.group.outputs}
    return Plan(graph, tuple(groups), formats)


def run_emulated(chosen: Sequence[tuple[Case, Variant]], profile: Profile) -> list[dict[str, np.ndarray]]:
    """The outputs of every group, by name, computed by an emulated processor of the profile's instruction set."""
    plan = plan_of(chosen)
    program = lower_graph(plan, profile, CPU.lower, plan.graph.inputs, plan.graph.outputs)
    artifact = CPU.compile(CPU.emit(program, profile), profile)
    feeds = {f"c{i}_{n}": case.arrays[n] for i, (case, _) in enumerate(chosen)
             for n in case.group.inputs if n not in case.group.constants}
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "kernels.bin"
        write_package(package, [CompiledTarget(program, plan_memory(program), artifact)])
        done = execute_emulated(package, [feeds], 1, 0, 300.0, artifact.isa)
    assert isinstance(done, Execution), done
    return [{n: done.outputs[0][f"c{i}_{n}"] for n in case.group.outputs} for i, (case, _) in enumerate(chosen)]


def check_emulated(cases: Iterable[tuple[Case, Kernel]], profile: Profile) -> int:
    """Every variant at every corner of its knobs for each case, against the reference; how many there were.

    An element may be off by what the variant states as its risk, and by rounding, of the largest element.
    """
    chosen = [(case, variant) for case, kernel in cases for variant in corner_variants(case, kernel, profile)]
    for (case, variant), got in zip(chosen, run_emulated(chosen, profile), strict=True):
        want = reference(case)
        for name, array in got.items():
            what = f"{variant.kernel}/{variant.name} {dict(variant.knobs)} {name}"
            assert array.dtype == want[name].dtype and array.shape == want[name].shape, what
            largest = float(np.abs(want[name]).max(initial=0))
            np.testing.assert_allclose(array, want[name], 0, (3e-6 + variant.risk) * largest, err_msg=what)
    return len(chosen)
