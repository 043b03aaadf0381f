"""Probes of a quantised model: QuantizeLinear and DequantizeLinear pairs, their scales and zero points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from meta_infer.checklist.probe import Fact, NoParams, Probe
from meta_infer.checklist.subject import NamedNode, Subject
from meta_infer.hardware.schema import Section
from meta_infer.passes.decisions import counted_ops

_QUANTIZE = ("QuantizeLinear", "DequantizeLinear")
_TAKES_INTEGERS = ("Integer", "QLinear", "DequantizeLinear", "Dequantize", "QGemm", "QAttention", "MatMulNBits")
_MOVES = ("Reshape", "Transpose", "Slice", "Concat", "Gather", "Squeeze", "Unsqueeze", "Identity", "Flatten", "MaxPool",
          "Split", "Pad", "Resize", "Relu")


def _operand(subject: Subject, node: NamedNode, i: int) -> np.ndarray | None:
    names = node.proto.input
    return subject.arrays.get(names[i]) if len(names) > i else None


def _quantizers(subject: Subject) -> list[NamedNode]:
    return [node for node in subject.nodes if node.proto.op_type in _QUANTIZE]


def _is_weight(subject: Subject, node: NamedNode) -> bool:
    return node.proto.op_type == "DequantizeLinear" and node.proto.input[0] in subject.arrays


def _integer_type(subject: Subject, node: NamedNode) -> str:
    """The integer type of a pair, by its zero point, else by what it dequantises; uint8 is ONNX's default."""
    zero = _operand(subject, node, 2)
    stored = _operand(subject, node, 0) if node.proto.op_type == "DequantizeLinear" else None
    known = zero if zero is not None else stored
    return known.dtype.name if known is not None else "uint8"


def _summary(subject: Subject, params: NoParams) -> Iterator[Fact]:
    nodes = _quantizers(subject)
    if not nodes:
        return
    scales = [scale for node in nodes if (scale := _operand(subject, node, 1)) is not None]
    weights = [node for node in nodes if _is_weight(subject, node)]
    yield Fact({"pairs": sum(node.proto.op_type == "QuantizeLinear" for node in nodes), "weights": len(weights),
                "per_channel": sum(scale.size > 1 for scale in scales),
                "per_tensor": sum(scale.size == 1 for scale in scales),
                "types": counted_ops(sorted(_integer_type(subject, node) for node in nodes))})


class ProblemParams(Section):
    """Which problem is looked for."""

    kind: Literal["asymmetric_weight", "per_tensor_weight", "wide_type", "unpaired", "bad_scale", "extreme_zero_point"]


def _problems(subject: Subject, params: ProblemParams) -> Iterator[Fact]:
    found: dict[str, list[str]] = {}
    for node in _quantizers(subject):
        text = _CHECKS[params.kind](subject, node)
        if text:
            found.setdefault(text, []).append(node.name)
    for text, names in found.items():
        yield Fact({"problem": text}, tuple(names))


def _asymmetric_weight(subject: Subject, node: NamedNode) -> str:
    zero = _operand(subject, node, 2)
    if not _is_weight(subject, node) or zero is None:
        return ""
    middle = {"uint8": 128, "uint16": 32768, "uint4": 8, "uint2": 2}.get(zero.dtype.name, 0)
    return "zero point other than the middle" if bool((zero.astype(np.int64) != middle).any()) else ""


def _per_tensor_weight(subject: Subject, node: NamedNode) -> str:
    scale, weight = _operand(subject, node, 1), _operand(subject, node, 0)
    whole = _is_weight(subject, node) and scale is not None and scale.size == 1
    return "one scale for all channels" if whole and weight is not None and weight.ndim > 1 else ""


def _wide_type(subject: Subject, node: NamedNode) -> str:
    name = _integer_type(subject, node)
    if name == "int32" and _is_weight(subject, node):
        return ""                                        # a bias
    known = subject.profile.precisions
    if name in ("int16", "uint16") and (not known or "int16" not in known):
        return f"{name}, which the profile's precision does not list"
    return ""


def _unpaired(subject: Subject, node: NamedNode) -> str:
    """A QuantizeLinear whose integers nobody computes with, a DequantizeLinear of integers that nobody quantised."""
    if node.proto.op_type == "QuantizeLinear":
        outputs = {v.name for v in subject.proto.graph.output}
        users = subject.readers.get(node.proto.output[0], [])
        fine = all(any(word in user.proto.op_type for word in _TAKES_INTEGERS) or user.proto.op_type in _MOVES
                   for user in users)
        return "" if (users or node.proto.output[0] in outputs) and fine else "no DequantizeLinear follows"
    source = node.proto.input[0]
    if source in subject.arrays or source in {v.name for v in subject.proto.graph.input}:
        return ""
    maker = subject.makers.get(source)
    known = maker is not None and ("Quantize" in maker.proto.op_type or maker.proto.op_type in _MOVES
                                   or any(word in maker.proto.op_type for word in _TAKES_INTEGERS))
    return "" if known else "no QuantizeLinear before it"


def _bad_scale(subject: Subject, node: NamedNode) -> str:
    scale = _operand(subject, node, 1)
    if scale is None:
        return "the scale is computed while running"
    wide = scale.astype(np.float64)
    if not np.isfinite(wide).all():
        return "a scale that is infinite or no number"
    return "a scale that is zero or negative" if bool((wide <= 0).any()) else ""


def _extreme_zero_point(subject: Subject, node: NamedNode) -> str:
    """A zero point at the far end: the whole range is negative, as no activation function leaves it."""
    zero = _operand(subject, node, 2)
    if zero is None or zero.dtype.kind not in "iu" or not zero.size:
        return ""
    top = int(np.iinfo(zero.dtype).max)
    return f"zero point {top}: only negative values can be held" if bool((zero == top).any()) else ""


_CHECKS = {"asymmetric_weight": _asymmetric_weight, "per_tensor_weight": _per_tensor_weight, "wide_type": _wide_type,
           "unpaired": _unpaired, "bad_scale": _bad_scale, "extreme_zero_point": _extreme_zero_point}

QUANTIZATION_PROBES: tuple[Probe, ...] = (
    Probe("quantization", "pairs of QuantizeLinear and DequantizeLinear, their types and granularity", _summary,
          ("pairs", "weights", "per_channel", "per_tensor", "types")),
    Probe("quantization_problems", "one `kind` of problem of scales, zero points, types and pairs", _problems,
          ("problem",), ProblemParams),
)
