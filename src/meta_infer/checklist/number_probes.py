"""Probes of what low precision does: weights and constants out of range, long sums, divisions, sensitive ops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from pydantic import Field

from meta_infer.checklist.probe import Fact, NoParams, Probe
from meta_infer.checklist.subject import NamedNode, Subject
from meta_infer.hardware.schema import Count, Name, Positive, Section
from meta_infer.ir.graph import Node, Value
from meta_infer.ir.shapes import product, usual_upper
from meta_infer.ops.attrs import ints_of


def _float_arrays(subject: Subject) -> Iterator[tuple[str, np.ndarray]]:
    """Stored tensors of floats with elements, by name."""
    for name, array in subject.arrays.items():
        if array.size and (array.dtype.kind == "f" or array.dtype.name.startswith(("bfloat", "float8"))):
            yield name, array if array.dtype.kind == "f" else array.astype(np.float32)


class LimitParams(Section):
    """The largest magnitude that can be held."""

    limit: Positive


def _weight_overflow(subject: Subject, params: LimitParams) -> Iterator[Fact]:
    found = []
    for name, array in _float_arrays(subject):
        largest = float(max(-np.nanmin(array), np.nanmax(array))) if not np.isnan(array).all() else 0.0
        if np.isfinite(largest) and largest > params.limit:
            found.append((largest, name))
    for largest, name in sorted(found, reverse=True):
        yield Fact({"name": name, "largest": f"{largest:.4g}", "limit": f"{params.limit:g}"}, (name,))


class UnderflowParams(Section):
    """The share of a tensor's elements that may lie below a magnitude without being zero."""

    below: Positive
    share: float = Field(ge=0, le=1)


def _weight_underflow(subject: Subject, params: UnderflowParams) -> Iterator[Fact]:
    found = []
    for name, array in _float_arrays(subject):
        tiny = np.count_nonzero((np.abs(array) < params.below) & (array != 0)) / array.size
        if tiny > params.share:
            found.append((tiny, name))
    for tiny, name in sorted(found, reverse=True):
        yield Fact({"name": name, "percent": f"{100 * tiny:.3g}", "below": f"{params.below:g}"}, (name,))


def _weights_not_finite(subject: Subject, params: NoParams) -> Iterator[Fact]:
    for name, array in _float_arrays(subject):
        bad = array.size - int(np.count_nonzero(np.isfinite(array)))
        if bad:
            yield Fact({"name": name, "number": bad, "size": array.size}, (name,))


class OpListParams(Section):
    """ONNX ops by name."""

    ops: tuple[Name, ...]


def ops_among(subject: Subject, ops: tuple[str, ...]) -> Iterator[tuple[str, list[NamedNode]]]:
    """The nodes of each of `ops` that the model has."""
    for op in ops:
        nodes = [node for node in subject.nodes if node.proto.op_type == op]
        if nodes:
            yield op, nodes


def _sensitive_ops(subject: Subject, params: OpListParams) -> Iterator[Fact]:
    for op, nodes in ops_among(subject, params.ops):
        yield Fact({"op": op}, tuple(node.name for node in nodes))


class TermsParams(Section):
    """The longest sum that is taken without a word."""

    most: Count


def _long_sums(subject: Subject, params: TermsParams) -> Iterator[Fact]:
    if subject.graph is None:
        return
    found: dict[tuple[str, int], list[str]] = {}
    for node in subject.graph.nodes:
        terms = _terms(node, [subject.graph.values[name] for name in node.inputs if name])
        if terms > params.most:
            found.setdefault((node.op, terms), []).extend(node.origins)
    for (op, terms), names in sorted(found.items(), key=lambda item: -item[0][1]):
        yield Fact({"op": op, "terms": terms}, tuple(names))


def _terms(node: Node, values: list[Value]) -> int:
    """How many products or elements one result of `node` sums, at the usual_upper bound of dynamic sizes."""
    if node.op in ("MatMul", "Gemm") and len(values) > 1 and values[0].rank:
        first = values[0].shape[-2 if node.attrs.get("transA") else -1]
        return usual_upper(first)
    if node.op == "Conv":
        return usual_upper(product(values[1].shape[1:]))
    if node.op in ("ReduceSum", "ReduceMean", "ReduceL2", "ReduceSumSquare", "ReduceL1"):
        return usual_upper(product(values[0].shape[axis] for axis in ints_of(node.attrs, "axes", ())))
    return 0


_LARGEST_STEP_FROM = 32768.0
"""From here to its end at 65504 fp16 steps by 32."""


