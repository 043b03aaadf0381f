"""What computes an op, in words for reports."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Group
from meta_infer.kernels.registry import kernels_for, rival_digest
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


def kernels_take(profiles: Sequence[Profile], excluded: Collection[str] = ()) -> Callable[[Group], bool]:
    """Whether, for each profile, a kernel that is not `excluded` computes a group; one that a user brings for an op
    counts where it states a cost."""
    def takes(group: Group) -> bool:
        kernels = [kernel for kernel in kernels_for(group.anchor.op) if kernel.name not in excluded]
        return all(any(variant.cost or not rival_digest(kernel.name) for kernel in kernels
                       for variant in kernel.variants(group, profile)) for profile in profiles)
    return takes
