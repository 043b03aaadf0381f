"""Importers: ONNX nodes of old and new opsets become core ops that compute the same, or are refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from meta_infer.frontend.import_model import import_model
from meta_infer.ir.graph import Graph
from meta_infer.ops.execute import execute_graph
from meta_infer.ops.gaps import GAPS, gaps_of
from meta_infer.ops.opdef import OpDef
from meta_infer.ops.registry import OPS, RULES
from meta_infer.support.errors import UnsupportedError
from tests.ops.onnx_case import feeds_of, model_of, session_of

ONES = np.ones
F32, I64 = np.float32, np.int64


def imported(model: onnx.ModelProto, folder: Path) -> Graph:
    path = folder / "model.onnx"
    onnx.save(model, path)
    return import_model(path)


SAMPLED = [op for op in OPS if op.onnx and op.name not in ("If", "Loop", "Range")]


@pytest.mark.parametrize("op", SAMPLED, ids=lambda op: op.name)
def test_samples_import_to_what_they_say(op: OpDef, tmp_path: Path) -> None:
    """The ONNX form of a sample imports to this op with the sample's attributes, and computes the same."""
    for sample in op.samples(np.random.default_rng(7)):
        if sample.onnx_op == "-":
            continue
        outputs = len(op.reference(sample.attrs, sample.inputs))
        model = model_of(op, sample, outputs, constants=True)
        graph = imported(model, tmp_path)
        session = session_of(model)
        feeds = feeds_of(session, sample)
        for a, b in zip(execute_graph(graph, feeds).values(), session.run(None, feeds), strict=True):
            np.testing.assert_allclose(a, b, sample.rtol, sample.atol, equal_nan=True, err_msg=str(sample.attrs))
        if [node.op for node in graph.nodes] == [op.name]:
            made = graph.nodes[0].attrs
            assert graph.nodes[0].origins == ("node",)
            for name, value in sample.attrs.items():
                close = isinstance(value, (float, tuple)) and value and isinstance(made[name], (float, tuple))
                assert made[name] == value or (close and np.allclose(made[name], value, 1e-6)), (name, sample)


