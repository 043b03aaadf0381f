"""A sample of an op as a one-node ONNX model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import ModelProto, helper, numpy_helper

from meta_infer.ops.opdef import OpDef, Sample
from meta_infer.support.dtypes import DType

DEFAULT_OPSET = 21


def onnx_attrs(sample: Sample) -> dict[str, Any]:
    """Attributes as ONNX spells them; None is absent."""
    attrs: Mapping[str, Any] = sample.attrs if sample.onnx_attrs is None else sample.onnx_attrs
    spelled = {}
    for name, value in attrs.items():
        if isinstance(value, DType):
            value = int(helper.np_dtype_to_tensor_dtype(value.numpy))
        elif isinstance(value, bool):
            value = int(value)
        if value is not None:
            spelled[name] = value
    return spelled


def onnx_inputs(sample: Sample) -> list[np.ndarray | None]:
    """Inputs as ONNX takes them, without trailing absent ones."""
    given = sample.inputs if sample.onnx_inputs is None else sample.onnx_inputs
    inputs = list(given)
    while inputs and inputs[-1] is None:
        inputs.pop()
    return inputs


def model_of(op: OpDef, sample: Sample, outputs: int = 1, constants: bool = False) -> ModelProto:
    """The node as a model. With `constants` every input but the first present one is an initialiser."""
    arrays = onnx_inputs(sample)
    names = ["" if a is None else f"in{i}" for i, a in enumerate(arrays)]
    made = [f"out{i}" for i in range(outputs)]
    node = helper.make_node(sample.onnx_op or op.name, names, made, name="node", **onnx_attrs(sample))
    given = [(n, a) for n, a in zip(names, arrays, strict=True) if a is not None]
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
              for n, a in (given[:1] if constants else given)]
    initialisers = [numpy_helper.from_array(a, n) for n, a in given[1:]] if constants else []
    graph = helper.make_graph([node], "sample", inputs, [helper.make_empty_tensor_value_info(o) for o in made],
                              initialisers)
    opset = helper.make_opsetid("", sample.opset or DEFAULT_OPSET)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


def session_of(model: ModelProto) -> ort.InferenceSession:
    """ONNX Runtime for one model, unoptimised, one thread."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


def feeds_of(session: ort.InferenceSession, sample: Sample) -> dict[str, np.ndarray]:
    wanted = {i.name for i in session.get_inputs()}
    return {f"in{i}": a for i, a in enumerate(onnx_inputs(sample)) if a is not None and f"in{i}" in wanted}
