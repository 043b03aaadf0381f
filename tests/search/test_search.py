"""A search as a build makes it: what it finds is right, what it has timed it knows, and a replay times nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from meta_infer import api
from meta_infer.library.store import Library
from meta_infer.report.search_report import THIS_RUN
from meta_infer.runtime.cpu import available_cores
from meta_infer.support.errors import MetaInferError, UsageError


def small_model(folder: Path, batch: int | str = 1) -> Path:
    """Two convolutions with a residual between them, and a matrix product."""
    rng = np.random.default_rng(0)
    arrays = {"w1": rng.standard_normal((16, 8, 3, 3)), "w2": rng.standard_normal((16, 16, 3, 3)),
              "w3": rng.standard_normal((16, 5))}
    pads = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [helper.make_node("Conv", ["x", "w1"], ["a"], **pads), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("Conv", ["b", "w2"], ["c"], **pads), helper.make_node("Add", ["c", "b"], ["d"]),
             helper.make_node("GlobalAveragePool", ["d"], ["e"]), helper.make_node("Flatten", ["e"], ["f"]),
             helper.make_node("MatMul", ["f", "w3"], ["y"])]
    graph = helper.make_graph(
        nodes, "small", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 8, 12, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 5])],
        [numpy_helper.from_array((array * 0.2).astype(np.float32), name) for name, array in arrays.items()])
    path = folder / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "library.sqlite"
    monkeypatch.setenv("META_INFER_LIBRARY", str(path))
    return path


def build(model: Path, name: str, **fields: object) -> api.BuildResult:
    fields = {"search_seconds": 600, **fields}               # a slow machine ends like a quick one
    return api.build(model, output=model.with_name(name), search_mode="fast", **fields)


def choices(result: api.BuildResult) -> str:
    return json.dumps([[g["kernel"], g["variant"], g["knobs"], g["nodes"]] for g in result.report["groups"]])


def test_a_second_build_times_nothing_and_a_replay_gives_the_same_bytes(
        tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model(tmp_path)
    first = build(model, "first.bin")
    (story,) = first.report["searches"]
    assert all(c.passed for c in first.comparisons)
    assert story["combinations"] > 10_000 > story["kept"] >= story["known"] > 5
    assert not story["ended"] and story["gap"] == 0.0
    assert {plan["name"] for plan in story["plans"]} >= {"default"} and story["plans"][0]["measured_s"] > 0
    with Library.open(library) as known:
        count = known.counts().samples
        assert count >= story["known"]
        assert {"plan", "reorder"} & {s.kernel for s in known.samples()}

    second = build(model, "second.bin")
    assert second.report["searches"][0][THIS_RUN]["since"] and not story[THIS_RUN].get("since")
    assert choices(second) == choices(first)
    assert story["threads"] in (1, 2, 4, 8, 16, available_cores())
    assert first.path is not None
    built = first.path.read_bytes()
    monkeypatch.setenv("META_INFER_MEASURE", "replay")
    replayed = build(model, "first.bin")
    assert choices(replayed) == choices(first) and first.path.read_bytes() == built

    monkeypatch.delenv("META_INFER_MEASURE")
    third = build(model, "third.bin", pin=["a.algo=conv_direct"], threads=story["threads"])
    with Library.open(library) as known:
        assert known.counts().samples >= count
    assert third.report["searches"][0][THIS_RUN]["from_library"] > 0, "another question, with known times"


def test_a_replay_of_nothing_says_so(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("META_INFER_MEASURE", "replay")
    with pytest.raises(MetaInferError) as error:
        build(small_model(tmp_path), "m.bin")
    assert str(library) in str(error.value)


def test_an_ended_search_still_gives_a_package(tmp_path: Path, library: Path) -> None:
    result = build(small_model(tmp_path), "m.bin", search_seconds=1e-6)
    assert result.comparisons and result.report["searches"][0]["ended"]


def test_dynamic_sizes_are_timed_at_the_points_asked_for(tmp_path: Path, library: Path) -> None:
    model = small_model(tmp_path, "N")
    with pytest.raises(UsageError, match="names no dynamic dimension"):
        build(model, "m.bin", tune_at=("M=3",), shape=("x=1..8,8,12,12",))
    result = build(model, "m.bin", shape=("x=1..8,8,12,12",), search_seconds=5.0)
    assert all(c.passed for c in result.comparisons) and len(result.comparisons) >= 3


def test_what_is_excluded_is_not_chosen(tmp_path: Path, library: Path) -> None:
    result = build(small_model(tmp_path), "m.bin", exclude=("conv_winograd", "conv_direct"), search_seconds=3.0)
    assert not {"conv_winograd", "conv_direct"} & {g["kernel"] for g in result.report["groups"]}
