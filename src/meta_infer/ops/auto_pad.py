"""The padding of windows: `pads` and `auto_pad` of an ONNX node, and a Pad before it where amounts vary with the size.

SAME makes ceil(size / stride) windows. Of a dynamic size that is no multiple of the stride the amounts are dims:

    %y = Conv(%x: [1, 3, H, W], %w) {kernel_shape=(3, 3), strides=(2, 2), auto_pad=SAME_UPPER}
      ->  %p = Pad(%x) {pads=(0, 0, h // 2, w // 2, 0, 0, h - h // 2, w - w // 2)}    h = 2 * ((H + 1) // 2) + 1 - H
          %y = Conv(%p, %w) {kernel_shape=(3, 3), strides=(2, 2), pads=(0, 0, 0, 0)}
"""

from __future__ import annotations

from collections.abc import Sequence

from meta_infer.ir.graph import Shape
from meta_infer.ir.shapes import Dim, ceildiv, dim_max, divisible
from meta_infer.ops.importing import attr_ints, attr_text
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.ops.opdef import OnnxNode, ShapeError
from meta_infer.ops.windows import Ints, span


def resolve_pads(node: OnnxNode, sizes: Shape, kernel: Ints, strides: Ints, dilations: Ints) -> tuple[Dim, ...]:
    """Pads (begins, then ends) with auto_pad resolved, dims where they vary with `sizes`, the spatial ones.

    Where the amounts vary and the stride is larger than the window, an end may be negative: it crops what no window
    sees, so that the padded size is exactly what the windows cover.
    """
    mode = attr_text(node, "auto_pad", "NOTSET") or "NOTSET"
    if mode == "NOTSET":
        return attr_ints(node, "pads") or (0,) * (2 * len(kernel))
    if mode == "VALID":
        return (0,) * (2 * len(kernel))
    if len(sizes) != len(kernel) or len(strides) != len(kernel) or min(strides) < 1:
        raise ShapeError(f"kernel {kernel} and strides {strides} do not fit {len(sizes)} spatial dimensions")
    begins, ends = [], []
    for i, size in enumerate(sizes):
        total = _same_total(size, span(kernel[i], dilations[i]), strides[i])
        added = dim_max(total, 0)
        begins.append((added + 1) // 2 if mode == "SAME_LOWER" else added // 2)
        ends.append(total - begins[-1])
    return (*begins, *ends)


def _same_total(size: Dim, taps: int, stride: int) -> Dim:
    """Elements that the windows cover beyond `size`; negative only where it varies."""
    if divisible(size, stride):
        return max(taps - stride, 0)
    total = (ceildiv(size, stride) - 1) * stride + taps - size
    added = dim_max(total, 0)
    return added if isinstance(added, int) else total


def pad_first(b: NodeBuilder, x: str, pads: Sequence[Dim], fill: float) -> tuple[str, Ints]:
    """`x` [n, c, *spatial] with the pads that vary applied to it, filled with `fill`, and the pads that are left."""
    n = len(pads) // 2
    varying = [not isinstance(pads[i], int) or not isinstance(pads[n + i], int) for i in range(n)] * 2
    if not any(varying):
        return x, tuple(amount for amount in pads if isinstance(amount, int))
    moved = [amount if varies else 0 for amount, varies in zip(pads, varying, strict=True)]
    padded = b.emit("Pad", x, pads=(0, 0, *moved[:n], 0, 0, *moved[n:]), mode="constant", value=fill)
    return padded, tuple(amount if isinstance(amount, int) and not varies else 0
                         for amount, varies in zip(pads, varying, strict=True))
