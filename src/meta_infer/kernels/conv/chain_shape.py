"""What a chain that ends in a 1x1 convolution consists of: see `conv_chain`."""

from __future__ import annotations

from dataclasses import dataclass

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Value
from meta_infer.ir.group import Group
from meta_infer.ir.shapes import Dim, product, usual_upper
from meta_infer.kernels.blocked import blocks
from meta_infer.kernels.conv.conv_depthwise import CONV_DEPTHWISE, fits_depthwise
from meta_infer.kernels.conv.conv_pointwise import CONV_POINTWISE, flatten
from meta_infer.kernels.conv.conv_shape import ConvShape, conv_of
from meta_infer.kernels.conv.conv_tile import choose_tiles
from meta_infer.kernels.conv.links import links_of
from meta_infer.kernels.conv_chunks import l2_bytes
from meta_infer.kernels.guess import ELEMENT_COST, alone_cost, value_bytes
from meta_infer.support.dtypes import FLOAT32

# What it takes to begin reading a run of a large tensor: prefetchers start anew.
_RUN_COST = 3e4
# Lines of a chunk that suit a usual size suit others less, and borders of any width have slow code of their own.
_ANY_SIZE = 1.5


@dataclass(frozen=True)
class ChainShape:
    """`links` as in `links_of`; `first` expands, `last` projects; without `depthwise` the first link is elementwise."""

    links: tuple[Group, ...]
    x: Value
    first: ConvShape | None
    depthwise: ConvShape | None
    last: ConvShape

    @property
    def kind(self) -> str:
        return "gated" if self.depthwise is None else "separable" if self.first is None else "inverted"

    @property
    def convolutions(self) -> tuple[ConvShape, ...]:
        return tuple(conv for conv in (self.first, self.depthwise, self.last) if conv is not None)

    @property
    def weights(self) -> set[str]:
        """Names of constants that are packed."""
        return {v.name for conv in self.convolutions for v in (conv.weight, conv.bias) if v is not None}

    @property
    def flops(self) -> Dim:
        total: Dim = 0
        for conv in self.convolutions:
            total = total + conv.flops
        return total

    def rows_read(self, lines: int) -> int:
        """Input rows of the depthwise convolution for `lines` rows of its output."""
        conv = self.depthwise
        assert conv is not None
        return (lines - 1) * conv.strides[0] + (conv.kernel[0] - 1) * conv.dilations[0] + 1

    def only_input(self, group: Group) -> set[str]:
        """x, unless a later link reads it too, as a residual sum does."""
        later = {name for link in self.links[1:] for node in link.nodes for name in node.inputs}
        return set() if self.x.name in later else {self.x.name}

    def alone(self, profile: Profile) -> tuple[float, ...]:
        """Costs of the convolutions as groups of their own."""
        kernels = (CONV_DEPTHWISE if conv.is_depthwise else CONV_POINTWISE for conv in self.convolutions)
        links = self.links[-len(self.convolutions):]
        return tuple(alone_cost(link, kernel.variants(link, profile))
                     for link, kernel in zip(links, kernels, strict=True))

    def cost(self, lines: int, alone: tuple[float, ...], profile: Profile) -> float:
        """Operations at peak speed: what the links cost alone; tiles cut short at the ends of chunks; weights that come
        anew for each chunk; rows that two chunks both expand; the many short runs in which a large input is read."""
        block = profile.lanes(FLOAT32)
        height, width = (usual_upper(d) for d in self.last.out_spatial)
        chunks = -(-height // lines)
        total = alone[-1] * _cut_short(self.last, lines * width, profile)
        total += chunks * usual_upper(product(self.last.weight.shape))
        if self.first is not None:
            rows = usual_upper(self.first.out_spatial[0])
            again = max(1.0, chunks * self.rows_read(lines) / rows)
            total += alone[0] * again
        elif value_bytes(self.x) > 2 * l2_bytes(profile):
            total += chunks * blocks(self.x.shape[1], block) * _RUN_COST
        if self.depthwise is None:
            total += ELEMENT_COST * usual_upper(product(self.x.shape[1:])) * len(self.links[0].nodes)
        else:
            total += alone[-2]
        return total if all(isinstance(dim, int) for dim in self.last.out_spatial) else total * _ANY_SIZE


def _cut_short(conv: ConvShape, positions: int, profile: Profile) -> float:
    """Time of a tile of output blocks over so many positions, beside that of whole register tiles."""
    columns = choose_tiles(blocks(conv.out_channels, profile.lanes(FLOAT32)), None, profile).runs[0].columns
    half = max(1, columns // 2)
    rest = positions % columns
    return (positions - rest + rest // half * half * 1.5 + rest % half * 3) / positions


def chain_of(group: Group) -> ChainShape | None:
    """The group as such a chain, or None."""
    if not group.prologue or group.anchor.op != "Conv" or len(group.outputs) != 1:
        return None
    links = links_of(group)
    if not 2 <= len(links) <= 3:
        return None
    last = conv_of(links[-1])
    if not is_pointwise(last) or flatten(links[-1], last) is None:              # type: ignore[arg-type]
        return None
    assert last is not None
    if links[0].anchor.op != "Conv":
        return _gated(links, last)
    convs = [conv_of(link) for link in links[:-1]]
    depthwise = convs[-1]
    if not fits_depthwise(depthwise) or not all(is_local(link) for link in links[:-1]):
        return None
    first = convs[0] if len(convs) == 2 else None
    if len(convs) == 2 and not (is_pointwise(first) and is_local(links[0], scalars_only=True)):
        return None
    assert depthwise is not None
    chain = ChainShape(links, (first or depthwise).x, first, depthwise, last)
    names = [conv.weight.name for conv in chain.convolutions]
    return chain if len(set(names)) == len(names) else None


def _gated(links: tuple[Group, ...], last: ConvShape) -> ChainShape | None:
    """An elementwise link whose first operand has the convolution's input shape."""
    link = links[0]
    shape = last.x.shape
    full = [name for name in link.inputs if link.values[name].shape == shape]
    nodes_fit = all(link.values[node.outputs[0]].shape == shape for node in link.nodes)
    if len(links) != 2 or not full or not nodes_fit or full[0] in link.constants:
        return None
    if any(value.dtype != FLOAT32 for value in link.values.values()):
        return None
    return ChainShape(links, link.values[full[0]], None, None, last)


def is_pointwise(conv: ConvShape | None) -> bool:
    """1x1, stride 1, no padding, one group, channels known at build."""
    if conv is None or conv.group != 1 or len(conv.kernel) != 2 or conv.taps != 1 or set(conv.strides) != {1}:
        return False
    if any(conv.begin) or any(conv.end) or 0 in conv.y.shape:
        return False
    return isinstance(conv.in_channels, int) and isinstance(conv.out_channels, int)


def is_local(link: Group, scalars_only: bool = False) -> bool:
    """Whether the link's other operands are the same everywhere: per channel, or `scalars_only`."""
    chain = {link.anchor.inputs[0], *link.anchor.inputs[1:]}
    made = {node.outputs[0] for node in link.nodes}
    for name in {name for node in link.epilogue for name in node.inputs if name} - made:
        value = link.values[name]
        channel = value.rank - 3
        varies = [axis for axis, dim in enumerate(value.shape) if dim != 1]
        if name in chain and name == link.anchor.inputs[0] or varies and (scalars_only or varies != [channel]):
            return False
    return True
