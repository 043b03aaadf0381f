"""Random region trees through the command table and the C interpreter, against a small interpreter in Python."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from meta_infer.backends.base import Artifact
from meta_infer.backends.cpu.emit_c import emit_module
from meta_infer.backends.cpu.toolchain import compile_module
from meta_infer.ir.program import (
    AssignDims,
    BufferDecl,
    CheckDims,
    Command,
    Copy,
    Fill,
    If,
    InputDim,
    Loop,
    MemoryPlan,
    Program,
    SetDim,
    Wait,
)
from meta_infer.ir.shapes import UNBOUNDED, Expr, Symbol
from meta_infer.lower.dims import program_dims
from meta_infer.memory.planner import plan_memory
from meta_infer.package.command_table import buffer_order, encode_program
from meta_infer.package.constants import place_constants
from meta_infer.package.writer import CompiledTarget, write_package
from meta_infer.runtime.session import load
from meta_infer.runtime.sources import C_SOURCES
from meta_infer.support.dtypes import BOOL, INT64
from meta_infer.support.errors import InternalError
from tests.runtime.programs import ISA

SIZE = 8
K = Symbol("k", 0, SIZE - 1)                       # values of all elements stay in its range
S = Symbol("s", 0, UNBOUNDED)
ARRAYS = ("a", "b", "c")


def make_program(commands: tuple[Command, ...], pooled: bool = False) -> Program:
    """Three arrays, a view of one element of each at place k, flags, counters; the arrays are the outputs.

    With `pooled`, the length of the arrays is found while running, and they are outputs themselves.
    """
    length = S.dim if pooled else SIZE
    buffers = [BufferDecl(f"{n}_at_k", INT64, (1,), "temp", alias=n, offset=K.dim) for n in ARRAYS]
    buffers += [BufferDecl(n, INT64, (length,), "temp") for n in ARRAYS]
    buffers += [BufferDecl("length", INT64, (), "const")] if pooled else []
    buffers += [BufferDecl(f"flag{i}", BOOL, (), "temp") for i in range(2)]
    buffers += [BufferDecl(f"pass{i}", INT64, (), "temp") for i in range(4)]
    buffers += [BufferDecl("true", BOOL, (), "const"), BufferDecl("false", BOOL, (), "const")]
    buffers += [BufferDecl(f"trip{i}", INT64, (), "const") for i in range(4)]
    buffers += [BufferDecl(f"out_{n}", INT64, (SIZE,), "output") for n in ARRAYS]
    constants = {"length": np.array(SIZE)} if pooled else {}
    constants |= {"true": np.array(True), "false": np.array(False)} | {f"trip{i}": np.array(i) for i in range(4)}
    told = (SetDim("s", "length"),) if pooled else ()
    first = told + tuple(Fill(n, i + 1) for i, n in enumerate((*ARRAYS, *(f"pass{i}" for i in range(4)))))
    first += (Copy("true", "flag0", 1), Copy("false", "flag1", 1), Fill("pass0", 2), SetDim("k", "pass0"))
    last = () if pooled else tuple(Copy(n, f"out_{n}", SIZE) for n in ARRAYS)
    outputs = ARRAYS if pooled else tuple(f"out_{n}" for n in ARRAYS)
    return Program("random", (), outputs, {b.name: b for b in buffers}, constants, {}, (*first, *commands, *last), (),
                   {"k": K, "s": S} if pooled else {"k": K}, (), outputs)


def random_commands(rng: random.Random, depth: int, count: int) -> tuple[Command, ...]:
    def array() -> str:
        return rng.choice(ARRAYS)

    def copy() -> Command:
        n = rng.randint(0, 4)
        return Copy(array(), array(), n, rng.randint(0, SIZE - n), rng.randint(0, SIZE - n))

    makers: list[Callable[[], Command]] = [
        lambda: Fill(array(), rng.randint(0, 7)),
        lambda: Fill(f"{array()}_at_k", rng.randint(0, 7)),
        copy,
        lambda: Copy(array(), array(), 1, K.dim, rng.randint(0, 7)),
        lambda: Copy(f"{array()}_at_k", array(), 1, 0, rng.randint(0, 7)),
        lambda: SetDim("k", array(), rng.randint(0, 7)),
        lambda: AssignDims(("k",), (rng.randint(0, 7),)),
        lambda: CheckDims(K.dim, K.dim, "k"),
        lambda: Copy(rng.choice(("true", "false", "flag0", "flag1")), rng.choice(("flag0", "flag1")), 1),
        lambda: Wait((), 0),
    ]
    if depth:
        def body() -> tuple[Command, ...]:
            return random_commands(rng, depth - 1, rng.randint(0, 4))

        makers += [
            lambda: If(rng.choice(("flag0", "flag1")), body(), body()),
            lambda: Loop(f"trip{rng.randint(0, 3)}", rng.choice(("", "flag0", "true")), f"pass{depth}",
                         (*body(), Copy(f"pass{depth}", array(), 1, 0, rng.randint(0, 7)), *body()),
                         rng.choice(("", "k"))),
        ]
    return tuple(rng.choice(makers)() for _ in range(count))


class Machine:
    """What the commands mean, on numpy arrays."""

    def __init__(self, program: Program) -> None:
        self.program, self.k = program, K.hi
        self.memory = {n: np.zeros([d if isinstance(d, int) else SIZE for d in b.shape], b.dtype.numpy).reshape(-1)
                       for n, b in program.buffers.items()}
        self.memory |= {n: np.array(a).reshape(-1) for n, a in program.constants.items()}

    def at(self, name: str) -> np.ndarray:
        return self.memory[name[0]][self.k:self.k + 1] if name.endswith("_at_k") else self.memory[name]

    def number(self, dim: object) -> int:
        return self.k if isinstance(dim, Expr) else int(dim)  # type: ignore[call-overload]

    def run(self, commands: tuple[Command, ...]) -> None:
        for command in commands:
            match command:
                case Fill(dst=dst, value=value):
                    self.at(dst)[:] = value
                case Copy(src=src, dst=dst, count=count):
                    a, b, n = self.number(command.src_offset), self.number(command.dst_offset), self.number(count)
                    self.at(dst)[b:b + n] = self.at(src)[a:a + n].copy()
                case SetDim(symbol="k", src=src, index=index):
                    self.k = int(self.at(src)[index])
                case AssignDims(dims=(dim,)):
                    self.k = self.number(dim)
                case If(cond=cond, then=then, orelse=orelse):
                    self.run(then if self.at(cond)[0] else orelse)
                case Loop():
                    self.loop(command)

    def loop(self, command: Loop) -> None:
        trips, done = int(self.at(command.trip_count)[0]), 0
        if command.symbol:                                  # unknown until this loop ends, whatever it was before
            self.k = K.hi
        going = not command.cond or bool(self.at(command.cond)[0])
        while done < trips and going:
            self.at(command.iteration)[0] = done
            self.run(command.body)
            done += 1
            going = not command.cond or bool(self.at(command.cond)[0])
        if command.symbol:
            self.k = done


@pytest.fixture(scope="module", params=[False, True], ids=["arena", "pool"])
def artifact(request: pytest.FixtureRequest) -> tuple[bool, Artifact]:
    program = make_program((), request.param)
    sources = emit_module([], program_dims(program), list(program.symbols.values()), ISA)
    return request.param, compile_module(sources, ISA, C_SOURCES, jobs=1)


@pytest.mark.parametrize("arena", ["", "poison", "separate"])
def test_random_region_trees(artifact: tuple[bool, Artifact], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                             arena: str) -> None:
    monkeypatch.setenv("META_INFER_ARENA", arena)
    for seed in range(60):
        rng = random.Random(seed)
        program = make_program(random_commands(rng, 3, rng.randint(1, 12)), artifact[0])
        assert len(plan_memory(program).pooled) == 3 * artifact[0]
        machine = Machine(program)
        machine.run(program.commands)
        write_package(tmp_path / "p.bin", [CompiledTarget(program, plan_memory(program), artifact[1])])
        with load(tmp_path / "p.bin", threads=1) as session:
            for _ in range(2):                                       # nothing may stay from one run to the next
                for got, name in zip(session.run(None, {}), ARRAYS, strict=True):
                    np.testing.assert_array_equal(got, machine.memory[name], err_msg=f"seed {seed}, array {name}")


def test_views_come_after_what_they_lie_in() -> None:
    order = buffer_order(make_program(()))
    assert all(order.index(n) < order.index(f"{n}_at_k") for n in ARRAYS) and len(order) == len(set(order))


def test_what_the_runtime_cannot_hold_is_refused() -> None:
    program = make_program(())
    [placed] = place_constants([program])
    with pytest.raises(InternalError, match="memory space 'sram'"):
        encode_program(program, MemoryPlan({}, {}, {"sram": 1}, {}), (), placed)
    deep = BufferDecl("out_a", INT64, (1,) * 17, "output")
    with pytest.raises(InternalError, match="rank 17"):
        encode_program(replace(program, buffers={**program.buffers, "out_a": deep}), plan_memory(program), (), placed)
    huge = Symbol("huge", 0, 1 << 40)
    wide = replace(program.buffers["a_at_k"], offset=huge.dim * huge.dim)
    shaped = BufferDecl("x", INT64, (huge.dim,), "input")
    given = replace(program, buffers={**program.buffers, "a_at_k": wide, "x": shaped}, inputs=("x",),
                    symbols={"huge": huge, "k": K}, input_dims=(InputDim(huge, "x", 0),))
    with pytest.raises(InternalError, match="more than the runtime can address"):
        encode_program(given, plan_memory(program), (), placed)
    encode_program(replace(given, input_dims=()), plan_memory(program), (), placed)     # while running it saturates
