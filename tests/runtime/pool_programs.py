"""A hand-written program whose sizes have no bound but what running finds, with what it must compute in numpy.

    x[N], trips[], count[], flag[] ->
      rows   = [x, 2 x, 3 x, ...]         Loop; as many rows as it makes passes
      filled = [7, 7, ...]                Fill of `count` elements
      twice  = 2 filled, twice            Call on them; its scratch grows with `count`
      grown  = x, then 1, then 1, ...     Loop-carried, one element longer after each pass: AssignDims, Copy
      chosen = flag ? the last row, which is a view : filled      If, AssignDims
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from meta_infer.backends.base import Artifact
from meta_infer.backends.cpu.emit_c import emit_module
from meta_infer.backends.cpu.toolchain import compile_module
from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import LoopFunc, minimum
from meta_infer.ir.program import (
    AssignDims,
    BufferDecl,
    Call,
    CheckDims,
    Copy,
    Fill,
    If,
    InputDim,
    Loop,
    Program,
    SetDim,
)
from meta_infer.ir.shapes import UNBOUNDED, Symbol
from meta_infer.lower.dims import program_dims
from meta_infer.memory.planner import plan_memory
from meta_infer.package.writer import CompiledTarget, write_package
from meta_infer.runtime.sources import C_SOURCES
from meta_infer.support.dtypes import BOOL, FLOAT32, INT64

from .programs import ISA

N = Symbol("N", 1, 4096)
T, PASS, K, S, C = (Symbol(name, 0, UNBOUNDED) for name in ("T", "pass", "K", "S", "C"))


def _double() -> LoopFunc:
    """out = 2 x through scratch as long as x, in one chunk."""
    b = Builder("double_it")
    x, out, n = b.input("x", FLOAT32), b.output("out", FLOAT32), b.dim(K.dim)
    scratch = b.scratch("all", FLOAT32, n)
    with b.chunks(1):
        with b.loop(0, n) as i:
            b.store(scratch, i, b.load(x, i) * 2.0)
        with b.loop(0, n) as i:
            b.store(out, i, b.load(scratch, i))
    return b.finish()[0]


def _add() -> LoopFunc:
    b = Builder("add")
    x, y, out, n = b.input("x", FLOAT32), b.input("y", FLOAT32), b.output("out", FLOAT32), b.dim(N.dim)
    with b.chunks((n + 15) // 16) as chunk:
        start = b.let(chunk * 16)
        with b.loop(start, minimum(start + 16, n)) as i:
            b.store(out, i, b.load(x, i) + b.load(y, i))
    return b.finish()[0]


def make_program() -> Program:
    def temp(name: str, *shape: object, alias: str | None = None, offset: object = 0) -> BufferDecl:
        return BufferDecl(name, FLOAT32, shape, "temp", alias=alias, offset=offset, origin=name)  # type: ignore[arg-type]

    buffers = [
        BufferDecl("x", FLOAT32, (N.dim,), "input"), BufferDecl("trips", INT64, (), "input"),
        BufferDecl("count", INT64, (), "input"), BufferDecl("flag", BOOL, (), "input"),
        BufferDecl("i", INT64, (), "temp"), BufferDecl("j", INT64, (), "temp"),
        BufferDecl("one", FLOAT32, (1,), "const"),
        temp("sum", N.dim), temp("next", N.dim),
        temp("rows", T.dim, N.dim), temp("flat", T.dim * N.dim, alias="rows"),
        temp("last", N.dim, alias="flat", offset=(T.dim - 1) * N.dim),
        temp("filled", K.dim), temp("half_made", K.dim), temp("twice", K.dim), temp("head", K.dim, alias="twice"),
        temp("grown", S.dim), temp("longer", S.dim + 1), temp("chosen", C.dim),
        BufferDecl("size", INT64, (3,), "output"),
    ]
    rows = (SetDim("pass", "i"), Call("add", ("sum", "x", "next"), (N.dim,), ("AddNode",), "Add"),
            Copy("next", "sum", N.dim), Copy("next", "flat", N.dim, 0, PASS.dim * N.dim))
    grow = (Copy("grown", "longer", S.dim), Copy("one", "longer", 1, 0, S.dim),
            AssignDims(("S",), (S.dim + 1,)),                     # `longer` is one longer now: what it holds stays
            Copy("longer", "grown", S.dim))
    commands = (
        Fill("sum", 0.0),
        Loop("trips", "", "i", rows, "T"),
        SetDim("K", "count"),
        Fill("filled", 7.0),
        Call("double_it", ("filled", "half_made"), (K.dim,), ("MulNode",), "Mul"),
        Call("double_it", ("half_made", "head"), (K.dim,), ("MulNode2",), "Mul"),
        AssignDims(("S",), (N.dim,)),
        Copy("x", "grown", N.dim),
        Loop("trips", "", "j", grow),
        CheckDims(S.dim, N.dim + T.dim, "size of grown"),
        If("flag", (AssignDims(("C",), (N.dim,)), Copy("last", "chosen", N.dim)),
           (AssignDims(("C",), (K.dim,)), Copy("filled", "chosen", K.dim))),
        Fill("size", 0),
    )
    symbols = {s.name: s for s in (N, T, PASS, K, S, C)}
    outputs = ("rows", "twice", "grown", "chosen", "size")
    return Program("sized while running", ("x", "trips", "count", "flag"), outputs, {b.name: b for b in buffers},
                   {"one": np.ones(1, np.float32)}, {"double_it": _double(), "add": _add()},
                   commands, (InputDim(N, "x", 0),), symbols, ("x", "trips", "count", "flag"), outputs)


def feeds(n: int, trips: int, count: int, flag: bool, seed: int = 0) -> dict[str, np.ndarray]:
    x = np.random.default_rng(seed).integers(-8, 9, n).astype(np.float32)
    return {"x": x, "trips": np.array(trips), "count": np.array(count), "flag": np.array(flag)}


def expected(fed: dict[str, np.ndarray]) -> list[np.ndarray]:
    x, trips, count = fed["x"], int(fed["trips"]), int(fed["count"])
    rows = x * np.arange(1, trips + 1, dtype=np.float32)[:, None]
    filled = np.full(count, 7, np.float32)
    grown = np.concatenate([x, np.ones(trips, np.float32)])
    return [rows, 4 * filled, grown, rows[-1] if fed["flag"] else filled, np.zeros(3, np.int64)]


@cache
def artifact() -> Artifact:
    program = make_program()
    sources = emit_module(list(program.kernels.values()), program_dims(program), list(program.symbols.values()), ISA)
    return compile_module(sources, ISA, C_SOURCES, jobs=1)


def write(path: Path) -> Path:
    """The program's package at `path`."""
    program = make_program()
    write_package(path, [CompiledTarget(program, plan_memory(program), artifact())])
    return path
