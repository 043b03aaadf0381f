"""One panel of queries against one block of keys: scores, their powers, and the weighted sum of values.

Lanes hold queries: scores are kept as [keys][queries], so that the maximum and the sum of each softmax are of whole
vectors, keys are read in place (one element a step, broadcast), and a query's powers are what the second product
broadcasts. Only queries are copied, once, into [size][queries].

What a panel has seen so far is its largest score m, the sum of powers e^(s - m) and the sum of values weighted by
them; a block with a larger m scales the sums down (Milakov and Gimelshein, arXiv:1805.02867; Dao et al.,
arXiv:2205.14135).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import (
    Buffer,
    Expr,
    Type,
    Var,
    binary,
    cast,
    const,
    intrin,
    iota,
    minimum,
    select,
    splat,
)
from meta_infer.kernels.attention.attention_problem import Problem, Strides, mask_index
from meta_infer.kernels.fold import each_vector
from meta_infer.kernels.lane_transpose import transpose_lanes
from meta_infer.kernels.matmul.gemm_tile import Ahead, Tile, by_rows, each_tile, multiply
from meta_infer.kernels.power import power_of, powers_of
from meta_infer.support.dtypes import INT32

HIDDEN = float("-inf")
# Steps in a turn of the products' loops. They are short, as deep as a head is wide or as a block has keys: of a loop of
# sixty turns the end is foretold wrongly, which costs a twentieth of it, of one of sixteen seldom.
UNROLL = 4
# Vectors of scores that are raised together: as many chains of dependent operations, and registers hold them.
CHAINS = 4


@dataclass(frozen=True)
class Work:
    """Memory of one thread. A panel is `tile.columns` queries; the first four hold all panels of a chunk.

    queries [panels][size, rounded up to lanes][columns], largest and total [panels][columns],
    sums    [panels][columns][width, rounded up to lanes],
    scores  [keys][columns], bias likewise (where queries differ in their masks), factors [columns],
    values  a block's values as strips, [strip][keys][columns of it]; None where they are read in place.
    """

    tile: Tile
    keys: int
    queries: Buffer
    largest: Buffer
    total: Buffer
    sums: Buffer
    scores: Buffer
    factors: Buffer
    bias: Buffer | None
    values: Buffer | None

    @property
    def register(self) -> Type:
        return Type(self.tile.dtype, self.tile.lanes)


@dataclass(frozen=True)
class Spot:
    """Where a panel is: its number in the chunk, its first query, how many are inside; batch entry and head."""

    panel: Expr
    query: Expr
    count: Expr
    place: tuple[Expr, Expr]


@dataclass(frozen=True)
class Block:
    """A run of keys: the first of them, how many, and where they and their values begin."""

    first: Expr
    count: Expr
    k: Buffer
    k_at: Expr
    k_strides: Strides
    v: Buffer
    v_at: Expr
    v_step: Expr


def _rounded(size: int, tile: Tile) -> int:
    return -(-size // tile.lanes) * tile.lanes


def strips(width: int, tile: Tile) -> list[tuple[int, int, int]]:
    """(first column, how many strips, vectors of each) of values: whole strips, then a narrower one."""
    whole, rest = divmod(width, tile.columns)
    found = [(0, whole, tile.vectors)] if whole else []
    return [*found, (whole * tile.columns, 1, -(-rest // tile.lanes))] if rest else found


def make_work(b: Builder, problem: Problem, tile: Tile, panels: int, keys: int, copies_values: bool) -> Work:
    dtype, columns = problem.dtype, tile.columns
    size, width = _rounded(problem.size, tile), _rounded(problem.width, tile)
    bias = b.scratch("bias", dtype, (keys + tile.lanes) * columns) if problem.mask_per_query else None
    return Work(tile, keys, b.scratch("queries", dtype, panels * size * columns),
                b.scratch("largest", dtype, panels * columns), b.scratch("total", dtype, panels * columns),
                b.scratch("sums", dtype, panels * columns * width), b.scratch("scores", dtype, keys * columns),
                b.scratch("factors", dtype, columns), bias,
                b.scratch("values", dtype, keys * width) if copies_values else None)


def start_panel(b: Builder, work: Work, problem: Problem, spot: Spot, q: Buffer, q_at: Expr, strides: Strides) -> None:
    """Copy the panel's queries, scaled, and set its sums to nothing. Queries beyond the last repeat that one."""
    tile, lanes, columns = work.tile, work.tile.lanes, work.tile.columns
    size, width = _rounded(problem.size, tile), _rounded(problem.width, tile)
    to = b.let(spot.panel * (size * columns), "to")
    last = b.let(spot.query + (spot.count - 1), "last")
    for v in range(tile.vectors):
        at = [b.let(q_at + minimum(spot.query + (v * lanes + i), last) * strides.step, "row") for i in range(lanes)]

        def copy(first: Expr, count: Expr | None, at: Sequence[Expr] = at, v: int = v) -> None:
            rows = [b.let(b.load(q, row + first, lanes, count) * problem.scale, "q") for row in at]
            for i, vector in enumerate(transpose_lanes(b, rows)):
                b.store(work.queries, to + (first + i) * columns + v * lanes, vector)

        each_vector(b, 0, const(problem.size), lanes, copy)
    zero = const(0, work.register)
    # The softmax of no keys at all is empty, and its product with no values is 0.
    nothing = select(b.dim(problem.k.steps).eq(0), const(1, Type(tile.dtype)), const(0, Type(tile.dtype)))
    for v in range(tile.vectors):
        b.store(work.largest, spot.panel * columns + v * lanes, const(HIDDEN, work.register))
        b.store(work.total, spot.panel * columns + v * lanes, splat(nothing, lanes))
    sums = b.let(spot.panel * (columns * width), "sums")
    with b.loop(0, columns * width, lanes, "i") as i:
        b.store(work.sums, sums + i, zero)


