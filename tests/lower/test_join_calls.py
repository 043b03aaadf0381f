"""Which calls run together, on programs made by hand and by the compiler."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from meta_infer import api
from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import LoopFunc
from meta_infer.ir.program import MOST_JOINED, BufferDecl, Call, Command, Fill
from meta_infer.lower.join_calls import join_calls
from meta_infer.lower.program_builder import ProgramBuilder
from meta_infer.runtime.session import load
from meta_infer.support.dtypes import FLOAT32
from meta_infer.verify.reference import reference_session, run_reference


def scale() -> LoopFunc:
    b = Builder("scale")
    x, y = b.input("x", FLOAT32), b.output("y", FLOAT32)
    with b.chunks(4) as chunk:
        b.store(y, chunk, b.load(x, chunk) * 2.0)
    return b.finish()[0]


@pytest.fixture
def builder() -> ProgramBuilder:
    made = ProgramBuilder()
    for name in "abcdefghijkl":
        made.add(BufferDecl(name, FLOAT32, (4,), "temp"))
    made.add(BufferDecl("half", FLOAT32, (2,), "temp", alias="a", offset=2))
    made.add(BufferDecl("whole", FLOAT32, (2, 2), "temp", alias="a"))
    made.kernel(scale())
    return made


def call(source: str, target: str, piece: str = "") -> Call:
    return Call("scale", (source, target), pieces=(piece, piece))


def joined(builder: ProgramBuilder, *commands: Command) -> list[str]:
    return [c.joined if isinstance(c, Call) else "-" for c in join_calls(commands, builder)]


def test_branches_run_beside_each_other(builder: ProgramBuilder) -> None:
    assert joined(builder, call("a", "b"), call("a", "c"), call("d", "e")) == ["alone", "beside", "beside"]


def test_a_reader_waits(builder: ProgramBuilder) -> None:
    assert joined(builder, call("a", "b"), call("b", "c")) == ["alone", "alone"]
    assert joined(builder, call("a", "b"), call("c", "d"), call("b", "e")) == ["alone", "beside", "alone"]


def test_a_writer_waits_for_readers_and_writers(builder: ProgramBuilder) -> None:
    assert joined(builder, call("a", "b"), call("c", "a")) == ["alone", "alone"]
    assert joined(builder, call("a", "b"), call("c", "b")) == ["alone", "alone"]


def test_equal_pieces_match(builder: ProgramBuilder) -> None:
    assert joined(builder, call("a", "b", "p"), call("b", "c", "p"), call("c", "d", "p")) == [
        "alone", "matched", "matched"]
    assert joined(builder, call("a", "b", "p"), call("b", "c", "q")) == ["alone", "alone"]
    assert joined(builder, call("a", "b", "p"), call("b", "c")) == ["alone", "alone"]
    assert joined(builder, call("a", "b", "p"), call("c", "a", "p")) == ["alone", "matched"], "written after it is read"


def test_views_of_part_of_a_buffer_do_not_match(builder: ProgramBuilder) -> None:
    assert joined(builder, call("b", "a", "p"), call("whole", "c", "p")) == ["alone", "matched"]
    assert joined(builder, call("b", "a", "p"), call("half", "c", "p")) == ["alone", "alone"]


def test_parts_that_lie_apart_are_written_beside_each_other(builder: ProgramBuilder) -> None:
    builder.add(BufferDecl("first", FLOAT32, (2,), "temp", alias="a"))
    builder.add(BufferDecl("late", FLOAT32, (1,), "temp", alias="half", offset=1))
    assert joined(builder, call("b", "first"), call("c", "half")) == ["alone", "beside"]
    assert joined(builder, call("b", "first"), call("first", "half")) == ["alone", "alone"]
    assert joined(builder, call("b", "half"), call("c", "late")) == ["alone", "alone"]
    assert joined(builder, call("b", "first"), call("c", "late"), call("a", "d")) == ["alone", "beside", "alone"]


def test_only_one_kind_at_a_time(builder: ProgramBuilder) -> None:
    assert joined(builder, call("a", "b", "p"), call("b", "c", "p"), call("d", "e", "q")) == [
        "alone", "matched", "alone"], "they may have other numbers of chunks"
    assert joined(builder, call("a", "b", "p"), call("b", "c", "p"), call("d", "e", "p")) == [
        "alone", "matched", "matched"], "what is cut alike has as many"
    assert joined(builder, call("a", "b", "p"), call("d", "e", "p"), call("e", "f", "p")) == [
        "alone", "beside", "alone"]


def test_other_commands_part_them(builder: ProgramBuilder) -> None:
    assert joined(builder, call("a", "b"), Fill("d", 0.0), call("a", "c")) == ["alone", "-", "alone"]


def test_there_is_a_most(builder: ProgramBuilder) -> None:
    found = joined(builder, *(call("a", name) for name in "bcdefghijkl"))
    assert found == ["alone", *["beside"] * (MOST_JOINED - 1), "alone", "beside", "beside"]


def branches() -> onnx.ModelProto:
    """Four convolutions of one input whose results meet in sums, and elementwise ops with several readers."""
    rng, names = np.random.default_rng(0), "abcd"
    nodes = [helper.make_node("Conv", ["x", f"w{i}"], [n], pads=[1] * 4, name=n) for i, n in enumerate(names)]
    nodes += [helper.make_node("Add", ["x", "x"], ["twice"]), helper.make_node("Exp", ["twice"], ["e"]),
              helper.make_node("Mul", ["twice", "e"], ["m"]), helper.make_node("Sub", ["m", "e"], ["s"]),
              helper.make_node("Concat", [*names, "s"], ["y"], axis=1)]
    weights = [numpy_helper.from_array(rng.standard_normal((8 * (i + 1), 8, 3, 3)).astype(np.float32), f"w{i}")
               for i in range(4)]
    infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 40, 40])]
    outs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "m", "e")]
    return helper.make_model(helper.make_graph(nodes, "branches", infos, outs, weights),
                             opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("arena", ["", "separate", "poison"])
def test_a_network_with_branches(tmp_path: Path, arena: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("META_INFER_ARENA", arena)
    path = tmp_path / "branches.onnx"
    onnx.save(branches(), path)
    text = api.build(path, stop_after="lower").text
    assert text.count("beside call") >= 3
    package = api.build(path, output=tmp_path / "m.bin", verify=False).path
    assert package is not None
    x = {"x": np.random.default_rng(1).standard_normal((1, 8, 40, 40)).astype(np.float32)}
    want = run_reference(reference_session(path), x)
    with load(package, threads=1) as one, load(package, threads=4) as four:
        alone = one.run(None, x)
        for got, expected in zip(alone, want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
        for _ in range(30):
            for got, expected in zip(four.run(None, x), alone, strict=True):
                np.testing.assert_array_equal(got, expected)
