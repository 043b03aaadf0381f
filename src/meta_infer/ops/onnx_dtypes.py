"""ONNX's numbers for element types (TensorProto.DataType of onnx.proto)."""

from __future__ import annotations

from collections.abc import Mapping

from meta_infer.ops.importing import unsupported
from meta_infer.ops.opdef import OnnxNode
from meta_infer.support import dtypes
from meta_infer.support.dtypes import DType

ONNX_DTYPES: Mapping[int, DType] = {
    1: dtypes.FLOAT32, 2: dtypes.UINT8, 3: dtypes.INT8, 4: dtypes.UINT16, 5: dtypes.INT16, 6: dtypes.INT32,
    7: dtypes.INT64, 9: dtypes.BOOL, 10: dtypes.FLOAT16, 11: dtypes.FLOAT64, 12: dtypes.UINT32, 13: dtypes.UINT64,
    16: dtypes.BFLOAT16, 17: dtypes.FLOAT8E4M3FN, 18: dtypes.FLOAT8E4M3FNUZ, 19: dtypes.FLOAT8E5M2,
    20: dtypes.FLOAT8E5M2FNUZ, 21: dtypes.UINT4, 22: dtypes.INT4, 23: dtypes.FLOAT4E2M1, 24: dtypes.FLOAT8E8M0,
    25: dtypes.UINT2, 26: dtypes.INT2, 27: dtypes.FLOAT6E2M3, 28: dtypes.FLOAT6E3M2}
"""Strings and complex numbers are left out."""


def onnx_dtype(node: OnnxNode, attribute: str) -> DType:
    """The dtype that a number attribute names. Raises UnsupportedError for one that no computation here may use."""
    number = node.attrs.get(attribute)
    if not isinstance(number, int) or number not in ONNX_DTYPES:
        raise unsupported(node, f"{attribute} = {number}: that ONNX data type is not supported",
                          "use float32, float16, an integer or bool")
    return ONNX_DTYPES[number]
