"""Small models for the checklist's tests, each a node or two between inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

KINDS = {"f": TensorProto.FLOAT, "h": TensorProto.FLOAT16, "i": TensorProto.INT64, "u": TensorProto.UINT8,
         "b": TensorProto.INT8, "s": TensorProto.INT32, "w": TensorProto.UINT16}
Dims = Sequence[int | str | None]


def node(op: str, inputs: str, outputs: str, name: str = "", domain: str = "", **attrs: Any) -> NodeProto:
    """A node of operands given as words: node("Add", "x c", "y")."""
    return helper.make_node(op, inputs.split(" "), outputs.split(" "), name=name or op.lower(), domain=domain, **attrs)


def model(nodes: Sequence[NodeProto], x: Dims = (1, 4), y: Dims | None = None, *, opset: int = 17,
          weights: Mapping[str, object] | None = None, x_type: str = "f", y_type: str = "f",
          inputs: str = "x", outputs: str = "y", domains: Mapping[str, int] | None = None) -> ModelProto:
    """`nodes` from `inputs`, all of shape `x`, to `outputs`; weights are float32 but for arrays of other types."""
    arrays = {name: w if isinstance(w, np.ndarray) and w.dtype != np.float64 else np.array(w, np.float32)
              for name, w in (weights or {}).items()}
    tensors = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(
        list(nodes), "small",
        [helper.make_tensor_value_info(name, KINDS[x_type], list(x)) for name in inputs.split()],
        [helper.make_tensor_value_info(name, KINDS[y_type], None if y is None else list(y))
         for name in outputs.split()], tensors)
    sets = [helper.make_opsetid(domain, version) for domain, version in {"": opset, **(domains or {})}.items()]
    return helper.make_model(graph, opset_imports=sets, ir_version=8, producer_name="test", producer_version="1")


def saved(proto: ModelProto, folder: Path, name: str = "small.onnx") -> Path:
    path = folder / name
    path.write_bytes(proto.SerializeToString())          # onnx.save would move external data
    return path


def relu() -> ModelProto:
    """What no probe of trouble finds anything in."""
    return model([node("Relu", "x", "y")])


def image_net(channels: int = 3, **attrs: Any) -> ModelProto:
    """A convolution of 5 channels over an image, then a Relu."""
    weight = np.arange(5 * channels * 9).reshape(5, channels, 3, 3) / 100
    return model([node("Conv", "x w", "c", "conv", **{"pads": [1, 1, 1, 1], **attrs}), node("Relu", "c", "y")],
                 (1, channels, 8, 8), weights={"w": weight})
