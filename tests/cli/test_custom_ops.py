"""Ops of users: the example of docs/custom-ops.md as it stands there, and files that are wrong."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from meta_infer import load
from meta_infer.cli.main import main
from meta_infer.custom import load_custom
from meta_infer.support.errors import UsageError

PAGE = Path(__file__).parents[2] / "docs" / "custom-ops.md"


@pytest.fixture
def my_ops(tmp_path: Path) -> Path:
    (text,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    path = tmp_path / "my_ops.py"
    path.write_text(text, encoding="utf-8")
    return path


def saved_model(folder: Path) -> Path:
    nodes = [helper.make_node("CumulativeMax", ["x"], ["m"], "cumulative", domain="com.example"),
             helper.make_node("GatedSum", ["m", "x"], ["g"], "gated", domain="com.example", weight=0.5),
             helper.make_node("Relu", ["g"], ["y"])]
    graph = helper.make_graph(nodes, "custom", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 7])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 7])])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def test_the_documented_example(my_ops: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = tmp_path / "model.bin"
    model = saved_model(tmp_path)
    assert main(["build", "--model", str(model), "--custom", str(my_ops), "--output", str(package),
                 "--shape", "x=1..300,7"]) == 0
    shown = capsys.readouterr()
    assert "definitions in numpy" in shown.err
    assert main(["compare", str(package), "--layers"]) == 0
    for n in (1, 3, 200):
        x = np.random.default_rng(n).standard_normal((n, 7)).astype(np.float32)
        m = np.maximum.accumulate(x, axis=-1)
        want = np.maximum(0.5 / (1 + np.exp(-m)) * x + m, 0)
        for threads in (1, 2):
            with load(package, threads=threads) as session:
                np.testing.assert_allclose(session.run(None, {"x": x})[0], want, 1e-5, 1e-6)


def test_without_the_file_the_op_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = helper.make_node("NobodyKnows", ["x"], ["y"], domain="com.example.other")
    graph = helper.make_graph([node], "m", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17),
                                                    helper.make_opsetid("com.example.other", 1)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    assert main(["build", "--model", str(tmp_path / "m.onnx")]) == 4
    assert "NobodyKnows" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "problem"), [
    ("x = 1", "has no tuple OPS"),
    ("OPS = ()", "has no tuple OPS"),
    ("OPS = (3,)", "OPS holds a int"),
    ("def broken(:", "line 1: invalid syntax"),
    ("\nimport no_such_module_here", "line 2: ModuleNotFoundError"),
    ("from meta_infer.custom import *\nOPS = (OpDef('Lonely', same_as_input, None),)", "neither C source nor"),
    ("from meta_infer.custom import *\n"
     "OPS = (c_op('Relu', domain='x', infer=same_as_input, reference=None, source=''),)",
     "op 'Relu' exists already"),
])
def test_a_file_that_is_wrong(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(text)
    with pytest.raises(UsageError, match=re.escape(problem)) as caught:
        load_custom([path])
    assert str(path) in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        load_custom([tmp_path / "none.py"])


def test_a_fault_in_the_c_text_is_the_users(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ops = tmp_path / "wrong_c.py"
    ops.write_text(
        "from meta_infer.custom import *\n"
        "OPS = (c_op('Typo', domain='com.example', infer=same_as_input, reference=lambda attrs, a: (a[0],),\n"
        "            source='for (int64_t i = begin; i < end; i++) out0[i] = in_0[i];'),)\n")
    node = helper.make_node("Typo", ["x"], ["y"], domain="com.example")
    graph = helper.make_graph([node], "m", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    assert main(["build", "--model", str(tmp_path / "m.onnx"), "--custom", str(ops)]) == 8
    error = capsys.readouterr().err
    assert "in_0" in error and f"look at the C text in {ops} first" in error
