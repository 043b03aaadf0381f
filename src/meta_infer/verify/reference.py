"""Reference results: ONNX Runtime on the original model, and the graph in float64."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

from meta_infer.ir.graph import Graph
from meta_infer.ops.execute import execute_graph, execute_layers
from meta_infer.support.dtypes import FLOAT64, NARROW_FLOATS, NARROW_INTS, as_storage, dtype_of
from meta_infer.support.errors import InputError, ModelError

LONGEST = 120.0
"""Seconds that a run of the reference may take. Random inputs may keep a loop going forever."""


class UnfitInputs(InputError):
    """Made-up inputs that the model itself does not take: a shape operand at random, say."""


def reference_session(model: Path, threads: int = 1) -> ort.InferenceSession:
    """ONNX Runtime on the file, CPU only; on a copy without repeated node names, which it refuses, where there are any.

    Raises ModelError with its message when it refuses the model.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    try:
        try:
            return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        except Exception:  # noqa: BLE001 - as below
            proto = onnx.load(str(model), load_external_data=False)
            if not drop_repeated_names(proto.graph):
                raise
            options.add_session_config_entry(_FOLDER_OF_WEIGHTS, str(model.resolve().parent))
            return ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - its many exception types have no common base
        raise ModelError(f"ONNX Runtime cannot run it: {error}", what=f"file {model}",
                         hint="build with --no-verify to skip the comparison") from error


_FOLDER_OF_WEIGHTS = "session.model_external_initializers_file_folder_path"


def drop_repeated_names(graph: onnx.GraphProto) -> bool:
    """Take the names of nodes that an earlier node of the same graph has, regions included; whether there were any.

    Names of nodes mean nothing to ONNX, and many exporters leave them out or repeat them.
    """
    seen: set[str] = set()
    found = False
    for node in graph.node:
        if node.name in seen:
            node.name, found = "", True
        seen.update({node.name} - {""})
        for attribute in node.attribute:
            for region in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                found = drop_repeated_names(region) or found
    return found


def run_reference(session: ort.InferenceSession, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """All outputs in model order; inputs the model does not declare are left out."""
    known = {i.name for i in session.get_inputs()}
    options = ort.RunOptions()
    clock = threading.Timer(LONGEST, setattr, (options, "terminate", True))
    clock.start()
    try:
        found = session.run(None, {k: _fed(v) for k, v in inputs.items() if k in known}, options)
    except Exception as error:
        if options.terminate:
            raise UnfitInputs(f"has not ended on random inputs after {LONGEST:.0f} s: a loop whose end data decides?",
                              what="the model", hint="record inputs and outputs, and run 'meta-infer compare "
                              "--reference'") from error
        raise
    finally:
        clock.cancel()
    return [_typed(array, output.type) for array, output in zip(found, session.get_outputs(), strict=True)]


def _fed(array: Any) -> Any:
    """An array as ONNX Runtime takes it: types of ml_dtypes by the integers that hold them, all else as it is."""
    if not isinstance(array, np.ndarray) or array.dtype.kind in "OUS" or not dtype_of(array).is_narrow:
        return array
    kind = int(onnx.helper.np_dtype_to_tensor_dtype(array.dtype))
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.ascontiguousarray(as_storage(array)), kind)


def _typed(array: np.ndarray, kind: str) -> np.ndarray:
    """What ONNX Runtime gives for an output of type `kind`, 'tensor(bfloat16)' say, in that type."""
    wanted = next((dtype for dtype in (*NARROW_FLOATS, *NARROW_INTS) if kind == f"tensor({dtype})"), None)
    return array if wanted is None or array.dtype != wanted.storage.numpy else array.view(wanted.numpy)


def layer_references(model: Path, inputs: Mapping[str, np.ndarray], names: Sequence[str]) -> dict[str, np.ndarray]:
    """ONNX Runtime's values of inner tensors `names` (those it can give), by name, optimisations off."""
    proto = onnx.load(str(model))
    drop_repeated_names(proto.graph)
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


@dataclass(frozen=True)
class Reference:
    """What a package is compared with. `why` says why it is not ONNX Runtime, '' when it is."""

    compute: Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]
    why: str = ""

    def run(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """All outputs in order. Raises UnfitInputs where the reference cannot compute them."""
        try:
            return self.compute(inputs)
        except UnfitInputs:
            raise
        except MemoryError as error:
            raise UnfitInputs("takes more memory than this machine has", what="the model",
                              hint="run it where there is enough") from error
        except Exception as error:  # ONNX Runtime's exception types, and numpy's, have no common base
            reason = " ".join(str(error).split())[:300]
            raise UnfitInputs(f"does not take the random inputs of a comparison: {reason}", what="the model",
                              hint="record inputs and outputs, and run 'meta-infer compare --reference'") from error


def choose_reference(model: Path, graph: Graph) -> Reference:
    """ONNX Runtime on the file; where it refuses the model, the graph as imported, its ops computed by numpy.

    The second knows every op that the compiler knows, those of users included, but shares the import with it.
    """
    try:
        session = reference_session(model)
    except ModelError as error:
        reason = " ".join(error.problem.split())[:300]
        return Reference(partial(_numpy_reference, graph),
                         f"compared with the ops' definitions in numpy, not with ONNX Runtime: {reason}")
    return Reference(partial(run_reference, session))


def _numpy_reference(graph: Graph, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Outputs of the graph in order, floats computed in float64 and rounded to their own types at the end."""
    found = float64_reference(graph, inputs)
    return [array.astype(graph.values[name].dtype.numpy, copy=False)
            for name, array in zip(graph.outputs, found, strict=True)]


def layers_in_numpy(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Inner tensors of the graph by ONNX name, computed by numpy."""
    feeds = {n: inputs[graph.values[n].origin or n] for n in graph.inputs}
    return execute_layers(graph, feeds)[1]


def float64_reference(graph: Graph, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Outputs of the imported graph in float64, in order; inputs by ONNX name."""
    feeds = {n: inputs[graph.values[n].origin or n] for n in graph.inputs}
    found = execute_graph(graph, feeds, FLOAT64)
    return [found[name] for name in graph.outputs]
