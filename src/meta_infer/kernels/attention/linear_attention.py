"""LinearAttention step by step. Columns of the state are independent, so a chunk is some of them for one head: its
part of the state, [dk][columns], stays in first-level cache while the steps pass.

Knob: `vectors` of columns in a chunk, as many independent chains of multiply-adds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Shape
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Buffer, Expr, Type, Var, const, intrin, mad, maximum, minimum, splat
from meta_infer.ir.shapes import product
from meta_infer.kernels.kernel import Kernel, KernelCall, Knob, KnobValue, Lowering, Refusal
from meta_infer.support.dtypes import FLOAT32, FLOAT64

VECTORS = 4
_VECTORS = (1, 2, VECTORS, 8)
Factor = Callable[[Expr], Expr]                          # the decay of a row of the state, in all lanes
_NAMES = ("query", "key", "value", "past", "decay", "beta")


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    out, anchor = group.values[group.anchor.inputs[0]], group.anchor
    if out.dtype not in (FLOAT32, FLOAT64) or group.epilogue or group.prologue:
        return
    sizes = product(group.values[anchor.inputs[1]].shape) * 6
    yield Variant("linear_attention", "columns", {n: PLAIN for n in group.inputs if n not in group.constants},
                  {n: PLAIN for n in group.outputs}, {"vectors": min(VECTORS, _columns(group, profile))}, flops=sizes)


def _columns(group: Group, profile: Profile) -> int:
    """Vectors of a head's columns."""
    value, heads = group.values[group.anchor.inputs[2]], group.anchor.attrs["kv_num_heads"]
    assert isinstance(heads, int) and isinstance(value.shape[2], int), "infer has seen to it"
    return max(-(-(value.shape[2] // heads) // profile.lanes(value.dtype)), 1)


def _knobs(group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
    most = _columns(group, profile)
    return (Knob("vectors", tuple(sorted({*(v for v in _VECTORS if v <= most), min(VECTORS, most)}))),)


def _tune(group: Group, variant: Variant, values: Mapping[str, KnobValue], profile: Profile) -> Variant | Refusal:
    full, most = {**variant.knobs, **values}, _columns(group, profile)
    if not 0 < int(full["vectors"]) <= most:
        return Refusal(full, "shape", f"{full['vectors']} vectors of {most} that a head's columns are")
    if 2 * int(full["vectors"]) > profile.vector_registers:
        return Refusal(full, "registers", f"{full['vectors']} sums and what is added to them")
    return replace(variant, knobs=full)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    anchor = group.anchor
    heads, kv_heads, scale = (anchor.attrs[n] for n in ("q_num_heads", "kv_num_heads", "scale"))
    assert isinstance(heads, int) and isinstance(kv_heads, int) and isinstance(scale, float)
    shapes = [group.values[name].shape if name else () for name in anchor.inputs]
    dtype = group.values[anchor.inputs[0]].dtype
    lanes = profile.lanes(dtype)
    b = Builder("linear_attention")
    buffers = {stem: b.input(stem, dtype) for stem, name in zip(_NAMES, anchor.inputs, strict=False) if name}
    outputs = {stem: b.output(stem, dtype) for stem, name in zip(("out", "state"), anchor.outputs, strict=False)
               if name in group.outputs}
    _Columns(b, lanes, int(variant.knobs["vectors"]), heads, kv_heads, scale, shapes, buffers, outputs).run()
    func, dims = b.finish()
    given = (*(n for n in anchor.inputs if n), *(n for n in anchor.outputs if n in group.outputs))
    return Lowering((KernelCall(func, given, dims),))


class _Columns:
    """The loops of one function. Registers hold `vectors` times `lanes` neighbouring columns."""

    def __init__(self, b: Builder, lanes: int, vectors: int, heads: int, kv_heads: int, scale: float,
                 shapes: list[Shape], buffers: Mapping[str, Buffer], outputs: Mapping[str, Buffer]) -> None:
        self.b, self.lanes, self.vectors, self.kv_heads, self.scale = b, lanes, vectors, kv_heads, scale
        self.shapes, self.inputs, self.outputs = shapes, buffers, outputs
        self.group = heads // kv_heads
        dk, dv = (shape[2] for shape in shapes[1:3])
        assert isinstance(dk, int) and isinstance(dv, int), "infer has seen to it"
        self.dk, self.dv = dk // kv_heads, dv // kv_heads
        dtype = buffers["query"].dtype
        self.register = Type(dtype, lanes)
        self.state = b.scratch("part", dtype, max(self.dk, 1) * self.vectors * lanes)
        self.factors = b.scratch("factors", dtype, max(-(-self.dk // lanes), 1) * lanes)
        self.per_row = "decay" in buffers and shapes[4][2] != kv_heads

    def run(self) -> None:
        b, width = self.b, self.vectors * self.lanes
        batch, steps = b.dim(self.shapes[0][0]), b.dim(self.shapes[0][1])
        blocks = -(-self.dv // width)
        with b.chunks(batch * (self.kv_heads * blocks)) as chunk:
            block, place = b.let(chunk % blocks, "block"), b.let(chunk // blocks, "place")
            head, entry = b.let(place % self.kv_heads, "head"), b.let(place // self.kv_heads, "entry")
            column = b.let(block * width, "column")
            counts = [b.let(maximum(minimum(const(self.dv) - (column + v * self.lanes), self.lanes), 0), "count")
                      for v in range(self.vectors)]
            self._copy_state(place, column, counts, self.inputs.get("past"), None)
            with b.loop(0, steps, 1, "t") as t:
                line = b.let(entry * steps + t, "line")
                self._step(line, head, column, counts)
            if "state" in self.outputs:
                self._copy_state(place, column, counts, None, self.outputs["state"])

    def _copy_state(self, place: Expr, column: Expr, counts: list[Expr], source: Buffer | None,
                    target: Buffer | None) -> None:
        """From `source` (zeros where absent) to the chunk's part, or from there to `target`."""
        b = self.b
        with b.loop(0, self.dk, 1, "d") as d:
            for v, count in enumerate(counts):
                at = (place * self.dk + d) * self.dv + column + v * self.lanes
                here = self._at(d, v)
                if target is not None:
                    b.store(target, at, b.load(self.state, here, self.lanes), count)
                else:
                    zero = const(0, self.register)
                    b.store(self.state, here, zero if source is None else b.load(source, at, self.lanes, count))

    def _at(self, d: Expr, v: int) -> Expr:
        return d * (self.vectors * self.lanes) + v * self.lanes

    def _step(self, line: Expr, head: Expr, column: Expr, counts: list[Expr]) -> None:
        b, lanes = self.b, self.lanes
        row = b.let(line * self.kv_heads + head, "row")
        keys = b.let(row * self.dk, "keys")
        values = [b.let(b.load(self.inputs["value"], row * self.dv + column + v * lanes, lanes, count), "value")
                  for v, count in enumerate(counts)]
        decay = self._decay(row)
        if "beta" in self.inputs:
            values = self._corrected(line, head, keys, values, decay)
            decay = None                                  # the state is decayed by now
        with b.loop(0, self.dk, 1, "d") as d:
            key = b.let(splat(b.load(self.inputs["key"], keys + d), lanes), "key")
            for v, value in enumerate(values):
                old = b.load(self.state, self._at(d, v), lanes)
                b.store(self.state, self._at(d, v), mad(key, value, old if decay is None else old * decay(d)))
        if "out" in self.outputs:
            self._read(row, column, counts)

    def _decay(self, row: Expr) -> Factor | None:
        """What the rows of the state are multiplied with."""
        b, lanes = self.b, self.lanes
        if "decay" not in self.inputs:
            return None
        if not self.per_row:
            factor = b.let(intrin("exp", splat(b.load(self.inputs["decay"], row), lanes)), "factor")
            return lambda d: factor
        for first in range(0, self.dk, lanes):
            rest = b.load(self.inputs["decay"], row * self.dk + first, lanes, const(min(lanes, self.dk - first)))
            b.store(self.factors, first, intrin("exp", rest))
        return lambda d: splat(b.load(self.factors, d), lanes)

    def _corrected(self, line: Expr, head: Expr, keys: Expr, values: list[Expr], decay: Factor | None) -> list[Expr]:
        """beta * (v - S' k), while the state decays."""
        b, lanes = self.b, self.lanes
        found: list[Var] = [b.var(const(0, self.register), "found") for _ in values]
        with b.loop(0, self.dk, 1, "d") as d:
            key = b.let(splat(b.load(self.inputs["key"], keys + d), lanes), "key")
            for v, total in enumerate(found):
                old = b.load(self.state, self._at(d, v), lanes)
                if decay is not None:
                    old = b.let(old * decay(d), "decayed")
                    b.store(self.state, self._at(d, v), old)
                b.assign(total, mad(old, key, total))
        shared = self.shapes[5][2] == 1 and self.kv_heads > 1
        beta = b.let(splat(b.load(self.inputs["beta"], line if shared else line * self.kv_heads + head), lanes), "beta")
        return [b.let(beta * (value - total), "corrected") for value, total in zip(values, found, strict=True)]

    def _read(self, row: Expr, column: Expr, counts: list[Expr]) -> None:
        """scale * S' q for each head of queries that shares the state."""
        b, lanes = self.b, self.lanes
        with b.loop(0, self.group, 1, "member") as member:
            query = b.let(row * self.group + member, "query_row")
            totals = [b.var(const(0, self.register), "total") for _ in counts]
            with b.loop(0, self.dk, 1, "d") as d:
                q = b.let(splat(b.load(self.inputs["query"], query * self.dk + d), lanes), "q")
                for v, total in enumerate(totals):
                    b.assign(total, mad(q, b.load(self.state, self._at(d, v), lanes), total))
            for v, (total, count) in enumerate(zip(totals, counts, strict=True)):
                b.store(self.outputs["out"], query * self.dv + column + v * lanes, total * self.scale, count)


LINEAR_ATTENTION = Kernel("linear_attention", ("LinearAttention",), _variants, _lower, _knobs, _tune)
