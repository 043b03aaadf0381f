"""Types that a model declares: read them, and hold them against what inference finds."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import GraphProto, TensorProto, ValueInfoProto

from meta_infer.ir.graph import Shape
from meta_infer.ir.shapes import bounds
from meta_infer.ops.opdef import TensorType
from meta_infer.support.dtypes import DType, dtype_named
from meta_infer.support.errors import ModelError, UnsupportedError

_ONNX_NAMES = {"float": "float32", "double": "float64"}


def declared_dtype(value: ValueInfoProto, what: str) -> DType:
    """The element type a value is declared with.

    Raises UnsupportedError for sequences, optionals and element types the compiler does not know, ModelError
    when there is none.
    """
    kind = value.type.WhichOneof("value")
    if kind is None:
        raise ModelError("declares no type", what=what, hint="export the model again")
    if kind != "tensor_type":
        raise UnsupportedError(f"is a {kind.removesuffix('_type')}, only dense tensors are supported", what=what,
                               hint="export the model with tensors at that place")
    code = value.type.tensor_type.elem_type
    if code == TensorProto.UNDEFINED or code not in TensorProto.DataType.values():
        raise ModelError(f"has the unknown element type {code}", what=what, hint="export the model again")
    name = TensorProto.DataType.Name(code).lower()
    try:
        return dtype_named(_ONNX_NAMES.get(name, name))
    except KeyError:
        raise UnsupportedError(f"tensors of type {name} are not supported", what=what,
                               hint="export with float32 or integer types") from None


def check_declared(value: ValueInfoProto, found: TensorType, what: str) -> None:
    """Compare a declared type with the inferred one; raise ModelError when they contradict each other.

    A symbolic or unknown declared dimension yields to inference: such declarations are often stale.
    """
    if value.type.WhichOneof("value") is None:
        return
    tensor = value.type.tensor_type
    if value.type.WhichOneof("value") != "tensor_type" or tensor.elem_type != TensorProto.UNDEFINED:
        dtype = declared_dtype(value, what)
        if dtype != found.dtype:
            raise ModelError(f"type conflict: declared {dtype}, but the graph computes {found.dtype}", what=what,
                             hint="correct the declaration, or remove it from value_info")
    if not tensor.HasField("shape"):
        return
    dims = [d.dim_value if d.HasField("dim_value") and d.dim_value > 0 else None for d in tensor.shape.dim]
    if len(dims) == len(found.shape) and not any(map(_conflict, dims, found.shape)):
        return
    shown = ", ".join(d.dim_param or (str(d.dim_value) if d.HasField("dim_value") else "?")
                      for d in tensor.shape.dim)
    raise ModelError(f"shape conflict: declared [{shown}], but the graph computes {_text(found.shape)}", what=what,
                     hint="correct the declaration, or remove it from value_info, where it may be stale")


def _conflict(declared: int | None, found: object) -> bool:
    if declared is None:
        return False
    low, high = bounds(found)  # type: ignore[arg-type]
    return not low <= declared <= high


def _text(shape: Shape) -> str:
    return f"[{', '.join(map(str, shape))}]"


def region_input_types(graph: GraphProto, given: Sequence[TensorType] | None, where: str) -> dict[str, TensorType]:
    """Types of a subgraph's inputs, by ONNX name: what the node that holds it gives it, or as they are declared."""
    default = {tensor.name for tensor in graph.initializer}
    values = [value for value in graph.input if value.name not in default]
    if given is None:
        return {value.name: _declared_type(value, where) for value in values}
    if len(values) != len(given):
        raise ModelError(f"takes {len(values)} inputs, the node gives it {len(given)}", what=where,
                         hint="a Loop's body takes iteration, condition and every carried value, a Scan's every state "
                         "and one row of each scan input")
    for value, found in zip(values, given, strict=True):
        check_declared(value, found, f"{where}, input {value.name!r}")
    return {value.name: found for value, found in zip(values, given, strict=True)}


def declared_sizes(graph: GraphProto) -> list[list[int | None]]:
    """The sizes that a subgraph's inputs are declared with, None for those that are not."""
    default = {tensor.name for tensor in graph.initializer}
    return [[d.dim_value if d.HasField("dim_value") else None for d in value.type.tensor_type.shape.dim]
            for value in graph.input if value.name not in default]


def _declared_type(value: ValueInfoProto, where: str) -> TensorType:
    what = f"{where}, input {value.name!r}"
    dtype = declared_dtype(value, what)
    dims = value.type.tensor_type.shape.dim
    if not value.type.tensor_type.HasField("shape") or any(not d.HasField("dim_value") for d in dims):
        raise UnsupportedError("has no static shape", what=what, hint="give it a static shape")
    return TensorType(dtype, tuple(d.dim_value for d in dims))
