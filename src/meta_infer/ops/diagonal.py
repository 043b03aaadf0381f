"""EyeLike, and Trilu whose diagonal or sizes only a run can tell: masks from comparing rows with columns."""

from __future__ import annotations

from collections.abc import Iterable

from meta_infer.ir.graph import Node
from meta_infer.ir.shapes import Dim
from meta_infer.ops.importing import attr_int, present, shape_of
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.onnx_dtypes import onnx_dtype
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode, ShapeError
from meta_infer.support.dtypes import INT64


def _rows_and_columns(build: NodeBuilder, rows: Dim, columns: Dim, k: str) -> tuple[str, str]:
    """Row numbers plus `k` as [rows, 1], and column numbers [columns]: equal on the k-th diagonal."""
    row = build.reshape(build.emit("Iota", size=(rows,)), (rows, 1))
    return build.emit("Add", row, k), build.emit("Iota", size=(columns,))


def _import_eye(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    build, shape = NodeBuilder.importing(node, ctx), shape_of(node, ctx)
    if len(shape) != 2:
        raise ShapeError(f"makes a matrix, not {len(shape)} dimensions")
    dtype = ctx.type_of(node.inputs[0]).dtype if node.attrs.get("dtype") is None else onnx_dtype(node, "dtype")
    k = build.scalar(attr_int(node, "k"), INT64, "k")
    build.cast(build.emit("Equal", *_rows_and_columns(build, *shape, k)), dtype, out=node.outputs[0])
    return build.nodes


def trilu_of_data(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """y = Trilu(x, k)  ->  y = Where(row + k <= column, x, 0), lower: row + k >= column."""
    build, x, shape = NodeBuilder.importing(node, ctx), ctx.type_of(node.inputs[0]), shape_of(node, ctx)
    if len(shape) < 2:
        raise ShapeError(f"takes matrices, not {len(shape)} dimensions")
    k = build.reshape(node.inputs[1], ()) if present(node, 1) else build.scalar(0, INT64, "k")
    rows, columns = _rows_and_columns(build, shape[-2], shape[-1], k)
    kept = build.emit("LessOrEqual" if attr_int(node, "upper", 1) else "GreaterOrEqual", rows, columns)
    build.emit("Where", kept, node.inputs[0], build.scalar(0, x.dtype, "zero"), out=node.outputs[0])
    return build.nodes


IMPORTS: tuple[OnnxImport, ...] = (OnnxImport("EyeLike", 9, convert=_import_eye),)
