"""Ops and kernels that users bring: a Python file for `meta-infer build --custom FILE`.

    from meta_infer.custom import c_kernel, c_op, same_as_input

    OPS = (c_op("SoftClip", domain="com.example", infer=same_as_input, reference=soft_clip, source=SOURCE),)
    KERNELS = (c_kernel("my_gemm", op="MatMul", fits=fits, source=GEMM),)

docs/custom-ops.md and docs/custom-kernels.md walk through examples.
"""

from meta_infer.custom.files import load_custom
from meta_infer.custom.kernels import CustomKernel, c_kernel
from meta_infer.custom.ops import CustomOp, c_op, same_as_input
from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Attr, Node
from meta_infer.ir.group import Group
from meta_infer.ops.opdef import (
    ImportContext,
    InferContext,
    OnnxImport,
    OnnxNode,
    OpDef,
    ShapeError,
    TensorType,
)

__all__ = ["Attr", "CustomKernel", "CustomOp", "Group", "ImportContext", "InferContext", "Node", "OnnxImport",
           "OnnxNode", "OpDef", "Profile", "ShapeError", "TensorType", "c_kernel", "c_op", "load_custom",
           "same_as_input"]
