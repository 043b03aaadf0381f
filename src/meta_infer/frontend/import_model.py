"""ONNX file -> Graph: the frontend's one door."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from meta_infer.frontend.check_model import check_model, check_versions
from meta_infer.frontend.declared import declared_dtype
from meta_infer.frontend.default_ranges import find_ranges
from meta_infer.frontend.import_graph import GraphImporter
from meta_infer.frontend.inline_functions import expand_function_ops, inline_functions
from meta_infer.frontend.load_onnx import load_onnx
from meta_infer.frontend.names import NameTable
from meta_infer.frontend.old_opsets import raise_opset
from meta_infer.frontend.symbols import DimSpec, parse_shape_spec, read_input_dims
from meta_infer.ir.graph import Graph
from meta_infer.ops.opdef import TensorType
from meta_infer.support.errors import UnsupportedError


def import_model(
    path: str | Path,
    shapes: Mapping[str, Sequence[DimSpec] | str] | None = None,
    note: Callable[[str], None] | None = None,
) -> Graph:
    """Read an ONNX model as a graph of core ops, every shape inferred.

    `shapes` sets sizes and ranges of inputs' dimensions, by ONNX name: `{"x": (1, 3, 48, DimRange(32, 960))}` or
    `{"x": "1,3,48,32..960"}`. `note` is called with one line for each thing that had to be assumed.

    The graph keeps ONNX tensor names as `Value.origin` and ONNX node names as `Node.origins`; what is known
    before a run (chains of Shape above all) is folded away. Raises ModelError for a file that breaks the
    specification, UnsupportedError for what has no core op, UsageError for `shapes` that do not fit.
    """
    model = load_onnx(path)
    model = replace(model, proto=raise_opset(model.proto, note))
    check_versions(model.proto)
    whole = inline_functions(model.proto)
    model = replace(model, proto=expand_function_ops(whole))
    try:
        check_model(model.proto)
    except UnsupportedError:
        check_model(whole)                               # names the op itself, not a part of its body
        raise

    proto = model.proto.graph
    specs = {name: parse_shape_spec(f"{name}={given}")[1] if isinstance(given, str) else tuple(given)
             for name, given in (shapes or {}).items()}
    defaults = {tensor.name for tensor in proto.initializer} - specs.keys()
    inputs = [value for value in proto.input if value.name not in defaults]
    dtypes = {value.name: declared_dtype(value, f"input {value.name!r}") for value in inputs}
    dims = read_input_dims(inputs, specs, NameTable())

    def attempt(chosen: Mapping[str, DimSpec]) -> Graph:
        types = {name: TensorType(dtypes[name], shape) for name, shape in dims.shapes(chosen).items()}
        return GraphImporter(model, dims.names.values()).graph(proto, types, ChainMap(), "",
                                                               proto.name or Path(path).stem)

    found = find_ranges(dims.open, attempt)
    if note is not None:
        for line in dims.notes(found.choice, found.narrowed):
            note(line)
    return found.result
