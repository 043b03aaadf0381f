"""A hand-written program that uses every command, with what it must compute in numpy, and its package.

    x[B, W], steps[], flag[] ->
      doubled = 2 x                       Call
      chosen  = flag ? doubled + 1 : doubled     If, Copy
      rows    = [chosen, 2 chosen, 3 chosen, ...]  Loop with a carried sum, SetDim, Copy at an offset; `steps` rows
      tail    = the last row of chosen    a view, whose offset is an expression
      same    = x                         an input passed through
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from meta_infer.backends.base import Artifact
from meta_infer.backends.cpu.emit_c import emit_module
from meta_infer.backends.cpu.toolchain import compile_module
from meta_infer.hardware.isa import highest_isa
from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import Expr, LoopFunc, minimum
from meta_infer.ir.program import BufferDecl, Call, Copy, Fill, If, InputDim, Loop, Program, SetDim
from meta_infer.ir.shapes import Dim, Symbol
from meta_infer.lower.dims import program_dims
from meta_infer.memory.planner import plan_memory
from meta_infer.package.format import TestVector, code_member, debug_member, plan_member
from meta_infer.package.writer import CompiledTarget, write_package
from meta_infer.runtime.cpu import architecture, cpu_features
from meta_infer.runtime.sources import C_SOURCES
from meta_infer.support.dtypes import BOOL, FLOAT32, INT64

B = Symbol("B", 1, 8)
W = Symbol("W", 4, 256, 4)
STEPS = Symbol("steps_taken", 0, 6)
PASS = Symbol("pass", 0, 6)
SIZE: Dim = B.dim * W.dim
_HOST = highest_isa(architecture(), cpu_features())
assert _HOST is not None, "no known instruction set fits this processor"
ISA = _HOST.name
CODE, PLAN, DEBUG = code_member(ISA), plan_member(ISA), debug_member(ISA)
CHUNK = 16
BIAS = np.array([1.0], np.float32)


def _elementwise(name: str, constants: int, compute: object) -> LoopFunc:
    """out[i] = compute(loads of the inputs at i), in chunks of CHUNK elements."""
    b = Builder(name)
    sources = [b.input(f"in{i}", FLOAT32) for i in range(constants)]
    out = b.output("out", FLOAT32)
    n = b.dim(SIZE)
    scratch = b.scratch("buffer", FLOAT32, CHUNK)
    with b.chunks((n + CHUNK - 1) // CHUNK) as chunk:
        start = b.let(chunk * CHUNK)
        with b.loop(start, minimum(start + CHUNK, n)) as i:
            b.store(scratch, i - start, compute(b, sources, i))  # type: ignore[operator]
        with b.loop(start, minimum(start + CHUNK, n)) as i:
            b.store(out, i, b.load(scratch, i - start))
    return b.finish()[0]


def _double(b: Builder, sources: list, i: Expr) -> Expr:
    return b.load(sources[0], i) * 2.0


def _add_bias(b: Builder, sources: list, i: Expr) -> Expr:
    return b.load(sources[0], i) + b.load(sources[1], 0)


def _add(b: Builder, sources: list, i: Expr) -> Expr:
    return b.load(sources[0], i) + b.load(sources[1], i)


def make_program() -> Program:
    kernels = {"double": _elementwise("double_it", 1, _double), "add_bias": _elementwise("add_bias", 2, _add_bias),
               "add": _elementwise("add", 2, _add)}
    kernels = {f.name: f for f in kernels.values()}
    shape = (B.dim, W.dim)
    buffers = [
        BufferDecl("x", FLOAT32, shape, "input", origin="x"),
        BufferDecl("steps", INT64, (), "input"),
        BufferDecl("flag", BOOL, (), "input"),
        BufferDecl("bias", FLOAT32, (1,), "const"),
        BufferDecl("bias_again", FLOAT32, (1,), "const"),
        BufferDecl("doubled", FLOAT32, shape, "temp", origin="doubled"),
        BufferDecl("last_row", FLOAT32, (W.dim,), "temp", alias="chosen_flat", offset=(B.dim - 1) * W.dim),
        BufferDecl("chosen_flat", FLOAT32, (SIZE,), "temp", alias="chosen"),
        BufferDecl("chosen", FLOAT32, shape, "temp", origin="chosen"),
        BufferDecl("sum", FLOAT32, shape, "temp"),
        BufferDecl("next", FLOAT32, shape, "temp", origin="next"),
        BufferDecl("iteration", INT64, (), "temp"),
        BufferDecl("rows", FLOAT32, (STEPS.dim, *shape), "output", origin="rows"),
        BufferDecl("tail", FLOAT32, (W.dim,), "output"),
        BufferDecl("same", FLOAT32, shape, "output"),
    ]
    dims = (SIZE,)
    body = (
        SetDim("pass", "iteration"),
        Call("add", ("sum", "chosen", "next"), dims, ("AddNode",), "Add"),
        Copy("next", "sum", SIZE),
        Copy("next", "rows", SIZE, 0, PASS.dim * SIZE),
    )
    commands = (
        Call("double_it", ("x", "doubled"), dims, ("MulNode",), "Mul"),
        If("flag", (Call("add_bias", ("doubled", "bias_again", "chosen"), dims, ("BiasNode",), "Add"),),
           (Copy("doubled", "chosen", SIZE),)),
        Fill("sum", 0.0),
        Loop("steps", "", "iteration", body, "steps_taken"),
        Copy("last_row", "tail", W.dim),
        Copy("x", "same", SIZE),
    )
    symbols = {s.name: s for s in (B, W, STEPS, PASS)}
    return Program("hand written", ("x", "steps", "flag"), ("rows", "tail", "same"), {b.name: b for b in buffers},
                   {"bias": BIAS, "bias_again": BIAS}, kernels, commands, (InputDim(B, "x", 0), InputDim(W, "x", 1)),
                   symbols, ("x", "steps", "flag"), ("rows", "tail", "same"))


def expected(x: np.ndarray, steps: int, flag: bool) -> list[np.ndarray]:
    chosen = x * np.float32(2) + np.float32(flag)
    rows = np.cumsum([np.zeros_like(chosen)] + [chosen] * steps, axis=0, dtype=np.float32)[1:]
    return [rows, chosen[-1], x]


def feeds(batch: int, width: int, steps: int, flag: bool, seed: int = 0) -> dict[str, np.ndarray]:
    x = np.random.default_rng(seed).standard_normal((batch, width)).astype(np.float32)
    return {"x": x, "steps": np.array(steps, np.int64), "flag": np.array(flag)}


def sources_of(program: Program) -> list[str]:
    """The generated C of all kernels and dims."""
    return emit_module(list(program.kernels.values()), program_dims(program), list(program.symbols.values()), ISA)


@cache
def artifact() -> Artifact:
    """The program's code, with the runtime."""
    return compile_module(sources_of(make_program()), ISA, C_SOURCES, jobs=1)


def write(path: Path) -> Path:
    """The program's package at `path`."""
    program = make_program()
    inputs = feeds(2, 8, 3, True)
    vector = TestVector(inputs, dict(zip(("rows", "tail", "same"), expected(inputs["x"], 3, True), strict=True)))
    write_package(path, [CompiledTarget(program, plan_memory(program), artifact())], tests={"random": vector},
                  report={"note": "hand written"}, lock={"zig": "0"}, config="a: 1\n")
    return path
