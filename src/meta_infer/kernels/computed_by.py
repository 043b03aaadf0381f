"""What computes an op, in words for reports."""

from __future__ import annotations

from meta_infer.kernels.registry import kernels_for
from meta_infer.ops.registry import op_named


def computed_by(op: str) -> str:
    """'kernel gemm or matmul_batched', 'elementwise, ...', 'a view, no work' or 'control flow'."""
    definition = op_named(op)
    if definition.is_view:
        return "a view, no work"
    if definition.is_control_flow:
        return "control flow"
    if definition.expr is not None:
        return "elementwise, fused where its neighbours allow"
    names = [kernel.name for kernel in kernels_for(op)]
    return f"kernel {' or '.join(names)}" if names else "no kernel of its own"
