"""Attention as one kernel: no matrix of queries x keys is ever in memory, only a block of it per thread.

A chunk is a batch entry, a head and a few panels of queries; small ones are put together until they are worth a
launch. Keys and values pass in blocks that stay in cache while the chunk's panels go over them (attention_block.py).
Operands are read where they lie, heads outside or inside of steps, and may be parts of one tensor. What is added up
in which order depends on the sizes and the knobs alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Buffer, Expr, Type, const, maximum, minimum, select, splat
from meta_infer.ir.shapes import product, usual_upper
from meta_infer.kernels.attention.attention_block import (
    Block,
    Spot,
    Work,
    add_values,
    copy_bias,
    copy_values,
    make_work,
    score_block,
    start_panel,
)
from meta_infer.kernels.attention.attention_problem import Problem, problem_of, strides_of
from meta_infer.kernels.collapse import keeps_shape
from meta_infer.kernels.fold import each_vector
from meta_infer.kernels.kernel import Kernel, KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.kernels.matmul.gemm_tile import Tile, fits_registers
from meta_infer.kernels.point import Point, apply_nodes, bind, store_outputs
from meta_infer.ops.dot_product_attention import ORDERS

# Floating-point operations of a chunk: tens of microseconds on one core.
CHUNK_FLOPS = 2_000_000
# Queries of a chunk, so that what is read of keys and values in second-level cache serves several panels.
CHUNK_QUERIES = 64
# Queries of a panel where the registers hold them.
PANEL = 16
# Keys of a block: their scores, 16 queries each, and a strip of values take half of a first-level cache of 32 KiB.
KEYS = 128
# Share of the peak that is to be expected of the products, and float32 operations that an exponential is worth.
_SHARE, _POWER = 0.8, 40


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    problem = problem_of(group)
    if problem is None or not keeps_shape(group) or group.prologue:
        return
    lanes = profile.lanes(problem.dtype)
    widest = 4 if profile.vector_registers >= 32 else 2
    vectors = min(max(PANEL // lanes, 2), widest, _rounded(problem.q.steps, lanes) // lanes)
    panels = max(1, min(CHUNK_QUERIES, _rounded(problem.q.steps, lanes * vectors)) // (lanes * vectors))
    panels, keys = 1 << (panels.bit_length() - 1), min(_smallest_block(problem), KEYS)
    inputs = {n: PLAIN for n in group.inputs if n not in group.constants}
    knobs: dict[str, KnobValue] = {"rows": 6, "vectors": vectors, "panels": panels, "keys": keys,
                                   "values": "in place" if problem.width % lanes == 0 else "copied"}
    variant = Variant("attention", "online", inputs, {n: PLAIN for n in group.outputs}, knobs)
    while isinstance(_tuned(problem, variant, profile), Refusal) and (panels > 1 or keys > 64):
        panels, keys = max(panels // 2, 1), 64            # large heads, or small caches
        variant = replace(variant, knobs={**knobs, "panels": panels, "keys": keys})
    yield _described(problem, variant, profile)           # the least there is, where even that is too large


def _rounded(dim: object, step: int) -> int:
    """A static size rounded up to a multiple; for a dynamic one, more than any chunk takes."""
    return -(-max(dim, 1) // step) * step if isinstance(dim, int) else 1 << 30


def _smallest_block(problem: Problem) -> int:
    """The smallest power of two, from 64 on, that takes all keys."""
    keys = problem.k.steps
    return max(64, 1 << (max(keys, 1) - 1).bit_length()) if isinstance(keys, int) else 1 << 30


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    problem = problem_of(group)
    assert problem is not None
    lanes = profile.lanes(problem.dtype)
    values = ("in place", "copied") if problem.width % lanes == 0 else ("copied",)
    return (Knob("rows", (4, 6)), Knob("vectors", (1, 2, 3, 4)), Knob("panels", (1, 2, 4, 8, 16, 32, 64)),
            Knob("keys", (64, 128, 256)), Knob("values", values))


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    problem = problem_of(group)
    assert problem is not None
    return _tuned(problem, replace(variant, knobs={**variant.knobs, **values}), profile)


def _number(value: KnobValue) -> int:
    assert isinstance(value, int)
    return value


def _shape_of(problem: Problem, variant: Variant, profile: Profile) -> tuple[Tile, int, int]:
    """The register tile, panels of a chunk and keys of a block that the knobs say."""
    rows, vectors, panels, keys = (_number(variant.knobs[name]) for name in ("rows", "vectors", "panels", "keys"))
    return Tile(problem.dtype, profile.lanes(problem.dtype), vectors, rows), panels, keys


def _tuned(problem: Problem, variant: Variant, profile: Profile) -> Variant | Refusal:
    """The variant with its resources filled in, or why its knobs cannot be."""
    tile, panels, keys = _shape_of(problem, variant, profile)
    if not fits_registers(tile, profile):
        return Refusal(variant.knobs, "registers", f"{tile} accumulators of {profile.vector_registers} registers")
    if panels > 1 and (panels // 2) * tile.columns >= _rounded(problem.q.steps, tile.columns):
        return Refusal(variant.knobs, "shape", f"{panels} panels are more than {problem.q.steps} queries fill")
    if keys > _smallest_block(problem):
        return Refusal(variant.knobs, "shape", f"a block of {keys} is longer than all {problem.k.steps} keys")
    near = 2 * keys * tile.columns * problem.dtype.bytes
    if profile.l1d_bytes and near > profile.l1d_bytes:
        return Refusal(variant.knobs, "cache", f"scores and a strip of values take {near} of {profile.l1d_bytes} bytes")
    found = _described(problem, variant, profile)
    if profile.l2_bytes and found.scratch_bytes > profile.l2_bytes:
        return Refusal(variant.knobs, "cache", f"{found.scratch_bytes} bytes of scratch exceed {profile.l2_bytes}")
    return found


def _described(problem: Problem, variant: Variant, profile: Profile) -> Variant:
    """The variant with its scratch, operations and cost."""
    tile, panels, keys = _shape_of(problem, variant, profile)
    scratch = _scratch_elements(problem, tile, panels, keys, variant.knobs["values"] == "copied")
    scores = product((problem.q.batch, problem.q.heads, problem.q.steps, problem.k.steps))
    each = 2 * (problem.size + problem.width)
    cost = float(usual_upper(scores)) * (each / _SHARE + _POWER)
    return replace(variant, scratch_bytes=scratch * problem.dtype.bytes, flops=scores * (each + 14),
                   cost=max(cost, 1.0))


def _scratch_elements(problem: Problem, tile: Tile, panels: int, keys: int, copies: bool) -> int:
    size, width = (-(-n // tile.lanes) * tile.lanes for n in (problem.size, problem.width))
    per_panel = tile.columns * (size + width + 2)
    bias = (keys + tile.lanes) * tile.columns if problem.mask_per_query else 0
    return panels * per_panel + (keys + 1) * tile.columns + bias + (keys * width if copies else 0)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    problem = problem_of(group)
    assert problem is not None
    tile, panels, keys = _shape_of(problem, variant, profile)
    b = Builder("attention")
    buffers = bind(b, group)
    work = make_work(b, problem, tile, panels, keys, variant.knobs["values"] == "copied")
    queries, all_keys, heads = b.dim(problem.q.steps), b.dim(problem.k.steps), b.dim(problem.q.heads)
    all_panels = (queries + (tile.columns - 1)) // tile.columns
    blocks = (all_panels + (panels - 1)) // panels
    units = b.dim(problem.q.batch) * heads * blocks
    unit_flops = minimum(queries, panels * tile.columns) * all_keys * (2 * (problem.size + problem.width) + 14)
    per_chunk = maximum(const(CHUNK_FLOPS) // maximum(unit_flops, 1), 1)
    with b.chunks((units + (per_chunk - 1)) // per_chunk) as chunk:
        some, count, many = b.let(per_chunk, "per_chunk"), b.let(blocks, "blocks"), b.let(all_panels, "panels")
        with b.loop(chunk * some, minimum((chunk + 1) * some, units), 1, "unit") as unit:
            block, rest = b.let(unit % count, "block"), b.let(unit // count, "rest")
            place = (b.let(rest // heads, "batch"), b.let(rest % heads, "head"))
            first = b.let(block * many // count, "first")
            last = b.let((block + 1) * many // count, "last")
            _attend(b, group, problem, work, buffers, place, first, last, queries)
            _finish(b, group, problem, work, buffers, layouts, place, first, last, queries)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (*group.inputs, *group.outputs), dims),))


def _spot(b: Builder, work: Work, place: tuple[Expr, Expr], first: Expr, panel: Expr, queries: Expr) -> Spot:
    columns = work.tile.columns
    query = b.let(panel * columns, "query")
    return Spot(b.let(panel - first, "panel_at"), query, b.let(minimum(queries - query, columns), "count"), place)


def _attend(b: Builder, group: Group, problem: Problem, work: Work, buffers: Mapping[str, Buffer],
            place: tuple[Expr, Expr], first: Expr, last: Expr, queries: Expr) -> None:
    """Panels [first, last) of one head against all keys that they may see, block by block."""
    q, k, v = (buffers[name] for name in problem.names[:3])
    mask = buffers[problem.names[3]] if problem.names[3] else None
    batch, head = place
    q_strides, k_strides, v_strides = (strides_of(b, heads) for heads in (problem.q, problem.k, problem.v))
    key_head = b.let(head // problem.group, "key_head")
    q_at = b.let(batch * q_strides.batch + (head + problem.q.first) * q_strides.head, "q_at")
    k_at = b.let(batch * k_strides.batch + (key_head + problem.k.first) * k_strides.head, "k_at")
    v_at = b.let(batch * v_strides.batch + (key_head + problem.v.first) * v_strides.head, "v_at")
    with b.loop(first, last, 1, "panel") as panel:
        start_panel(b, work, problem, _spot(b, work, place, first, panel, queries), q, q_at, q_strides)
    keys, offset = b.dim(problem.k.steps), b.dim(problem.offset)
    end = b.let(minimum(keys, minimum(last * work.tile.columns, queries) + offset) if problem.causal else keys, "end")
    with b.loop(0, end, work.keys, "key") as key:
        count = b.let(minimum(end - key, work.keys), "keys")
        block = Block(key, count, k, b.let(k_at + key * k_strides.step, "k_first"), k_strides, v,
                      b.let(v_at + key * v_strides.step, "v_first"), v_strides.step)
        if work.values is not None:
            copy_values(b, work, problem, block)
        with b.loop(first, last, 1, "panel") as panel:
            spot = _spot(b, work, place, first, panel, queries)
            if problem.causal:
                seen = b.let(minimum(count, spot.query + spot.count + offset - key), "seen")
                with b.when(const(0).lt(seen)):
                    _pass(b, problem, work, replace(block, count=seen), spot, mask)
            else:
                _pass(b, problem, work, block, spot, mask)


def _pass(b: Builder, problem: Problem, work: Work, block: Block, spot: Spot, mask: Buffer | None) -> None:
    if work.bias is not None and mask is not None:
        copy_bias(b, work, problem, block, spot, mask)
    score_block(b, work, problem, block, spot, mask)
    add_values(b, work, problem, block, spot)


def _finish(b: Builder, group: Group, problem: Problem, work: Work, buffers: Mapping[str, Buffer],
            layouts: Mapping[str, Layout], place: tuple[Expr, Expr], first: Expr, last: Expr, queries: Expr) -> None:
    """Sums over totals, through the epilogue to the output."""
    lanes, columns = work.tile.lanes, work.tile.columns
    width = -(-problem.width // lanes) * lanes
    shape = group.values[group.anchor.outputs[0]].shape
    begin = b.let(first * columns, "begin")
    with b.loop(begin, minimum(last * columns, queries), 1, "query") as query:
        total = b.let(b.load(work.total, query - begin), "total")
        one = const(1, Type(problem.dtype))
        if problem.empty_is_zero:
            total = b.let(select(total.eq(0.0), one, total), "total")
        factor = b.let(splat(b.let(one / total, "inverse"), lanes), "factor")
        sums = b.let((query - begin) * width, "sums")

        def write(at: Expr, count: Expr | None) -> None:
            sizes = (*place, query, at)
            coords: Sequence[Expr] = [sizes[axis] for axis in ORDERS[problem.y_order]]
            point = Point(shape, tuple(coords), 3, lanes, count)
            known = {group.anchor.outputs[0]: b.let(b.load(work.sums, sums + at, lanes) * factor, "y")}
            known = apply_nodes(b, group.epilogue, group.values, known, buffers, layouts, point)
            store_outputs(b, group, known, buffers, layouts, point)

        each_vector(b, 0, const(problem.width), lanes, write)


ATTENTION = Kernel("attention", ("Attention",), _variants, _lower, _knobs, _tune)
