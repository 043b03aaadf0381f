"""`meta-infer check MODEL`: the whole report, its data, its exit code, and files that are broken."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.checklist.models import image_net, model, node, relu, saved
from tests.cli.conftest import Cli

CHIP = """name: board
devices:
  - {name: npu, kind: npu, aligned_channel: 8, precision: [fp16], data_layouts: [NHWC],
     supported_ops: [conv2d, relu, mul, clip]}
memories: [{name: ram, kind: main, size: 1 MiB}]
"""


@pytest.fixture
def chip(tmp_path: Path) -> Path:
    path = tmp_path / "board.yaml"
    path.write_text(CHIP)
    return path


def classifier(folder: Path) -> Path:
    weights = {"w": np.arange(5 * 3 * 9).reshape(5, 3, 3, 3) / 10, "big": np.full(1, 1e5)}
    nodes = [node("Conv", "x w", "c", "conv", pads=[1, 1, 0, 0]), node("Relu", "c", "r", "relu"),
             node("Mul", "r big", "m", "scale"), node("Tanh", "m", "y", "tanh")]
    return saved(model(nodes, ("batch", 3, 8, 8), weights=weights), folder)


def test_the_whole_report(cli: Cli, chip: Path, tmp_path: Path) -> None:
    ended = cli("check", classifier(tmp_path), "--hardware", chip, "--shape", "x=1..8,?,?,?")
    assert ended.code == 0 and ended.err == ""
    assert all(len(line) <= 100 for line in ended.out.splitlines())
    golden = Path(__file__).parent / "check_report.txt"
    assert ended.out == golden.read_text()


def test_json_has_all_of_it(cli: Cli, chip: Path, tmp_path: Path) -> None:
    found = cli("check", classifier(tmp_path), "--hardware", chip, "--json", "--explain").json
    assert found["hardware"] == "board" and found["counts"]["blocker"] == 0
    assert sum(found["counts"].values()) == len(found["findings"])
    (host,) = (f for f in found["findings"] if f["item"] == "host_ops")
    assert host["severity"] == "warning" and host["where"] == ["tanh"]
    assert {row["op"]: row["verdict"] for row in found["operators"]} == {
        "Conv": "native", "Relu": "native", "Mul": "native", "Tanh": "host"}


def test_explain_adds_the_table(cli: Cli, chip: Path, tmp_path: Path) -> None:
    ended = cli("check", classifier(tmp_path), "--hardware", chip, "--explain")
    assert ended.out.endswith("operators: 3 native, 1 host\n\n")


def test_native_is_the_default(cli: Cli, tmp_path: Path) -> None:
    ended = cli("check", saved(image_net(), tmp_path))
    assert ended.code == 0 and "for native" in ended.out and "0 blockers" in ended.out


@pytest.mark.parametrize("hardware", ["edge_npu_v2", "high_perf_npu", "low_power_npu", "generic_gpu", "cortex-a55"])
def test_profiles_of_the_catalog(cli: Cli, tmp_path: Path, hardware: str) -> None:
    assert cli("check", saved(image_net(), tmp_path), "--hardware", hardware).code == 0


def test_a_blocker_is_exit_code_10(cli: Cli, chip: Path, tmp_path: Path) -> None:
    path = saved(model([node("Relu", "x", "a"), node("Foo", "a", "b", "one"), node("Bar", "b", "y", "two")]), tmp_path)
    ended = cli("check", path, "--hardware", chip)
    assert ended.code == 10 and "2 blockers" in ended.out and "Inputs and outputs" not in ended.out
    assert "node 'one' (Foo)" in ended.out and "node 'two' (Bar)" in ended.out and "Versions" in ended.out
    too_big = chip.with_name("small.yaml")
    too_big.write_text(CHIP.replace("1 MiB", "1 KiB"))
    ended = cli("check", classifier(tmp_path), "--hardware", too_big)
    assert ended.code == 10 and "more than 100 % of 1.0 KiB" in ended.out


BROKEN = {
    "empty": b"", "text": b"hello, world", "zip": b"PK\x03\x04rest", "truncated": None, "shapes": None, "cyclic": None,
    "missing weights": None, "random": bytes(np.random.default_rng(0).integers(0, 256, 400, np.uint8)),
}


def broken(name: str, folder: Path) -> Path:
    path, data = folder / "broken.onnx", BROKEN[name]
    whole = image_net().SerializeToString()
    if name == "shapes":
        data = model([node("Add", "x c", "y")], weights={"c": [1.0, 2.0]}).SerializeToString()
    if name == "cyclic":
        data = model([node("Add", "x b", "a"), node("Relu", "a", "b"), node("Neg", "b", "y")]).SerializeToString()
    if name == "missing weights":
        proto = image_net()
        proto.graph.initializer[0].data_location = 1
        proto.graph.initializer[0].external_data.add(key="location", value="gone.bin")
        data = proto.SerializeToString()
    path.write_bytes(whole[:200] if data is None else data)
    return path


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_model_is_one_blocker(cli: Cli, tmp_path: Path, name: str) -> None:
    ended = cli("check", broken(name, tmp_path), "--hardware", "edge_npu_v2", "--json")
    assert ended.code == 10 and ended.err == ""
    (finding,) = ended.json["findings"]
    assert finding["severity"] == "blocker" and finding["item"] == "compiles" and finding["hint"]
    assert cli("check", broken(name, tmp_path)).out.endswith("1 blocker, 0 warnings, 0 notes\n")


def test_every_cut_of_a_file_ends_well(cli: Cli, tmp_path: Path) -> None:
    whole = image_net().SerializeToString()
    for cut in range(7, len(whole) - 1, 97):
        (tmp_path / "cut.onnx").write_bytes(whole[:cut])
        assert cli("check", tmp_path / "cut.onnx", "--json").code in (0, 10)


def test_items_of_ones_own(cli: Cli, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("items:\n  - id: no_relu\n    title: Not on our board\n    severity: blocker\n"
                    "    probe: ops_present\n    params: {ops: [Relu]}\n"
                    "    message: \"{op} is not allowed on our board ({count}): {where}\"\n")
    ended = cli("check", saved(relu(), tmp_path), "--checklist", mine)
    assert ended.code == 10 and "Relu is not allowed on our board (1): relu" in ended.out
    mine.write_text("items: [{id: mine}]")
    ended = cli("check", saved(relu(), tmp_path), "--checklist", mine)
    assert ended.code == 2 and "item 'mine'" in ended.err


def test_findings_beyond_what_an_item_shows_are_counted(cli: Cli, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("items: [{id: inputs_outputs, show: 1}]")
    ended = cli("check", saved(relu(), tmp_path), "--checklist", mine)
    assert "... and 1 more (--json lists all)" in ended.out


@pytest.mark.parametrize(("arguments", "message"), [
    ((), "nothing to check"), (("model.onnx", "--suite"), "takes a model or --suite"),
    (("small.onnx", "--hardware", "edge_npu_v3"), "edge_npu_v2"), (("small.onnx", "--shape", "x"), "NAME=DIM"),
    (("small.onnx", "--shape", "z=1"), "z"),
])
def test_wrong_flags(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...],
                     message: str) -> None:
    monkeypatch.chdir(tmp_path)
    saved(relu(), tmp_path)
    ended = cli("check", *arguments)
    assert ended.code in (2, 5) and message in ended.err


def test_a_shape_narrows_what_is_checked(cli: Cli, tmp_path: Path, chip: Path) -> None:
    text = cli("check", classifier(tmp_path), "--hardware", chip, "--shape", "x=2,3,8,8").out
    assert "[2, 3, 8, 8]" in text and "Ranges nobody gave" not in text


def test_ops_of_ones_own_are_known(cli: Cli, tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "custom-ops.md"
    (text,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "my_ops.py").write_text(text, encoding="utf-8")
    path = saved(model([node("CumulativeMax", "x", "y", "own", domain="com.example")], (3, 7),
                       domains={"com.example": 1}), tmp_path)
    ended = cli("check", path, "--custom", tmp_path / "my_ops.py", "--explain")
    assert ended.code == 0, ended.out
    assert "CumulativeMax of the domain com.example is supported: own" in ended.out
    assert "operators: 1 native" in ended.out
