"""Random damage to small models: either the graph is sound, or the error is one made for people."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from meta_infer.frontend.import_model import import_model
from meta_infer.ir.verify_graph import verify_graph
from meta_infer.support.errors import InternalError, MetaInferError

node = helper.make_node
MODELS = ("convolutions", "shapes", "control_flow", "operators")
INT64, FLOAT = TensorProto.INT64, TensorProto.FLOAT
NUMBERS = (-(1 << 63), -7, -1, 0, 1, 2, 3, 5, 100, 1 << 20, (1 << 63) - 1)
OPS = ("Relu", "Add", "Conv", "Reshape", "Concat", "Gather", "Softmax", "Slice", "Loop", "Cast", "Nope", "")


def convolutions(info: Any) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    constants = {"w": rng.normal(size=(4, 3, 3, 3)), "b": rng.normal(size=4), "s": np.ones(4), "m": np.zeros(4),
                 "v": np.ones(4), "g": rng.normal(size=(36, 5))}
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[1, 1], kernel_shape=[3, 3], group=1),
        node("BatchNormalization", ["c", "s", "m", "m", "v"], ["n"], epsilon=1e-5), node("Relu", ["n"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        node("Flatten", ["p"], ["f"], axis=1), node("Gemm", ["f", "g"], ["y"], alpha=0.5, transB=0),
        node("Softmax", ["y"], ["z"], axis=-1)]
    floats = {name: array.astype(np.float32) for name, array in constants.items()}
    return nodes, [info("x", ["n", 3, 6, 6])], [info("y", ["n", 5]), info("z", None)], floats


def shapes(info: Any) -> tuple[Any, ...]:
    constants = {"i": np.array(1), "neg": np.array([-1]), "zero": np.array([0]), "two": np.array([2]),
                 "pads": np.array([0, 1, 0, 1])}
    nodes = [
        node("Shape", ["x"], ["s"]), node("Gather", ["s", "i"], ["d"], axis=0),
        node("Unsqueeze", ["d", "zero"], ["u"]), node("Concat", ["neg", "u", "two"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["r"]), node("Slice", ["r", "zero", "two", "zero"], ["q"]),
        node("Transpose", ["q"], ["p"], perm=[2, 0, 1]), node("ReduceMean", ["p"], ["e"], axes=[0], keepdims=0),
        node("Cast", ["e"], ["k"], to=TensorProto.FLOAT), node("Pad", ["k", "pads"], ["y"], mode="constant")]
    return nodes, [info("x", ["n", 3, 4])], [info("y", None)], constants


def control_flow(info: Any) -> tuple[Any, ...]:
    body = helper.make_graph(
        [node("Add", ["c", "x"], ["c_out"]), node("Identity", ["go"], ["again"]), node("Neg", ["c_out"], ["row"])],
        "body", [info("i", [], TensorProto.INT64), info("go", [], TensorProto.BOOL), info("c", [3])],
        [info("again", [], TensorProto.BOOL), info("c_out", [3]), info("row", [3])])
    then = helper.make_graph([node("Relu", ["x"], ["r"])], "then", [], [info("r", None)],
                             [numpy_helper.from_array(np.ones(2, np.float32), "idle")])
    other = helper.make_graph([node("Neg", ["last"], ["r"])], "else", [], [info("r", None)])
    nodes = [node("Loop", ["trips", "", "x"], ["last", "rows"], body=body),
             node("If", ["flag"], ["y"], then_branch=then, else_branch=other)]
    inputs = [info("x", [3]), info("flag", [], TensorProto.BOOL)]
    return nodes, inputs, [info("y", [3]), info("rows", None)], {"trips": np.array(4)}


def operators(info: Any) -> tuple[Any, ...]:
    """One node of many kinds each, all read by the outputs."""
    rng = np.random.default_rng(0)
    x, m = "x", "m"
    nodes = [
        node("AveragePool", [x], ["a"], kernel_shape=[2, 3], auto_pad="SAME_UPPER", count_include_pad=1),
        node("ConvTranspose", [x, "w"], ["b"], strides=[2, 2], output_padding=[1, 0], dilations=[1, 1]),
        node("Resize", [x, "", "scales"], ["c"], mode="linear", coordinate_transformation_mode="half_pixel"),
        node("Split", [x, "parts"], ["d", "d2"], axis=1), node("Expand", ["d", "wide"], ["e"]),
        node("Tile", [m, "two2"], ["f"]), node("ArgMax", [m], ["g"], axis=-1, keepdims=0, select_last_index=1),
        node("CumSum", [m, "one"], ["h"], exclusive=1, reverse=0), node("Trilu", [m], ["i"], upper=0),
        node("LSTM", ["q", "W", "R"], ["j", "j2"], hidden_size=2, direction="forward"),
        node("InstanceNormalization", [x, "s", "s"], ["k"], epsilon=1e-5), node("Clip", [x, "lo"], ["l"]),
        node("DepthToSpace", [x], ["n"], blocksize=2, mode="DCR"), node("LogSoftmax", [m], ["o"], axis=0),
        node("ReduceL2", [m], ["p"], axes=[-1], keepdims=1), node("Range", ["lo0", "hi0", "step0"], ["r"]),
        node("GlobalMaxPool", [x], ["t"]), node("HardSigmoid", [m], ["u"], alpha=0.3, beta=0.4),
        node("Gemm", [m, m], ["v"], transA=1, beta=0.5), node("Where", ["cond", m, m], ["y"]),
        node("GatherElements", [m, "index"], ["z"], axis=1), node("Squeeze", ["t", "axes"], ["aa"])]
    constants = {
        "w": rng.normal(size=(4, 2, 3, 3)), "scales": np.array([1, 1, 2, 0.5]), "s": np.ones(4), "lo": np.array(0),
        "W": rng.normal(size=(1, 8, 3)), "R": rng.normal(size=(1, 8, 2)), "lo0": np.array(0), "hi0": np.array(7),
        "step0": np.array(2)}
    floats = {name: array.astype(np.float32) for name, array in constants.items()}
    ints = {"parts": np.array([1, 3]), "wide": np.array([1, 3, 1, 1]), "two2": np.array([2, 2]), "one": np.array(1),
            "index": np.zeros((3, 3), np.int64), "axes": np.array([2, 3]), "cond": np.array([True, False, True])}
    unread = [name for n in nodes for name in n.output if name not in ("d", "t")]
    inputs = [info(x, ["n", 4, 6, 8]), info(m, [3, 3]), info("q", [5, 1, 3])]
    return nodes, inputs, [info(name, None, INT64 if name == "g" else FLOAT) for name in unread], floats | ints


def mutate(rng: random.Random, graph: onnx.GraphProto, model: onnx.ModelProto) -> None:
    """Damage one thing."""
    target = rng.choice(graph.node)
    inner = [a.g for a in target.attribute if a.HasField("g")]
    if inner and rng.random() < 0.6:
        return mutate(rng, rng.choice(inner), model)
    attribute = rng.choice(target.attribute) if target.attribute else AttributeProto(name="axis", i=1, type=2)
    names = [name for n in graph.node for name in (*n.input, *n.output)] or ["x"]
    match rng.randrange(14):
        case 0:
            attribute.i = rng.choice(NUMBERS)
        case 1:
            attribute.ints[:] = [rng.choice(NUMBERS) for _ in range(rng.randrange(6))]
        case 2:
            attribute.type = rng.choice(AttributeProto.AttributeType.values())
        case 3:
            attribute.name = rng.choice(["axis", "axes", "pads", "to", "nothing", ""])
        case 4 if target.attribute:
            target.attribute.remove(attribute)
        case 5 if target.input:
            target.input[rng.randrange(len(target.input))] = rng.choice([*names, "", "nowhere"])
        case 6:
            target.output[rng.randrange(len(target.output))] = rng.choice([*names, "", "new"])
        case 7 if target.input:
            del target.input[rng.randrange(len(target.input)):]
        case 8:
            target.op_type = rng.choice(OPS)
        case 9 if graph.initializer:
            tensor = rng.choice(graph.initializer)
            tensor.dims[:] = [rng.choice(NUMBERS[1:-1]) for _ in range(rng.randrange(5))]
        case 10 if graph.initializer:
            tensor = rng.choice(graph.initializer)
            tensor.data_type = rng.randrange(30)
            tensor.raw_data = bytes(rng.randrange(256) for _ in range(rng.randrange(20)))
        case 11:
            value = rng.choice([*graph.input, *graph.output])
            value.type.tensor_type.elem_type = rng.randrange(30)
        case 12:
            value = rng.choice([*graph.input, *graph.output])
            dims = value.type.tensor_type.shape.dim
            dims.add(dim_value=rng.choice(NUMBERS)) if rng.random() < 0.5 or not dims else dims.pop()
        case _:
            attribute.s = b"\xff" + rng.choice([b"SAME_UPPER", b"reflect", b"", b"tanh"])
            model.opset_import[0].version = rng.choice([6, 7, 9, 11, 12, 13, 18, 22, model.opset_import[0].version])


@pytest.mark.parametrize("name", MODELS)
def test_damaged_models_never_give_a_traceback(make_model: Callable[..., Path], info: Any, name: str) -> None:
    nodes, inputs, outputs, constants = {"convolutions": convolutions, "shapes": shapes,
                                         "control_flow": control_flow, "operators": operators}[name](info)
    path = make_model(nodes, inputs, outputs, constants=constants, opset=14)
    verify_graph(import_model(path))
    whole, rng, sound = path.read_bytes(), random.Random(name), 0
    for _ in range(300):
        model = onnx.ModelProto.FromString(whole)
        for _ in range(rng.choice([1, 1, 1, 2])):
            mutate(rng, model.graph, model)
        path.write_bytes(model.SerializeToString())
        try:
            verify_graph(import_model(path))
            sound += 1
        except InternalError as error:
            pytest.fail(f"{error}\n{model}")
        except MetaInferError as error:
            assert error.problem
    assert sound, "some damage is harmless"


def test_damaged_bytes_never_give_a_traceback(make_model: Callable[..., Path], info: Any) -> None:
    nodes, inputs, outputs, constants = shapes(info)
    path = make_model(nodes, inputs, outputs, constants=constants, opset=14)
    whole, rng = path.read_bytes(), random.Random(1)
    for _ in range(500):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 1, 2, 5])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data)
        try:
            verify_graph(import_model(path))
        except MetaInferError as error:
            assert error.problem and not isinstance(error, InternalError), str(error)
