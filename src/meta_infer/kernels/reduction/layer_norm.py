"""LayerNormalization and InstanceNormalization: rows shifted to mean 0 and scaled to variance 1.

Two passes over the row give its mean and then its variance, so that large means cost no accuracy; both are summed in
a fixed order. A third pass writes `(x - mean) / sqrt(variance + epsilon) * scale + bias`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Value
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Expr, Type, cast, const, mad, splat, unary
from meta_infer.ir.shapes import product
from meta_infer.kernels.collapse import collapse, keeps_shape, operand_values, unflatten
from meta_infer.kernels.fold import each_vector, fold, row_chunks
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.point import Point, apply_nodes, bind, load_operand, store_outputs
from meta_infer.support.dtypes import FLOAT32, FLOAT64

# Elements of a chunk, each read three times from cache.
GRAIN = 16384
_SCALE, _BIAS = "scale of norm", "bias of norm"


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    out = group.values[group.anchor.outputs[0]]
    if out.dtype not in (FLOAT32, FLOAT64) or not keeps_shape(group) or len(group.anchor.outputs) > 1:
        return
    yield Variant("layer_norm", "plain", {n: PLAIN for n in group.inputs if n not in group.constants},
                  {n: PLAIN for n in group.outputs}, flops=product(out.shape) * 8)


def _parameters(group: Group, rank: int) -> tuple[int, dict[str, Value]]:
    """The first normalised axis, and scale and bias in shapes that broadcast over x."""
    anchor = group.anchor
    found = {}
    for alias, name in zip((_SCALE, _BIAS), anchor.inputs[1:3], strict=False):
        if name:
            found[alias] = group.values[name]
    if anchor.op == "LayerNormalization":
        return int(anchor.attrs.get("axis", rank - 1)), found            # type: ignore[arg-type, call-overload]
    per_channel = {a: replace(v, shape=(*v.shape, *(1,) * (rank - 2))) for a, v in found.items()}
    return 2, per_channel


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    anchor, out = group.anchor, group.values[group.anchor.outputs[0]]
    first_axis, parameters = _parameters(group, out.rank)
    epsilon = float(anchor.attrs.get("epsilon", 1e-5))                   # type: ignore[arg-type]
    space = collapse(out.shape, {**operand_values(group), **parameters}, (first_axis,))
    merged = space.group(group)
    lead, inner = space.shape[:space.starts[1]], space.shape[space.starts[1]:]
    axis, lanes = len(space.shape) - 1, profile.lanes(out.dtype)
    register, one = Type(out.dtype, lanes), Type(out.dtype)

    b = Builder("layer_norm")
    buffers = bind(b, group)
    x = buffers[anchor.inputs[0]]
    sources = {alias: buffers[name] for alias, name in zip((_SCALE, _BIAS), anchor.inputs[1:3], strict=False) if name}
    length, width = b.dim(product(inner)), b.dim(inner[-1])
    with row_chunks(b, b.dim(product(lead)), length, GRAIN) as (first, last):
        with b.loop(first, last, 1, "row") as row:
            base, coords = b.let(row * length, "base"), unflatten(b, row, lead)
            count_of = cast(length, out.dtype)
            mean = b.let(fold(b, "+", 0, length, register, lambda at, count: b.load(x, base + at, lanes, count))
                         / count_of, "mean")
            means = b.let(splat(mean, lanes), "means")

            def squared(at: Expr, count: Expr | None) -> Expr:
                away = b.let(b.load(x, base + at, lanes, count) - means, "away")
                return away * away

            variance = fold(b, "+", 0, length, register, squared) / count_of
            inverse = b.let(splat(b.let(const(1, one) / unary("sqrt", variance + epsilon)), lanes), "inverse")
            with b.loop(0, b.dim(product(inner[:-1])), 1, "line") as line:
                places = unflatten(b, line, inner[:-1])

                def write(at: Expr, count: Expr | None) -> None:
                    point = Point(space.shape, (*coords, *places, at), axis, lanes, count)
                    value = (b.load(x, base + line * width + at, lanes, count) - means) * inverse
                    scale, bias = (load_operand(b, sources[alias], merged.values[alias], PLAIN, point)
                                   if alias in sources else None for alias in (_SCALE, _BIAS))
                    if scale is not None and bias is not None:
                        value = mad(value, scale, bias)
                    elif scale is not None:
                        value = value * scale
                    elif bias is not None:
                        value = value + bias
                    known = {anchor.outputs[0]: b.let(value, "y")}
                    known = apply_nodes(b, group.epilogue, merged.values, known, buffers, layouts, point)
                    store_outputs(b, merged, known, buffers, layouts, point)

                each_vector(b, 0, width, lanes, write)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


LAYER_NORM = Kernel("layer_norm", ("LayerNormalization", "InstanceNormalization"), _variants, _lower)
