"""Models that lie in the onnx package as files, with inputs and expected outputs beside them.

`light` are nine well-known networks whose weights are made by ConstantOfShape; the others are small models, most of
them exported by PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
from onnx import OptionalProto, SequenceProto, TensorProto, ValueInfoProto, numpy_helper

from meta_infer.suite.cases import Case, kind_of

FOLDERS = ("light", "pytorch-converted", "pytorch-operator", "simple")
_RTOL, _ATOL = 1e-3, 1e-7                                # those of onnx's own runner
_LOOSER = {"light_densenet121": 2e-3}                    # as onnx's own list of cases says


def collect_stored_cases(match: Sequence[str] = ()) -> list[Case]:
    """The cases whose name (folder/case) matches one of the patterns, all when there are none."""
    (root,) = onnx.backend.test.__path__
    cases = [case for folder in FOLDERS for case in _cases(Path(root) / "data" / folder, match)]
    return sorted(cases, key=lambda case: case.name)


def _cases(folder: Path, match: Sequence[str]) -> Iterator[Case]:
    for entry in sorted(folder.iterdir()):
        name = f"{folder.name}/{entry.stem}"
        if match and not any(fnmatchcase(name, pattern) for pattern in match):
            continue
        if entry.is_dir():
            model = onnx.load(entry / "model.onnx")
            for i, data in enumerate(sorted(entry.glob("test_data_set_*"))):
                yield _case(name if i == 0 else f"{name}:{i}", model, _read(data, "input", model.graph.input),
                            _read(data, "output", model.graph.output))
        elif entry.suffix == ".onnx":
            model = onnx.load(entry)
            weights = {tensor.name for tensor in model.graph.initializer}
            inputs = [_ramp(value) for value in model.graph.input if value.name not in weights]
            outputs = [numpy_helper.to_array(onnx.load_tensor(str(entry.with_name(f"{entry.stem}_output_{i}.pb"))))
                       for i in range(len(model.graph.output))]
            yield _case(name, model, inputs, outputs)


def _case(name: str, model: onnx.ModelProto, inputs: Sequence[Any], outputs: Sequence[Any]) -> Case:
    return Case(name, name.split("/")[0], kind_of(model, (*inputs, *outputs)), model, tuple(inputs), tuple(outputs),
                _LOOSER.get(name.split("/")[1], _RTOL), _ATOL)


def _read(folder: Path, stem: str, values: Sequence[ValueInfoProto]) -> list[Any]:
    """Tensors `stem`_0.pb, `stem`_1.pb, ... of a data set."""
    found: list[Any] = []
    for i in range(len(list(folder.glob(f"{stem}_*.pb")))):
        contents = (folder / f"{stem}_{i}.pb").read_bytes()
        which = values[i].type.WhichOneof("value")
        if which == "sequence_type":
            found.append(numpy_helper.to_list(SequenceProto.FromString(contents)))
        elif which == "optional_type":
            found.append(numpy_helper.to_optional(OptionalProto.FromString(contents)))
        else:
            found.append(numpy_helper.to_array(TensorProto.FromString(contents)))
    return found


def _ramp(value: ValueInfoProto) -> np.ndarray:
    """0 to 1 in even steps: what the stored outputs of the light models were computed from."""
    shape = [dim.dim_value if dim.HasField("dim_value") else 1 for dim in value.type.tensor_type.shape.dim]
    count = int(np.prod(shape))
    return (np.arange(count).reshape(shape) / count).astype(np.float32)