def copy_values(b: Builder, work: Work, problem: Problem, block: Block) -> None:
    """The block's values as strips, zeros beyond the last column."""
    assert work.values is not None
    lanes = work.tile.lanes
    for column, count, vectors in strips(problem.width, work.tile):
        with b.loop(0, count, 1, "strip") as strip, b.loop(0, block.count, 1, "t") as t:
            for v in range(vectors):
                first = column + v * lanes
                inside = None if first + lanes <= problem.width else const(problem.width - first)
                at = block.v_at + t * block.v_step + strip * work.tile.columns + first
                to = strip * (work.keys * work.tile.columns) + column * work.keys + t * (vectors * lanes) + v * lanes
                b.store(work.values, to, b.load(block.v, at, lanes, inside))


def copy_bias(b: Builder, work: Work, problem: Problem, block: Block, spot: Spot, mask: Buffer) -> None:
    """The mask of a panel and a block as [keys][queries] of numbers to add: bools become 0 and -inf."""
    assert work.bias is not None
    bias, lanes, columns = work.bias, work.tile.lanes, work.tile.columns
    per_key = problem.mask_shape[3] != 1
    last = b.let(spot.query + (spot.count - 1), "last")
    for v in range(work.tile.vectors):
        at = [b.let(mask_index(b, problem, spot.place, minimum(spot.query + (v * lanes + i), last))
                    + (block.first if per_key else 0), "row") for i in range(lanes)]

        def copy(first: Expr, count: Expr | None, at: Sequence[Expr] = at, v: int = v) -> None:
            rows = []
            for row in at:
                given = b.load(mask, row + first, lanes, count) if per_key else splat(b.load(mask, row), lanes)
                if problem.mask_is_bool:
                    given = select(given, const(0, work.register), const(HIDDEN, work.register))
                rows.append(b.let(given, "m"))
            for i, vector in enumerate(transpose_lanes(b, rows)):
                b.store(bias, (first + i) * columns + v * lanes, vector)

        each_vector(b, 0, block.count, lanes, copy)


def _masked(b: Builder, work: Work, problem: Problem, block: Block, spot: Spot, mask: Buffer | None, key: Expr,
            at: Expr, scores: Sequence[Expr]) -> list[Expr]:
    """The scores of one key, a vector of queries each, with what is added to them and what hides them.

    `key` counts in the block, and `at` is where its scores are.
    """
    lanes, hidden = work.tile.lanes, const(HIDDEN, work.register)
    found = list(scores)
    if work.bias is not None:
        extra = [b.let(b.load(work.bias, at + v * lanes, lanes), "bias") for v in range(len(found))]
        found = [select(e.eq(0.0), z, hidden) if problem.mask_is_bool else z + e
                 for z, e in zip(found, extra, strict=True)]
    elif mask is not None:
        step = block.first + key if problem.mask_shape[3] != 1 else const(0)
        given = b.let(b.load(mask, b.let(mask_index(b, problem, spot.place, const(0)) + step, "at")), "m")
        found = [select(given, z, hidden) if problem.mask_is_bool else z + splat(given, lanes) for z in found]
    if problem.causal:
        before = b.let(cast(block.first + key - spot.query - b.dim(problem.offset), INT32), "before")
        found = [select((iota(lanes) + v * lanes).lt(splat(before, lanes)), hidden, z) for v, z in enumerate(found)]
    return found


