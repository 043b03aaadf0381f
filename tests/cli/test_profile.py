"""`meta-infer profile`: every group with its time and floor, whatever the package; one clear error for each mistake."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from meta_infer.support.errors import ToolchainError
from tests.cli.conftest import Cli
from tests.package.test_damaged import contents, rewrite

QUICK = ("--duration", "0", "--threads", "1")


def changed(built: tuple[Path, Path], to: Path, member: str, edit: object) -> Path:
    """The package with a JSON member edited in place by `edit`."""
    members = contents(built[1])
    tree = json.loads(members[member])
    edit(tree)  # type: ignore[operator]
    return rewrite(to / "changed.bin", {**members, member: json.dumps(tree).encode()})


def debug_of(package: Path) -> str:
    return next(name for name in contents(package) if name.endswith("debug.json"))


def test_every_group_beside_its_floor(cli: Cli, built: tuple[Path, Path]) -> None:
    ended = cli("profile", built[1], *QUICK, "--dim", "batch=8", "--json")
    found = ended.json
    assert ended.code == 0 and found["inputs"] == {"x": [8, 12]} and found["threads"] == 1 and found["rounds"] == 3
    groups = {one["ops"]: one for one in found["groups"]}
    product = groups["MatMul+Add+Relu"]
    assert product["nodes"] == ["matmul", "bias", "activation"] and product["kernel"] == "gemm"
    assert product["knobs"] and product["variant"]
    assert product["flops"] == 8 * 20 * (2 * 12 + 2) and product["bytes"] == 4 * (8 * 12 + 12 * 20 + 20 + 8 * 20)
    for one in (product, groups["Softmax"]):
        assert one["floor_seconds"] > 0 and one["seconds"] > 0 and one["ratio"] > 0 and one["bound"]
    assert 0 < found["kernel_seconds"] and 0 < found["run_seconds"] and found["outside_seconds"] >= 0
    assert found["peak_flops_per_second"] > 1e8 and "memory" in found["bytes_per_second"]


def test_sizes_are_those_of_the_run(cli: Cli, built: tuple[Path, Path], tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.zeros((64, 12), np.float32))
    found = cli("profile", built[1], *QUICK, "--input", tmp_path / "in.npz", "--json").json
    assert next(one for one in found["groups"] if one["ops"] == "Softmax")["bytes"] == 2 * 4 * 64 * 20


def test_table_and_orders(cli: Cli, built: tuple[Path, Path]) -> None:
    ended = cli("profile", built[1], *QUICK, "--sort", "order", "--most", "1")
    assert ended.code == 0 and max(map(len, ended.out.splitlines())) <= 100
    assert "MatMul+Add+Relu matmul" in ended.out and "Softmax" not in ended.out and "1 more with --most 0" in ended.out
    assert "profile: timing in place" in ended.err
    for sort in ("time", "floor"):
        assert "Softmax" in cli("profile", built[1], *QUICK, "--sort", sort).out


def test_a_package_whose_report_has_no_groups(cli: Cli, package: Path) -> None:
    ended = cli("profile", package, "--duration", "0")
    assert ended.code == 0 and "double_it" in ended.out and "5 x copy" in ended.out and "bound by" not in ended.out


def test_a_package_of_before(cli: Cli, built: tuple[Path, Path], tmp_path: Path) -> None:
    def older(report: dict) -> None:
        for group in report["groups"]:
            for key in ("output", "in", "out", "work"):
                del group[key]

    ended = cli("profile", changed(built, tmp_path, "report.json", older), *QUICK)
    assert ended.code == 0 and "MatMul+Add+Relu matmul" in ended.out and "bound by" not in ended.out
    assert "outside of them" in ended.out


def test_work_of_another_version_has_no_floor(cli: Cli, built: tuple[Path, Path], tmp_path: Path) -> None:
    def renamed(report: dict) -> None:
        work = report["groups"][0]["work"]
        work["graph"] = work["graph"].replace("MatMul", "NoSuchOp")

    found = cli("profile", changed(built, tmp_path, "report.json", renamed), *QUICK, "--json").json
    floors = {one["ops"]: one["floor_seconds"] for one in found["groups"]}
    assert floors["MatMul+Add+Relu"] is None and floors["Softmax"] > 0 and found["share_with_floor"] < 1


def test_texts_that_do_not_fit_the_code(cli: Cli, built: tuple[Path, Path], tmp_path: Path) -> None:
    def fewer(debug: dict) -> None:
        debug["commands"] = debug["commands"][:1]

    def spoilt(debug: dict) -> None:
        debug["commands"] = ["Call"] * len(debug["commands"])

    for edit in (fewer, spoilt):
        ended = cli("profile", changed(built, tmp_path, debug_of(built[1]), edit), *QUICK)
        assert ended.code == 6 and "build the package again" in ended.err and ended.out == ""


def test_without_a_compiler(cli: Cli, built: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise ToolchainError("is not there", what="compiler")

    monkeypatch.setattr("meta_infer.search.measure.live_probes.LiveProbes.__init__", missing)
    ended = cli("profile", built[1], *QUICK)
    assert ended.code == 0 and "Softmax" in ended.out and "bound by" not in ended.out
    assert "times are printed without floors" in ended.err


def test_bad_input(cli: Cli, built: tuple[Path, Path], tmp_path: Path) -> None:
    text = tmp_path / "text.bin"
    text.write_text("hello")
    np.savez(tmp_path / "in.npz", x=np.zeros((3, 13), np.float32))
    for arguments, code, words in (
            ((text,), 6, str(text)), ((tmp_path / "none.bin",), 6, "none.bin"),
            ((built[1], "--dim", "batch=65"), 7, "1..64"), ((built[1], "--dim", "C=2"), 7, "not a named dimension"),
            ((built[1], "--input", tmp_path / "in.npz"), 7, "dimension 1 is 13"),
            ((built[1], "--sort", "name"), 2, "floor, time, order"),
            ((built[1], "--random", "--input", tmp_path / "in.npz"), 2, "--input"),
            ((built[1], "--target", "riscv64"), 2, "riscv64")):
        ended = cli("profile", *arguments, "--duration", "0")
        assert ended.code == code and words in ended.err and ended.out == "", (arguments, ended.err)


def test_learning(cli: Cli, built: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("META_INFER_LIBRARY", str(tmp_path / "lib" / "library.sqlite"))
    for _ in range(2):
        learned = cli("profile", built[1], *QUICK, "--learn", "--hardware", "edge_npu_v2", "--json").json["learned"]
        assert learned["samples"] == learned["with_features"] == 2 and learned["kernels"] == []
    text = cli("profile", built[1], *QUICK, "--learn", "--hardware", "edge_npu_v2").out
    assert "learned: 2 samples, 2 of them with features" in text and "no fitted cost model" in text
    listed = cli("library", "list", "--samples", "--json").json
    assert listed["samples"] == 2 and {one["place"] for one in listed["listed"]} == {"network"}
    assert {one["kernel"] for one in listed["listed"]} == {"gemm", "softmax"}
    assert "learned" not in cli("profile", built[1], *QUICK, "--json").json


def test_learning_into_what_is_no_library(cli: Cli, built: tuple[Path, Path], tmp_path: Path,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib").write_text("hello " * 100)
    monkeypatch.setenv("META_INFER_LIBRARY", str(tmp_path / "lib"))
    ended = cli("profile", built[1], *QUICK, "--learn")
    assert ended.code == 11 and "timing" not in ended.err and ended.out == ""
    assert cli("profile", built[1], *QUICK, "--learn", "--hardware", "no_such_chip").code == 5


def test_a_loop_has_times_but_no_floor(cli: Cli, tmp_path: Path) -> None:
    model, package = loop_model(tmp_path / "loop.onnx"), tmp_path / "loop.bin"
    assert cli("build", "--model", model, "--output", package, "--no-verify").code == 0
    np.savez(tmp_path / "in.npz", n=np.array(5, np.int64), x=np.ones((8, 16), np.float32))
    found = cli("profile", package, *QUICK, "--input", tmp_path / "in.npz", "--json").json
    groups = {one["ops"]: one for one in found["groups"]}
    assert groups["Relu"]["in_loop"] and groups["Relu"]["seconds"] > 0 and groups["Relu"]["floor_seconds"] is None
    assert groups["Softmax"]["floor_seconds"] > 0 and "loop" not in groups


def loop_model(path: Path) -> Path:
    """y = softmax of n times relu of x[8, 16]."""
    number, flag, array = (("n", TensorProto.INT64, []), ("go", TensorProto.BOOL, []),
                           ("x", TensorProto.FLOAT, [8, 16]))

    def info(name: str, like: tuple) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, *like[1:])

    body = helper.make_graph(
        [helper.make_node("Relu", ["c"], ["c2"], name="inner"), helper.make_node("Identity", ["go"], ["go2"])], "body",
        [info("i", number), info("go", flag), info("c", array)], [info("go2", flag), info("c2", array)])
    graph = helper.make_graph(
        [helper.make_node("Loop", ["n", "", "x"], ["last"], name="loop", body=body),
         helper.make_node("Softmax", ["last"], ["y"], name="softmax")], "looped",
        [info("n", number), info("x", array)], [info("y", array)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path
