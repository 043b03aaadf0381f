"""The gate of squeeze-and-excitation in two launches: means and first product, second product and sigmoid.

    squeeze   chunk: image n, some channel blocks
        for channel block:  mean of its plane;  partial[n][part] += weights[block] @ mean
    excite    chunk: image n, some output blocks
        hidden = epilogue(bias + the sum of all partial[n]), in the same order by every chunk
        for tile of output blocks:  registers = bias;  multiply-adds with hidden;  epilogue

The weights of both products are read once, by all threads together, which is what the time goes to. x is blocked
[N, CB, P, c]; the gate is dense, [N, C, 1, 1], as the product with the tensor that it gates wants it.

Knobs: `parts` that channels, and tiles of output blocks, are cut into, one a chunk; `vectors`, accumulators of a mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Value
from meta_infer.ir.group import PLAIN, Group, Layout, Variant, blocked
from meta_infer.ir.loop import Expr, Type, cast, const, mad, maximum, minimum, splat
from meta_infer.ir.shapes import product, usual_upper
from meta_infer.kernels.blocked import blocks
from meta_infer.kernels.conv.chain_shape import is_pointwise
from meta_infer.kernels.conv.conv_shape import ConvShape, conv_of, pack_bias, pack_operands
from meta_infer.kernels.conv.conv_tile import OutTiles, choose_tiles
from meta_infer.kernels.conv.links import links_of
from meta_infer.kernels.guess import ELEMENT_COST
from meta_infer.kernels.image.global_pool import WAYS, fold_plane
from meta_infer.kernels.kernel import Kernel, KernelCall, Knob, KnobValue, Lowering, Refusal, Temp
from meta_infer.kernels.point import Point, apply_nodes, channel_count, store_outputs, zero_padding
from meta_infer.support.dtypes import FLOAT32

_PARTS = (4, 8, 16)
_MOST_PARTS = 8
_VECTORS = (1, 2, 4, 8)


@dataclass(frozen=True)
class _Squeeze:
    """The three links, the pooled tensor, the two products as 1x1 convolutions of one position."""

    links: tuple[Group, ...]
    x: Value
    down: ConvShape
    up: ConvShape

    @property
    def constants(self) -> set[str]:
        return {v.name for conv in (self.down, self.up) for v in (conv.weight, conv.bias) if v is not None}


def _squeeze_of(group: Group) -> _Squeeze | None:
    if not group.prologue or group.anchor.op != "Conv":
        return None
    links = links_of(group)
    if [link.anchor.op for link in links] != ["GlobalAveragePool", "Conv", "Conv"] or links[0].epilogue:
        return None
    x = links[0].values[links[0].inputs[0]]
    down, up = conv_of(links[1]), conv_of(links[2])
    if not is_pointwise(down) or not is_pointwise(up) or x.dtype != FLOAT32 or x.rank != 4:
        return None
    assert down is not None and up is not None
    found = _Squeeze(links, x, down, up)
    others = set(group.inputs) - found.constants - {x.name}
    if down.weight.name == up.weight.name or not others <= set(group.constants):
        return None
    return found


def _variants(group: Group, profile: Profile) -> Iterator[Variant]:
    found, block = _squeeze_of(group), profile.lanes(FLOAT32)
    if found is None or block == 1:
        return
    inputs = {name: PLAIN for name in group.inputs if name not in found.constants} | {found.x.name: blocked(block)}
    weights = sum(blocks(c.in_channels, block) * blocks(c.out_channels, block) * block * block
                  for c in (found.down, found.up))
    elements = usual_upper(product(found.x.shape[1:]))
    yield Variant("squeeze", "squeeze", inputs, {name: PLAIN for name in group.outputs},
                  {"parts": _MOST_PARTS, "vectors": WAYS}, packed_bytes=weights * 4,
                  flops=found.down.flops + found.up.flops, cost=ELEMENT_COST * elements + 2.0 * weights)


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    return Knob("parts", _PARTS), Knob("vectors", _VECTORS)


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    found, full = _squeeze_of(group), {**variant.knobs, **values}
    assert found is not None, "no variant was offered for this group"
    parts, vectors, size = int(full["parts"]), int(full["vectors"]), usual_upper(product(found.x.shape[2:]))
    most = blocks(found.x.shape[1], profile.lanes(FLOAT32))
    if parts != _MOST_PARTS and not 0 < parts <= most:
        return Refusal(full, "shape", f"{parts} parts of {most} channel blocks")
    if vectors not in _VECTORS:
        return Refusal(full, "alignment", f"{vectors} accumulators are none of {_VECTORS}")
    if vectors != WAYS and vectors > size:
        return Refusal(full, "shape", f"{vectors} accumulators of a plane of {size}")
    return replace(variant, knobs=full)


def _pack_down(weight: np.ndarray, block: int) -> np.ndarray:
    """[H, C, 1, 1] -> [CB][HB][c][h], flat, zero beyond H and C."""
    hidden, channels = weight.shape[:2]
    full = np.zeros((-(-hidden // block) * block, -(-channels // block) * block), np.float32)
    full[:hidden, :channels] = weight[:, :, 0, 0]
    return full.reshape(full.shape[0] // block, block, -1, block).transpose(2, 0, 3, 1).reshape(-1)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    found, block = _squeeze_of(group), profile.lanes(FLOAT32)
    assert found is not None
    tiles = choose_tiles(blocks(found.up.out_channels, block), 1, profile)
    most, ways = int(variant.knobs["parts"]), int(variant.knobs["vectors"])
    parts = min(most, blocks(found.x.shape[1], block))
    name, bias = found.down.weight.name, found.down.bias
    down = {f"{name}@packed": _pack_down(group.constants[name], block),
            f"{name}@bias": pack_bias(group.constants[bias.name] if bias is not None else None,
                                      int(found.down.weight.shape[0]), block)}        # type: ignore[arg-type]
    up = pack_operands(found.links[2], found.up, tiles.sizes, block, block)
    hidden = blocks(found.down.out_channels, block) * block
    partial = Temp("partial", FLOAT32, (found.x.shape[0], parts, hidden))
    packed = {**down, **up}
    weights, bias_name = tuple(down)
    calls = (_lower_squeeze(found, parts, ways, hidden, block, (weights, partial.name)),
             _lower_excite(group, found, tiles, parts, most, hidden, block, layouts, (partial.name, bias_name, *up)))
    return Lowering(calls, packed, (partial,))


def _lower_squeeze(found: _Squeeze, parts: int, ways: int, hidden: int, block: int,
                   args: tuple[str, ...]) -> KernelCall:
    b = Builder("squeeze")
    x, w, partial = b.input("x", FLOAT32), b.input("w", FLOAT32), b.output("partial", FLOAT32)
    mean, total = b.stack("mean", FLOAT32, block), b.scratch("total", FLOAT32, hidden)
    count = blocks(found.x.shape[1], block)
    each = -(-count // parts)
    with b.chunks(b.dim(found.x.shape[0]) * parts) as chunk:
        n, part = b.let(chunk // parts, "n"), b.let(chunk % parts, "part")
        with b.loop(0, hidden, block, name="h") as h:
            b.store(total, h, const(0.0, Type(FLOAT32, block)))
        positions = b.dim(product(found.x.shape[2:]))
        first = b.let(minimum(part * each, count), "first")
        with b.loop(first, minimum(first + each, count), name="cb") as cb:
            plane = b.let((n * count + cb) * positions * block, "plane")
            pooled = fold_plane(b, x, plane, positions, block, is_max=False, ways=ways)
            b.store(mean, 0, pooled / splat(cast(maximum(positions, 1), FLOAT32), block))
            with b.loop(0, hidden, block, name="h") as h:
                acc = b.var(b.load(total, h, block), "acc")
                at = b.let((cb * hidden + h) * block, "at")
                for lane in range(block):
                    b.assign(acc, mad(splat(b.load(mean, lane), block), b.load(w, at + lane * block, block), acc))
                b.store(total, h, acc)
        with b.loop(0, hidden, block, name="h") as h:
            b.store(partial, (n * parts + part) * hidden + h, b.load(total, h, block))
    func, dims = b.finish()
    return KernelCall(func, (found.x.name, *args), dims)


def _lower_excite(group: Group, found: _Squeeze, tiles: OutTiles, parts: int, most: int, hidden: int, block: int,
                  layouts: Mapping[str, Layout], args: tuple[str, ...]) -> KernelCall:
    b = Builder("excite")
    partial, before, w, bias = (b.input(n, FLOAT32) for n in ("partial", "before", "w", "bias"))
    extras = tuple(name for name in group.inputs if name not in found.constants and name != found.x.name)
    buffers = {name: b.input("operand", group.values[name].dtype) for name in extras}
    buffers |= {name: b.output("y", group.values[name].dtype) for name in group.outputs}
    inner = b.scratch("hidden", FLOAT32, hidden)
    zero = const(0)

    def finish(link: Group, value: Value, n: Expr, channel: Expr, result: Expr) -> tuple[dict[str, Expr], Point]:
        count = channel_count(b, value.shape, 1, channel, block)
        point = Point(value.shape, (n, channel, zero, zero), 1, block, count)
        return apply_nodes(b, link.epilogue, link.values, {value.name: result}, buffers, layouts, point), point

    each = -(-len(tiles.sizes) // min(most, len(tiles.sizes)))
    groups = -(-len(tiles.sizes) // each)
    with b.chunks(b.dim(found.x.shape[0]) * groups) as chunk:
        n, part = b.let(chunk // groups, "n"), b.let(chunk % groups, "part")
        with b.loop(0, hidden, block, name="h") as h:
            total = b.var(b.load(before, h, block), "total")
            with b.loop(0, parts, name="p") as p:
                b.assign(total, total + b.load(partial, (n * parts + p) * hidden + h, block))
            known, point = finish(found.links[1], found.down.y, n, h, total)
            b.store(inner, h, zero_padding(b, known[found.links[1].outputs[0]], point))
        for run in tiles.runs:
            low = b.let(minimum(maximum(part * each - run.tile, 0), run.count), "low")
            high = b.let(minimum(maximum((part + 1) * each - run.tile, 0), run.count), "high")
            with b.loop(low, high, name="tile") as tile:
                ob = b.let(run.block + tile * run.vectors, "ob")
                acc = [b.var(b.load(bias, (ob + v) * block, block), "acc") for v in range(run.vectors)]
                w_tile = b.let(ob * (hidden * block), "w_tile")
                with b.loop(0, hidden, name="h") as h:
                    value = b.let(splat(b.load(inner, h), block), "value")
                    for v in range(run.vectors):
                        weight = b.load(w, w_tile + (h * run.vectors + v) * block, block)
                        b.assign(acc[v], mad(value, weight, acc[v]))
                for v in range(run.vectors):
                    known, point = finish(found.links[2], found.up.y, n, b.let((ob + v) * block, "channel"), acc[v])
                    store_outputs(b, found.links[2], known, buffers, layouts, point)
    func, dims = b.finish()
    return KernelCall(func, (*args, *extras, *group.outputs), dims)


SQUEEZE = Kernel("squeeze", ("Conv",), _variants, _lower, _knobs, _tune)