class LargeParams(Section):
    """From which magnitude a constant in a sum is reported."""

    large: Positive


def _large_additions(subject: Subject, params: LargeParams) -> Iterator[Fact]:
    """Add and Sub of constants so large that small summands are lost in 11 bits of a half-precision significand."""
    for node, array in _added_constants(subject):
        finite = np.abs(array[np.isfinite(array)])
        largest = float(finite.max()) if finite.size else 0.0
        if largest >= params.large:
            step = float(np.spacing(np.float16(min(largest, _LARGEST_STEP_FROM))))
            yield Fact({"op": node.proto.op_type, "largest": f"{largest:.4g}", "step": f"{step:g}"}, (node.name,))


def _mixed_constants(subject: Subject, params: LargeParams) -> Iterator[Fact]:
    """Add and Sub of constants whose own elements differ in magnitude by more than a factor of `large`."""
    for node, array in _added_constants(subject):
        present = np.abs(array[np.isfinite(array) & (array != 0)]).astype(np.float64)
        if present.size > 1 and present.max() / present.min() > params.large:
            yield Fact({"op": node.proto.op_type, "low": f"{present.min():.3g}", "high": f"{present.max():.3g}"},
                       (node.name,))


def _added_constants(subject: Subject) -> Iterator[tuple[NamedNode, np.ndarray]]:
    arrays = dict(_float_arrays(subject))
    for node in subject.nodes:
        known = [name for name in node.proto.input if name in arrays] if node.proto.op_type in ("Add", "Sub") else []
        if len(known) == 1:
            yield node, arrays[known[0]]


def _divisions(subject: Subject, params: NoParams) -> Iterator[Fact]:
    """Divisions by what is computed: Div of a constant is a product, and sizes are divided in integers."""
    names = []
    for node in subject.nodes:
        operands = node.proto.input
        if node.proto.op_type == "Reciprocal" or (
                node.proto.op_type == "Div" and len(operands) > 1 and operands[1] not in subject.arrays
                and _is_float(subject, node.proto.output[0])):
            names.append(node.name)
    if names:
        yield Fact({}, tuple(names))


def _is_float(subject: Subject, name: str) -> bool:
    """Whether a tensor of the model is of floats; also when nothing is known of it."""
    if subject.graph is None:
        return True
    found = [value for value in subject.graph.values.values() if value.origin == name]
    return all(value.dtype.is_float for value in found)


class EpsilonParams(Section):
    """The smallest epsilon that is not lost."""

    below: Positive


def _small_epsilon(subject: Subject, params: EpsilonParams) -> Iterator[Fact]:
    """Attributes `epsilon`, and constants added to what is divided or rooted, that vanish in low precision."""
    found: dict[tuple[str, float], list[str]] = {}
    for node in subject.nodes:
        epsilon = node.attr("epsilon")
        if isinstance(epsilon, float) and 0 < epsilon < params.below:
            found.setdefault((node.proto.op_type, epsilon), []).append(node.name)
    for node, array in _added_constants(subject):
        if array.size == 1 and 0 < abs(float(array.reshape(()))) < params.below:
            found.setdefault((node.proto.op_type, float(array.reshape(()))), []).append(node.name)
    for (op, epsilon), names in found.items():
        yield Fact({"op": op, "epsilon": f"{epsilon:.3g}"}, tuple(names))


NUMBER_PROBES: tuple[Probe, ...] = (
    Probe("weight_overflow", "weights whose magnitude is above `limit`", _weight_overflow,
          ("name", "largest", "limit"), LimitParams),
    Probe("weight_underflow", "tensors of which more than a `share` is non-zero and smaller than `below`",
          _weight_underflow, ("name", "percent", "below"), UnderflowParams),
    Probe("weights_not_finite", "weights that are infinite or no number", _weights_not_finite,
          ("name", "number", "size")),
    Probe("sensitive_ops", "`ops` whose result suffers from few bits", _sensitive_ops, ("op",), OpListParams),
    Probe("long_sums", "products and reductions that sum more than `most` terms", _long_sums, ("op", "terms"),
          TermsParams),
    Probe("large_additions", "sums with constants of a magnitude of `large` and more", _large_additions,
          ("op", "largest", "step"), LargeParams),
    Probe("mixed_constants", "summed constants that differ by more than a factor of `large` among themselves",
          _mixed_constants, ("op", "low", "high"), LargeParams),
    Probe("divisions", "divisions by computed values", _divisions, ()),
    Probe("small_epsilon", "epsilons smaller than `below`", _small_epsilon, ("op", "epsilon"), EpsilonParams),
)
