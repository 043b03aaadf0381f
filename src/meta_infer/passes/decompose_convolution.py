"""Convolutions in terms of convolutions that a device has: ungrouped ones, of smaller kernels and fewer channels.

    before                                                   after, on a device without groups
    %y = Conv(%x, %w) {group = 2, kernel_shape = (3, 3)}     %a = Conv(%x[:, :4], %w[:8]) {group = 1, ...}
                                                             %b = Conv(%x[:, 4:], %w[8:]) {group = 1, ...}
                                                             %y = Concat(%a, %b) {axis = 1}

Slices of constant weights are computed at build. Sums of partial products are in another order than the one
convolution's, so results differ by rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product as cartesian
from math import prod

from meta_infer.ir.graph import Attr, Node, Shape
from meta_infer.ops.attrs import float_of, int_of, ints_of
from meta_infer.ops.windows import output_sizes, span
from meta_infer.passes.pieces import Bounds, Decomposition, Pieces

MAX_PARTS = 64
"""Most convolutions that one is split into: beyond it the launches alone cost more than a trip to the host."""


def _bias(node: Node) -> str:
    return node.inputs[2] if len(node.inputs) > 2 else ""


def _channels(shape: Shape) -> int | None:
    return shape[1] if isinstance(shape[1], int) else None


def by_group(node: Node, to: Pieces, bounds: Bounds) -> bool:
    """One convolution per group, each on its slice of the channels."""
    (x, w), bias, group = node.inputs[:2], _bias(node), int_of(node.attrs, "group", 1)
    if not 1 < group <= MAX_PARTS:
        return False
    made, taken = to.shape(w)[0], to.shape(w)[1]
    assert isinstance(made, int) and isinstance(taken, int)
    each, attrs = made // group, {**node.attrs, "group": 1}
    parts = []
    for g in range(group):
        operands = [to.sliced(x, 1, g * taken, taken), to.sliced(w, 0, g * each, each)]
        operands += [to.sliced(bias, 0, g * each, each)] if bias else []
        parts.append(to.add("Conv", operands, attrs))
    to.emit("Concat", *parts, out=node.outputs[0], axis=1)
    return True


def by_kernel(node: Node, to: Pieces, bounds: Bounds) -> bool:
    """The sum of convolutions with tiles of the kernel, each on the window of the padded input that its taps see."""
    x, w = node.inputs[:2]
    kernel = ints_of(node.attrs, "kernel_shape")
    most, n = bounds.kernel, len(kernel)
    if most is None or max(kernel) <= most or int_of(node.attrs, "group", 1) != 1:
        return False
    tiles = [[(at, min(most, k - at)) for at in range(0, k, most)] for k in kernel]
    if prod(map(len, tiles)) > MAX_PARTS:
        return False
    strides, dilations = ints_of(node.attrs, "strides", (1,) * n), ints_of(node.attrs, "dilations", (1,) * n)
    pads = ints_of(node.attrs, "pads", (0,) * 2 * n)
    counts = output_sizes(to.shape(x)[2:], kernel, strides, pads, dilations)
    padded = _padded(to, x, pads)
    total = ""
    tiling = list(cartesian(*tiles))
    for number, tile in enumerate(tiling):
        cuts = {2 + i: (at * dilations[i], (counts[i] - 1) * strides[i] + span(size, dilations[i]))
                for i, (at, size) in enumerate(tile)}
        weight = to.sliced_all(w, {2 + i: part for i, part in enumerate(tile)})
        attrs: dict[str, Attr] = {**node.attrs, "kernel_shape": tuple(size for _, size in tile), "pads": (0,) * 2 * n}
        part = to.add("Conv", (to.sliced_all(padded, cuts), weight, _bias(node) if number == 0 else ""), attrs)
        last = number == len(tiling) - 1
        total = to.emit("Add", total, part, out=node.outputs[0] if last else "") if total else part
    return True


def by_channel(node: Node, to: Pieces, bounds: Bounds) -> bool:
    """Rows of the weight one after the other, and within each the sum over slices of the input's channels."""
    (x, w), most = node.inputs[:2], bounds.channels
    made, taken = to.shape(w)[0], _channels(to.shape(x))
    if most is None or taken is None or not isinstance(made, int) or int_of(node.attrs, "group", 1) != 1:
        return False
    outs = [(at, min(most, made - at)) for at in range(0, made, most)]
    ins = [(at, min(most, taken - at)) for at in range(0, taken, most)]
    if not 1 < len(outs) * len(ins) <= MAX_PARTS:
        return False
    slices = [x if len(ins) == 1 else to.sliced(x, 1, *part) for part in ins]
    rows = []
    for out in outs:
        total = ""
        bias = _bias(node)
        bias = to.sliced(bias, 0, *out) if bias and len(outs) > 1 else bias
        for i, (piece, part) in enumerate(zip(slices, ins, strict=True)):
            weight = to.sliced_all(w, {0: out, 1: part})
            found = to.add("Conv", (piece, weight, bias if i == 0 else ""), node.attrs)
            last = len(outs) == 1 and i == len(ins) - 1
            total = to.emit("Add", total, found, out=node.outputs[0] if last else "") if total else found
        rows.append(total)
    if len(outs) > 1:
        to.emit("Concat", *rows, out=node.outputs[0], axis=1)
    return True


