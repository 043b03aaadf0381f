"""The backend interface and the CPU backend: choosing, estimating, compiling with the runtime, crashing children."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from meta_infer.backends.base import Failure, Metric, No, Yes
from meta_infer.backends.cpu.backend import CPU, call_labels
from meta_infer.backends.cpu.child import run_child
from meta_infer.backends.cpu.execute import execute_package
from meta_infer.backends.registry import BACKENDS, backend_for
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Node
from meta_infer.ir.group import Group
from meta_infer.ir.loop import LoopFunc
from meta_infer.ir.program import BufferDecl, Call, Program
from meta_infer.ir.shapes import Symbol
from meta_infer.support.dtypes import FLOAT32
from meta_infer.support.errors import ProfileError
from tests.kernels.harness import PROFILE, layouts_of, make_group, reference, run_lowering

N = Symbol("N", 1, 64)


def double_func() -> LoopFunc:
    b = Builder("double")
    x, y, n = b.input("x", FLOAT32), b.output("y", FLOAT32), b.dim(N.dim)
    with b.chunks(1), b.loop(0, n) as i:
        b.store(y, i, b.load(x, i) * 2.0)
    return b.finish()[0]


def program() -> Program:
    buffers = {"x": BufferDecl("x", FLOAT32, (N.dim,), "input"), "y": BufferDecl("y", FLOAT32, (N.dim,), "output")}
    commands = (Call("twice", ("x", "y"), (N.dim,), ("node_a",), "Mul"),)
    return Program("p", ("x",), ("y",), buffers, {}, {"twice": double_func()}, commands, symbols={"N": N})


def group() -> Group:
    rng = np.random.default_rng(0)
    return make_group("Add", {"a": rng.normal(size=(4, 8)).astype(np.float32),
                              "b": rng.normal(size=(4, 8)).astype(np.float32)}).group


def test_the_registry_knows_what_profiles_name() -> None:
    assert [b.name for b in BACKENDS] == ["cpu"]
    assert backend_for(PROFILE) is CPU
    with pytest.raises(ProfileError, match="names no backend"):
        backend_for(replace(PROFILE, backend=None))
    with pytest.raises(ProfileError, match="unknown backend 'gpu'"):
        backend_for(replace(PROFILE, backend="gpu"))


def test_support_comes_with_a_reason() -> None:
    assert CPU.supports(group(), PROFILE) == Yes()
    made = group()
    strange = replace(made, anchor=Node("NoSuchOp", made.anchor.inputs, made.anchor.outputs))
    assert CPU.supports(strange, PROFILE) == No("no CPU kernel computes NoSuchOp")
    assert not list(CPU.variants(strange, PROFILE))


def test_variants_lower_to_code_that_computes_the_group() -> None:
    rng = np.random.default_rng(1)
    case = make_group("Mul", {"a": rng.normal(size=(3, 5)).astype(np.float32), "b": np.float32([2])})
    variant = next(iter(CPU.variants(case.group, PROFILE)))
    layouts = layouts_of(variant, case.group)
    got = run_lowering(case.group, CPU.lower(case.group, variant, layouts, PROFILE), layouts, case.arrays)
    np.testing.assert_array_equal(got["out"], reference(case)["out"])


def test_estimates_are_rooflines_labelled_as_models() -> None:
    made = group()
    variant = replace(next(iter(CPU.variants(made, PROFILE))), flops=0)
    moved = CPU.estimate(made, variant, PROFILE)
    assert moved is not None and moved.kind == "model" and moved.unit == "s"
    assert moved.value == pytest.approx(3 * 32 * 4 / PROFILE.bandwidth)
    heavy = CPU.estimate(made, replace(variant, flops=10**12), PROFILE)
    peak = PROFILE.macs_per_second(FLOAT32)
    assert heavy is not None and peak is not None and heavy.value == pytest.approx(10**12 / (2 * peak))
    assert CPU.estimate(made, variant, replace(PROFILE, bandwidth=None, clock_ghz=None)) is None
    assert str(Metric(0.5, "s", "compiler_estimate", 0.1)) == "0.5 ± 0.1 s (compiler estimate)"


def test_a_program_compiles_with_the_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("META_INFER_CACHE", str(tmp_path))
    sources = CPU.emit(program(), PROFILE)
    assert "/* Mul  for node_a */" in sources[-1] and "void twice(" in sources[0]
    assert "dims[0] = symbols[0];" in sources[-1]
    artifact = CPU.compile(sources, PROFILE)
    assert artifact.library[:4] == b"\x7fELF" and artifact.isa == PROFILE.isa
    assert CPU.compile(sources, PROFILE).compiler_calls == 0


def test_labels_join_the_uses_of_one_kernel() -> None:
    made = program()
    twice = replace(made, commands=(*made.commands, Call("twice", ("x", "y"), (N.dim,), ("node_b",), "Mul")))
    assert call_labels(twice) == {"twice": "Mul  for node_a; Mul  for node_b"}


def failure(code: str, time_limit: float = 30.0) -> Failure | None:
    return run_child([sys.executable, "-c", code], time_limit)


@pytest.mark.parametrize(("code", "reason"), [
    ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "killed by SIGILL"),
    ("import ctypes; ctypes.string_at(0)", "killed by SIGSEGV"),
    ("raise ValueError('no such thing')", "ValueError: no such thing"),
    ("raise SystemExit(3)", "exit code 3"),
])
def test_a_child_that_dies_costs_one_sample(code: str, reason: str) -> None:
    assert failure(code) == Failure(reason)


def test_a_child_that_hangs_is_killed() -> None:
    assert failure("import time; time.sleep(60)", 0.5) == Failure("still running after 0.5 s")
    assert failure("pass") is None


def test_a_package_that_is_none_fails_with_its_error(tmp_path: Path) -> None:
    path = tmp_path / "nothing.bin"
    path.write_bytes(b"this is no package")
    result = execute_package(path, [{"x": np.zeros(1, np.float32)}])
    assert isinstance(result, Failure) and "nothing.bin" in result.reason


