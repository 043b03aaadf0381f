"""Real networks: they import, their shape arithmetic is gone, and the graph computes what ONNX Runtime does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from meta_infer.frontend.import_model import import_model
from meta_infer.ir.graph import Graph, walk_nodes
from meta_infer.ir.shapes import Expr, evaluate
from meta_infer.ir.verify_graph import verify_graph
from meta_infer.ops.execute import execute_graph, execute_layers
from meta_infer.support.dtypes import FLOAT64
from meta_infer.support.errors import ModelError

RealModel = Callable[[str], Path]
SHAPES: Mapping[str, dict[str, str]] = {
    "crnn_bilstm": {"x": "1,1,32,32..640"},
    "minilm_l6": {"input_ids": "1..8,1..256"},
}
SIZES: Mapping[str, list[dict[str, int]]] = {
    "crnn_bilstm": [{"width": 32}, {"width": 77}],
    "minilm_l6": [{"batch": 1, "seq": 1}, {"batch": 3, "seq": 17}],
}
RUN = ["resnet18", "mobilenetv2", "crnn_bilstm", "minilm_l6"]
SHAPE_ARITHMETIC = {"Shape", "Size", "Constant", "ConstantOfShape", "Squeeze", "Unsqueeze", "Flatten"}


def random_inputs(graph: Graph, sizes: Mapping[str, int], seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    found = {}
    for name in graph.inputs:
        value = graph.values[name]
        shape = tuple(evaluate(dim, sizes) for dim in value.shape)
        found[name] = (rng.normal(size=shape).astype(np.float32) if value.dtype.is_float
                       else rng.integers(0, 2, shape) if "type" in name else rng.integers(1, 900, shape))
        if "mask" in name:
            found[name] = np.ones(shape, np.int64)
    return found


@pytest.mark.parametrize("name", [*RUN, "shufflenetv2_x1_0", "vit_tiny_patch16_224"])
def test_it_imports_without_shape_arithmetic(real_model: RealModel, name: str) -> None:
    graph = import_model(real_model(name), SHAPES.get(name))
    verify_graph(graph)
    assert not {node.op for _, node in walk_nodes(graph)} & SHAPE_ARITHMETIC
    sized = {symbol for size in SIZES.get(name, []) for symbol in size}
    assert set(graph.symbols) == sized
    assert all(node.origins for node in graph.nodes)


def test_a_range_that_is_too_small_for_a_window_is_refused(real_model: RealModel) -> None:
    with pytest.raises(ModelError, match="does not fit .* at the smallest sizes in range") as caught:
        import_model(real_model("crnn_bilstm"), {"x": "1,1,32,1..640"})
    assert "--shape" in caught.value.hint


def test_reshapes_of_minilm_hold_its_dimensions(real_model: RealModel) -> None:
    graph = import_model(real_model("minilm_l6"), SHAPES["minilm_l6"])
    texts = {tuple(map(str, node.attrs["shape"])) for node in graph.nodes if node.op == "Reshape"}  # type: ignore
    assert ("batch", "seq", "12", "32") in texts and ("batch", "seq", "384") in texts
    assert [str(d) for d in graph.values[graph.outputs[0]].shape] == ["batch", "seq", "384"]
    assert (graph.symbols["batch"].hi, graph.symbols["seq"].hi) == (8, 256)


def test_a_fixed_size_replaces_the_symbol_everywhere(real_model: RealModel) -> None:
    graph = import_model(real_model("minilm_l6"), {"attention_mask": "2,5..9"})
    assert set(graph.symbols) == {"seq"}
    assert all(graph.values[name].shape[0] == 2 for name in graph.inputs)
    attrs = [attr for node in graph.nodes for attr in node.attrs.values() if isinstance(attr, tuple)]
    assert all(str(dim) != "batch" for attr in attrs for dim in attr)
    assert any(isinstance(dim, Expr) for attr in attrs for dim in attr)


@pytest.mark.parametrize("name", RUN)
def test_it_computes_what_onnx_runtime_does(real_model: RealModel, name: str) -> None:
    path = real_model(name)
    graph = import_model(path, SHAPES.get(name))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for seed, sizes in enumerate(SIZES.get(name, [{}])):
        inputs = random_inputs(graph, sizes, seed)
        wanted = session.run(None, {str(graph.values[k].origin): v for k, v in inputs.items()})
        outputs = execute_graph(graph, inputs, FLOAT64)
        for found, want in zip(graph.outputs, wanted, strict=True):
            assert outputs[found].dtype == np.float64 and outputs[found].shape == want.shape
            assert abs(outputs[found] - want).max() <= 1e-5 * abs(want).max()


def test_layers_go_by_the_names_of_the_model(real_model: RealModel) -> None:
    graph = import_model(real_model("resnet18"))
    inputs = random_inputs(graph, {}, 0)
    wanted = [str(graph.values[graph.nodes[i].outputs[0]].origin) for i in (0, 7)]
    outputs, layers = execute_layers(graph, inputs, origins=wanted)
    assert set(layers) == set(wanted) and layers[wanted[0]].shape == (1, 64, 112, 112)
    assert outputs["output"].shape == (1, 1000) and outputs["output"].dtype == np.float32