def case(op: str, opset: int, inputs: list[Any], constants: dict[int, np.ndarray] | None = None, outputs: int = 1,
         **attrs: Any) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A node whose inputs are arrays (fed), None (absent) or, by position, constants; and the feeds."""
    constants = constants or {}
    names = [f"in{i}" if i in constants or a is not None else "" for i, a in enumerate(inputs)]
    fed = {names[i]: a for i, a in enumerate(inputs) if a is not None and i not in constants}
    made = [f"out{i}" for i in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op, names, made, name="the_node", **attrs)], "case",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in fed.items()],
        [helper.make_empty_tensor_value_info(o) for o in made],
        [numpy_helper.from_array(a, f"in{i}") for i, a in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), fed


def x(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(-2, 2, shape).astype(F32)


def i64(*values: int) -> np.ndarray:
    return np.array(values, I64)


TENSOR = numpy_helper.from_array

CASES = {
    "Sum of three": case("Sum", 13, [x(2, 3), x(3), x(2, 1)]),
    "Sum of one": case("Sum", 8, [x(2, 3)]),
    "Max of three": case("Max", 12, [x(2, 3), x(3), x(2, 1)]),
    "Min of four": case("Min", 8, [x(2, 3), x(3), x(2, 1), x(1)]),
    "Mean": case("Mean", 13, [x(2, 3), x(3), x(2, 1)]),
    "Mean of one": case("Mean", 8, [x(2, 3)]),
    "Pow with integer exponent": case("Pow", 13, [abs(x(2, 3)), None], {1: i64(3)}),
    "Pow with fed integer exponent": case("Pow", 13, [abs(x(2, 3)), i64(1, 2, 3)]),
    "Pow of integers": case("Pow", 13, [i64(1, -2, 3), None], {1: np.array(3, I64)}),
    "Pow 7": case("Pow", 7, [abs(x(2, 3)), x(3)]),
    "Softmax 11 flattens": case("Softmax", 11, [x(2, 3, 4)], axis=1),
    "Softmax 11 default axis": case("Softmax", 11, [x(2, 3, 4)]),
    "Softmax 11 axis 0": case("Softmax", 11, [x(2, 3)], axis=0),
    "LogSoftmax 7 flattens": case("LogSoftmax", 7, [x(2, 3, 4)], axis=2),
    "Softmax 13 default axis": case("Softmax", 13, [x(2, 3, 4)]),
    "Split 11": case("Split", 11, [x(2, 6)], outputs=2, axis=1, split=[2, 4]),
    "Split 11 equal": case("Split", 11, [x(6, 2)], outputs=3),
    "Split 13": case("Split", 13, [x(2, 6), None], {1: i64(1, 5)}, outputs=2, axis=-1),
    "Split 18 uneven": case("Split", 18, [x(2, 7)], outputs=3, axis=1, num_outputs=3),
    "Tile": case("Tile", 13, [x(2, 3), None], {1: i64(3, 2)}),
    "Tile by one": case("Tile", 13, [x(2, 3), None], {1: i64(1, 1)}),
    "ConstantOfShape": case("ConstantOfShape", 9, [None], {0: i64(2, 3)}, value=TENSOR(np.array([7], I64))),
    "ConstantOfShape default": case("ConstantOfShape", 9, [None], {0: i64(2, 0)}),
    "DepthToSpace": case("DepthToSpace", 13, [x(2, 12, 3, 2)], blocksize=2),
    "DepthToSpace CRD": case("DepthToSpace", 13, [x(2, 12, 3, 2)], blocksize=2, mode="CRD"),
    "SpaceToDepth": case("SpaceToDepth", 13, [x(2, 3, 4, 6)], blocksize=2),
    "Dropout 7": case("Dropout", 7, [x(2, 3)], ratio=0.5),
    "Dropout 12": case("Dropout", 12, [x(2, 3), None, None], {1: np.array(0.5, F32), 2: np.array(False)}),
    "Constant tensor": case("Constant", 12, [], value=TENSOR(x(2, 3))),
    "Constant float": case("Constant", 12, [], value_float=1.5),
    "Constant ints": case("Constant", 12, [], value_ints=[3, 4]),
    "Constant floats": case("Constant", 12, [], value_floats=[3.0, 4.5]),
    "Constant int": case("Constant", 12, [], value_int=9),
    "ReduceMean 13 of all": case("ReduceMean", 13, [x(2, 3)]),
    "ReduceMean 13": case("ReduceMean", 13, [x(2, 3, 4)], axes=[-1, 0], keepdims=0),
    "ReduceMax 18 of all": case("ReduceMax", 18, [x(2, 3)], keepdims=0),
    "ReduceSum 11": case("ReduceSum", 11, [x(2, 3)], axes=[-1]),
    "ReduceSum of no axes": case("ReduceSum", 13, [x(2, 3), None], {1: i64()}, noop_with_empty_axes=1),
    "BatchNormalization 7": case("BatchNormalization", 7, [x(2, 3, 4, 5), x(3), x(3), x(3), abs(x(3)) + 0.1]),
    "BatchNormalization 9": case("BatchNormalization", 9, [x(2, 3), x(3), x(3), x(3), abs(x(3)) + 0.1]),
    "Swish": case("Swish", 24, [x(2, 3)]),
    "Swish with alpha": case("Swish", 24, [x(2, 3)], alpha=1.5),
    "GroupNormalization 21": case("GroupNormalization", 21, [x(2, 6, 4, 5), x(6), x(6)], num_groups=3),
    "Gemm 7": case("Gemm", 7, [x(2, 3), x(3, 4), x(4)], alpha=0.5, beta=2.0),
    "Gemm 11 without c": case("Gemm", 11, [x(3, 2), x(3, 4)], transA=1),
    "Conv same upper": case("Conv", 11, [x(1, 3, 7, 8), None], {1: x(4, 3, 3, 2)}, auto_pad="SAME_UPPER",
                            strides=[2, 2]),
    "Conv same lower": case("Conv", 11, [x(1, 3, 7, 8), None], {1: x(4, 3, 2, 2)}, auto_pad="SAME_LOWER"),
    "Conv valid": case("Conv", 11, [x(1, 3, 7, 8), None], {1: x(4, 3, 3, 3)}, auto_pad="VALID"),
    "Conv default": case("Conv", 7, [x(1, 3, 7, 8), None, None], {1: x(4, 3, 3, 3), 2: x(4)}),
    "MaxPool same": case("MaxPool", 12, [x(1, 3, 7, 8)], kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"),
    "AveragePool 7": case("AveragePool", 7, [x(1, 3, 7, 8)], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "ConvTranspose shape": case("ConvTranspose", 11, [x(1, 3, 4, 5), None], {1: x(3, 2, 3, 3)}, strides=[2, 2],
                                output_shape=[8, 10]),
    "ConvTranspose same": case("ConvTranspose", 11, [x(1, 3, 4, 5), None], {1: x(3, 2, 3, 3)}, strides=[2, 2],
                               auto_pad="SAME_UPPER"),
    "CastLike": case("CastLike", 15, [x(2, 3) * 9, i64(1)]),
    "Cast to int32": case("Cast", 9, [x(2, 3) * 9], to=TensorProto.INT32),
    "Clip with fed bound": case("Clip", 13, [x(2, 3), np.array(-0.5, F32), None], {2: np.array(0.5, F32)}),
    "Clip with fed upper bound": case("Clip", 13, [x(2, 3), None, np.array(0.5, F32)], {1: np.array(-0.5, F32)}),
    "Clip 7 open": case("Clip", 7, [x(2, 3)]),
    "Clip 7 above": case("Clip", 7, [x(2, 3)], max=0.5),
    "Concat 4": case("Concat", 7, [x(2, 3), x(2, 1)], axis=1),
    "Transpose default": case("Transpose", 7, [x(2, 3, 4)]),
    "Flatten 9": case("Flatten", 9, [x(2, 3, 4)]),
    "HardSigmoid defaults": case("HardSigmoid", 7, [x(2, 3) * 5]),
    "Selu defaults": case("Selu", 7, [x(2, 3)]),
    "GRU with lengths": case("GRU", 14, [x(3, 2, 4), None, None, None, None],
                             {1: x(1, 9, 4), 2: x(1, 9, 3), 4: np.array([3, 3], np.int32)}, outputs=2,
                             hidden_size=3, linear_before_reset=1),
    "LSTM with lengths": case("LSTM", 14, [x(3, 2, 4), None, None, None, None],
                              {1: x(1, 12, 4), 2: x(1, 12, 3), 4: np.array([3, 3], np.int32)}, outputs=3,
                              hidden_size=3),
    "GRU with padded sequences": case(
        "GRU", 14, [x(3, 2, 4), x(2, 9, 4), x(2, 9, 3), None, np.array([3, 1], np.int32), x(2, 2, 3)], outputs=2,
        hidden_size=3, direction="bidirectional", clip=0.5),
    "RNN reverse": case("RNN", 14, [x(3, 2, 4), x(1, 3, 4), x(1, 3, 3), x(1, 6)], outputs=2, hidden_size=3,
                        direction="reverse", activations=["LeakyRelu"], activation_alpha=[0.3]),
    "RNN 7": case("RNN", 7, [x(3, 2, 4), x(1, 3, 4), x(1, 3, 3)], outputs=2, hidden_size=3),
    "Pad 2": case("Pad", 7, [x(2, 3)], pads=[0, 1, 1, 0], mode="edge"),
    "Resize 18 axes": case("Resize", 18, [x(1, 2, 3, 4), None, None], {2: np.array([2, 2], F32)}, axes=[2, 3],
                           mode="nearest"),
    "Resize 18 not larger": case("Resize", 18, [x(1, 2, 4, 6), None, None, None], {3: i64(7, 8)}, axes=[2, 3],
                                 mode="linear", keep_aspect_ratio_policy="not_larger"),
    "Resize 10 shrinks": case("Resize", 10, [x(1, 2, 5, 6), None], {1: np.array([1, 1, 0.6, 0.5], F32)}),
    "Range": case("Range", 11, [None] * 3, {i: np.array(v, F32) for i, v in enumerate((0.5, 3, 0.4))}),
    "Shape": case("Shape", 7, [x(2, 3, 4)]),
    "Squeeze 11 without axes": case("Squeeze", 11, [x(1, 3, 1)]),
    "Where": case("Where", 9, [np.array([True, False, True]), x(3), x(2, 1)]),
    "Reshape by data": case("Reshape", 13, [x(2, 3, 4), i64(0, -1)]),
    "ConstantOfShape by data": case("ConstantOfShape", 9, [i64(3, 0, 2)]),
    "Trilu default": case("Trilu", 14, [x(3, 4)]),
}


@pytest.mark.parametrize("name", CASES)
def test_imported_computes_the_same(name: str, tmp_path: Path) -> None:
    model, feeds = CASES[name]
    expected = session_of(model).run(None, feeds)
    for a, b in zip(execute_graph(imported(model, tmp_path), feeds).values(), expected, strict=True):
        assert (a.dtype, a.shape) == (np.asarray(b).dtype, np.shape(b))
        np.testing.assert_allclose(a, b, 1e-5, 1e-5)


WRONG = {"reshape to what does not fit": (case("Reshape", 13, [x(6), None], {1: i64(-1, 4)}), "cannot be viewed")}
REFUSED = {
    "training batch norm": (case("BatchNormalization", 9, [x(2, 3), x(3), x(3), x(3), abs(x(3))], outputs=3),
                            "training"),
    "LSTM activation": (case("LSTM", 14, [x(3, 2, 4), x(1, 12, 4), x(1, 12, 3)], hidden_size=3,
                             activations=["Sigmoid", "Softmax", "Tanh"]), "Softmax"),
    "GRU activation": (case("GRU", 14, [x(3, 2, 4), x(1, 9, 4), x(1, 9, 3)], hidden_size=3,
                            activations=["Sigmoid", "ScaledTanh"]), "without activation_alpha"),
    "RNN activations": (case("RNN", 14, [x(3, 2, 4), x(2, 3, 4), x(2, 3, 3)], hidden_size=3, direction="bidirectional",
                             activations=["Tanh"]), "activations Tanh"),
    "uneven split": (case("Split", 13, [x(5)], outputs=2), "equal parts"),
    "spatial 0": (case("BatchNormalization", 7, [x(2, 3, 2), x(3, 2), x(3, 2), x(3, 2), abs(x(3, 2))], spatial=0),
                  "spatial"),
    "cast to string": (case("Cast", 13, [x(2)], to=TensorProto.STRING), "not supported"),
}


def test_every_refusal_is_a_listed_gap() -> None:
    """And every listed gap is of an op that is imported otherwise."""
    for (model, _), _ in REFUSED.values():
        assert gaps_of(model.graph.node[0].op_type), model.graph.node[0].op_type
    assert {gap.op for gap in GAPS if gap.case != "all"} <= {rule.op for rule in RULES}


@pytest.mark.parametrize("name", [*WRONG, *REFUSED])
def test_refused_by_name(name: str, tmp_path: Path) -> None:
    (model, _), reason = {**WRONG, **REFUSED}[name]
    with pytest.raises(UnsupportedError, match=reason) as caught:
        imported(model, tmp_path)
    assert "the_node" in str(caught.value) and "try:" in str(caught.value)
