"""`--explain`: what became of each op."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.cli.small_model import write_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("explain") / "small.onnx")


def test_native_names_kernels(cli: Cli, model: Path) -> None:
    ended = cli("build", "--model", model, "--explain", "--stop-after", "legalize")
    assert ended.code == 0 and "operators: 4 native" in ended.out
    assert "kernel softmax" in ended.out and "fused where its neighbours allow" in ended.out
    assert all(len(line) <= 100 for line in ended.out.split("operators:")[0].splitlines())


def test_what_a_chip_lacks(cli: Cli, model: Path, tmp_path: Path) -> None:
    chip = tmp_path / "chip.yaml"
    chip.write_text("accelerator:\n  name: tiny\n  supported_ops: [matmul, sub, exp, reduce_max, reduce_sum, div]\n")
    rows = cli("build", "--model", model, "--hardware", chip, "--explain", "--json", "--stop-after",
               "legalize").json["operators"]
    verdicts = {row["op"]: (row["verdict"], row["field"]) for row in rows}
    assert verdicts == {"Add": ("host", "supported_ops"), "Relu": ("host", "supported_ops"),
                        "Softmax": ("decomposed", ""), "MatMul": ("native", "")}
    (softmax,) = (row for row in rows if row["op"] == "Softmax")
    assert softmax["detail"] == "ReduceMax, Sub, Exp, ReduceSum, Div" and softmax["nodes"] == ["softmax"]
    text = cli("build", "--model", model, "--hardware", chip, "--explain", "--stop-after", "legalize").out
    assert "into ReduceMax, Sub, Exp, ReduceSum, Div" in text
    assert "operators: 1 native, 1 decomposed, 2 host" in text


def test_nothing_is_said_without_it(cli: Cli, model: Path) -> None:
    assert "operators" not in cli("build", "--model", model, "--json", "--stop-after", "legalize").json
