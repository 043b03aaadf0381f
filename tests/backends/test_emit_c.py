"""Generated C computes what the loop interpreter computes: bit for bit on random functions, with every compiler."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meta_infer.backends.cpu.emit_c import emit_alone, emit_function, emit_module
from meta_infer.backends.cpu.loaded import LoadedModule
from meta_infer.backends.cpu.toolchain import compile_module
from meta_infer.ir.builder import Builder
from meta_infer.ir.interpret_loop import interpret
from meta_infer.ir.loop import MATH, Expr, LoopFunc, cast, const, intrin, iota, mad, minimum, splat, unary
from meta_infer.ir.loop_text import print_func
from meta_infer.ir.shapes import UNBOUNDED, Symbol, ceildiv, dim_max, dim_min, evaluate
from meta_infer.support.dtypes import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, INT64, DType
from meta_infer.support.errors import UnsupportedError
from meta_infer.support.switches import read_switches
from tests.ir.random_loops import DIM, arrays_for, loop_funcs, same_bits
from tests.kernels.harness import Memory, host_isa

HAS_GCC = shutil.which("gcc") is not None
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def build(funcs: Sequence[LoopFunc], cache: Path, isa: str, compiler: str | None = None,
          extra_flags: Sequence[str] = ()) -> LoadedModule:
    switches = replace(read_switches(), cache=cache, compiler=compiler)
    sources = emit_module(funcs, (), (), isa)
    return LoadedModule(compile_module(sources, isa, switches=switches, extra_flags=extra_flags).path)


def check(funcs: Sequence[LoopFunc], module: LoadedModule) -> None:
    """Each function on the same arrays by interpreter and machine code."""
    for seed, func in enumerate(funcs):
        dims = [DIM] * len(func.dims)
        chunks = module.chunks(func.name, dims)
        arrays = arrays_for(func, chunks, seed)
        buffers = [Memory(p.name, p.dtype, a.size, a) for p, a in zip(func.params, arrays, strict=True)]
        scratch = Memory("scratch", FLOAT32, module.scratch(func.name, dims) // 4)
        interpret(func, arrays, dims)
        module.run(func.name, [b.address for b in buffers], dims, scratch=scratch.address)
        scratch.check(False)
        for param, array, buffer in zip(func.params, arrays, buffers, strict=True):
            buffer.check(param.mode == "in")
            text = f"{param.name}\n{print_func(func)}\n{emit_function(func, host_isa())}"
            assert same_bits(buffer.array, array), text


BATCHES = st.lists(loop_funcs(), min_size=10, max_size=10)
QUICK = settings(max_examples=2, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def numbered(funcs: Sequence[LoopFunc]) -> list[LoopFunc]:
    return [replace(func, name=f"f{i}") for i, func in enumerate(funcs)]


@QUICK
@given(BATCHES)
def test_random_functions(cache: Path, funcs: list[LoopFunc]) -> None:
    funcs = numbered(funcs)
    check(funcs, build(funcs, cache, host_isa()))


@QUICK
@given(BATCHES)
@pytest.mark.skipif(not HAS_GCC, reason="no gcc")
def test_random_functions_by_gcc(cache: Path, funcs: list[LoopFunc]) -> None:
    funcs = numbered(funcs)
    check(funcs, build(funcs, cache, host_isa(), "gcc"))


def sanitized_check(pickled: Path, library: Path) -> None:
    """What the child of the test below runs, with the sanitizer's runtime preloaded."""
    check(pickle.loads(pickled.read_bytes()), LoadedModule(library))


