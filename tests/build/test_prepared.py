"""Weights that a session brings into another form when it is made."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from meta_infer.backends.base import Execution
from meta_infer.backends.cpu.backend import CPU
from meta_infer.backends.cpu.emulated import execute_emulated
from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import Group, Layout, Variant
from meta_infer.ir.program import Program
from meta_infer.ir.program_text import print_program
from meta_infer.kernels.kernel import KernelCall, Lowering, Temp
from meta_infer.lower.lower_graph import lower_graph
from meta_infer.memory.planner import plan_memory
from meta_infer.package.writer import CompiledTarget, write_package
from meta_infer.runtime.session import load
from meta_infer.support.dtypes import FLOAT32
from tests.emulators import need_emulator
from tests.kernels.emulated import plan_of
from tests.kernels.harness import Case, make_group, make_profile, run_lowering

ROWS = 40


def case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    return make_group("Mul", {"x": rng.standard_normal(ROWS, np.float32), "w": rng.standard_normal(ROWS, np.float32)},
                      constants=("w",))


def scale_by_reversed(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    """x * w from weights that lie backwards in the package: turned round once, in chunks, when a session is made."""
    b = Builder("turn")
    backwards, turned = b.input("backwards", FLOAT32), b.output("turned", FLOAT32)
    with b.chunks(4) as chunk, b.loop(chunk * 10, chunk * 10 + 10) as i:
        b.store(turned, i, b.load(backwards, ROWS - 1 - i))
    turn, _ = b.finish()
    b = Builder("scale")
    x, w, y = b.input("x", FLOAT32), b.input("w", FLOAT32), b.output("y", FLOAT32)
    with b.chunks(1), b.loop(0, ROWS) as i:
        b.store(y, i, b.load(x, i) * b.load(w, i))
    scale, _ = b.finish()
    x_name, w_name = group.anchor.inputs
    return Lowering((KernelCall(scale, (x_name, "turned", group.outputs[0]), ()),),
                    {"backwards": np.ascontiguousarray(group.constants[w_name][::-1])}, (),
                    (KernelCall(turn, ("backwards", "turned"), ()),), (Temp("turned", FLOAT32, (ROWS,)),))


def built(cases: list[Case], isa: str | None, path: Path) -> Program:
    profile = make_profile(isa)
    variant = next(iter(CPU.variants(cases[0].group, profile)))
    plan = plan_of([(one, variant) for one in cases])
    program = lower_graph(plan, profile, scale_by_reversed, plan.graph.inputs, plan.graph.outputs)
    artifact = CPU.compile(CPU.emit(program, profile), profile)
    write_package(path, [CompiledTarget(program, plan_memory(program), artifact)])
    return program


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("arena", ["", "separate", "poison"])
def test_prepared_once_and_read_in_every_run(tmp_path: Path, threads: int, arena: str,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("META_INFER_ARENA", arena)
    cases = [case(1), case(2)]
    program = built(cases, None, tmp_path / "m.bin")
    assert program.prepares == 2
    assert [name for name, decl in program.buffers.items() if decl.kind == "prepared"]
    with load(tmp_path / "m.bin", threads=threads) as session:
        assert session.info.prepared_bytes == 2 * 192, "40 floats each, to whole cache lines"
        for _ in range(3):
            found = session.run(None, {f"c{i}_x": one.arrays["x"] for i, one in enumerate(cases)})
            for one, got in zip(cases, found, strict=True):
                np.testing.assert_array_equal(got, one.arrays["x"] * one.arrays["w"])
        times = session.profile({f"c{i}_x": one.arrays["x"] for i, one in enumerate(cases)})
        assert times[:2] == [0, 0], "what is prepared takes no time of a run"


def test_the_text_of_a_program_tells_them_apart(tmp_path: Path) -> None:
    program = built([case(1)], None, tmp_path / "m.bin")
    text = print_program(program, plan_memory(program))
    assert "  prepare {\n    call turn(" in text
    assert "space prepared: 192 bytes" in text


def test_another_processor(tmp_path: Path) -> None:
    need_emulator("aarch64")
    one = case(3)
    built([one], "aarch64", tmp_path / "m.bin")
    done = execute_emulated(tmp_path / "m.bin", [{"c0_x": one.arrays["x"]}], 1, 1, 60.0, "aarch64")
    assert isinstance(done, Execution), done
    np.testing.assert_array_equal(done.outputs[0]["c0_out"], one.arrays["x"] * one.arrays["w"])


def test_the_harness_of_kernels_prepares_too() -> None:
    one, profile = case(4), make_profile()
    variant = next(iter(CPU.variants(one.group, profile)))
    got = run_lowering(one.group, scale_by_reversed(one.group, variant, {}, profile), {}, one.arrays, profile)
    np.testing.assert_array_equal(got["out"], one.arrays["x"] * one.arrays["w"])


def test_a_table_whose_preparation_reads_what_only_a_run_has(tmp_path: Path) -> None:
    """The runtime refuses it when the package is loaded."""
    cases = [case(1)]
    profile = make_profile()
    variant = next(iter(CPU.variants(cases[0].group, profile)))
    plan = plan_of([(one, variant) for one in cases])
    program = lower_graph(plan, profile, scale_by_reversed, plan.graph.inputs, plan.graph.outputs)
    wrong = dataclasses.replace(program, prepares=2)
    artifact = CPU.compile(CPU.emit(wrong, profile), profile)
    write_package(tmp_path / "m.bin", [CompiledTarget(wrong, plan_memory(wrong), artifact)])
    with pytest.raises(Exception, match="a command before a run"):
        load(tmp_path / "m.bin")
