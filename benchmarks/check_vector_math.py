"""Largest errors of the vector functions (exp, log, tanh, sigmoid, erf, sin, cos, pow) against float64 references.

    python benchmarks/check_vector_math.py                   every 97th float and all neighbours of special points
    python benchmarks/check_vector_math.py --full            all 2^32 floats of the one-argument float32 functions
    python benchmarks/check_vector_math.py --full exp erf    only these

    python benchmarks/check_vector_math.py --isa aarch64     another processor, emulated

Each function is built twice, with FMA (x86-64-v3) and without (x86-64-v2). The error is in ulp: the distance to the
float64 result, over the spacing of floats at that result. docs/vector-math.md has the table this prints.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import special

from meta_infer.backends.base import Failure
from meta_infer.backends.cpu.emit_c import emit_module
from meta_infer.backends.cpu.emulated import execute_emulated
from meta_infer.backends.cpu.loaded import LoadedModule
from meta_infer.backends.cpu.toolchain import compile_module
from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import MATH, LoopFunc, intrin
from meta_infer.ir.program import BufferDecl, Call, InputDim, Program
from meta_infer.ir.shapes import Symbol
from meta_infer.lower.dims import program_dims
from meta_infer.memory.planner import plan_memory
from meta_infer.package.writer import CompiledTarget, write_package
from meta_infer.runtime.sources import C_SOURCES
from meta_infer.support.dtypes import FLOAT32, DType
from meta_infer.support.switches import read_switches

CHUNK = 1 << 22
_COUNT = Symbol("N", 0, 1 << 32).dim
LIMITS = {"exp": 2.0, "erf": 2.0, "log": 2.0, "tanh": 4.0, "sigmoid": 4.0, "sin": 2.0, "cos": 2.0, "pow": 8.0}
"""ulp that float32 results may be off, over all floats (pow: over the pairs that `pow_pairs` lists)."""

REFERENCES: dict[str, Callable[..., np.ndarray]] = {
    "exp": np.exp, "log": np.log, "tanh": np.tanh, "sigmoid": special.expit, "erf": special.erf,
    "sin": np.sin, "cos": np.cos, "pow": np.power,
}


def map_func(name: str, dtype: DType, lanes: int) -> LoopFunc:
    """y[i] = f(x[i]) (or f(x[i], z[i])) for a number of elements that is a multiple of `lanes`."""
    b = Builder(f"map_{name}_{dtype}_{lanes}")
    inputs = [b.input("x", dtype), b.input("z", dtype)] if name == "pow" else [b.input("x", dtype)]
    y, n = b.output("y", dtype), b.dim(_COUNT)
    with b.chunks(1), b.loop(0, n, lanes) as i:
        b.store(y, i, intrin(name, *(b.load(x, i, lanes) for x in inputs)))
    return b.finish()[0]


def build(isa: str, cache: Path, dtype: DType = FLOAT32, lanes: int = 8) -> LoadedModule:
    """All functions of MATH over arrays."""
    sources = emit_module([map_func(name, dtype, lanes) for name in MATH], (), (), isa)
    return LoadedModule(compile_module(sources, isa, switches=replace(read_switches(), cache=cache)).path)


@dataclass(frozen=True)
class Emulated:
    """All functions of MATH over float32 arrays on another processor: a package for each, run under an emulator."""

    isa: str
    folder: Path

    def __call__(self, name: str, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """f of arrays whose size is a multiple of 8. Raises RuntimeError when the run ends without a result."""
        package = self.folder / f"{name}.bin"
        if not package.exists():
            write_package(package, [self._target(name)])
        inputs = dict(zip(("x", "z"), arrays, strict=False))
        done = execute_emulated(package, [inputs], 1, 0, 600.0, self.isa)
        if isinstance(done, Failure):
            raise RuntimeError(done.reason)
        return done.outputs[0]["y"]

    def _target(self, name: str) -> CompiledTarget:
        func, count = map_func(name, FLOAT32, 8), Symbol("N", 0, 1 << 23)
        names = tuple(p.name for p in func.params)
        buffers = {n: BufferDecl(n, FLOAT32, (count.dim,), "output" if n == "y" else "input") for n in names}
        program = Program(name, names[:-1], ("y",), buffers, {}, {func.name: func},
                          (Call(func.name, names, (count.dim,)),), (InputDim(count, "x", 0),), {"N": count})
        sources = emit_module([func], program_dims(program), [count], self.isa)
        switches = replace(read_switches(), cache=self.folder)
        return CompiledTarget(program, plan_memory(program), compile_module(sources, self.isa, C_SOURCES, switches))


Functions = LoadedModule | Emulated


def apply(module: Functions, name: str, *xs: np.ndarray, lanes: int = 8) -> np.ndarray:
    """f of each element (of each pair), whatever their number."""
    count, dtype = xs[0].size, xs[0].dtype
    padded = [np.concatenate([x, np.zeros(-count % lanes, dtype)]) for x in xs]
    if isinstance(module, Emulated):
        return module(name, padded)[:count]
    y = np.empty(padded[0].size, dtype)
    module.run(f"map_{name}_{dtype.name}_{lanes}", [a.ctypes.data for a in (*padded, y)], [y.size])
    return y[:count]


def ulp_errors(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance to a float64 result in units of the last place there, 0 for a correctly rounded one.

    inf where one is NaN and the other is not, or where an infinity meets a number.
    """
    with np.errstate(all="ignore"):
        rounded = exact.astype(got.dtype)
        errors = np.zeros(got.size)
        off = np.flatnonzero((got != rounded) & ~(np.isnan(got) & np.isnan(rounded)))
        distance = np.abs(got[off].astype(np.float64) - exact[off])
        errors[off] = distance / np.spacing(np.abs(rounded[off])).astype(np.float64)
        errors[~np.isfinite(errors)] = np.inf
    return errors