@settings(parent=QUICK, max_examples=1)
@given(BATCHES)
@pytest.mark.skipif(not HAS_GCC, reason="no gcc")
def test_random_functions_under_sanitizers(cache: Path, funcs: list[LoopFunc]) -> None:
    funcs, isa = numbered(funcs), host_isa()
    flags = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    artifact = compile_module(emit_module(funcs, (), (), isa), isa, extra_flags=flags, link_flags=("-shared", *flags),
                              switches=replace(read_switches(), cache=cache, compiler="gcc"))
    pickled = cache / "funcs.pickle"
    pickled.write_bytes(pickle.dumps(funcs))
    runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    program = "import sys; from pathlib import Path; from tests.backends.test_emit_c import sanitized_check\n" \
              "sanitized_check(Path(sys.argv[1]), Path(sys.argv[2]))"
    env = {**os.environ, "LD_PRELOAD": runtime.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0",
           "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program, str(pickled), str(artifact.path)], env=env, cwd=ROOT,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("isa", ["x86-64", "x86-64-v2", "aarch64", "armv7", "riscv64"])
def test_other_targets_compile(cache: Path, isa: str) -> None:
    """Everything the emitter can print compiles for targets that lack FMA, rounding or masked instructions."""
    switches = replace(read_switches(), cache=cache, compiler=None)
    sources = emit_module([every_operation(dtype) for dtype in (FLOAT32, FLOAT64)], (), (), isa)
    artifact = compile_module(sources, isa, switches=switches)
    assert artifact.library[:4] == b"\x7fELF"
    if isa.startswith("x86") and host_isa().startswith("x86"):
        module, dims = LoadedModule(artifact.path), [21]
        for dtype in (FLOAT32, FLOAT64):
            x = np.linspace(-3, 3, 21).astype(dtype.numpy)
            got, want = np.empty_like(x), np.empty_like(x)
            module.run(f"every_{dtype}", [x.ctypes.data, got.ctypes.data], dims)
            interpret(every_operation(dtype), [x, want], dims)
            np.testing.assert_allclose(got, want, 2e-6 if dtype == FLOAT32 else 1e-13)


def every_operation(dtype: DType) -> LoopFunc:
    """y = a sum of all functions and roundings of x, 8 lanes at a time with a partial last vector, then one scalar."""
    b = Builder(f"every_{dtype}")
    x, y, n = b.input("x", dtype), b.output("y", dtype), b.dim(Symbol("N").dim)

    def total(v: Expr) -> Expr:
        t = mad(v, v, unary("sqrt", unary("abs", v)))
        for name in ("floor", "ceil", "trunc", "rint"):
            t = t + unary(name, v * 1.7)
        for name in MATH:
            t = t + (intrin(name, unary("abs", v) + 0.5, v) if name == "pow"
                     else intrin(name, unary("abs", v) + 0.25 if name == "log" else v))
        return t

    with b.chunks(1):
        with b.loop(0, n, 8) as i:
            count = b.let(minimum(n - i, 8), "count")
            b.store(y, i, total(b.let(b.load(x, i, 8, count))), count)
        b.store(y, n - 1, total(b.let(b.load(x, n - 1))))
    return b.finish()[0]


def test_float16_goes_through_float32(cache: Path) -> None:
    b = Builder("half")
    x, y = b.input("x", FLOAT16), b.output("y", FLOAT16)
    with b.chunks(1):
        v = b.load(x, 0, 8)
        b.store(y, 0, intrin("tanh", v) * 2.0 + intrin("exp", v))
        b.store(y, 8, intrin("erf", b.load(x, 8)) + 1.0)
    func = b.finish()[0]
    data = np.linspace(-2, 2, 9).astype(np.float16)
    got, want = np.zeros(9, np.float16), np.zeros(9, np.float16)
    build([func], cache, host_isa()).run("half", [data.ctypes.data, got.ctypes.data])
    interpret(func, [data, want], [])
    np.testing.assert_allclose(got, want, 2e-3)


def test_dims_are_floor_division_and_extremes(cache: Path) -> None:
    n, m = Symbol("N", 0, 1000), Symbol("M", 1, 50)
    dims = (n.dim * 3 - 7, ceildiv(n.dim * m.dim, 8), dim_min(n.dim, m.dim * m.dim), dim_max(n.dim - 40, m.dim),
            (n.dim - 9) // m.dim, n.dim % 4, -n.dim)
    artifact = compile_module(emit_module([], dims, (n, m), host_isa()), host_isa(),
                              switches=replace(read_switches(), cache=cache))
    module = LoadedModule(artifact.path)
    assert module.names == ()
    for n_value, m_value in ((0, 1), (1, 50), (999, 7), (8, 3), (1000, 50)):
        want = [evaluate(d, {"N": n_value, "M": m_value}) for d in dims]
        assert module.eval_dims([n_value, m_value], len(dims)) == want


def test_dims_beyond_2_to_the_56_saturate(cache: Path) -> None:
    """What stays below on the way is exact; what passes it stays there, whatever follows."""
    a, b, c = (Symbol(name, 0, UNBOUNDED) for name in "ABC")
    product = a.dim * b.dim * c.dim
    dims = (product, product - a.dim * a.dim * b.dim, (product + 7) // c.dim - 1, dim_min(product, a.dim), -2 * product,
            dim_max(1 - product, 4 - b.dim), (product - a.dim * c.dim) // 3, product * (1 << 40))
    artifact = compile_module(emit_module([], dims, (a, b, c), host_isa()), host_isa(),
                              switches=replace(read_switches(), cache=cache))
    module, most = LoadedModule(artifact.path), 1 << 56

    def sized(values: dict[str, int]) -> list[int]:
        return module.eval_dims([values[n] for n in "ABC"], len(dims))

    rng = random.Random(0)
    for _ in range(200):
        values = {n: rng.choice((0, 1, 2, 3, 1000, rng.randint(0, 4000))) for n in "ABC"}
        if values["C"] and evaluate(product, values) < 1 << 16:
            assert sized(values) == [evaluate(d, values) for d in dims]
    huge = dict.fromkeys("ABC", UNBOUNDED)
    assert sized(huge) == [most, most, most, UNBOUNDED, -most, 4 - UNBOUNDED, most, most]
    assert sized(huge | {"C": 0})[0] == 0 and sized(huge | {"B": 0})[1] == 0
    assert all(abs(value) <= most for n in "ABC" for value in sized(huge | {n: 2}))


def test_names_that_mean_something_in_c(cache: Path) -> None:
    b = Builder("clash")
    x, y = b.input("int", FLOAT32), b.output("f32x8", FLOAT32)
    with b.chunks(1):
        a = b.let(b.load(x, 0, 8) + 1.0, "load_f32x8")
        c = b.let(b.load(x, 0, 8) * a, "bufs")
        b.store(y, 0, b.let(c - a, "mi_kernels"))
    func = b.finish()[0]
    data, got, want = np.arange(8, dtype=np.float32), np.zeros(8, np.float32), np.zeros(8, np.float32)
    build([func], cache, host_isa()).run("clash", [data.ctypes.data, got.ctypes.data])
    interpret(func, [data, want], [])
    assert got.tobytes() == want.tobytes()


def test_input_and_output_may_share_memory(cache: Path) -> None:
    """The planner computes in place: a load that stands before a store must not be moved after it."""
    b = Builder("in_place")
    x, y, z = b.input("x", FLOAT32), b.output("y", FLOAT32), b.output("z", FLOAT32)
    with b.chunks(1), b.loop(0, 64, 8) as i:
        v = b.let(b.load(x, i, 8))
        b.store(y, i, v + 1.0)
        b.store(z, i, v * 2.0)
    shared, z_out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    for compiler in (None, "gcc") if HAS_GCC else (None,):
        shared[:] = np.arange(64)
        module = build([b.finish()[0]], cache, host_isa(), compiler)
        module.run("in_place", [shared.ctypes.data, shared.ctypes.data, z_out.ctypes.data])
        np.testing.assert_array_equal(shared, np.arange(64) + 1)
        np.testing.assert_array_equal(z_out, np.arange(64) * 2)


def test_shared_operands_are_computed_once() -> None:
    b = Builder("deep")
    y = b.output("y", FLOAT32)
    with b.chunks(1):
        v = splat(cast(b.load(b.input("x", FLOAT32), 0), FLOAT32), 8)
        for _ in range(60):
            v = v * v
        b.store(y, 0, v)
    text = emit_function(b.finish()[0], "x86-64-v3", "Deep */ label")
    assert len(text) < 6000 and "/* Deep * / label */" in text


def plus(name: str, statements: int) -> LoopFunc:
    b = Builder(name)
    x, y = b.input("x", FLOAT32), b.output("y", FLOAT32)
    with b.chunks(1):
        for i in range(statements):
            b.store(y, i, b.load(x, i) + 1.0)
    return b.finish()[0]


def test_small_functions_share_two_units_and_large_ones_have_one_each() -> None:
    funcs = [plus(f"k_{i}", 3 + i) for i in range(7)]
    sources = emit_module(funcs, (), (), "x86-64-v3")
    assert len(sources) == 3, "two units, and the table"
    assert len(emit_module(funcs[:1], (), (), "x86-64-v3")) == 2
    for func in funcs:
        assert sum(f"void {func.name}(void* const* bufs" in s and "begin; chunk" in s for s in sources) == 1
        assert f'{{"{func.name}", ' in sources[-1]
    large = [plus("big", 200), plus("big_2", 201), plus("big_3", 200)]
    *units, table = emit_module([*large, *funcs[:2]], (), (), "x86-64-v3", {"big_2": "a */ b"})
    assert len(units) == 4, "equal loops are one function"
    assert sum("void big_" in unit for unit in units) == 2 and "/* a * / b */" in table


def test_a_large_function_is_the_same_unit_in_every_module() -> None:
    isa = "x86-64-v3"
    one, *_ = emit_module([plus("big", 200)], (), (), isa)
    two = emit_module([plus("small", 2), plus("big_7", 200), plus("big", 201)], (), (), isa)
    assert one in two
    unit = emit_alone(plus("big_4", 200), isa)
    assert unit.text == one and unit.symbol.startswith("big_") and f"void {unit.symbol}(void* const* bufs" in one
    assert f'{{"big_7", {unit.symbol}_chunks, {unit.symbol}_scratch, {unit.symbol}}},' in two[-1]


def test_types_without_registers_are_refused() -> None:
    b = Builder("brain")
    x, y = b.input("x", BFLOAT16), b.output("y", BFLOAT16)
    with b.chunks(1):
        b.store(y, 0, b.load(x, 0))
    with pytest.raises(UnsupportedError, match="bfloat16"):
        emit_function(b.finish()[0], "x86-64-v3")


def test_bool_buffers_hold_zero_and_one(cache: Path) -> None:
    b = Builder("masks")
    x, m, y = b.input("x", FLOAT32), b.input("m", BOOL), b.output("y", BOOL)
    with b.chunks(1):
        v = b.let(b.load(x, 0, 8).gt(0.0) & b.load(m, 0, 8))
        b.store(y, 0, v)
        b.store(y, 8, b.load(m, 0) & b.load(x, 0).le(0.0))
        b.store(y, 9, iota(4).lt(2))
    func = b.finish()[0]
    x_data = np.array([1, -1, 2, -2, np.nan, 0, 3, 4], np.float32)
    mask = np.array([1, 1, 0, 0, 1, 1, 1, 0], np.bool_)
    got, want = np.full(13, 7, np.uint8), np.zeros(13, np.bool_)
    build([func], cache, host_isa()).run("masks", [x_data.ctypes.data, mask.ctypes.data, got.ctypes.data])
    interpret(func, [x_data, mask, want], [])
    assert got.tolist() == want.astype(int).tolist()


def test_a_shifted_constant_has_64_bits(cache: Path) -> None:
    b = Builder("shifts")
    x, y = b.input("x", INT64), b.output("y", INT64)
    with b.chunks(1), b.loop(0, 3) as i:
        b.store(y, i, const(1) << b.load(x, i))
    by, got = np.array([3, 31, 40], np.int64), np.zeros(3, np.int64)
    build([b.finish()[0]], cache, host_isa()).run("shifts", [by.ctypes.data, got.ctypes.data])
    assert got.tolist() == [1 << 3, 1 << 31, 1 << 40]