def score_block(b: Builder, work: Work, problem: Problem, block: Block, spot: Spot, mask: Buffer | None) -> None:
    """Powers of a panel's scores against a block of keys, with the panel's maximum and total brought up to date.

    `work.factors` is then by what the panel's sums must be scaled.
    """
    tile, lanes, columns = work.tile, work.tile.lanes, work.tile.columns
    vectors = range(tile.vectors)
    queries = b.let(spot.panel * (_rounded(problem.size, tile) * columns), "queries")
    found = [b.var(const(HIDDEN, work.register), "found") for _ in vectors]

    def finish(key: Expr, at: Expr, scores: Sequence[Expr]) -> None:
        for v, z in enumerate(_masked(b, work, problem, block, spot, mask, key, at, scores)):
            z = b.let(z, "z")
            b.store(work.scores, at + v * lanes, z)
            b.assign(found[v], binary("max", z, found[v]))

    with each_tile(b, tile, block.count) as (first, size):
        def body(rows: int) -> None:
            keys = [b.let(block.k_at + (first + r) * block.k_strides.step, "key") for r in range(rows)]
            result = multiply(b, tile, rows, block.k, keys, block.k_strides.size, work.queries, queries, columns,
                              const(problem.size), None, UNROLL)
            at = b.let(first * columns, "at")
            for r, row in enumerate(result):
                if problem.softcap <= 0:
                    finish(first + r, at + r * columns, row)
                    continue
                for v, z in enumerate(row):
                    b.store(work.scores, at + (r * columns + v * lanes), z)

        by_rows(b, tile, size, body)
    if problem.softcap > 0:
        with b.loop(0, block.count, 1, "key") as key:
            at = b.let(key * columns, "at")
            raw = [b.load(work.scores, at + v * lanes, lanes) for v in vectors]
            finish(key, at, [intrin("tanh", b.let(z / problem.softcap, "z")) * problem.softcap for z in raw])
    _raise_scores(b, work, block, spot, found)


def _raise_scores(b: Builder, work: Work, block: Block, spot: Spot, found: Sequence[Var]) -> None:
    """Scores become powers, shifted by the largest so far; 0 as long as that is -inf, so that e^-inf stays 0."""
    lanes, columns = work.tile.lanes, work.tile.columns
    at = b.let(spot.panel * columns, "panel_at")
    shifts, added = [], []
    for v, largest in enumerate(found):
        old = b.let(b.load(work.largest, at + v * lanes, lanes), "old")
        new = b.let(binary("max", largest, old), "new")
        b.store(work.largest, at + v * lanes, new)
        shifts.append(b.let(select(new.eq(HIDDEN), const(0, work.register), new), "shift"))
        b.store(work.factors, v * lanes, power_of(b, b.let(old - shifts[v], "x")))
        added.append(b.var(const(0, work.register), "added"))

    def power(key: Expr, keys: int) -> None:
        here = b.let(key * columns, "here")
        places = [(here + (i * columns + v * lanes), v) for i in range(keys) for v in range(work.tile.vectors)]
        found = [b.let(b.load(work.scores, place, lanes) - shifts[v], "x") for place, v in places]
        for (place, v), e in zip(places, powers_of(b, found), strict=True):
            e = b.let(e, "e")
            b.store(work.scores, place, e)
            b.assign(added[v], added[v] + e)

    at_once = max(CHAINS // work.tile.vectors, 1)
    together = b.let(block.count // at_once * at_once, "together")
    with b.loop(0, together, at_once, "key") as key:
        power(key, at_once)
    with b.loop(together, block.count, 1, "key") as key:
        power(key, 1)
    for v, more in enumerate(added):
        old_total = b.load(work.total, at + v * lanes, lanes)
        b.store(work.total, at + v * lanes, old_total * b.load(work.factors, v * lanes, lanes) + more)


@dataclass(frozen=True)
class _Strip:
    """Some columns of a block's values: `values[at + t * step]` for key t, and where the next ones are."""

    tile: Tile
    column: Expr
    values: Buffer
    at: Expr
    step: Expr
    after: Expr


def add_values(b: Builder, work: Work, problem: Problem, block: Block, spot: Spot) -> None:
    """The panel's sums, scaled, plus the block's values weighted by their powers."""
    tile = work.tile
    for column, count, vectors in strips(problem.width, tile):
        part = replace(tile, vectors=vectors)
        with b.loop(0, count, 1, "strip") as strip:
            first = b.let(strip * tile.columns + column, "column")
            if work.values is None:
                at = b.let(block.v_at + first, "at")
                found = _Strip(part, first, block.v, at, block.v_step, b.let(at + tile.columns, "after"))
            else:
                size = work.keys * tile.columns
                at = b.let(strip * size + column * work.keys, "at")
                found = _Strip(part, first, work.values, at, const(part.columns), b.let(at + size, "after"))
            _add_strip(b, work, problem, block, spot, found)


def _add_strip(b: Builder, work: Work, problem: Problem, block: Block, spot: Spot, strip: _Strip) -> None:
    tile, lanes, width = strip.tile, work.tile.lanes, _rounded(problem.width, work.tile)
    base = b.let(spot.panel * (work.tile.columns * width) + strip.column, "base")
    ahead = Ahead(strip.values, strip.after, strip.step)
    with each_tile(b, tile, spot.count) as (first, size):
        def body(rows: int) -> None:
            sums = b.let(base + first * width, "sums")
            start = [[b.load(work.sums, sums + (r * width + v * lanes), lanes)
                      * splat(b.load(work.factors, first + r), lanes) for v in range(tile.vectors)]
                     for r in range(rows)]
            powers = [b.let(first + r, "row") for r in range(rows)]
            result = multiply(b, tile, rows, work.scores, powers, work.tile.columns, strip.values, strip.at, strip.step,
                              block.count, start, UNROLL, ahead)
            for r, row in enumerate(result):
                for v, value in enumerate(row):
                    b.store(work.sums, sums + (r * width + v * lanes), value)

        by_rows(b, tile, size, body)
