"""`bisect` names a wrong pass, a wrong kernel, a wrong variant, and a wrong kernel that nothing replaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from meta_infer import api, checking
from meta_infer.cli.main import main
from meta_infer.ir.graph import Graph
from meta_infer.kernels import registry
from meta_infer.kernels.reduction.softmax import SOFTMAX
from meta_infer.passes import pipeline
from meta_infer.support.errors import VerificationError
from meta_infer.verify.bisect import Suspect


def relu_is_sigmoid(graph: Graph) -> Graph:
    """A wrong rewrite."""
    if all(node.op != "Relu" for node in graph.nodes):
        return graph
    return replace(graph, nodes=tuple(replace(n, op="Sigmoid") if n.op == "Relu" else n for n in graph.nodes))


def over_the_wrong_axis(name: str, wrong: Callable[[str], bool] = lambda variant: True) -> object:
    """A Softmax kernel over the other axis of square matrices; variants, named by size, that are `wrong` do so."""
    def variants(group, profile):
        size = group.values[group.inputs[0]].shape[0]
        return [replace(v, kernel=name, name=f"of_{size}") for v in SOFTMAX.variants(group, profile)]

    def lower(group, variant, layouts, profile):
        if wrong(variant.name):
            group = replace(group, anchor=replace(group.anchor, attrs={"axis": 0}))
        return SOFTMAX.lower(group, variant, layouts, profile)

    return replace(SOFTMAX, name=name, variants=variants, lower=lower)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Exp(Softmax(Relu(x w))), 6 x 6, with two transposes that cancel."""
    rng = np.random.default_rng(1)
    node = helper.make_node
    nodes = [node("MatMul", ["x", "w"], ["m"], "product"), node("Relu", ["m"], ["r"], "positive"),
             node("Softmax", ["r"], ["s"], "normal", axis=1), node("Transpose", ["s"], ["t"], "turn", perm=[1, 0]),
             node("Transpose", ["t"], ["u"], "turn_back", perm=[1, 0]), node("Exp", ["u"], ["y"], "last")]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "square", [value("x", TensorProto.FLOAT, [6, 6])],
                              [value("y", TensorProto.FLOAT, [6, 6])],
                              [numpy_helper.from_array(rng.standard_normal((6, 6)).astype(np.float32), "w")])
    path = tmp_path_factory.mktemp("bisect") / "square.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def wrong_package(model: Path, folder: Path) -> Path:
    path = folder / "wrong.bin"
    with pytest.raises(VerificationError):
        api.build(model, output=path)
    return path


def with_kernels(monkeypatch: pytest.MonkeyPatch, *kernels: object) -> None:
    monkeypatch.setattr(registry, "KERNELS", kernels)


def test_a_wrong_pass(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                      capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(pipeline, "CANONICALIZE", (*pipeline.CANONICALIZE, relu_is_sigmoid))
    package = wrong_package(model, tmp_path)
    lines: list[str] = []
    found = checking.bisect(package, say=lines.append)
    assert found.guilty == (Suspect("pass", "relu_is_sigmoid"),)
    assert lines[0].startswith("try 1: without nothing: wrong") and any(": right" in line for line in lines)
    capsys.readouterr()
    assert main(["compare", str(package), "--bisect", "--layers"]) == 9
    printed = capsys.readouterr()
    assert "guilty: pass relu_is_sigmoid" in printed.out.splitlines()[-1]
    assert "1. inputs: not the cause" in printed.out and "is the first wrong one" in printed.out
    assert "bisect: try 1" in printed.err and "--disable relu_is_sigmoid" in printed.err


def test_a_wrong_kernel(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_kernels(monkeypatch, over_the_wrong_axis("quick_softmax"), *registry.KERNELS)
    found = checking.bisect(wrong_package(model, tmp_path))
    assert found.guilty == (Suspect("kernel", "quick_softmax"),)
    assert "--exclude quick_softmax" in found.verdict
    assert api.build(model, output=tmp_path / "right.bin", exclude=("quick_softmax",)).comparisons


def test_a_wrong_variant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"a": 4, "b": 6}
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Softmax", [n], [f"{n}_out"], axis=1) for n in sizes], "two",
        [value(n, TensorProto.FLOAT, [s, s]) for n, s in sizes.items()],
        [value(f"{n}_out", TensorProto.FLOAT, [s, s]) for n, s in sizes.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    quick = over_the_wrong_axis("quick_softmax", lambda variant: variant == "of_6")
    with_kernels(monkeypatch, quick, *registry.KERNELS)
    found = checking.bisect(wrong_package(tmp_path / "m.onnx", tmp_path))
    assert found.guilty == (Suspect("variant", "quick_softmax/of_6"),)


def test_a_wrong_kernel_that_nothing_replaces(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_kernels(monkeypatch, *(over_the_wrong_axis("softmax") if k is SOFTMAX else k for k in registry.KERNELS))
    found = checking.bisect(wrong_package(model, tmp_path))
    assert not found.guilty and "kernel softmax" in found.verdict and "node normal" in found.verdict


def test_two_that_must_both_go(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "CANONICALIZE", (*pipeline.CANONICALIZE, relu_is_sigmoid))
    with_kernels(monkeypatch, over_the_wrong_axis("quick_softmax"), *registry.KERNELS)
    found = checking.bisect(wrong_package(model, tmp_path))
    assert set(found.guilty) == {Suspect("pass", "relu_is_sigmoid"), Suspect("kernel", "quick_softmax")}


def test_a_right_package_has_no_guilty(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = api.build(model, output=tmp_path / "right.bin").path
    assert path is not None
    found = checking.bisect(path)
    assert not found.guilty and found.verdict.startswith("nothing is guilty")
    capsys.readouterr()
    assert main(["compare", str(path), "--bisect"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("nothing to bisect")
    np.savez(tmp_path / "recorded.npz", x=np.zeros((6, 6), np.float32), y=np.ones((6, 6), np.float32))
    assert main(["compare", str(path), "--bisect", "--reference", str(tmp_path / "recorded.npz")]) == 2
    assert main(["compare", str(path), "--reference", str(tmp_path / "recorded.npz")]) == 9
    assert "RGB or BGR" in capsys.readouterr().out
