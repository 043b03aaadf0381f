"""A user's kernel alone against its operator's definition in numpy, before a package is made with it.

Every distinct group that a plan gives to such a kernel is built as a model of its own and run in a child process on
random inputs with three threads, at the smallest and at large sizes of its dynamic dims.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from meta_infer.backends.base import Backend, Failure
from meta_infer.hardware.device import Board
from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Graph, Value, attr_symbols
from meta_infer.ir.group import Format, Group, Plan, PlannedGroup, Variant, walk_plans
from meta_infer.ir.group_text import group_text
from meta_infer.ir.shapes import Symbol, symbols_of
from meta_infer.kernels.registry import rival_digest, rival_digests
from meta_infer.lower.lower_graph import lower_graph
from meta_infer.memory.planner import plan_memory
from meta_infer.ops.execute import execute_graph
from meta_infer.package.writer import CompiledTarget, write_package
from meta_infer.search.space.space import Space
from meta_infer.search.space.ways import way_of
from meta_infer.support.dtypes import BOOL, FLOAT64
from meta_infer.support.errors import MetaInferError, ToolchainError, VerificationError
from meta_infer.verify.compare import rounding_of
from meta_infer.verify.metrics import distance
from meta_infer.verify.samples import random_input, sample_reach, shape_points

_TIME_LIMIT = 60.0
_THREADS = 3
_SIZES = 2


def has_rivals(plan: Plan) -> bool:
    """Whether any group is computed by a kernel that a user brings for an op that exists."""
    return any(rival_digest(planned.variant.kernel) for one in walk_plans(plan) for planned in one.groups)


def unfit_rivals(space: Space) -> list[str]:
    """Kernels that a user brings for ops that exist and that can compute no group of a space."""
    offered = {variant.kernel for offer in space.all_offers for variant in offer.variants}
    return [name for name in rival_digests() if name not in offered]


def check_kernels(plan: Plan, profile: Profile, backend: Backend, tolerance: float, warn: Callable[[str], None],
                  board: Board | None = None) -> int:
    """Checks the users' kernels of a plan, on a `board` if it runs them, and says how many distinct groups that were.

    Raises VerificationError naming kernel, node and distance, ToolchainError when the code does not compile.
    """
    groups: dict[tuple[str, object], PlannedGroup] = {}
    for planned in (planned for one in walk_plans(plan) for planned in one.groups):
        if rival_digest(planned.variant.kernel):
            groups.setdefault((group_text(planned.group), way_of(planned.group, planned.variant)), planned)
    for planned in groups.values():
        _check(planned, profile, backend, tolerance, warn, board if board and profile.runs_on(board.profile) else None)
    return len(groups)


def _check(planned: PlannedGroup, profile: Profile, backend: Backend, tolerance: float, warn: Callable[[str], None],
           board: Board | None) -> None:
    group, variant = planned.group, planned.variant
    what = f"kernel {variant.kernel}, {group.anchor.label}"
    graph, sizes = _alone(group)
    tolerance = max(tolerance, rounding_of(graph))
    points = shape_points(sizes, _SIZES, sample_reach(graph))
    batches = [_inputs(graph, sizes, point, seed) for seed, point in enumerate(points)]
    try:
        wanted = [execute_graph(graph, batch, FLOAT64) for batch in batches]
    except (MetaInferError, ArithmeticError, ValueError, LookupError, MemoryError) as error:
        warn(f"{what} is not compared alone: its definition in numpy does not take random inputs: {error}")
        return
    with tempfile.TemporaryDirectory(prefix="meta-infer-kernel-") as folder:
        package = Path(folder) / "kernel.bin"
        write_package(package, [_compiled(graph, planned, profile, backend)])
        try:
            found = backend.execute(package, batches, _THREADS, 0, _TIME_LIMIT, profile.isa, board)
        except ToolchainError as error:
            warn(f"{what} is not compared alone: {error.problem}; {error.hint}")
            return
    if isinstance(found, Failure):
        raise VerificationError(f"does not run, alone on random inputs: {found.reason}", what=what,
                                hint=_hint(variant))
    for point, ours, theirs in zip(points, found.outputs, wanted, strict=True):
        at = f" at {', '.join(f'{name}={size}' for name, size in point.items())}" if point else ""
        _compare(ours, theirs, tolerance, what + at, variant)


def _compare(ours: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray], tolerance: float, what: str,
             variant: Variant) -> None:
    for name, array in ours.items():
        off = distance(array, wanted[name]).relative
        if not off <= tolerance:
            raise VerificationError(
                f"differs from the definition in numpy by {off:.3g} of the largest value, tolerance {tolerance:.3g}",
                what=what, hint=_hint(variant))


def _hint(variant: Variant) -> str:
    return f"look at its C text; --exclude {variant.kernel} builds without it"


def _compiled(graph: Graph, planned: PlannedGroup, profile: Profile, backend: Backend) -> CompiledTarget:
    group, variant = planned.group, planned.variant
    formats = {name: Format(graph.values[name].dtype) for name in (*graph.inputs, *graph.constants)}
    formats |= {name: Format(group.values[name].dtype, variant.outputs[name]) for name in group.outputs}
    plan = Plan(graph, (planned,), formats)
    program = lower_graph(plan, profile, backend.lower, graph.inputs, graph.outputs)
    return CompiledTarget(program, plan_memory(program), backend.compile(backend.emit(program, profile), profile))


def _alone(group: Group) -> tuple[Graph, dict[str, Symbol]]:
    """The group as a model, and its dynamic dims: each has an input that tells its size."""
    inputs = tuple(name for name in group.inputs if name not in group.constants)
    values = dict(group.values)
    dims = {symbol.name: symbol for value in group.values.values() for dim in value.shape for symbol in symbols_of(dim)}
    dims |= {symbol.name: symbol for node in group.nodes for attr in node.attrs.values()
             for symbol in attr_symbols(attr)}
    told = {f"size of {name}": symbol for name, symbol in sorted(dims.items())}
    values |= {name: Value(name, BOOL, (symbol.dim,)) for name, symbol in told.items()}
    graph = Graph("kernel", (*told, *inputs), group.outputs, group.nodes, values, group.constants)
    return graph, dict(sorted(dims.items()))


def _inputs(graph: Graph, sizes: Mapping[str, Symbol], point: Mapping[str, int], seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: random_input(graph.values[name], point, None, rng) for name in graph.inputs}