def transposed(node: Node, to: Pieces, bounds: Bounds) -> bool:
    """Zeros between the input's elements, then a convolution of stride 1 with the mirrored kernel.

        y = ConvTranspose(x, w)  ->  y = Conv(x with strides - 1 zeros behind each element, w mirrored and transposed)
    """
    x, w = node.inputs[:2]
    kernel = ints_of(node.attrs, "kernel_shape")
    n, group = len(kernel), int_of(node.attrs, "group", 1)
    strides, dilations = ints_of(node.attrs, "strides", (1,) * n), ints_of(node.attrs, "dilations", (1,) * n)
    pads, extra = ints_of(node.attrs, "pads", (0,) * 2 * n), ints_of(node.attrs, "output_padding", (0,) * n)
    begins = tuple(dilations[i] * (kernel[i] - 1) - pads[i] for i in range(n))
    ends = tuple(dilations[i] * (kernel[i] - 1) - pads[n + i] + extra[i] - (strides[i] - 1) for i in range(n))
    spread = _spread(to, x, strides)
    if min(*begins, *ends) < 0:                                          # Conv itself does not crop
        spread, begins, ends = _padded(to, spread, begins + ends), (0,) * n, (0,) * n
    to.emit("Conv", spread, _mirrored(to, w, group), _bias(node), out=node.outputs[0], kernel_shape=kernel,
            strides=(1,) * n, dilations=dilations, pads=begins + ends, group=group)
    return True


def _spread(to: Pieces, x: str, strides: tuple[int, ...]) -> str:
    """x [N, C, H, W] -> [N, C, H * s, W * s] with zeros behind every element."""
    if max(strides) == 1:
        return x
    head, sizes, n = to.shape(x)[:2], to.shape(x)[2:], len(strides)
    columns = to.reshape(x, (*head, *(d for size in sizes for d in (size, 1))))
    ends = (0, 0, *(d for s in strides for d in (0, s - 1)))
    wide = to.emit("Pad", columns, pads=(0,) * (2 + 2 * n) + ends, mode="constant", value=0.0)
    return to.reshape(wide, (*head, *(size * s for size, s in zip(sizes, strides, strict=True))))


def _mirrored(to: Pieces, w: str, group: int) -> str:
    """A weight [C_in, C_out / group, k...] of ConvTranspose as Conv's [C_out, C_in / group, k...], taps reversed."""
    shape = tuple(d for d in to.shape(w) if isinstance(d, int))
    taken, made, kernel = shape[0], shape[1], shape[2:]
    flipped = to.emit("Slice", w, starts=(0, 0, *(k - 1 for k in kernel)), sizes=shape,
                      steps=(1, 1, *(-1,) * len(kernel)))
    groups = to.reshape(flipped, (group, taken // group, made, *kernel))
    turned = to.emit("Transpose", groups, perm=(0, 2, 1, *range(3, 3 + len(kernel))))
    return to.reshape(turned, (group * made, taken // group, *kernel))


def _padded(to: Pieces, x: str, pads: tuple[int, ...]) -> str:
    """x with zeros around its spatial dims, or cropped where pads are negative."""
    n = len(pads) // 2
    if not any(pads):
        return x
    return to.emit("Pad", x, pads=(0, 0, *pads[:n], 0, 0, *pads[n:]), mode="constant", value=0.0)


def gemm_by_matmul(node: Node, to: Pieces, bounds: Bounds) -> bool:
    """alpha a b + beta c"""
    names = [to.emit("Transpose", name, perm=(1, 0)) if node.attrs.get(flag) else name
             for name, flag in zip(node.inputs[:2], ("transA", "transB"), strict=True)]
    alpha, beta = float_of(node.attrs, "alpha", 1.0), float_of(node.attrs, "beta", 1.0)
    scaled = alpha != 1
    total = to.emit("MatMul", *names, out="" if scaled or _bias(node) else node.outputs[0])
    if scaled:
        total = to.emit("Mul", total, to.scalar(alpha, total), out="" if _bias(node) else node.outputs[0])
    if _bias(node):
        bias = to.emit("Mul", _bias(node), to.scalar(beta, total)) if beta != 1 else _bias(node)
        to.emit("Add", total, bias, out=node.outputs[0])
    return True


def matmul_by_gemm(node: Node, to: Pieces, bounds: Bounds) -> bool:
    a, b = node.inputs
    if len(to.shape(a)) != 2 or len(to.shape(b)) != 2:
        return False
    to.emit("Gemm", a, b, out=node.outputs[0], alpha=1.0, beta=1.0, transA=False, transB=False)
    return True


CONVOLUTION: Mapping[str, tuple[Decomposition, ...]] = {
    "Conv": (by_group, by_kernel, by_channel),
    "ConvTranspose": (transposed,),
    "Gemm": (gemm_by_matmul,),
    "MatMul": (matmul_by_gemm,),
}
