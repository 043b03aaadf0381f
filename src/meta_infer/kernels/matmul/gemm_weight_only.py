"""Products of float32 rows with weights of 2, 4 or 8 bits, which stay that narrow in memory.

    a [M, K], words [panel][K / fields][v][c], scales [panel][block][v][c]  ->  y [M, N]

    few rows    the weights limit the pace: they are taken out of their words in registers, one mask and one conversion
                for each vector, and multiply activations that are scaled to fit their place in the word
    many rows   each panel becomes float32 in scratch, a piece at a time, which the tiles of all rows of a chunk share

    y = sum over blocks of scale * (sum over k of a * q - zero * sum of a)

`narrow_weights.py` has the order of the bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Buffer, Expr, Type, cast, const, mad, minimum, reduce, splat
from meta_infer.ir.shapes import Dim, product, usual_upper
from meta_infer.kernels.collapse import collapse, keeps_shape, operand_values, unflatten
from meta_infer.kernels.conv_chunks import LINE_BYTES, l2_bytes
from meta_infer.kernels.kernel import Kernel, KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.kernels.matmul.gemm_block import Factors, Finish, Spot, finish_block, make_finish, multiply_block
from meta_infer.kernels.matmul.gemm_tile import Ahead, Tile
from meta_infer.kernels.matmul.narrow_weights import NarrowWeights, narrow_weights
from meta_infer.support.dtypes import FLOAT32, INT32

# Rows up to which weights are expanded in registers.
_FEW = 8
_FEW_ROWS = 2
# Words of a cache line.
_LINE = LINE_BYTES // FLOAT32.bytes
_MANY_ROWS = 144
_TILE_ROWS = 6
# Bytes of words of a chunk where few rows pass: tens of microseconds.
_CHUNK_BYTES = 256 * 1024
_CHUNK_FLOPS = 12_000_000
_FEWEST_CHUNKS = 8


@dataclass(frozen=True)
class Choice:
    """`few` and `many` say which of the two forms there is code for; `few` is the most rows that take the first.

    vectors  vectors of columns of a panel.
    sets     sums of each vector that one row keeps apart, so that they need not wait for one another.
    fetch    bytes ahead of the words in use that are asked for.
    panels   panels of a chunk.
    """

    vectors: int
    sets: int
    few: int
    many: bool
    fetch: int
    panels: int

    @property
    def lines(self) -> int:
        """Rows of a chunk."""
        return _MANY_ROWS if self.many else self.few


def _rows(group: Group) -> Dim:
    return product(group.values[group.anchor.outputs[0]].shape[:-1])


def _default(group: Group, weights: NarrowWeights, profile: Profile) -> Choice:
    rows, lanes = _rows(group), profile.lanes(FLOAT32)
    vectors = min(4, -(-weights.columns // lanes))
    vectors = 4 if vectors == 3 else vectors
    most = usual_upper(rows)
    few = min(_FEW, most) if not isinstance(rows, int) or rows <= _FEW else 0
    many = most > _FEW
    return Choice(vectors, max(1, 4 // vectors), few, many, 2048, _panels(weights, vectors * lanes, most, many))


def _panels(weights: NarrowWeights, width: int, rows: int, many: bool) -> int:
    """Panels of a chunk."""
    panels = -(-weights.columns // width)
    each = weights.padded_depth * width * weights.bits / 8
    if many:
        flops = 2.0 * min(rows, _MANY_ROWS) * weights.padded_depth * width
        return max(1, min(panels, int(_CHUNK_FLOPS / flops)))
    return max(1, min(panels, int(_CHUNK_BYTES / each), -(-panels // _FEWEST_CHUNKS)))


def _read(knobs: Mapping[str, KnobValue]) -> Choice:
    return Choice(int(knobs["vectors"]), int(knobs["sets"]), int(knobs["few"]), knobs["many"] == "yes",
                  int(knobs["fetch"]), int(knobs["panels"]))


def _variant(group: Group, weights: NarrowWeights, choice: Choice, profile: Profile) -> Variant:
    lanes, rows = profile.lanes(FLOAT32), usual_upper(_rows(group))
    width = choice.vectors * lanes
    padded = -(-weights.columns // width) * width * weights.padded_depth
    held = padded * weights.bits // 8 + (1 + (weights.zero is None)) * padded // weights.size * 4
    passes = -(-min(rows, choice.few) // _FEW_ROWS)
    work = 2.0 * padded * (rows + 6) / 0.9 if choice.many else 2.0 * padded * (2 * passes + min(rows, choice.few))
    names = [name for name in group.inputs if name not in group.constants]
    return Variant("gemm_weight_only", f"int{weights.bits}", {n: PLAIN for n in names},
                   {n: PLAIN for n in group.outputs},
                   {"vectors": choice.vectors, "sets": choice.sets, "few": choice.few,
                    "many": "yes" if choice.many else "no", "fetch": choice.fetch, "panels": choice.panels},
                   scratch_bytes=_scratch(weights, choice, lanes, profile) * 4, packed_bytes=held,
                   flops=_rows(group) * (2 * weights.columns * weights.depth), cost=work)


def _piece(weights: NarrowWeights, width: int, profile: Profile) -> int:
    """Blocks of K that are expanded at once: half of L2."""
    return max(1, min(weights.blocks, l2_bytes(profile) // 2 // (width * 4 * weights.size)))


def _scratch(weights: NarrowWeights, choice: Choice, lanes: int, profile: Profile) -> int:
    """Elements of float32."""
    few = choice.few * (weights.padded_depth + 2 * weights.blocks) + _FEW_ROWS * choice.vectors * lanes
    wide = _half(choice.vectors) * lanes
    return few + (wide * (_piece(weights, wide, profile) * weights.size + _MANY_ROWS) if choice.many else 0)


def _half(vectors: int) -> int:
    """Vectors of a panel that are expanded together."""
    return min(2, vectors)


def _variants(group: Group, profile: Profile) -> Iterator[Variant]:
    weights = narrow_weights(group)
    if weights is None or profile.lanes(FLOAT32) == 1 or not keeps_shape(group):
        return
    if 0 not in group.values[group.anchor.outputs[0]].shape:
        yield _variant(group, weights, _default(group, weights, profile), profile)


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    weights = narrow_weights(group)
    assert weights is not None
    panels = -(-weights.columns // profile.lanes(FLOAT32))

    def listed(name: str, values: Sequence[int]) -> Knob:
        return Knob(name, tuple(sorted({*values, int(variant.knobs[name])})))

    return (listed("vectors", (1, 2, 4)), listed("sets", (1, 2, 4)), listed("few", (0, 1, 4, 8)),
            Knob("many", ("no", "yes")), listed("fetch", (0, 1024, 2048, 4096)), listed("panels", (1, 4, panels)))


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    weights, choice = narrow_weights(group), _read({**variant.knobs, **values})
    assert weights is not None
    rows, panels = _rows(group), -(-weights.columns // (choice.vectors * profile.lanes(FLOAT32)))
    if choice.panels > panels:
        return Refusal(values, "shape", f"there are {panels} panels")
    needs = not choice.few or not isinstance(rows, int) or rows > choice.few
    if needs != choice.many or choice.few > max(1, usual_upper(rows)):
        return Refusal(values, "shape", f"{rows} rows {'need' if needs else 'do not need'} the form for many")
    return _variant(group, weights, choice, profile)


@dataclass(frozen=True)
class _Code:
    """What both forms have at hand: `a` and where its rows begin, the packed operands, the panel at work."""

    b: Builder
    weights: NarrowWeights
    lanes: int
    vectors: int
    a: Buffer
    words: Buffer
    scales: Buffer
    zeros: Buffer
    first: Expr
    count: Expr

    def field(self, word: Expr, i: int) -> Expr:
        """Field i of each word in float32, 2^(i * bits) times too large."""
        return self.b.let(cast(word & const(self.weights.masks()[i], Type(INT32, self.lanes)), FLOAT32), "q")

    def load_words(self, at: Expr, vectors: range) -> list[Expr]:
        return [self.b.let(self.b.load(self.words, at + v * self.lanes, self.lanes), "word") for v in vectors]


def _stage(code: _Code, powers: Buffer, highest: Buffer, scaled: Buffer, starts: Buffer, sums: Buffer) -> None:
    """Scaled activations of all rows; per block what its sums begin with, and the sum of its activations."""
    b, weights, lanes = code.b, code.weights, code.lanes
    period, depth = max(lanes, weights.fields), weights.depth
    nothing = const(0.0, Type(FLOAT32, lanes))
    with b.loop(0, code.count, name="r") as r, b.loop(0, weights.blocks, name="block") as block:
        total, top = b.var(nothing, "total"), b.var(nothing, "top")
        source = b.let((code.first + r) * depth, "source")
        target = b.let(r * weights.padded_depth, "target")
        with b.loop(0, weights.size, period, name="k") as k:
            step = b.let(block * weights.size + k, "step")
            for j in range(0, period, lanes):
                inside = None if depth == weights.padded_depth and weights.size % period == 0 else b.let(
                    minimum(const(depth) - step - j, const(weights.size) - k - j), "inside")
                value = b.let(b.load(code.a, source + step + j, lanes, inside), "x")
                b.assign(total, total + value)
                b.assign(top, mad(value, b.load(highest, j, lanes), top))
                room = None if weights.size % period == 0 else b.let(const(weights.size) - k - j, "room")
                b.store(scaled, target + step + j, value * b.load(powers, j, lanes), room)
        place = b.let(r * weights.blocks + block, "place")
        whole = b.let(reduce("+", total), "sum")
        begin = reduce("+", top)
        b.store(starts, place, begin if weights.zero is None else begin - whole * weights.zero)
        b.store(sums, place, whole)


def _few_rows(code: _Code, choice: Choice, panel: Expr, scaled: Buffer, starts: Buffer, sums: Buffer, totals: Buffer,
              rows: int, row: Expr) -> list[list[Expr]]:
    """A tile of rows times a panel, weights expanded in registers; sums over blocks wait in `totals`."""
    b, weights, lanes, vectors = code.b, code.weights, code.lanes, choice.vectors
    width, register = vectors * lanes, Type(FLOAT32, lanes)
    sets = choice.sets if rows == 1 else 1
    for i in range(rows * vectors):
        b.store(totals, i * lanes, const(0.0, register))
    per_block = weights.size // weights.fields
    with b.loop(0, weights.blocks, name="block") as block:
        place = [b.let((row + r) * weights.blocks + block, "place") for r in range(rows)]
        acc = [[[b.var(splat(b.load(starts, place[r]), lanes) if s == 0 else const(0.0, register), "acc")
                 for _ in range(vectors)] for r in range(rows)] for s in range(sets)]
        word_at = b.let((panel * weights.blocks + block) * (per_block * width), "word_at")
        x_at = [b.let((row + r) * weights.padded_depth + block * weights.size, "x_at") for r in range(rows)]
        with b.loop(0, per_block, name="t") as t:
            at = b.let(word_at + t * width, "at")
            if choice.fetch and rows == 1:
                for line in range(0, width, _LINE):
                    b.prefetch(code.words, at + (choice.fetch // 4 + line))
            words = code.load_words(at, range(vectors))
            step = [b.let(at + t * weights.fields, "step") for at in x_at]
            for i in range(weights.fields):
                left = [b.let(splat(b.load(scaled, step[r] + i), lanes), "x") for r in range(rows)]
                for v, word in enumerate(words):
                    q = code.field(word, i)
                    for r in range(rows):
                        b.assign(acc[i % sets][r][v], mad(q, left[r], acc[i % sets][r][v]))
        column_at = b.let((panel * weights.blocks + block) * width, "column_at")
        for r in range(rows):
            for v in range(vectors):
                found: Expr = acc[0][r][v]
                for more in acc[1:]:
                    found = found + more[r][v]
                if weights.zero is None:
                    point = b.load(code.zeros, column_at + v * lanes, lanes)
                    found = found - point * splat(b.load(sums, place[r]), lanes)
                scale = b.load(code.scales, column_at + v * lanes, lanes)
                kept = (r * vectors + v) * lanes
                b.store(totals, kept, mad(scale, b.let(found, "found"), b.load(totals, kept, lanes)))
    return [[b.load(totals, (r * vectors + v) * lanes, lanes) for v in range(vectors)] for r in range(rows)]


def _expand(code: _Code, panel: Expr, half: int, first: Expr, blocks: Expr, expanded: Buffer) -> None:
    """Blocks [first, first + blocks) of some vectors of a panel as float32 [k][vectors][c]."""
    b, weights, lanes = code.b, code.weights, code.lanes
    width, together = code.vectors * lanes, _half(code.vectors)
    per_block, chosen = weights.size // weights.fields, range(half, half + together)
    powers = np.ldexp(1.0, [-i * weights.bits for i in range(weights.fields)])
    with b.loop(0, blocks, name="block") as block:
        place = b.let(panel * weights.blocks + first + block, "place")
        column_at = b.let(place * width, "column_at")
        scales = [b.let(b.load(code.scales, column_at + v * lanes, lanes), "scale") for v in chosen]
        common = None if weights.zero is None else const(weights.zero, Type(FLOAT32, lanes))
        points = [common if common is not None else b.let(b.load(code.zeros, column_at + v * lanes, lanes), "point")
                  for v in chosen]
        with b.loop(0, per_block, name="t") as t:
            words = code.load_words(b.let((place * per_block + t) * width, "at"), chosen)
            target = b.let((block * weights.size + t * weights.fields) * (together * lanes), "target")
            for i in range(weights.fields):
                for v, word in enumerate(words):
                    number = code.field(word, i) * float(powers[i])
                    if i == weights.fields - 1:
                        number = number + float(1 << (weights.bits - 1))
                    b.store(expanded, target + (i * together + v) * lanes, (number - points[v]) * scales[v])


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    weights, choice, lanes = narrow_weights(group), _read(variant.knobs), profile.lanes(FLOAT32)
    assert weights is not None
    out, width = group.values[group.anchor.outputs[0]], choice.vectors * lanes
    panels, together = -(-weights.columns // width), _half(choice.vectors)
    operands = operand_values(group)
    space = collapse(out.shape, operands, (out.rank - 1,))
    b = Builder("gemm_weight_only")
    buffers = {weights.x.name: b.input("a", FLOAT32)}
    words, scales, zeros = (b.input(n, INT32 if n == "words" else FLOAT32) for n in ("words", "scales", "zeros"))
    powers, highest = b.input("powers", FLOAT32), b.input("highest", FLOAT32)
    extras = [name for name in operands if name not in group.outputs and name != weights.x.name]
    buffers |= {n: b.input("operand", group.values[n].dtype) for n in extras}
    buffers |= {n: b.output("out", group.values[n].dtype) for n in group.outputs}
    merged = space.group(group)

    def finish_of(tile: Tile) -> Finish:
        return make_finish(b, tile, merged, space.shape, buffers, layouts, lambda point, value: value)

    few = finish_of(Tile(FLOAT32, lanes, choice.vectors, _FEW_ROWS)) if choice.few else None
    many = finish_of(Tile(FLOAT32, lanes, together, _TILE_ROWS)) if choice.many else None
    m, column_blocks = b.dim(_rows(group)), -(-panels // choice.panels)
    piece = _piece(weights, together * lanes, profile)
    scaled = b.scratch("scaled", FLOAT32, choice.few * weights.padded_depth) if few else None
    starts = b.scratch("starts", FLOAT32, choice.few * weights.blocks) if few else None
    sums = b.scratch("sums", FLOAT32, choice.few * weights.blocks) if few else None
    totals = b.scratch("totals", FLOAT32, _FEW_ROWS * width) if few else None
    expanded = b.scratch("expanded", FLOAT32, together * lanes * piece * weights.size) if many else None
    partial = b.scratch("partial", FLOAT32, together * lanes * _MANY_ROWS) if many and piece < weights.blocks else None
    lines = choice.lines
    with b.chunks((m + (lines - 1)) // lines * column_blocks) as chunk:
        row_blocks = b.let((m + (lines - 1)) // lines, "row_blocks")
        row_block, column_block = b.let(chunk % row_blocks, "row_block"), b.let(chunk // row_blocks, "column_block")
        first = b.let(row_block * m // row_blocks, "row_first")
        count = b.let((row_block + 1) * m // row_blocks - first, "rows")
        code = _Code(b, weights, lanes, choice.vectors, buffers[weights.x.name], words, scales, zeros, first, count)
        start = b.let(column_block * panels // column_blocks, "panel_first")
        stop = b.let((column_block + 1) * panels // column_blocks, "panel_last")

        def place(r: Expr) -> tuple[Expr, ...]:
            return unflatten(b, b.let(first + r, "row"), space.shape[:-1])

        def in_registers() -> None:
            assert few and scaled and starts and sums and totals
            _stage(code, powers, highest, scaled, starts, sums)
            with b.loop(start, stop, name="panel") as panel:
                spot = Spot(place, b.let(panel * width, "column_first"))
                finish_block(b, count, few, spot, lambda rows, row: _few_rows(
                    code, choice, panel, scaled, starts, sums, totals, rows, row))

        def expanded_first() -> None:
            assert many is not None and expanded is not None
            with b.loop(start, stop, name="panel") as panel:
                for half in range(0, choice.vectors, together):
                    spot = Spot(place, b.let(panel * width + half * lanes, "column_first"))
                    _pieces(code, panel, half, spot, many, expanded, partial, piece)

        if few is not None and many is not None:
            with b.when(count.le(choice.few)):
                in_registers()
            with b.otherwise():
                expanded_first()
        elif few is not None:
            in_registers()
        else:
            expanded_first()
    func, dims = b.finish()
    stem = group.anchor.inputs[1]
    points = weights.zeros if weights.zero is None else np.zeros((0, weights.blocks), np.float32)
    packed = {f"{stem}@words": weights.pack_words(width), f"{stem}@scales": weights.pack_columns(weights.scales, width),
              f"{stem}@zeros": weights.pack_columns(points, width) if weights.zero is None else np.zeros(1, np.float32),
              f"{stem}@powers": weights.powers(lanes), f"{stem}@highest": weights.highest(lanes)}
    args = (weights.x.name, *packed, *extras, *group.outputs)
    return Lowering((KernelCall(func, args, dims),), packed)


def _pieces(code: _Code, panel: Expr, half: int, spot: Spot, finish: Finish, expanded: Buffer, partial: Buffer | None,
            piece: int) -> None:
    """All rows of a chunk times some vectors of a panel, K in pieces that are expanded one after the other."""
    b, weights, columns = code.b, code.weights, finish.tile.columns

    def multiply(begin: Expr, blocks: Expr, is_last: Expr | None) -> None:
        _expand(code, panel, half, begin, blocks, expanded)
        depth = b.let(minimum(const(weights.depth) - begin * weights.size, blocks * weights.size), "depth")
        a_first = code.first * weights.depth + begin * weights.size
        words = code.vectors * code.lanes
        per_block = weights.size // weights.fields * words
        following = b.let(((panel + 1) * weights.blocks + begin) * per_block, "following")
        factors = Factors(code.a, a_first, weights.depth, 1, expanded, const(0), columns, depth, 4,
                          lambda first, size: Ahead(code.words, following, max(1, words // weights.fields)))
        multiply_block(b, factors, code.count, finish, spot, partial, is_last)

    if partial is None:
        multiply(const(0), const(weights.blocks), None)
        return
    with b.loop(0, code.count * columns, finish.tile.lanes, "i") as i:
        b.store(partial, i, const(0.0, Type(FLOAT32, finish.tile.lanes)))
    with b.loop(0, weights.blocks, piece, "piece") as begin:
        blocks = b.let(minimum(const(weights.blocks) - begin, piece), "blocks")
        multiply(begin, blocks, (begin + piece).ge(weights.blocks))


GEMM_WEIGHT_ONLY = Kernel("gemm_weight_only", ("MatMulNBits",), _variants, _lower, _knobs, _tune)
