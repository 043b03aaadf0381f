"""auto_pad of sizes that are known only while running, of every residue of the stride, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from meta_infer.frontend.import_model import import_model
from meta_infer.ir.graph import Graph
from meta_infer.ir.shapes import ceildiv
from meta_infer.ops.execute import execute_graph
from meta_infer.support.errors import UnsupportedError
from tests.ops.onnx_case import session_of

SHAPE = "1..3,?,4..40,4..40"
SIZES = ((4, 4), (5, 9), (7, 6), (11, 13), (16, 12))


def model_of(nodes: list[onnx.NodeProto], channels: int, constants: dict[str, np.ndarray], last: int = 2,
             kind: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """A model of x [n, channels, h, w] in and y out; `last` spatial dimensions."""
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", kind, ["n", channels, "h", "w"][:2 + last])],
        [helper.make_empty_tensor_value_info("y")], [numpy_helper.from_array(a, n) for n, a in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def compare(model: onnx.ModelProto, path: Path, shape: str = SHAPE, sizes: Any = SIZES, dtype: type = np.float32,
            rtol: float = 1e-5, peer: bool = True) -> Graph:
    """The imported graph, which gives at all `sizes` ONNX Runtime's results or, without the `peer`, what the model
    gives when imported for those alone."""
    onnx.save(model, path)
    graph, session = import_model(path, {"x": shape}), session_of(model) if peer else None
    channels = graph.values[graph.inputs[0]].shape[1]
    assert isinstance(channels, int)
    for i, size in enumerate(sizes):
        rng = np.random.default_rng(i)
        x = (rng.standard_normal((1 + i % 3, channels, *size)) * 10).astype(dtype)
        (found,) = execute_graph(graph, {"x": x}).values()
        if session:
            wanted = session.run(None, {"x": x})[0]
        else:
            fixed = import_model(path, {"x": ",".join(map(str, x.shape))})
            assert not any(n.op == "Pad" for n in fixed.nodes)
            (wanted,) = execute_graph(fixed, {"x": x}).values()
        assert found.shape == wanted.shape and found.dtype == wanted.dtype
        np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=rtol, atol=1e-4)
    return graph


WINDOWS = [((3, 3), (2, 2), (1, 1)), ((1, 1), (2, 3), (1, 1)), ((2, 3), (3, 2), (1, 1)), ((3, 2), (2, 3), (2, 1)),
           ((2, 2), (3, 1), (1, 3)), ((5, 4), (2, 2), (1, 1))]


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("kernel", "strides", "dilations"), WINDOWS)
def test_windows(mode: str, kernel: tuple[int, int], strides: tuple[int, int], dilations: tuple[int, int],
                 tmp_path: Path) -> None:
    """Conv, MaxPool and AveragePool; each gives sizes of ceil(size / stride), whatever its window.

    ONNX Runtime refuses a Conv with dilations here, and pools whose stride exceeds the window.
    """
    rng, window = np.random.default_rng(3), {"kernel_shape": kernel, "strides": strides, "auto_pad": mode}
    plain, fits = dilations == (1, 1), all(k >= s for k, s in zip(kernel, strides, strict=True))
    constants = {"w": rng.standard_normal((6, 2, *kernel)).astype(np.float32), "b": np.arange(6, dtype=np.float32)}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["y"], dilations=dilations, group=2, **window)]
    graphs = [compare(model_of(nodes, 4, constants), tmp_path / "m.onnx", rtol=1e-4, peer=plain)]
    for op, attrs in (("MaxPool", {"dilations": dilations}), ("AveragePool", {"count_include_pad": 0}),
                      ("AveragePool", {"count_include_pad": 1})):
        model = model_of([helper.make_node(op, ["x"], ["y"], **attrs, **window)], 3, {})
        graphs.append(compare(model, tmp_path / "m.onnx", peer=fits and (plain or op != "MaxPool")))
    assert {g.values[g.outputs[0]].shape[2:] for g in graphs} == {
        tuple(ceildiv(d, s) for d, s in zip(g.values[g.inputs[0]].shape[2:], strides, strict=True)) for g in graphs}


def test_paths_that_meet(tmp_path: Path) -> None:
    """A residual block whose two paths halve the size by different windows: their sizes are known to be equal."""
    rng = np.random.default_rng(3)
    same = {"strides": [2, 2], "auto_pad": "SAME_UPPER"}
    constants = {"w": rng.standard_normal((3, 3, 3, 3)).astype(np.float32),
                 "v": rng.standard_normal((3, 3, 1, 1)).astype(np.float32)}
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"], **same), helper.make_node("Conv", ["x", "v"], ["b"], **same),
             helper.make_node("MaxPool", ["x"], ["c"], kernel_shape=[2, 2], **same),
             helper.make_node("Sum", ["a", "b", "c"], ["d"]),
             helper.make_node("LpPool", ["d"], ["y"], kernel_shape=[3, 2], p=2, **same)]
    compare(model_of(nodes, 3, constants), tmp_path / "m.onnx", rtol=1e-4)


def test_one_dimension_and_a_step_that_fits(tmp_path: Path) -> None:
    """Only what varies is padded before: here one axis, none when the range has a step."""
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
    model = model_of([node], 3, {})
    graph = compare(model, tmp_path / "m.onnx", "?,?,4..40:2,4..40", ((4, 5), (6, 8), (10, 7)))
    pads = next(n.attrs["pads"] for n in graph.nodes if n.op == "Pad")
    assert [amount != 0 for amount in pads] == [False] * 3 + [True] + [False] * 3 + [True]
    assert next(n.attrs["pads"] for n in graph.nodes if n.op == "MaxPool") == (0, 0, 1, 0)
    graph = compare(model, tmp_path / "m.onnx", "?,?,4..40:2,4..40:4", ((4, 8), (6, 12)))
    assert not any(n.op == "Pad" for n in graph.nodes)
    line = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[4], strides=[3], auto_pad="SAME_LOWER")
    compare(model_of([line], 2, {}, 1), tmp_path / "m.onnx", "?,?,1..40", ((1,), (2,), (3,), (7,)))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float64, np.float16])
def test_maxima_of_other_types(dtype: type, tmp_path: Path) -> None:
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 4], strides=[2, 3], auto_pad="SAME_LOWER")
    kind = int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    compare(model_of([node], 2, {}, kind=kind), tmp_path / "m.onnx", dtype=dtype)


@pytest.mark.parametrize("zero", [0, 7])
def test_integers_are_padded_by_their_zero_point(zero: int, tmp_path: Path) -> None:
    rng, same = np.random.default_rng(2), {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}
    constants = {"w": rng.integers(0, 255, (3, 2, 3, 2)).astype(np.uint8), "zero": np.array(zero, np.uint8)}
    node = helper.make_node("ConvInteger", ["x", "w", "zero"], ["y"], **same)
    compare(model_of([node], 2, constants, kind=TensorProto.UINT8), tmp_path / "m.onnx", dtype=np.uint8)


@pytest.mark.parametrize("mode", ["NOTSET", "SAME_UPPER"])
@pytest.mark.parametrize("bias", [False, True])
def test_transposed_to_one_size(mode: str, bias: bool, tmp_path: Path) -> None:
    """An output_shape that crops the windows of large inputs and exceeds those of small ones."""
    rng = np.random.default_rng(5)
    constants = {"w": rng.standard_normal((2, 3, 3, 4)).astype(np.float32)}
    constants |= {"b": np.arange(3, dtype=np.float32)} if bias else {}
    node = helper.make_node("ConvTranspose", ["x", *constants], ["y"], strides=[2, 2], output_shape=[18, 21],
                            auto_pad=mode)
    compare(model_of([node], 2, constants), tmp_path / "m.onnx", sizes=((9, 10), (10, 11), (13, 14)), rtol=1e-4)
    same = helper.make_node("ConvTranspose", ["x", *constants], ["y"], strides=[2, 3], auto_pad="SAME_UPPER")
    graph = compare(model_of([same], 2, constants), tmp_path / "same.onnx", rtol=1e-4)
    assert not any(n.op == "Pad" for n in graph.nodes)


def test_indices_need_amounts_that_do_not_vary(tmp_path: Path) -> None:
    node = helper.make_node("MaxPool", ["x"], ["v", "y"], kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
    onnx.save(model_of([node], 2, {}), tmp_path / "m.onnx")
    with pytest.raises(UnsupportedError, match="Indices with auto_pad of the dynamic sizes"):
        import_model(tmp_path / "m.onnx", {"x": SHAPE})
    import_model(tmp_path / "m.onnx", {"x": "?,?,4..40:2,4..40:2"})
