"""Layout 1 of the recurrent ops, and what their activation lists mean. ONNX Runtime has no layout 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from meta_infer.frontend.import_model import import_model
from meta_infer.ops.execute import execute_graph
from meta_infer.ops.opdef import OnnxNode
from meta_infer.ops.recurrent_activations import Activation, activations_of
from meta_infer.ops.registry import op_named
from meta_infer.support.errors import UnsupportedError

STATES = {"RNN": 1, "GRU": 1, "LSTM": 2}
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def node(**attrs: object) -> OnnxNode:
    return OnnxNode("LSTM", "", 14, (), ("y",), attrs, "the_node")  # type: ignore[arg-type]


@pytest.mark.parametrize("op", STATES)
def test_layout_1_is_layout_0_between_transposes(op: str, tmp_path: Path) -> None:
    rng, (batch, steps, features, hidden) = np.random.default_rng(1), (2, 3, 4, 5)
    count = GATES[op] * hidden
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in (
        ("x", (batch, steps, features)), ("w", (2, count, features)), ("r", (2, count, hidden)),
        ("h0", (batch, 2, hidden)), ("c0", (batch, 2, hidden))) if name != "c0" or op == "LSTM"}
    arrays["lens"] = np.array([3, 1], np.int32)
    names = ["x", "w", "r", "", "lens", "h0", "c0"][:5 + STATES[op]]
    outputs = ["y", "y_h", "y_c"][:1 + STATES[op]]
    made = helper.make_node(op, names, outputs, hidden_size=hidden, layout=1, direction="bidirectional")
    kinds = {name: TensorProto.INT32 if name == "lens" else TensorProto.FLOAT for name in arrays}
    graph = helper.make_graph([made], "g", [helper.make_tensor_value_info(n, kinds[n], a.shape) for n, a in
                                            arrays.items()], [helper.make_empty_tensor_value_info(o) for o in outputs])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), path)
    found = execute_graph(import_model(path), arrays)
    turned = {n: a if n in ("w", "r", "lens") else a.swapaxes(0, 1) for n, a in arrays.items()}
    want = op_named(op).reference({"hidden_size": hidden, "direction": "bidirectional"}, [turned.get(n) for n in names])
    np.testing.assert_array_equal(found["y"], want[0].transpose(2, 0, 1, 3))
    for name, state in zip(outputs[1:], want[1:], strict=True):
        np.testing.assert_array_equal(found[name], state.swapaxes(0, 1))
    assert not found["y"][1, 1:].any()                     # behind the end of the second sequence


def test_parameters_go_to_the_functions_that_take_them() -> None:
    default = ("Sigmoid", "Tanh", "Tanh")
    found = activations_of(node(activations=("relu", "leakyrelu", "HARDSIGMOID"), activation_alpha=(0.5, 0.3),
                                activation_beta=(0.7,)), default)
    assert found == (Activation("Relu"), Activation("LeakyRelu", 0.5), Activation("HardSigmoid", 0.3, 0.7))
    found = activations_of(node(activations=("Elu", "Affine", "LeakyRelu"), activation_alpha=(0.5,)), default)
    assert found == (Activation("Elu", 0.5), Activation("Affine", 1.0, 0.0), Activation("LeakyRelu", 0.01))
    assert activations_of(node(), default) == tuple(map(Activation, default))
    assert activations_of(node(activations=("Tanh", "Tanh")), ("Tanh",)) == (Activation("Tanh"),)


def test_unclear_lists_are_refused() -> None:
    for names in (("Sigmoid", "Tanh"), ("Sigmoid", "Tanh", "Cosine")):
        with pytest.raises(UnsupportedError, match="activations"):
            activations_of(node(activations=names), ("Sigmoid", "Tanh", "Tanh"))
    with pytest.raises(UnsupportedError, match="ScaledTanh without activation_beta"):
        activations_of(node(activations=("ScaledTanh",), activation_alpha=(1.0,)), ("Tanh",))
