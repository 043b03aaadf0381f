"""Conv and ConvTranspose of any number of spatial dimensions, grouped and dilated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product as cartesian

import numpy as np

from meta_infer.ir.graph import Attr, Node, Shape
from meta_infer.ir.shapes import Dim, dim_max, product
from meta_infer.ops.attrs import Attrs, int_of, ints_of
from meta_infer.ops.auto_pad import pad_first, resolve_pads
from meta_infer.ops.broadcast import is_found, same_dim, text
from meta_infer.ops.elementwise import floats
from meta_infer.ops.importing import attr_int, attr_ints, attr_text, core_node, present, shape_of, unsupported
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import (
    ImportContext,
    InferContext,
    OnnxImport,
    OnnxNode,
    OpDef,
    Sample,
    ShapeError,
    TensorType,
)
from meta_infer.ops.windows import Ints, output_sizes, pad_spatial, span, windows_of

Arrays = Sequence[np.ndarray | None]


def _check(ctx: InferContext, transposed: bool) -> tuple[TensorType, TensorType, int]:
    """Input, weight and number of output channels. Raises ShapeError when they do not fit."""
    x, w, bias = ctx.input(0), ctx.input(1), ctx.optional(2)
    group = int_of(ctx.node.attrs, "group", 1)
    if len(x.shape) < 3 or len(w.shape) != len(x.shape):
        raise ShapeError(f"input {text(x.shape)} and weight {text(w.shape)} must have one rank of at least 3")
    first, second = w.shape[0], w.shape[1]
    if not isinstance(first, int) or not isinstance(second, int):
        raise ShapeError(f"weight {text(w.shape)} must have fixed channels")
    wanted, made = (first, second * group) if transposed else (second * group, first)
    if is_found(x.shape[1]):
        same_dim(x.shape[1], wanted)
    elif x.shape[1] != wanted:
        raise ShapeError(f"input {text(x.shape)} has {x.shape[1]} channels, weight {text(w.shape)} with group {group} "
                         f"needs {wanted}")
    if made % group or wanted % group:
        raise ShapeError(f"group {group} does not divide the channels of weight {text(w.shape)}")
    if bias is not None and bias.shape != (made,):
        raise ShapeError(f"bias {text(bias.shape)} should be [{made}]")
    kernel = ints_of(ctx.node.attrs, "kernel_shape")
    if w.shape[2:] != kernel:
        raise ShapeError(f"kernel_shape {kernel} is not that of weight {text(w.shape)}")
    return x, w, made


def _infer_conv(ctx: InferContext) -> tuple[TensorType, ...]:
    x, _, made = _check(ctx, transposed=False)
    kernel, strides, pads, dilations = _geometry(ctx.node.attrs)
    return (TensorType(x.dtype, (x.shape[0], made, *output_sizes(x.shape[2:], kernel, strides, pads, dilations))),)


def _geometry(attrs: Attrs) -> tuple[Ints, Ints, Ints, Ints]:
    kernel = ints_of(attrs, "kernel_shape")
    n = len(kernel)
    return (kernel, ints_of(attrs, "strides", (1,) * n), ints_of(attrs, "pads", (0,) * 2 * n),
            ints_of(attrs, "dilations", (1,) * n))


def _conv(attrs: Attrs, arrays: Arrays) -> tuple[np.ndarray, ...]:
    """Windows times weights, one matrix product per group."""
    x, w, bias = arrays[0], arrays[1], arrays[2] if len(arrays) > 2 else None
    assert x is not None and w is not None
    kernel, strides, pads, dilations = _geometry(attrs)
    group = int_of(attrs, "group", 1)
    counts = tuple(int(d) for d in output_sizes(x.shape[2:], kernel, strides, pads, dilations))  # type: ignore[arg-type]
    windows = windows_of(pad_spatial(x, pads, 0.0), kernel, strides, dilations, counts)
    n, (c_in, c_out) = len(kernel), (w.shape[1], w.shape[0] // group)
    if c_in == c_out == 1:
        return (_add_bias(_depthwise(windows, w), bias),)
    y = np.empty((x.shape[0], w.shape[0], *counts), np.result_type(x, w))
    taps = (1, *range(2 + n, 2 + 2 * n))
    for g in range(group):
        part = np.tensordot(windows[:, g * c_in:(g + 1) * c_in], w[g * c_out:(g + 1) * c_out],
                            (taps, tuple(range(1, 2 + n))))
        y[:, g * c_out:(g + 1) * c_out] = np.moveaxis(part, -1, 1)
    return (_add_bias(y, bias),)


def _depthwise(windows: np.ndarray, w: np.ndarray) -> np.ndarray:
    """One channel in, one out: a sum over taps, without a matrix product per channel."""
    n = w.ndim - 2
    y = np.zeros(windows.shape[:w.ndim], np.result_type(windows, w))
    seen, weights = np.moveaxis(windows, range(w.ndim, windows.ndim), range(n)), np.moveaxis(w[:, 0], 0, -1)
    for tap in cartesian(*(range(k) for k in w.shape[2:])):
        y += seen[tap] * weights[tap].reshape(-1, *(1,) * n)
    return y


def _add_bias(y: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    return y if bias is None else np.asarray(y + bias.reshape(-1, *(1,) * (y.ndim - 2)))


def _conv_flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    w = inputs[1]
    assert w is not None
    return 2 * product(outputs[0].shape) * product(w.shape[1:])


def _infer_transposed(ctx: InferContext) -> tuple[TensorType, ...]:
    x, _, made = _check(ctx, transposed=True)
    kernel, strides, pads, dilations = _geometry(ctx.node.attrs)
    n = len(kernel)
    extra = ints_of(ctx.node.attrs, "output_padding", (0,) * n)
    if any(len(given) != n for given in (x.shape[2:], strides, dilations, extra)) or len(pads) != 2 * n:
        raise ShapeError(f"kernel {kernel}, strides {strides}, pads {pads}, dilations {dilations} and "
                         f"output_padding {extra} do not fit {len(x.shape) - 2} spatial dimensions")
    sizes = [(s - 1) * strides[i] + span(kernel[i], dilations[i]) + extra[i] - pads[i] - pads[n + i]
             for i, s in enumerate(x.shape[2:])]
    return (TensorType(x.dtype, (x.shape[0], made, *sizes)),)


def _transposed(attrs: Attrs, arrays: Arrays) -> tuple[np.ndarray, ...]:
    """Each input element adds its scaled kernel into the output; the pads are cropped at the end."""
    x, w, bias = arrays[0], arrays[1], arrays[2] if len(arrays) > 2 else None
    assert x is not None and w is not None
    kernel, strides, pads, dilations = _geometry(attrs)
    n, group = len(kernel), int_of(attrs, "group", 1)
    extra = ints_of(attrs, "output_padding", (0,) * n)
    full = [(s - 1) * strides[i] + span(kernel[i], dilations[i]) + extra[i] for i, s in enumerate(x.shape[2:])]
    c_in, c_out = x.shape[1] // group, w.shape[1]
    y = np.zeros((x.shape[0], c_out * group, *full), np.result_type(x, w))
    for g in range(group):
        xs, ws = x[:, g * c_in:(g + 1) * c_in], np.moveaxis(w[g * c_in:(g + 1) * c_in], (0, 1), (-2, -1))
        for tap in cartesian(*(range(k) for k in kernel)):
            part = np.tensordot(xs, ws[tap], ((1,), (0,)))
            at = tuple(slice(t * dilations[i], t * dilations[i] + (x.shape[2 + i] - 1) * strides[i] + 1, strides[i])
                       for i, t in enumerate(tap))
            y[(slice(None), slice(g * c_out, (g + 1) * c_out), *at)] += np.moveaxis(part, -1, 1)
    crop = tuple(slice(pads[i], size - pads[n + i]) for i, size in enumerate(full))
    return (np.ascontiguousarray(_add_bias(y[(slice(None), slice(None), *crop)], bias)),)


def _transposed_flops(attrs: Attrs, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> Dim:
    x, w = inputs[0], inputs[1]
    assert x is not None and w is not None
    return 2 * product(x.shape) * product(w.shape[1:])


# --- import ---------------------------------------------------------------------------------------------------

def _window_attrs(node: OnnxNode, weight: Shape) -> tuple[Ints, Ints, Ints]:
    """Kernel shape (from the weight's when absent), strides, dilations."""
    kernel = attr_ints(node, "kernel_shape") or tuple(d for d in weight[2:] if isinstance(d, int))
    if len(kernel) != len(weight) - 2 or not kernel:
        raise unsupported(node, f"weight {text(weight)} has no fixed kernel size", "make the weight a constant")
    ones = (1,) * len(kernel)
    return kernel, attr_ints(node, "strides") or ones, attr_ints(node, "dilations") or ones


def conv_operand(b: NodeBuilder, node: OnnxNode, x: str, sizes: Shape, weight: Shape, fill: float | None = 0.0
                 ) -> tuple[str, dict[str, Attr]]:
    """The operand and the attributes of a core Conv, from an ONNX node with the attributes of ONNX's Conv.

    `x` is [n, c, *sizes]. Padding that varies with the sizes is added to it: `fill`, None where that is not known.
    """
    kernel, strides, dilations = _window_attrs(node, weight)
    pads = resolve_pads(node, sizes, kernel, strides, dilations)
    if fill is None and not all(isinstance(amount, int) for amount in pads):
        raise unsupported(node, f"auto_pad of the dynamic sizes {text(sizes)} with a zero point computed while running",
                          f"make the zero point constant, or the sizes multiples of {strides} with --shape")
    padded, fixed = pad_first(b, x, pads, fill or 0.0)
    return padded, {"kernel_shape": kernel, "strides": strides, "dilations": dilations,
                    "group": attr_int(node, "group", 1), "pads": fixed}


def _import_conv(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    b = NodeBuilder.importing(node, ctx)
    x, attrs = conv_operand(b, node, node.inputs[0], shape_of(node, ctx)[2:], shape_of(node, ctx, 1))
    return (core_node(node, "Conv", (x, *node.inputs[1:]), node.outputs, **attrs),)


def _import_transposed(node: OnnxNode, ctx: ImportContext) -> Iterable[Node]:
    """output_shape and auto_pad are resolved to pads, by the formulas of the specification.

    Where the output is to be larger than what the kernel covers, zeros follow: that is output_padding.
    """
    kernel, strides, dilations = _window_attrs(node, shape_of(node, ctx, 1))
    sizes, n = shape_of(node, ctx)[2:], len(kernel)
    extra = attr_ints(node, "output_padding") or (0,) * n
    mode, wanted = attr_text(node, "auto_pad", "NOTSET") or "NOTSET", attr_ints(node, "output_shape")
    pads: tuple[Dim, ...] = attr_ints(node, "pads") or (0,) * (2 * n)
    if mode == "VALID" and not wanted:
        pads = (0,) * (2 * n)
    elif wanted or mode != "NOTSET":
        begins, ends = [], []
        for i, size in enumerate(sizes):
            target = wanted[len(wanted) - n + i] if wanted else size * strides[i]
            total = (size - 1) * strides[i] + extra[i] + span(kernel[i], dilations[i]) - target
            if isinstance(total, int) and total < 0:
                extra, total = (*extra[:i], extra[i] - total, *extra[i + 1:]), 0
            cropped = dim_max(total, 0)
            begins.append(cropped // 2 if mode == "SAME_UPPER" else (cropped + 1) // 2)
            ends.append(total - begins[-1])
        pads = (*begins, *ends)
    attrs: dict[str, Attr] = {"kernel_shape": kernel, "strides": strides, "dilations": dilations,
                              "group": attr_int(node, "group", 1), "output_padding": extra}
    if all(isinstance(amount, int) for amount in pads):
        return (core_node(node, "ConvTranspose", node.inputs, node.outputs, pads=pads, **attrs),)
    return _crop_behind(node, ctx, pads, attrs)


def _crop_behind(node: OnnxNode, ctx: ImportContext, pads: tuple[Dim, ...], attrs: dict[str, Attr]) -> Iterable[Node]:
    """ConvTranspose without pads, then a Pad by their opposite, which crops; the bias is added behind it, since where
    the output is to be larger than what the kernel covers, it holds the bias alone."""
    b, n, inputs = NodeBuilder.importing(node, ctx), len(pads) // 2, node.inputs
    whole = b.add("ConvTranspose", inputs[:2], {**attrs, "pads": (0,) * (2 * n)})
    turned = tuple(-amount for amount in pads)
    biased = present(node, 2)
    cut = b.emit("Pad", whole, out="" if biased else node.outputs[0], pads=(0, 0, *turned[:n], 0, 0, *turned[n:]),
                 mode="constant", value=0.0)
    if biased:
        b.emit("Add", cut, b.reshape(inputs[2], (*shape_of(node, ctx, 2), *(1,) * n)), out=node.outputs[0])
    return b.nodes


# --- samples --------------------------------------------------------------------------------------------------

def _attrs(kernel: Ints, strides: Ints, pads: Ints, dilations: Ints, group: int) -> dict[str, Attr]:
    return {"kernel_shape": kernel, "strides": strides, "pads": pads, "dilations": dilations, "group": group}


def _conv_samples(rng: np.random.Generator) -> Iterable[Sample]:
    cases: tuple[tuple[Ints, Ints, Ints, Ints, Ints, int, bool], ...] = (
        ((1, 3, 8, 8), (4, 3, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1, True),
        ((2, 5, 7, 9), (3, 5, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1, False),
        ((1, 8, 9, 7), (8, 1, 3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 8, True),
        ((1, 4, 9, 11), (6, 2, 3, 2), (2, 3), (0, 1, 2, 0), (1, 2), 2, True),
        ((2, 17, 5, 5), (19, 17, 5, 5), (1, 1), (2, 2, 2, 2), (1, 1), 1, True),
        ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1, False),
        ((1, 3, 1, 40), (2, 3, 1, 7), (1, 2), (0, 3, 0, 3), (1, 1), 1, True),
        ((0, 3, 5, 5), (2, 3, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1, True),
        ((2, 3, 11), (4, 3, 3), (2,), (1, 0), (2,), 1, True),
        ((1, 2, 4, 5, 6), (3, 2, 2, 3, 1), (1, 2, 1), (0, 1, 0, 1, 1, 0), (1, 1, 1), 1, False),
        ((1, 8, 6, 6), (16, 1, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 8, False))
    for x, w, strides, pads, dilations, group, bias in cases:
        b = floats(rng, (w[0],)) if bias else None
        yield Sample((floats(rng, x, -1, 1), floats(rng, w, -1, 1), b), _attrs(w[2:], strides, pads, dilations, group),
                     rtol=1e-4, atol=1e-5)


def _transposed_samples(rng: np.random.Generator) -> Iterable[Sample]:
    cases: tuple[tuple[Ints, Ints, Ints, Ints, Ints, int, Ints], ...] = (
        ((1, 3, 5, 5), (3, 4, 2, 2), (2, 2), (0, 0, 0, 0), (1, 1), 1, (0, 0)),
        ((2, 4, 3, 7), (4, 3, 3, 3), (2, 1), (1, 1, 0, 1), (1, 1), 1, (1, 0)),
        ((1, 4, 4, 5), (4, 2, 3, 3), (1, 2), (1, 0, 1, 0), (2, 1), 2, (0, 0)),
        ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1, (0, 0)),
        ((1, 3, 6), (3, 2, 4), (3,), (1, 1), (1,), 1, (2,)))
    for x, w, strides, pads, dilations, group, extra in cases:
        yield Sample((floats(rng, x, -1, 1), floats(rng, w, -1, 1), floats(rng, (w[1] * group,))),
                     {**_attrs(w[2:], strides, pads, dilations, group), "output_padding": extra}, rtol=1e-4, atol=1e-5)


CONV = OpDef("Conv", _infer_conv, _conv, _conv_samples, (OnnxImport("Conv", 1, convert=_import_conv),),
             flops=_conv_flops)
CONV_TRANSPOSE = OpDef("ConvTranspose", _infer_transposed, _transposed, _transposed_samples,
                       (OnnxImport("ConvTranspose", 1, convert=_import_transposed),), flops=_transposed_flops)

OPS: tuple[OpDef, ...] = (CONV, CONV_TRANSPOSE)
