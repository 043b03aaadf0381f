"""AssignDims and CheckDims: symbols that change together while a program runs, and sizes that must agree."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from meta_infer.backends.base import Artifact
from meta_infer.backends.cpu.emit_c import emit_module
from meta_infer.backends.cpu.toolchain import compile_module
from meta_infer.ir.program import AssignDims, BufferDecl, CheckDims, Copy, InputDim, Loop, Program, SetDim
from meta_infer.ir.program_text import print_program
from meta_infer.ir.shapes import Symbol
from meta_infer.lower.dims import program_dims
from meta_infer.memory.planner import plan_memory
from meta_infer.package.writer import CompiledTarget, write_package
from meta_infer.runtime.session import Session, load
from meta_infer.runtime.sources import C_SOURCES
from meta_infer.support.dtypes import INT64
from meta_infer.support.errors import InputError

from .programs import ISA

N = Symbol("n", 1, 16)
A, B = Symbol("a", 0, 40), Symbol("b", 0, 40)


def make_program() -> Program:
    """A loop whose carried sizes are a Fibonacci pair, (a, b) = (b, a + b) from (0, n), and outputs of those sizes."""
    buffers = [BufferDecl("x", INT64, (N.dim,), "input"), BufferDecl("start", INT64, (), "const"),
               BufferDecl("trips", INT64, (), "input"), BufferDecl("pass", INT64, (), "temp"),
               BufferDecl("zeros", INT64, (40,), "const"),
               BufferDecl("first", INT64, (A.dim,), "output"), BufferDecl("second", INT64, (B.dim,), "output")]
    commands = (
        SetDim("a", "start"),
        AssignDims(("b",), (N.dim,)),
        Loop("trips", "", "pass", (AssignDims(("a", "b"), (B.dim, A.dim + B.dim)),)),
        Copy("zeros", "first", A.dim),
        Copy("zeros", "second", B.dim),
        CheckDims(B.dim, 3 * N.dim, "node 'reshape_3'"),
    )
    return Program("pairs", ("x", "trips"), ("first", "second"), {b.name: b for b in buffers},
                   {"start": np.array(0), "zeros": np.zeros(40, np.int64)}, {}, commands, (InputDim(N, "x", 0),),
                   {s.name: s for s in (N, A, B)}, ("x", "trips"), ("first", "second"))


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    program = make_program()
    return compile_module(emit_module([], program_dims(program), list(program.symbols.values()), ISA), ISA, C_SOURCES,
                          jobs=1)


@pytest.fixture(params=["", "poison", "separate"])
def session(request: pytest.FixtureRequest, artifact: Artifact, tmp_path: Path,
            monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setenv("META_INFER_ARENA", request.param)
    program = make_program()
    write_package(tmp_path / "p.bin", [CompiledTarget(program, plan_memory(program), artifact)])
    return load(tmp_path / "p.bin", threads=1)


def feeds(n: int, trips: int) -> dict[str, np.ndarray]:
    return {"x": np.zeros(n, np.int64), "trips": np.array(trips)}


def test_all_dims_are_read_before_a_symbol_changes(session: Session) -> None:
    for n in (1, 5, 12):                                        # (0, n), (n, n), (n, 2 n), (2 n, 3 n)
        first, second = session.run(None, feeds(n, 3))
        assert first.shape == (2 * n,) and second.shape == (3 * n,)


def test_dims_that_differ_are_an_error_with_both_numbers(session: Session) -> None:
    with pytest.raises(InputError, match=r"node 'reshape_3': 8 is not 12"):
        session.run(None, feeds(4, 2))
    with pytest.raises(InputError, match=r"node 'reshape_3': 20 is not 12"):
        session.run(None, feeds(4, 4))
    assert session.run(None, feeds(4, 3))[1].shape == (12,)


def test_a_value_outside_the_range_names_the_symbol(session: Session) -> None:
    with pytest.raises(InputError, match=r"'b' became 48 while running, allowed are 0..40"):
        session.run(None, feeds(16, 3))


def test_printed() -> None:
    text = print_program(make_program())
    assert "assign a, b = b, a + b" in text and "check b == 3*n  # node 'reshape_3'" in text
