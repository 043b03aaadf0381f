"""What a convolution group asks for, in one value, and its weights in the order that register tiles read them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import numpy as np

from meta_infer.ir.graph import Value
from meta_infer.ir.group import Group
from meta_infer.ir.shapes import Dim, bounds
from meta_infer.ops.attrs import dims_of, int_of, ints_of
from meta_infer.support.dtypes import FLOAT32


@dataclass(frozen=True)
class ConvShape:
    """A convolution of any number of spatial dims; tuples have one entry per spatial dim.

    A zero Pad before the convolution is part of `begin` and `end`, and `x` is then the Pad's input.
    """

    x: Value
    y: Value
    weight: Value
    bias: Value | None
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]
    dilations: tuple[int, ...]
    group: int

    @property
    def images(self) -> int:
        """Images of a batch, as many as there are at least."""
        return max(1, bounds(self.y.shape[0])[0])

    @property
    def in_channels(self) -> Dim:
        return self.x.shape[1]

    @property
    def out_channels(self) -> Dim:
        return self.y.shape[1]

    @property
    def in_spatial(self) -> tuple[Dim, ...]:
        return self.x.shape[2:]

    @property
    def out_spatial(self) -> tuple[Dim, ...]:
        return self.y.shape[2:]

    @property
    def taps(self) -> int:
        return prod(self.kernel)

    @property
    def is_depthwise(self) -> bool:
        """One input channel per output channel."""
        return self.group > 1 and self.group == self.in_channels == self.out_channels

    @property
    def flops(self) -> Dim:
        total: Dim = 2 * self.taps
        for dim in self.y.shape:
            total = total * dim
        per_group = self.weight.shape[1]
        return total * per_group


def _folded_pad(group: Group, rank: int) -> tuple[Value, tuple[int, ...]] | None:
    """Input and extra spatial pads (begin..end) of a Pad in the prologue; None when it is no zero padding."""
    x = group.in_value(0)
    assert x is not None
    if not group.prologue:
        return x, (0,) * (2 * (rank - 2))
    pad = group.prologue[0]
    if len(group.prologue) > 1 or pad.op != "Pad":
        return None
    dims = dims_of(pad.attrs, "pads")
    pads = tuple(dim for dim in dims if isinstance(dim, int))
    if len(pads) < len(dims):
        return None
    outside = pads[:2] + pads[rank:rank + 2]
    if pad.attrs["mode"] != "constant" or pad.attrs.get("value", 0.0) != 0.0 or any(outside) or min(pads) < 0:
        return None
    return group.values[pad.inputs[0]], pads[2:rank] + pads[rank + 2:]


def any_conv_of(group: Group) -> ConvShape | None:
    """The group's convolution; None when a prologue does not fold into the pads or the epilogue changes the shape."""
    weight, y = group.in_value(1), group.values[group.anchor.outputs[0]]
    folded = _folded_pad(group, y.rank)
    if folded is None or weight is None:
        return None
    if any(group.values[node.outputs[0]].shape != y.shape for node in group.epilogue):
        return None
    x, extra = folded
    n, attrs = y.rank - 2, group.anchor.attrs
    pads = tuple(p + e for p, e in zip(ints_of(attrs, "pads", (0,) * 2 * n), extra, strict=True))
    return ConvShape(x, y, weight, group.in_value(2), ints_of(attrs, "kernel_shape"),
                     ints_of(attrs, "strides", (1,) * n), pads[:n], pads[n:], ints_of(attrs, "dilations", (1,) * n),
                     int_of(attrs, "group", 1))


def conv_of(group: Group) -> ConvShape | None:
    """The group's convolution if it is one of float32 whose weights and bias are known at build, else None."""
    conv = any_conv_of(group)
    if conv is None:
        return None
    constants = [conv.weight] + ([conv.bias] if conv.bias is not None else [])
    if any(v.dtype != FLOAT32 for v in (conv.x, conv.y, *constants)) or 0 in conv.weight.shape:
        return None
    return conv if all(v.name in group.constants for v in constants) else None


def extra_inputs(group: Group, conv: ConvShape) -> tuple[str, ...]:
    """What the epilogue reads besides the convolution's own operands; a value that is both stays in the list."""
    read = {name for node in group.epilogue for name in node.inputs}
    own = {v.name for v in (conv.x, conv.weight, conv.bias) if v is not None}
    return tuple(name for name in group.inputs if name not in own or name in read)


def pack_bias(bias: np.ndarray | None, channels: int, block: int) -> np.ndarray:
    """[C] -> [ceil(C / block) * block], zero beyond C; zeros when there is none."""
    packed = np.zeros(-(-channels // block) * block, np.float32)
    if bias is not None:
        packed[:channels] = bias
    return packed


def pack_weights(weight: np.ndarray, tiles: Iterable[int], block: int, in_block: int) -> np.ndarray:
    """[OC, IC, kh, kw] -> per tile of `v` output blocks [IC / in_block][kw][kh][in_block][v][block], flat.

    `tiles` lists the output blocks of each tile in order. A plain input (in_block 1) has [kh][kw]. Channels beyond OC
    and IC have zero weights, so that whatever the padding lanes of the input hold (zero) cannot reach a result.
    """
    weight = weight.reshape(*weight.shape[:2], -1, weight.shape[-1])   # one spatial axis: kh = 1
    oc, ic, kh, kw = weight.shape
    full = np.zeros((-(-oc // block) * block, -(-ic // in_block) * in_block, kh, kw), np.float32)
    full[:oc, :ic] = weight
    split = full.reshape(-1, block, full.shape[1] // in_block, in_block, kh, kw)
    order = (2, 4, 5, 3, 0, 1) if in_block == 1 else (2, 5, 4, 3, 0, 1)
    parts, first = [], 0
    for vectors in tiles:
        part = split[first:first + vectors]                           # [v, block, IB, in_block, kh, kw]
        parts.append(part.transpose(order).reshape(-1))
        first += vectors
    assert first == split.shape[0], "tiles must cover all output channels"
    return np.concatenate(parts)


def pack_operands(group: Group, conv: ConvShape, tiles: Iterable[int], block: int,
                  in_block: int) -> dict[str, np.ndarray]:
    """Packed weights and bias of a dense 2-D convolution, in this order, by names that no value has."""
    name = conv.weight.name
    channels = int(conv.weight.shape[0])                              # type: ignore[arg-type]
    bias = group.constants[conv.bias.name] if conv.bias is not None else None
    return {f"{name}@packed": pack_weights(group.constants[name], tiles, block, in_block),
            f"{name}@bias": pack_bias(bias, channels, block)}
