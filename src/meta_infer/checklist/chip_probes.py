"""Probes of the model on the chip: ops it lacks, padding conventions, alignment of channels, memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from meta_infer.checklist.probe import Fact, NoParams, Probe
from meta_infer.checklist.subject import NamedNode, Subject
from meta_infer.hardware.profile import PRECISIONS
from meta_infer.hardware.schema import Positive, Section
from meta_infer.ir.graph import Graph, Value
from meta_infer.ir.shapes import product, usual_upper
from meta_infer.ops.registry import op_named
from meta_infer.passes.decisions import group_decisions
from meta_infer.report.units import bytes_text
from meta_infer.support.dtypes import FLOAT32


class VerdictParams(Section):
    """Which verdict of `--explain` is reported."""

    verdict: Literal["decomposed", "host"]


def _fallbacks(subject: Subject, params: VerdictParams) -> Iterator[Fact]:
    for group in group_decisions(subject.decisions):
        if group.verdict == params.verdict:
            yield Fact({"op": group.op, "detail": group.detail, "field": group.field or "none",
                        "profile": subject.profile.name}, group.nodes)


class PaddingParams(Section):
    """Which convention is looked for."""

    kind: Literal["auto_pad", "asymmetric", "ceil_mode", "count_include_pad"]


def _padding(subject: Subject, params: PaddingParams) -> Iterator[Fact]:
    found: dict[tuple[str, str], list[str]] = {}
    for node in subject.nodes:
        if text := _padding_of(node, params.kind):
            found.setdefault((node.proto.op_type, text), []).append(node.name)
    for (op, text), names in found.items():
        yield Fact({"op": op, "detail": text}, tuple(names))


def _padding_of(node: NamedNode, kind: str) -> str:
    if kind == "auto_pad":
        value = node.attr("auto_pad", "NOTSET")
        return f"auto_pad {value}" if value in ("SAME_UPPER", "SAME_LOWER") else ""
    if kind == "asymmetric":
        pads = node.attr("pads", ())
        if not isinstance(pads, Sequence) or len(pads) % 2 or node.proto.op_type == "Pad":
            return ""
        half = len(pads) // 2
        return f"pads {list(pads)}" if list(pads[:half]) != list(pads[half:]) else ""
    if kind == "ceil_mode":
        return "ceil_mode 1" if node.attr("ceil_mode") else ""
    padded = any(node.attr("pads", ()) or ()) or node.attr("auto_pad", "NOTSET") not in ("NOTSET", "VALID")  # type: ignore[arg-type, call-overload]
    if node.proto.op_type != "AveragePool" or not padded:
        return ""
    return f"count_include_pad {node.attr('count_include_pad', 0)}"


class WasteParams(Section):
    """From how many percent of lost multiply-accumulates on waste is reported, and how many layers are named."""

    percent: float = Field(ge=0)
    worst: int = Field(ge=1, default=3)


def _alignment_waste(subject: Subject, params: WasteParams) -> Iterator[Fact]:
    """Channels padded to the alignment, in and out, over all convolutions and products with constant weights."""
    width = _alignment(subject)
    if subject.graph is None or width == 1:
        return
    total = padded = 0.0
    layers = []
    for node in subject.graph.nodes:
        found = _channels_of(subject.graph, node.op, [subject.graph.values[name] for name in node.inputs if name],
                             bool(node.attrs.get("transB")))
        if found is None:
            continue
        macs = usual_upper(product(subject.graph.values[node.outputs[0]].shape)) * found[2]
        grown: float = macs
        for channels in found[:2]:
            grown = grown * (-(-channels // width) * width) / channels if channels > 1 else grown
        total, padded = total + macs, padded + grown
        layers.append((grown - macs, 1 - macs / grown if grown else 0.0, "+".join(node.origins) or node.outputs[0]))
    waste = 100 * (1 - total / padded) if padded else 0.0
    if waste > params.percent:
        worst = sorted(layers, reverse=True)[:params.worst]
        text = ", ".join(f"{name} ({100 * share:.0f} %)" for lost, share, name in worst if lost > 0)
        yield Fact({"percent": f"{waste:.0f}", "width": width, "worst": text}, tuple(name for *_, name in worst))


def _alignment(subject: Subject) -> int:
    """What channels are padded to: the profile's alignment, a vector's lanes where it states none."""
    stated = subject.profile.aligned_channel
    return stated if stated > 1 else subject.profile.lanes(FLOAT32)


def _channels_of(graph: Graph, op: str, operands: list[Value], transposed: bool) -> tuple[int, int, int] | None:
    """(input channels, output channels, multiply-accumulates per output element) of a layer with a constant weight.

    A depthwise convolution has one channel in per output: nothing of it is padded but the outputs.
    """
    if len(operands) < 2 or operands[1].name not in graph.constants or not operands[1].is_static:
        return None
    shape = [int(d) for d in operands[1].shape if isinstance(d, int)]
    if op == "Conv":
        return shape[1], shape[0], usual_upper(product(shape[1:]))
    if op in ("MatMul", "Gemm") and len(shape) == 2:
        taken, made = (shape[1], shape[0]) if transposed else (shape[0], shape[1])
        return taken, made, taken
    return None


class MemoryParams(Section):
    """How much of the chip's main memory may be used: 1 is all of it."""

    share: Positive = 1.0


