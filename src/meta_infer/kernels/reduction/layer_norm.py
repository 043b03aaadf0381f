"""LayerNormalization and InstanceNormalization: rows shifted to mean 0 and scaled to variance 1.

A first pass over the row gives its mean, a second one its variance and what the mean has lost to rounding, which both
results are then corrected by, so that large means cost no accuracy (Chan, Golub, LeVeque: Algorithms for computing the
sample variance, The American Statistician 37, 1983). All is summed in a fixed order. A third pass writes
`(x - mean) / sqrt(variance + epsilon) * scale + bias`; rows that share scale and bias are written abreast, with both
loaded once for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Value
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Buffer, Expr, Type, cast, const, mad, maximum, minimum, splat, unary
from meta_infer.ir.shapes import ceildiv, divisible, product
from meta_infer.kernels.collapse import Collapsed, collapse, keeps_shape, operand_values, unflatten
from meta_infer.kernels.fold import fill_outside, row_chunks
from meta_infer.kernels.kernel import Kernel, KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.kernels.point import Point, apply_nodes, bind, load_operand, store_outputs
from meta_infer.kernels.reduction.row_choice import Rows, default_knobs, row_knobs, tile_of, tune_rows
from meta_infer.kernels.reduction.row_tile import (
    RowTile,
    accumulators,
    each_step,
    each_tile,
    fold_rows,
    folded,
    in_pairs,
)
from meta_infer.ops.attrs import float_of, int_of
from meta_infer.support.dtypes import FLOAT32, FLOAT64

# Sums that go on at once: enough to hide the latency of an addition.
_CHAINS = 4
# Rows abreast may take this part of L1.
_L1_SHARE = 2
_SCALE, _BIAS = "scale of norm", "bias of norm"


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    out = group.values[group.anchor.outputs[0]]
    if out.dtype not in (FLOAT32, FLOAT64) or not keeps_shape(group) or len(group.anchor.outputs) > 1:
        return
    knobs = default_knobs(_work(group, profile), profile, _L1_SHARE, _CHAINS)
    yield Variant("layer_norm", "plain", {n: PLAIN for n in group.inputs if n not in group.constants},
                  {n: PLAIN for n in group.outputs}, knobs, flops=product(out.shape) * 8)


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    return row_knobs(_work(group, profile))


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    return tune_rows(_work(group, profile), variant, values, profile)


def _work(group: Group, profile: Profile) -> Rows:
    out = group.values[group.anchor.outputs[0]]
    first_axis, _ = _parameters(group, out.rank)
    return Rows(product(out.shape[:first_axis]), product(out.shape[first_axis:]), profile.lanes(out.dtype),
                out.dtype.bytes)


def _parameters(group: Group, rank: int) -> tuple[int, dict[str, Value]]:
    """The first normalised axis, and scale and bias in shapes that broadcast over x."""
    anchor = group.anchor
    found = {}
    for alias, name in zip((_SCALE, _BIAS), anchor.inputs[1:3], strict=False):
        if name:
            found[alias] = group.values[name]
    if anchor.op == "LayerNormalization":
        return int_of(anchor.attrs, "axis", rank - 1), found
    per_channel = {a: replace(v, shape=(*v.shape, *(1,) * (rank - 2))) for a, v in found.items()}
    return 2, per_channel


@dataclass(frozen=True)
class _Parameter:
    """Scale or bias, and whether all rows have the same."""

    buffer: Buffer
    value: Value
    shared: bool

    def load(self, b: Builder, points: Sequence[Point]) -> list[Expr]:
        """What meets each of the points, which are at the same place of different rows."""
        if self.shared:
            return [b.let(load_operand(b, self.buffer, self.value, PLAIN, points[0]), "shared")] * len(points)
        return [load_operand(b, self.buffer, self.value, PLAIN, point) for point in points]


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    anchor, out = group.anchor, group.values[group.anchor.outputs[0]]
    first_axis, shapes = _parameters(group, out.rank)
    epsilon, register = float_of(anchor.attrs, "epsilon", 1e-5), Type(out.dtype, profile.lanes(out.dtype))
    space = collapse(out.shape, {**operand_values(group), **shapes}, (first_axis,))
    merged, split, lanes = space.group(group), space.starts[1], register.lanes
    lead, inner = space.shape[:split], space.shape[split:]

    b = Builder("layer_norm")
    buffers = bind(b, group)
    x = buffers[anchor.inputs[0]]
    parameters = {alias: _parameter(buffers[name], merged.values[alias], space)
                  for alias, name in zip((_SCALE, _BIAS), anchor.inputs[1:3], strict=False) if name}
    length, width, count = b.dim(product(inner)), b.dim(inner[-1]), product(lead)
    tile = tile_of(variant.knobs)

    def work(rows: Sequence[Expr]) -> None:
        bases, coords = [b.let(row * length, "base") for row in rows], [unflatten(b, row, lead) for row in rows]
        found = _statistics(b, x, bases, length, register, tile.vectors, epsilon)
        with b.loop(0, b.dim(product(inner[:-1])), 1, "line") as line:
            places = unflatten(b, line, inner[:-1])
            begins = [b.let(base + line * width, "begin") for base in bases]

            def write(steps: Sequence[Expr], inside: Expr | None) -> None:
                for at in steps:
                    points = [Point(space.shape, (*place, *places, at), len(space.shape) - 1, lanes, inside)
                              for place in coords]
                    operands = {alias: one.load(b, points) for alias, one in parameters.items()}
                    for i, point in enumerate(points):
                        row = found[i]
                        value = mad(b.load(x, begins[i] + at, lanes, inside) - row.mean, row.inverse, row.shift)
                        value = _adjusted(value, *(operands[alias][i] if alias in operands else None
                                                   for alias in (_SCALE, _BIAS)))
                        known = {anchor.outputs[0]: b.let(value, "y")}
                        known = apply_nodes(b, group.epilogue, merged.values, known, buffers, layouts, point)
                        store_outputs(b, merged, known, buffers, layouts, point)

            each_step(b, width, lanes, 1, write, again=True)

    grain = int(variant.knobs["grain"])
    with row_chunks(b, b.dim(ceildiv(count, tile.rows)), length * tile.rows, grain) as (first, last):
        end = b.let(minimum(last * tile.rows, b.dim(count)), "end")
        each_tile(b, b.let(first * tile.rows, "begin"), end, tile.rows, divisible(count, tile.rows), work)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


@dataclass(frozen=True)
class _Statistics:
    """Of one row, in every lane: what is normalised is (x - mean) * inverse + shift."""

    mean: Expr
    inverse: Expr                       # 1 / sqrt(variance + epsilon)
    shift: Expr                         # what `mean` misses of the mean, normalised


def _parameter(buffer: Buffer, value: Value, space: Collapsed) -> _Parameter:
    return _Parameter(buffer, value, all(dim == 1 for dim in value.shape[:space.starts[1]]))


def _statistics(b: Builder, x: Buffer, bases: Sequence[Expr], length: Expr, register: Type, vectors: int,
                epsilon: float) -> list[_Statistics]:
    """Of each row, in two passes over it."""
    lanes, tile = register.lanes, RowTile(len(bases), vectors)
    count = cast(length, register.dtype)

    def load(places: Sequence[Expr], inside: Expr | None) -> list[list[Expr]]:
        return [[b.load(x, base + at, lanes, inside) for at in places] for base in bases]

    means = [b.let(splat(b.let(total / count, "mean"), lanes), "means")
             for total in fold_rows(b, "+", length, register, tile, load)]
    squares = accumulators(b, "+", register, tile)
    rests = accumulators(b, "+", register, RowTile(len(bases), 1))

    def look(places: Sequence[Expr], inside: Expr | None) -> None:
        for mean, values, square, (rest,) in zip(means, load(places, inside), squares, rests, strict=True):
            away = [b.let(fill_outside(value - mean, inside, 0), "away") for value in values]
            for into, one in zip(square, away, strict=False):
                b.assign(into, mad(one, one, into))
            b.assign(rest, rest + in_pairs(b, "+", away))

    each_step(b, length, lanes, vectors, look)
    found = []
    for mean, square, rest in zip(means, squares, rests, strict=True):
        missed = b.let(folded(b, "+", rest) / count, "missed")
        variance = maximum(0, folded(b, "+", square) / count - missed * missed)       # NaN stays
        inverse = b.let(const(1, missed.type) / unary("sqrt", variance + epsilon), "inverse")
        found.append(_Statistics(mean, b.let(splat(inverse, lanes), "inverses"),
                                 b.let(splat(const(0, missed.type) - missed * inverse, lanes), "shift")))
    return found


def _adjusted(value: Expr, scale: Expr | None, bias: Expr | None) -> Expr:
    """value * scale + bias, of which either may be absent."""
    if scale is not None and bias is not None:
        return mad(value, scale, bias)
    if scale is not None:
        return value * scale
    return value if bias is None else value + bias


LAYER_NORM = Kernel("layer_norm", ("LayerNormalization", "InstanceNormalization"), _variants, _lower, _knobs, _tune)
