"""Many single-node cases as one model: built once, run by the package and by ONNX Runtime, compared case by case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

from meta_infer import api
from meta_infer.runtime.session import load

MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class NodeCase:
    """One node. Inputs at positions `constants` are initialisers; integers may differ by `steps`."""

    op: str
    inputs: Sequence[np.ndarray | None]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    outputs: int | tuple[bool, ...] = 1
    constants: frozenset[int] = frozenset()
    domain: str = MICROSOFT
    steps: int = 0
    rtol: float = 1e-4
    atol: float = 1e-5


def weights(*positions: int) -> frozenset[int]:
    return frozenset(positions)


def model_of(cases: Sequence[NodeCase], opset: int = 21) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model of all cases and its feeds; case i reads `in{i}_{j}` and makes `out{i}_{j}`."""
    nodes, inputs, outputs, initialisers = [], [], [], []
    feeds: dict[str, np.ndarray] = {}
    for i, case in enumerate(cases):
        names = []
        for j, array in enumerate(case.inputs):
            names.append("" if array is None else f"in{i}_{j}")
            if array is None:
                continue
            if j in case.constants:
                initialisers.append(numpy_helper.from_array(array, names[-1]))
                continue
            feeds[names[-1]] = array
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            inputs.append(helper.make_tensor_value_info(names[-1], kind, array.shape))
        made = case.outputs if isinstance(case.outputs, tuple) else (True,) * case.outputs
        given = [f"out{i}_{j}" if is_made else "" for j, is_made in enumerate(made)]
        nodes.append(helper.make_node(case.op, names, given, name=f"node{i}", domain=case.domain, **case.attrs))
        outputs += [helper.make_empty_tensor_value_info(name) for name in given if name]
    graph = helper.make_graph(nodes, "cases", inputs, outputs, initialisers)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), feeds


def run_peer(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """ONNX Runtime's results, its graph optimisations off."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return session.run(None, dict(feeds))


def run_package(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], folder: Path) -> list[np.ndarray]:
    """The package's results. Feeds that the model does not need are left out."""
    return run_package_on(model, [feeds], folder)[0]


def run_package_on(model: onnx.ModelProto, batches: Sequence[Mapping[str, np.ndarray]],
                   folder: Path) -> list[list[np.ndarray]]:
    """The same for several inputs of one package."""
    path = folder / "model.onnx"
    onnx.save(model, path)
    package = api.build(path, verify=False).path
    assert package is not None
    with load(package, threads=1) as session:
        wanted = {value.name for value in session.get_inputs()}
        return [session.run(None, {name: array for name, array in feeds.items() if name in wanted})
                for feeds in batches]


def check(cases: Sequence[NodeCase], folder: Path, opset: int = 21,
          want: Sequence[np.ndarray] | None = None) -> None:
    """Build and compare; `want` replaces ONNX Runtime's results where it has no kernel."""
    model, feeds = model_of(cases, opset)
    expected = list(run_peer(model, feeds) if want is None else want)
    found = run_package(model, feeds, folder)
    owners = [int(value.name.removeprefix("out").split("_")[0]) for value in model.graph.output]
    for value, owner, ours, theirs in zip(model.graph.output, owners, found, expected, strict=True):
        case = cases[owner]
        shapes = [None if a is None else (a.dtype.name, a.shape) for a in case.inputs]
        label = f"{value.name} of {case.op}{shapes} {dict(case.attrs)}"
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, \
            f"{label}: {ours.dtype}{ours.shape}, expected {theirs.dtype}{theirs.shape}"
        if theirs.dtype.kind in "iu":
            apart = np.abs(ours.astype(np.int64) - theirs.astype(np.int64)).max(initial=0)
            assert apart <= case.steps, f"{label}: differs by {apart} steps"
        else:
            np.testing.assert_allclose(ours, theirs, case.rtol, case.atol, err_msg=label)