def memory_needs(graph: Graph, float_bits: int | None = None) -> tuple[int, int]:
    """Bytes of weights, and of the most that is alive at one op, at the usual_upper bound of dynamic sizes.

    `float_bits` is the width that floats of 32 bits are stored in, as they are when it is None. No order of execution
    needs less than the operands and results of its largest op; fusion may.
    """
    def size(name: str) -> int:
        value = graph.values[name]
        bits = float_bits if float_bits is not None and value.dtype == FLOAT32 else value.dtype.bits
        return -(-usual_upper(product(value.shape)) * bits // 8)

    peak = 0
    for node in graph.nodes:
        if op_named(node.op).is_view:
            continue
        names = {name for name in (*node.inputs, *node.outputs) if name and name not in graph.constants}
        peak = max(peak, sum(size(name) for name in names if name in graph.values))
    return sum(map(size, graph.constants)), peak


def _float_type(subject: Subject) -> tuple[str, int | None]:
    """The chip's best element type and its bits; ('fp32', None) where it states none that is known."""
    word = next(iter(subject.profile.precisions), "fp32")
    return (word, PRECISIONS[word].bits) if word in PRECISIONS else ("fp32", None)


def _memory_estimate(subject: Subject, params: NoParams) -> Iterator[Fact]:
    if subject.graph is not None:
        word, bits = _float_type(subject)
        weights, peak = memory_needs(subject.graph, bits)
        memory = subject.profile.memory_bytes
        yield Fact({"weights": bytes_text(weights), "activations": bytes_text(peak), "precision": word,
                    "memory": bytes_text(memory) if memory else "not stated"})


def _memory_exceeded(subject: Subject, params: MemoryParams) -> Iterator[Fact]:
    memory = subject.profile.memory_bytes
    if subject.graph is None or memory is None:
        return
    word, bits = _float_type(subject)
    needed = sum(memory_needs(subject.graph, bits))
    if needed > memory * params.share:
        yield Fact({"needed": bytes_text(needed), "memory": bytes_text(memory), "precision": word,
                    "percent": f"{100 * params.share:g}"})


CHIP_PROBES: tuple[Probe, ...] = (
    Probe("fallbacks", "ops that the chip does not run itself: `verdict` is 'decomposed' or 'host'", _fallbacks,
          ("op", "detail", "field", "profile"), VerdictParams),
    Probe("padding", "one `kind` of padding convention in which frameworks differ", _padding, ("op", "detail"),
          PaddingParams),
    Probe("alignment_waste", "multiply-accumulates lost to padded channels, above `percent`", _alignment_waste,
          ("percent", "width", "worst"), WasteParams),
    Probe("memory_estimate", "bytes of weights and of the largest op's operands", _memory_estimate,
          ("weights", "activations", "memory", "precision")),
    Probe("memory_exceeded", "a model that needs more than a `share` of the chip's memory", _memory_exceeded,
          ("needed", "memory", "precision", "percent"), MemoryParams),
)
