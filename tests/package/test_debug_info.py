"""Which command makes which buffer's value: what comparison by layer stands on."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from meta_infer.backends.cpu.emit_c import emit_module
from meta_infer.backends.cpu.toolchain import compile_module
from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import LoopFunc
from meta_infer.ir.program import BufferDecl, Call, Copy, If, Program
from meta_infer.memory.planner import plan_memory
from meta_infer.package.debug_info import writers
from meta_infer.package.writer import CompiledTarget, write_package
from meta_infer.runtime.session import load
from meta_infer.runtime.sources import C_SOURCES
from meta_infer.support.dtypes import BOOL, FLOAT32
from tests.runtime.programs import ISA

SIZE = 6


def increment(in_place: bool) -> LoopFunc:
    b = Builder("increment_in_place" if in_place else "increment")
    source = b.inout("x", FLOAT32) if in_place else b.input("x", FLOAT32)
    target = source if in_place else b.output("y", FLOAT32)
    with b.chunks(1), b.loop(0, SIZE) as i:
        b.store(target, i, b.load(source, i) + 1.0)
    return b.finish()[0]


def tensor(name: str, kind: str = "temp", alias: str | None = None, offset: int = 0, size: int = SIZE) -> BufferDecl:
    return BufferDecl(name, FLOAT32, (size,), kind, alias=alias, offset=offset, origin=name)


def make_program() -> Program:
    buffers = [
        tensor("x", "input"), BufferDecl("flag", BOOL, (), "input"),
        tensor("one"),                             # x + 1
        tensor("two", alias="one"),                # one + 1, over one
        tensor("three", alias="two"),              # two + 1, over two
        tensor("half", alias="three", offset=3, size=3),
        tensor("chosen"), tensor("y", "output"), tensor("through", alias="y"),
    ]
    commands = (
        Call("increment", ("x", "one")),
        Call("increment_in_place", ("two",)),
        Call("increment_in_place", ("three",)),
        If("flag", (Copy("three", "chosen", SIZE),), (Copy("x", "chosen", SIZE),)),
        Call("increment", ("chosen", "through")),
    )
    kernels = {f.name: f for f in (increment(False), increment(True))}
    return Program("writers", ("x", "flag"), ("y",), {b.name: b for b in buffers}, {}, kernels, commands)


def test_every_value_has_its_own_command() -> None:
    assert writers(make_program()) == {
        "x": [], "flag": [], "one": [0], "two": [1], "three": [2], "half": [2], "chosen": [4, 5], "y": [6],
        "through": [6]}


def test_layers_see_values_before_they_are_overwritten(tmp_path: Path) -> None:
    program = make_program()
    artifact = compile_module(emit_module(list(program.kernels.values()), (), (), ISA), ISA, C_SOURCES, jobs=1)
    write_package(tmp_path / "p.bin", [CompiledTarget(program, plan_memory(program), artifact)])
    x = np.arange(SIZE, dtype=np.float32)
    with load(tmp_path / "p.bin", threads=1) as session:
        for flag in (True, False):
            layers = session.layers({"x": x, "flag": np.array(flag)})
            want = {"one": x + 1, "two": x + 2, "three": x + 3, "half": x[3:] + 3, "chosen": x + 3 if flag else x}
            want["y"] = want["through"] = want["chosen"] + 1
            assert layers.keys() == want.keys()
            for name, array in want.items():
                np.testing.assert_array_equal(layers[name], array)