def floats(first: int, last: int, step: int) -> np.ndarray:
    """float32 whose bits are first, first + step, ... below last."""
    return np.arange(first, last, step, dtype=np.uint64).astype(np.uint32).view(np.float32)


def special_floats() -> np.ndarray:
    """All floats within 1000 places of zeros, denormals' ends, powers of two, overflow and underflow, inf and NaN."""
    points = [0.0, 1e-45, 1.17549435e-38, 0.35, 0.5, 0.625, 0.927734375, 0.70710678, 1.0, 1.5, 2.0, 3.0, 4.0, 9.0, 17.0,
              88.72284, 88.0, 87.33654, 103.97208, 104.0, 3.4028235e38, np.inf, np.pi / 4, np.pi / 2, np.pi, 67108864.0]
    points += [2.0 ** k for k in range(-140, 128, 7)]
    bits = np.array(points, np.float32).view(np.uint32).astype(np.int64)
    around = (bits[:, None] + np.arange(-1000, 1001)).reshape(-1)
    around = np.unique(around[(around >= 0) & (around < 1 << 31)])
    return np.concatenate([around, around + (1 << 31)]).astype(np.uint32).view(np.float32)


def samples(step: int) -> Iterator[np.ndarray]:
    """Every `step`-th float in pieces, and with step > 1 the special ones."""
    if step > 1:
        yield special_floats()
    for first in range(0, 1 << 32, CHUNK * step):
        yield floats(first, min(first + CHUNK * step, 1 << 32), step)


def worst(module: Functions, name: str, step: int) -> tuple[float, float]:
    """(largest error in ulp, the argument it occurs at) of a one-argument function."""
    highest, where = 0.0, 0.0
    for x in samples(step):
        with np.errstate(all="ignore"):
            errors = ulp_errors(apply(module, name, x), REFERENCES[name](x.astype(np.float64)))
        k = int(np.argmax(errors))
        if errors[k] > highest:
            highest, where = float(errors[k]), float(x[k])
    return highest, where


def pow_pairs(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Random pairs with finite results, small integer exponents of negative bases, and all pairs of special values."""
    rng = np.random.default_rng(seed)
    x = np.exp(rng.uniform(-20, 20, count)).astype(np.float32)
    y = (rng.uniform(-80, 80, count) / np.maximum(np.abs(np.log(x)), 1)).astype(np.float32)
    bases, exponents = -x[:count // 4], rng.integers(-9, 10, count // 4).astype(np.float32)
    few = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 1e-40, 3e38, 16777216, 16777217, np.inf, np.nan], np.float32)
    few = np.concatenate([few, -few])
    a, b = (g.reshape(-1) for g in np.meshgrid(few, few))
    return np.concatenate([x, bases, a]), np.concatenate([y, exponents, b])


def worst_pow(module: Functions, count: int) -> tuple[float, float]:
    """(largest error in ulp, the base it occurs at) of pow."""
    x, y = pow_pairs(count)
    with np.errstate(all="ignore"):
        errors = ulp_errors(apply(module, "pow", x, y), np.power(x.astype(np.float64), y.astype(np.float64)))
    k = int(np.argmax(errors))
    return float(errors[k]), float(x[k])


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Errors of the vector functions in ulp.")
    parser.add_argument("functions", nargs="*", choices=[*MATH, []], help="default: all")
    parser.add_argument("--full", action="store_true", help="all 2^32 floats (minutes per function)")
    parser.add_argument("--step", type=int, default=97, help="check every STEP-th float (default 97)")
    parser.add_argument("--isa", action="append", help="default: x86-64-v3 and x86-64-v2")
    chosen = parser.parse_args(arguments)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for isa in chosen.isa or ("x86-64-v3", "x86-64-v2"):
            module = build(isa, Path(folder)) if isa.startswith("x86") else Emulated(isa, Path(folder))
            for name in chosen.functions or MATH:
                start = time.perf_counter()
                step = 1 if chosen.full else chosen.step
                error, where = worst_pow(module, 1_000_000) if name == "pow" else worst(module, name, step)
                failed += error > LIMITS[name]
                print(f"{isa:10} {name:8} {error:8.3f} ulp at {where!r:24} limit {LIMITS[name]:g}"
                      f"   ({time.perf_counter() - start:.0f} s)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
