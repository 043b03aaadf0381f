"""Clip to constant bounds. Bounds computed at run time become Max and Min nodes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from meta_infer.ir.graph import Attr, Node
from meta_infer.ir.loop import Expr, const, maximum, minimum
from meta_infer.ops.attrs import Attrs
from meta_infer.ops.elementwise import elementwise, floats, ints, is_number
from meta_infer.ops.elementwise_unary import ODD
from meta_infer.ops.importing import core_node, present
from meta_infer.ops.opdef import ImportContext, OnnxImport, OnnxNode, OpDef, Sample

_FLOAT_MAX = 3.4028234663852886e38


def _bound(attrs: Attrs, name: str) -> int | float | None:
    """Attribute `min` or `max`, None when that side is open."""
    found = attrs.get(name)
    assert found is None or isinstance(found, (int, float)), name
    return found


def _reference(attrs: Attrs, x: np.ndarray) -> np.ndarray:
    low, high = _bound(attrs, "min"), _bound(attrs, "max")
    if low is not None:
        x = np.maximum(x, x.dtype.type(low))
    return x if high is None else np.minimum(x, x.dtype.type(high))


def _expr(attrs: Attrs, x: Expr) -> Expr:
    """The bound goes first, so that a NaN in x stays (see loop IR's max)."""
    low, high = _bound(attrs, "min"), _bound(attrs, "max")
    if low is not None:
        x = maximum(const(low, x.type), x)
    return x if high is None else minimum(const(high, x.type), x)


def _import_attrs(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """Before opset 11 bounds are attributes, whose defaults are the largest floats: no bound at all."""
    low, high = _bound(node.attrs, "min"), _bound(node.attrs, "max")
    kept: dict[str, Attr] = {}
    if low is not None and low > -_FLOAT_MAX:
        kept["min"] = low
    if high is not None and high < _FLOAT_MAX:
        kept["max"] = high
    return (core_node(node, "Clip", node.inputs, node.outputs, **kept),)


def _import_inputs(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """From opset 11 bounds are optional scalar inputs."""
    kept: dict[str, Attr] = {}
    computed: list[tuple[str, str]] = []
    for i, (name, op) in enumerate((("min", "Max"), ("max", "Min")), 1):
        if not present(node, i):
            continue
        known = ctx.known(node.inputs[i])
        if known is None:
            computed.append((op, node.inputs[i]))
        else:
            kept[name] = known.reshape(-1)[0].item()
    if not computed:
        return (core_node(node, "Clip", node.inputs[:1], node.outputs, **kept),)
    return _with_computed(node, ctx, kept, computed)


def _with_computed(node: OnnxNode, ctx: ImportContext, kept: dict[str, Attr],
                   computed: list[tuple[str, str]]) -> Iterable[Node]:
    """Lower bound first, then the upper one, as ONNX orders them, whichever of them is constant."""
    steps = [*computed]
    dtype = ctx.type_of(node.inputs[0]).dtype.numpy
    if "min" in kept:
        steps.insert(0, ("Max", ctx.constant(np.array(kept["min"], dtype), "min")))
    if "max" in kept:
        steps.append(("Min", ctx.constant(np.array(kept["max"], dtype), "max")))
    x = node.inputs[0]
    for i, (op, bound) in enumerate(steps):
        target = node.outputs[0] if i == len(steps) - 1 else ctx.fresh(node.outputs[0])
        yield core_node(node, op, (x, bound), (target,))
        x = target




def _samples(rng: np.random.Generator) -> Iterable[Sample]:
    def sample(x: np.ndarray, low: float | None, high: float | None) -> Sample:
        given = {k: v for k, v in (("min", low), ("max", high)) if v is not None}
        bounds = tuple(None if v is None else np.array(v, x.dtype) for v in (low, high))
        return Sample((x,), given, onnx_inputs=(x, *bounds), onnx_attrs={})

    for shape in ((), (1,), (0, 3), (2, 3, 5, 7)):
        yield sample(floats(rng, shape), -1.5, 2.0)
    for low, high in ((0.0, 6.0), (None, 1.0), (0.5, None), (None, None), (2.0, -2.0)):
        yield sample(floats(rng, (3, 7)), low, high)
    yield sample(np.array(ODD, np.float32), -0.5, 0.5)
    yield sample(ints(rng, (4, 5)), -3, 2)
    x = floats(rng, (3, 7))
    yield Sample((x,), {"min": 0.0, "max": 6.0}, onnx_attrs={"min": 0.0, "max": 6.0}, opset=10)


CLIP = elementwise("Clip", 1, _reference, _expr, _samples, takes=is_number, cost=2,
                   onnx=(OnnxImport("Clip", 6, 10, _import_attrs), OnnxImport("Clip", 11, convert=_import_inputs)))

OPS: tuple[OpDef, ...] = (CLIP,)
