"""Products of 8-bit integers with weights known at build, exact in int32.

    a [M, K], weights [panel][K / terms][v][c][terms]  ->  y [M, N]

    chunk: some rows, some panels of v * c columns
        its rows of a, zero point taken off and widened to the path's type, go to scratch
        for panel:  for tile of rows:  registers = 0;  for pair of k:  multiply-add;  epilogue

Weights lie in memory in int8 where they fit, or in the path's type, which saves widening them for every tile of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Buffer, Expr, Type, const, splat
from meta_infer.ir.shapes import Dim, product, usual_upper
from meta_infer.kernels.collapse import collapse, keeps_shape, operand_values, unflatten
from meta_infer.kernels.conv_chunks import l2_bytes
from meta_infer.kernels.int8.conv_int8_plan import column_sums
from meta_infer.kernels.int8.dot_path import DotPath
from meta_infer.kernels.int8.dot_tile import most_columns, multiply, pack_steps, step_share
from meta_infer.kernels.int8.int8_operands import Int8Operands, int8_operands
from meta_infer.kernels.kernel import Kernel, KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.kernels.matmul.gemm_block import Spot, finish_block, make_finish
from meta_infer.kernels.matmul.gemm_tile import Tile
from meta_infer.support.dtypes import INT8, INT32, DType

# Channels of one turn of the loop, and of one vector of activations.
_DEPTH = 8
_LOADED = 16
# Multiply-adds of a chunk, and fewest chunks where there is work for them.
_CHUNK_SUMS = 3_000_000
_FEWEST_CHUNKS = 8
_MOST_VECTORS = 3
_MOST_ROWS = 8
_SMALL_ROWS = 8


@dataclass(frozen=True)
class Problem:
    """Rows [M, K] of `operands.x` times weights [K, N]."""

    operands: Int8Operands
    rows: Dim
    depth: int
    width: int

    @property
    def pitch(self) -> int:
        """Elements of a staged row."""
        return -(-self.depth // _LOADED) * _LOADED


def _problem(group: Group, profile: Profile) -> Problem | None:
    operands, out = int8_operands(group), group.values[group.anchor.outputs[0]]
    if operands is None or operands.weights.ndim != 2 or profile.lanes(INT32) == 1 or not keeps_shape(group):
        return None
    if 0 in out.shape:
        return None
    return Problem(operands, product(out.shape[:-1]), *operands.weights.shape)


@dataclass(frozen=True)
class Choice:
    """What knobs decide: a tile of `tile.rows` rows, chunks of `lines` rows and `panels` panels."""

    path: DotPath
    stored: DType
    tile: Tile
    lines: int
    panels: int


def _most_rows(vectors: int, path: DotPath, profile: Profile) -> int:
    """The tallest tile that stays in registers; there is code for each number of rows up to it."""
    return min(_MOST_ROWS, most_columns(vectors, path, profile))


def _narrow(weights: np.ndarray) -> bool:
    return bool(weights.min() >= -128 and weights.max() <= 127)


def _default_choice(problem: Problem, path: DotPath, profile: Profile) -> Choice:
    lanes, most = profile.lanes(INT32), usual_upper(problem.rows)
    fitting = [v for v in range(1, _MOST_VECTORS + 1) if _most_rows(v, path, profile)]
    wide = -(-problem.width // lanes)

    def cost(vectors: int) -> float:
        rows = min(most, _most_rows(vectors, path, profile))
        return -(-wide // vectors) * vectors / step_share(vectors, rows)

    vectors = min(fitting, key=cost)
    tile = Tile(INT32, lanes, vectors, _most_rows(vectors, path, profile))
    stored = INT8 if _narrow(problem.operands.weights) and most <= _SMALL_ROWS else path.weight
    room = max(1, l2_bytes(profile) // 2 // (problem.pitch * path.x.bytes))
    lines = min(most, max(tile.rows, min(room, 16 * tile.rows) // tile.rows * tile.rows))
    panels = tile.panels(problem.width)
    row_blocks = -(-most // lines)
    whole = row_blocks * panels * lines * tile.columns * problem.depth
    chunks = max(_FEWEST_CHUNKS, whole // _CHUNK_SUMS)
    return Choice(path, stored, tile, lines, min(panels, max(1, -(-panels * row_blocks // chunks))))


def _values(choice: Choice) -> dict[str, KnobValue]:
    return {"path": choice.path.name, "weights": choice.stored.name, "vectors": choice.tile.vectors,
            "rows": choice.tile.rows, "lines": choice.lines, "panels": choice.panels}


def _read(problem: Problem, knobs: Mapping[str, KnobValue], profile: Profile) -> Choice | str:
    """The choice that knobs say; the reason why there is none, as a word of Refusal."""
    path = next((p for p in problem.operands.paths(profile) if p.name == knobs["path"]), None)
    if path is None:
        return "isa"
    tile = Tile(INT32, profile.lanes(INT32), int(knobs["vectors"]), int(knobs["rows"]))
    if tile.rows > _most_rows(tile.vectors, path, profile):
        return "registers"
    narrow = knobs["weights"] == INT8.name
    if narrow and not _narrow(problem.operands.weights):
        return "alignment"
    if int(knobs["panels"]) > tile.panels(problem.width) or int(knobs["lines"]) > max(1, usual_upper(problem.rows)):
        return "shape"
    return Choice(path, INT8 if narrow else path.weight, tile, int(knobs["lines"]), int(knobs["panels"]))


def _variant(group: Group, problem: Problem, choice: Choice) -> Variant:
    out, tile = group.values[group.anchor.outputs[0]], choice.tile
    padded = float(tile.panels(problem.width) * tile.columns * problem.pitch)
    share = 0.9 * step_share(tile.vectors, min(tile.rows, max(1, usual_upper(problem.rows))))
    inputs = {name: PLAIN for name in (problem.operands.x.name, *problem.operands.extras)}
    return Variant("gemm_int8", choice.path.name, inputs, {name: PLAIN for name in group.outputs}, _values(choice),
                   scratch_bytes=choice.lines * problem.pitch * choice.path.x.bytes,
                   packed_bytes=int(padded) * choice.stored.bytes, flops=product(out.shape) * problem.depth * 2,
                   cost=2 * padded * usual_upper(problem.rows) / choice.path.pace / share)


def _variants(group: Group, profile: Profile) -> Iterator[Variant]:
    problem = _problem(group, profile)
    if problem is None:
        return
    for path in problem.operands.paths(profile):
        yield _variant(group, problem, _default_choice(problem, path, profile))


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    problem = _problem(group, profile)
    assert problem is not None
    path = next(p for p in problem.operands.paths(profile) if p.name == variant.knobs["path"])
    panels, most = -(-problem.width // profile.lanes(INT32)), max(1, usual_upper(problem.rows))

    def listed(name: str, values: Sequence[int]) -> Knob:
        return Knob(name, tuple(sorted({*values, int(variant.knobs[name])})))

    return (Knob("path", (path.name,)), Knob("weights", tuple(dict.fromkeys((INT8.name, path.weight.name)))),
            listed("vectors", (1, 2, 3)), listed("rows", (1, 3, 5, _most_rows(1, path, profile))),
            listed("lines", (1, min(30, most), min(90, most))), listed("panels", (1, 4, max(1, panels))))


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    problem = _problem(group, profile)
    assert problem is not None
    choice = _read(problem, {**variant.knobs, **values}, profile)
    if isinstance(choice, str):
        return Refusal(values, choice, f"[{problem.rows}, {problem.depth}] x [{problem.depth}, {problem.width}]")   # type: ignore[arg-type]
    made = _variant(group, problem, choice)
    if made.scratch_bytes > max(4 * l2_bytes(profile), variant.scratch_bytes):
        return Refusal(values, "cache", f"a chunk stages {made.scratch_bytes} bytes")
    return made


def pack_panels(weights: np.ndarray, choice: Choice, pitch: int) -> np.ndarray:
    """[K, N] -> [panel][pitch / terms][v][c][terms], zero beyond K and N."""
    depth, width = weights.shape
    tile = choice.tile
    full = np.zeros((pitch, tile.panels(width) * tile.columns), np.int16)
    full[:depth, :width] = weights
    panels = full.reshape(pitch, -1, tile.columns).transpose(1, 0, 2)
    return pack_steps(panels, choice.path, tile.lanes, choice.stored)


def _stage(b: Builder, problem: Problem, path: DotPath, a: Buffer, first: Expr, count: Expr, zero: Expr,
           staged: Buffer) -> None:
    """Rows [first, first + count) of a, filled up with zeros of some kind: weights there are zero."""
    depth = problem.depth
    whole = depth // _LOADED * _LOADED
    with b.loop(0, count, name="r") as r:
        source, target = b.let((first + r) * depth, "source"), b.let(r * problem.pitch, "target")
        with b.loop(0, whole, _LOADED, name="k") as k:
            b.store(staged, target + k, path.stored(b.load(a, source + k, _LOADED), zero))
        if whole < depth:
            rest = b.load(a, source + whole, _LOADED, depth - whole)
            b.store(staged, target + whole, path.stored(rest, zero))


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    problem = _problem(group, profile)
    assert problem is not None
    choice = _read(problem, variant.knobs, profile)
    assert isinstance(choice, Choice), "knobs of a variant were checked"
    operands, path, tile = problem.operands, choice.path, choice.tile
    out, lanes, panels = group.values[group.anchor.outputs[0]], tile.lanes, tile.panels(problem.width)
    space = collapse(out.shape, operand_values(group), (out.rank - 1,))
    b = Builder("gemm_int8")
    a, w, sums = b.input("a", operands.x.dtype), b.input("w", choice.stored), b.input("sums", INT32)
    buffers = {n: b.input("operand", group.values[n].dtype) for n in operands.extras}
    buffers |= {n: b.output("out", group.values[n].dtype) for n in group.outputs}
    finish = make_finish(b, tile, space.group(group), space.shape, buffers, layouts, lambda point, value: value)
    staged = b.scratch("staged", path.x, choice.lines * problem.pitch)
    m, column_blocks = b.dim(problem.rows), -(-panels // choice.panels)
    turns = -(-problem.depth // _DEPTH) * _DEPTH
    with b.chunks((m + (choice.lines - 1)) // choice.lines * column_blocks) as chunk:
        blocks = b.let((m + (choice.lines - 1)) // choice.lines, "row_blocks")
        row_block, column_block = b.let(chunk % blocks, "row_block"), b.let(chunk // blocks, "column_block")
        first = b.let(row_block * m // blocks, "row_first")
        count = b.let((row_block + 1) * m // blocks - first, "rows")
        zero = operands.zero_point(b, buffers)
        _stage(b, problem, path, a, first, count, zero, staged)
        start = b.let(column_block * panels // column_blocks, "panel_first")
        stop = b.let((column_block + 1) * panels // column_blocks, "panel_last")
        with b.loop(start, stop, name="panel") as panel:
            panel_at = b.let(panel * (problem.pitch * tile.columns), "panel_at")
            column = b.let(panel * tile.columns, "column_first")

            def compute(rows: int, row: Expr) -> list[list[Expr]]:
                shift = splat(zero + path.shift(a.dtype), lanes)
                nothing = const(0, Type(INT32, lanes))
                begin = [nothing if path.terms == 2 else b.let(
                    nothing - shift * b.load(sums, column + v * lanes, lanes), "begin") for v in range(tile.vectors)]
                acc = [[b.var(begin[v], "acc") for _ in range(rows)] for v in range(tile.vectors)]
                at = b.let(row * problem.pitch, "row_at")
                with b.loop(0, turns, _DEPTH, name="k") as k:
                    multiply(b, acc, path, staged, b.let(at + k, "x_at"), problem.pitch, w,
                             b.let(panel_at + k * tile.columns, "w_at"), _DEPTH, lanes)
                return [[acc[v][r] for v in range(tile.vectors)] for r in range(rows)]

            def place(r: Expr) -> tuple[Expr, ...]:
                return unflatten(b, b.let(first + r, "row"), space.shape[:-1])

            finish_block(b, count, finish, Spot(place, column), compute)
    func, dims = b.finish()
    name = operands.weight.name
    packed = {f"{name}@packed": pack_panels(operands.weights, choice, problem.pitch),
              f"{name}@sums": column_sums(operands.weights.T, panels * tile.columns)}
    return Lowering((KernelCall(func, (operands.x.name, *packed, *operands.extras, *group.outputs), dims),), packed)


GEMM_INT8 = Kernel("gemm_int8", ("MatMulInteger",), _variants, _lower, _knobs, _tune)
