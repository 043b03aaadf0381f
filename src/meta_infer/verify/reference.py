"""Reference results: ONNX Runtime on the original model, and the graph in float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

from meta_infer.ir.graph import Graph
from meta_infer.ops.execute import execute_graph
from meta_infer.support.dtypes import FLOAT64
from meta_infer.support.errors import ModelError


def reference_session(model: Path, threads: int = 1) -> ort.InferenceSession:
    """ONNX Runtime on the file, CPU only. Raises ModelError with its message when it refuses the model."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    try:
        return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - its many exception types have no common base
        raise ModelError(f"ONNX Runtime cannot run it: {error}", what=f"file {model}",
                         hint="build with --no-verify to skip the comparison") from error


def run_reference(session: ort.InferenceSession, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """All outputs in model order; inputs the model does not declare are left out."""
    known = {i.name for i in session.get_inputs()}
    return list(session.run(None, {k: v for k, v in inputs.items() if k in known}))


def layer_references(model: Path, inputs: Mapping[str, np.ndarray], names: Sequence[str]) -> dict[str, np.ndarray]:
    """ONNX Runtime's values of inner tensors `names` (those it can give), by name, optimisations off."""
    proto = onnx.load(str(model))
    made = {out for node in proto.graph.node for out in node.output}
    have = {o.name for o in proto.graph.output}
    wanted = [n for n in names if n in made]
    proto.graph.output.extend(onnx.ValueInfoProto(name=n) for n in wanted if n not in have)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    known = {i.name for i in session.get_inputs()}
    found = session.run(wanted, {k: v for k, v in inputs.items() if k in known})
    return dict(zip(wanted, found, strict=True))


def float64_reference(graph: Graph, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Outputs of the imported graph in float64, in order; inputs by ONNX name."""
    feeds = {n: inputs[graph.values[n].origin or n] for n in graph.inputs}
    found = execute_graph(graph, feeds, FLOAT64)
    return [found[name] for name in graph.outputs]
