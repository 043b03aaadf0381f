"""Small float models to quantise and to optimise: an image classifier and one layer of a text encoder."""

from __future__ import annotations

import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH, HEADS, STEPS = 32, 4, 9


def _weight(name: str, *shape: int, spread: float | None = None) -> onnx.TensorProto:
    """Drawn by the name: a model is the same whatever was made before it, and so is how its roundings fall."""
    spread = spread if spread is not None else float(np.sqrt(2 / max(1, np.prod(shape[1:]))))
    rng = np.random.default_rng([29, zlib.crc32(name.encode())])
    return numpy_helper.from_array((rng.normal(size=shape) * spread).astype(np.float32), name)


def _model(nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], output: onnx.ValueInfoProto,
           weights: list[onnx.TensorProto]) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "small", inputs, [output], weights)
    return onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def classifier() -> onnx.ModelProto:
    """Convolutions (plain, strided, depthwise), a residual, pools, Concat, Sigmoid and a Gemm: x [n, 3, 16, 16]."""
    node, same = helper.make_node, {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    nodes = [node("Conv", ["x", "w0", "b0"], ["c0"], "conv0", **same), node("Relu", ["c0"], ["r0"], "relu0"),
             node("MaxPool", ["r0"], ["p0"], "pool0", kernel_shape=[2, 2], strides=[2, 2]),
             node("Conv", ["p0", "w1", "b1"], ["c1"], "conv1", group=8, **same), node("Relu", ["c1"], ["r1"], "relu1"),
             node("Conv", ["r1", "w2", "b2"], ["c2"], "conv2", kernel_shape=[1, 1]),
             node("Add", ["c2", "p0"], ["a"], "add"), node("LeakyRelu", ["a"], ["l"], "leaky", alpha=0.125),
             node("Conv", ["l", "w3", "b3"], ["c3"], "conv3", strides=[2, 2], **same),
             node("Sigmoid", ["c3"], ["s"], "sigmoid"),
             node("AveragePool", ["l"], ["q"], "pool1", kernel_shape=[2, 2], strides=[2, 2]),
             node("Concat", ["s", "q"], ["k"], "concat", axis=1), node("GlobalAveragePool", ["k"], ["g"], "global"),
             node("Flatten", ["g"], ["f"], "flatten"), node("Gemm", ["f", "w4", "b4"], ["y"], "gemm", transB=1)]
    weights = [_weight("w0", 8, 3, 3, 3), _weight("w1", 8, 1, 3, 3), _weight("w2", 8, 8, 1, 1),
               _weight("w3", 12, 8, 3, 3), _weight("w4", 10, 20)]
    weights += [_weight(f"b{i}", size, spread=0.1) for i, size in enumerate((8, 8, 8, 12, 10))]
    return _model(nodes, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 16, 16])],
                  helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10]), weights)


def encoder() -> onnx.ModelProto:
    """Attention with a mask, residuals, LayerNormalization and a Gelu of Erf: x [b, 9, 32], mask [b, 1, 1, 9]."""
    node, split = helper.make_node, numpy_helper.from_array(np.array([0, 0, HEADS, WIDTH // HEADS]), "split")
    join = numpy_helper.from_array(np.array([0, 0, WIDTH]), "join")
    nodes, weights = [], [split, join, numpy_helper.from_array(np.array(np.sqrt(WIDTH // HEADS), np.float32), "root"),
                          numpy_helper.from_array(np.array(np.sqrt(2), np.float32), "sqrt2"),
                          numpy_helper.from_array(np.array(1, np.float32), "one"),
                          numpy_helper.from_array(np.array(0.5, np.float32), "half")]

    def linear(x: str, name: str, rows: int, columns: int) -> str:
        weights.append(_weight(f"{name}.w", rows, columns, spread=rows ** -0.5))
        weights.append(_weight(f"{name}.b", columns, spread=0.1))
        nodes.append(node("MatMul", [x, f"{name}.w"], [f"{name}.m"], f"{name}.matmul"))
        nodes.append(node("Add", [f"{name}.m", f"{name}.b"], [name], f"{name}.add"))
        return name

    def norm(x: str, other: str, name: str) -> str:
        weights.extend([_weight(f"{name}.g", WIDTH, spread=1.0), _weight(f"{name}.b", WIDTH, spread=0.1)])
        nodes.append(node("Add", [x, other], [f"{name}.sum"], f"{name}.add"))
        nodes.append(node("LayerNormalization", [f"{name}.sum", f"{name}.g", f"{name}.b"], [name], name, axis=-1))
        return name

    for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes.append(node("Reshape", [linear("x", name, WIDTH, WIDTH), "split"], [f"{name}.r"], f"{name}.reshape"))
        nodes.append(node("Transpose", [f"{name}.r"], [f"{name}.t"], f"{name}.transpose", perm=perm))
    nodes += [node("MatMul", ["q.t", "k.t"], ["scores"], "scores"),
              node("Div", ["scores", "root"], ["scaled"], "scale"),
              node("Add", ["scaled", "mask"], ["masked"], "mask"),
              node("Softmax", ["masked"], ["weights"], "softmax", axis=-1),
              node("MatMul", ["weights", "v.t"], ["mixed"], "mix"),
              node("Transpose", ["mixed"], ["back"], "back", perm=[0, 2, 1, 3]),
              node("Reshape", ["back", "join"], ["joined"], "join")]
    first = norm(linear("joined", "out", WIDTH, WIDTH), "x", "norm0")
    inner = linear(first, "up", WIDTH, 2 * WIDTH)
    nodes += [node("Div", [inner, "sqrt2"], ["e0"], "gelu.div"), node("Erf", ["e0"], ["e1"], "gelu.erf"),
              node("Add", ["e1", "one"], ["e2"], "gelu.add"), node("Mul", [inner, "e2"], ["e3"], "gelu.mul"),
              node("Mul", ["e3", "half"], ["gelu"], "gelu.half")]
    last = norm(linear("gelu", "down", 2 * WIDTH, WIDTH), first, "norm1")
    nodes.append(node("Identity", [last], ["y"], "end"))
    return _model(nodes, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", STEPS, WIDTH]),
                          helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["b", 1, 1, STEPS])],
                  helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", STEPS, WIDTH]), weights)


def feeds_of(model: onnx.ModelProto, batch: int, seed: int) -> dict[str, np.ndarray]:
    """Inputs of either model."""
    rng = np.random.default_rng(seed)
    if len(model.graph.input) == 1:
        return {"x": rng.normal(size=(batch, 3, 16, 16)).astype(np.float32)}
    kept = rng.integers(0, 2, (batch, 1, 1, STEPS))
    kept[..., 0] = 1
    return {"x": rng.normal(size=(batch, STEPS, WIDTH)).astype(np.float32),
            "mask": np.where(kept, 0, -10000).astype(np.float32)}
