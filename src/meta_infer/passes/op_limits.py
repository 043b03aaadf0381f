"""Whether the device of a profile runs a node: `supported_ops`, and the cases that `op_limits` rules out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from meta_infer.hardware.profile import Profile
from meta_infer.hardware.schema import OpLimit
from meta_infer.ir.graph import Node, Shape
from meta_infer.ir.shapes import usual_upper
from meta_infer.ops.attrs import int_of, ints_of
from meta_infer.ops.registry import op_named
from meta_infer.passes.profile_words import profile_words

_CONVOLUTIONS = ("Conv", "ConvTranspose")
_ALONG_AXIS = ("Softmax", "LogSoftmax")


@dataclass(frozen=True)
class Refusal:
    """Why a device does not run a node, the field of the profile that says so, and the word that is missing in it."""

    reason: str
    field: str
    missing: str = ""


def restricts_ops(profile: Profile) -> bool:
    """Whether the profile rules any op out."""
    return profile.supported_ops is not None or bool(profile.chip.devices[0].op_limits)


def refusal(profile: Profile, node: Node, inputs: Sequence[Shape], output: Shape | None) -> Refusal | None:
    """Why the device does not run `node`; None when it does. Views and control flow cost it nothing."""
    definition = op_named(node.op)
    if definition.is_view or definition.is_control_flow:
        return None
    words = profile_words(node, output)
    known = [word for word in words if profile.supports_op(word)]
    if not known:
        names = [w for w in words if definition.expr is not None or not w.startswith("elementwise_")]
        return Refusal(f"not in supported_ops: {' or '.join(names[:3])}", "supported_ops", names[0])
    broken = next((limit for limit in limits_of(profile, known) if _breaks(limit, node, inputs, output)), None)
    if broken is None:
        return None
    return Refusal(f"beyond a limit of {broken.op}: {broken.reason}", f"op_limits of {broken.op}")


def limits_of(profile: Profile, words: Sequence[str]) -> tuple[OpLimit, ...]:
    """The limits of the op that any of `words` names."""
    return tuple(limit for limit in profile.chip.devices[0].op_limits if limit.op in words)


def _breaks(limit: OpLimit, node: Node, inputs: Sequence[Shape], output: Shape | None) -> bool:
    kernel, strides = ints_of(node.attrs, "kernel_shape", ()), ints_of(node.attrs, "strides", ())
    if limit.max_kernel is not None and max(kernel, default=0) > limit.max_kernel:
        return True
    if limit.max_stride is not None and max(strides, default=0) > limit.max_stride:
        return True
    return limit.max_channels is not None and _channels(node, inputs, output) > limit.max_channels


def _channels(node: Node, inputs: Sequence[Shape], output: Shape | None) -> int:
    """The most channels of an operand (a convolution's data, not its weight) or of the result, at usual sizes."""
    seen = [*(inputs[:1] if node.op in _CONVOLUTIONS else inputs), *([output] if output is not None else [])]
    axis = int_of(node.attrs, "axis", 1) if node.op in _ALONG_AXIS else 1
    return max((usual_upper(shape[axis]) for shape in seen if len(shape) > axis), default=0)
