"""Loops and branches that change shapes, compiled, against ONNX Runtime: threads and arena modes change nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T

from meta_infer import api
from meta_infer.runtime.session import load
from meta_infer.support.errors import InputError
from tests.ops.onnx_case import session_of

from .loop_models import MODELS, graph, info, model, node


@pytest.mark.parametrize("name", MODELS)
def test_package_equals_onnx_runtime(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, feeds = MODELS[name]()
    path = tmp_path / f"{name}.onnx"
    onnx.save(model, path)
    package = api.build(path, verify=False, shape=_ranges(model, feeds)).path
    assert package is not None
    reference = session_of(model)
    wanted = [reference.run(None, feed) for feed in feeds]
    found = _run(package, feeds, 1)
    for feed, ours, theirs in zip(feeds, found, wanted, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert a.dtype == b.dtype
            assert a.shape == b.shape or a.size == b.size == 0, feed
            np.testing.assert_allclose(a, b.reshape(a.shape), 1e-5, 1e-5)
    _same(_run(package, feeds, 2), found)
    for mode in ("separate", "poison"):
        monkeypatch.setenv("META_INFER_ARENA", mode)
        _same(_run(package, feeds, 1), found)


def _loop(body_nodes: list[onnx.NodeProto], row: str, opset: int = 17) -> onnx.ModelProto:
    """`m` passes over h, from x: [2], that give h1 and gather `row`."""
    body = graph("b", [*body_nodes, node("Identity", ["go"], ["on"])],
                 [info("i", [], T.INT64), info("go", [], T.BOOL), info("h", [2])],
                 [info("on", [], T.BOOL), info("h1", None), info(row, None)])
    return model([node("Loop", ["m", "", "x"], ["y", "rows"], body=body)], [info("m", [1], T.INT64), info("x", [2])],
                 ["y", "rows"], opset=opset)


def _build(made: onnx.ModelProto, folder: Path) -> Path:
    onnx.save(made, folder / "loop.onnx")
    package = api.build(folder / "loop.onnx", verify=False).path
    assert package is not None
    return package


def test_rows_of_different_sizes_are_an_error_of_the_run(tmp_path: Path) -> None:
    """They would not fit into one tensor. One pass, or none, is fine, and the session goes on after the error."""
    package = _build(_loop([node("Concat", ["h", "x"], ["h1"], axis=0), node("Neg", ["h1"], ["row"])], "row"), tmp_path)
    x = np.array([1, 2], np.float32)
    with load(package) as session:
        for _ in range(2):
            y, rows = session.run(None, {"m": np.array([1]), "x": x})
            np.testing.assert_array_equal(rows, [-y])
            with pytest.raises(InputError, match="rows of scan output 'rows' differ in size"):
                session.run(None, {"m": np.array([2]), "x": x})
            y, rows = session.run(None, {"m": np.array([0]), "x": x})
            assert y.tolist() == [1, 2] and rows.size == 0


def test_a_size_that_does_not_fit_is_an_error_of_the_run(tmp_path: Path) -> None:
    """The body multiplies x: [2] with what it makes one longer: the second pass fails, as in ONNX Runtime."""
    nodes = [node("Constant", [], ["one"], value_floats=[1.0]), node("Mul", ["h", "x"], ["hx"]),
             node("Concat", ["hx", "one"], ["h1"], axis=0), node("Neg", ["x"], ["row"])]
    with load(_build(_loop(nodes, "row"), tmp_path)) as session:
        for _ in range(2):
            x = np.array([3, 2], np.float32)
            assert session.run(None, {"m": np.array([1]), "x": x})[0].tolist() == [9, 4, 1]
            with pytest.raises(InputError):
                session.run(None, {"m": np.array([2]), "x": x})


def _ranges(model: onnx.ModelProto, feeds: list[dict[str, np.ndarray]]) -> list[str]:
    """Every dynamic dimension from 1 to the largest that is fed."""
    specs = []
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        named = [axis for axis, dim in enumerate(dims) if dim.dim_param]
        most = {axis: max(feed[value.name].shape[axis] for feed in feeds) for axis in named}
        if named:
            sizes = (f"1..{most[axis]}" if axis in most else "?" for axis in range(len(dims)))
            specs.append(f"{value.name}={','.join(sizes)}")
    return specs


def _run(package: Path, feeds: list[dict[str, np.ndarray]], threads: int) -> list[list[np.ndarray]]:
    """All feeds one after the other, twice: what a run leaves behind must not show in the next."""
    with load(package, threads=threads) as session:
        once = [session.run(None, feed) for feed in feeds]
        _same([session.run(None, feed) for feed in feeds], once)
    return once


def _same(a: list[list[np.ndarray]], b: list[list[np.ndarray]]) -> None:
    for x, y in zip((v for run in a for v in run), (v for run in b for v in run), strict=True):
        assert x.shape == y.shape and x.tobytes() == y.tobytes()
