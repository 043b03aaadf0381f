"""Where the queries, keys and values of attention come from: tensors that a kernel can read as they lie.

    value [B, H, S, D]                                                      read as
    Transpose(x) {perm = (0, 2, 1, 3)}                                      x [B, S, H, D], order bshd
    keys only, [B, H, D, S]: Transpose(x) {perm = (0, 2, 3, 1)}             x [B, S, H, D], order bshd
                             Transpose(x) {perm = (0, 1, 3, 2)}             x [B, H, S, D]
                             anything else                                  x [B, H, D, S], order bhds
    Reshape(Slice(Transpose(x)))), x [B, S, 3, H, D]                        x [B, S, 3 * H, D], some of its heads
    Transpose(Reshape(Slice(x))), x [B, S, n * D], heads of it              x [B, S, n, D], some of its heads
    Mul(x, c) and Div(x, c) with a number c                                 x, the scale being c times as large
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from meta_infer.ir.graph import Node, Shape
from meta_infer.ir.shapes import Dim
from meta_infer.ops.attrs import dims_of, ints_of
from meta_infer.ops.dot_product_attention import ORDERS
from meta_infer.passes.match import scaled_by
from meta_infer.passes.rewrite import Edit


@dataclass(frozen=True)
class Operand:
    """`source`, seen as `shape` of four dims in `order`, holds the operand, times `scale`.

    `first` is the first of its heads in the source, None when it has no others. `nodes` lie between, the nearest to
    the product first.
    """

    source: str
    shape: Shape
    order: str
    scale: float = 1.0
    first: int | None = None
    given_heads: Dim = 0
    nodes: tuple[Node, ...] = ()

    @property
    def batch(self) -> Dim:
        return self.shape[0]

    @property
    def heads(self) -> Dim:
        return self.shape[ORDERS[self.order][1]] if self.first is None else self.given_heads

    @property
    def steps(self) -> Dim:
        return self.shape[ORDERS[self.order][2]]

    @property
    def size(self) -> Dim:
        return self.shape[ORDERS[self.order][3]]


def operand(edit: Edit, name: str, swapped: bool = False, scaled: bool = True) -> Operand:
    """The operand that value `name` of three or four dims is; `swapped`: its last two dims are (size, steps).

    With `scaled`, numbers it is multiplied with are left out and become `scale`.
    """
    nodes: tuple[Node, ...] = ()
    scale, order = 1.0, "bhds" if swapped else "bhsd"
    while True:
        node = edit.made_by(name)
        factor = scaled_by(edit, node) if scaled and node is not None else None
        before = _before(node, order) if node is not None and node.op == "Transpose" else None
        if node is not None and factor is not None:
            name, scale = factor[0], scale * factor[1]
        elif node is not None and before is not None:
            name, order = node.inputs[0], before
        else:
            break
        nodes = (*nodes, node)
    shape = edit.value(name).shape
    if len(shape) == 3:
        shape = (shape[0], 1, *shape[1:])
    found = Operand(name, shape, order, scale, nodes=nodes)
    return _part(edit, found) or found


def _before(node: Node, order: str) -> str | None:
    """The order of what a Transpose makes `order` of; None when no kernel reads that."""
    perm = ints_of(node.attrs, "perm")
    if len(perm) == 3 and perm[0] == 0:
        perm = (0, 1, *(axis + 1 for axis in perm[1:]))
    if len(perm) != 4:
        return None
    before = [""] * 4
    for place, axis in enumerate(perm):
        before[axis] = order[place]
    found = "".join(before)
    return found if found in ("bhsd", "bshd") or (found == "bhds" and "bhds" == order) else None


def _part(edit: Edit, found: Operand) -> Operand | None:
    """`found` as heads of a larger tensor, when it is cut out of one."""
    reshape = edit.made_by(found.source, "Reshape")
    piece = edit.made_by(reshape.inputs[0], "Slice") if reshape is not None else None
    if reshape is None or piece is None or set(ints_of(piece.attrs, "steps")) != {1}:
        return None
    nodes = (*found.nodes, reshape, piece)
    whole = edit.value(piece.inputs[0]).shape
    starts, sizes = dims_of(piece.attrs, "starts"), dims_of(piece.attrs, "sizes")
    cut = [axis for axis, (size, held) in enumerate(zip(sizes, whole, strict=True)) if size != held]
    if len(cut) != 1 or not isinstance(starts[cut[0]], int):
        return None
    start = int(starts[cut[0]])                            # type: ignore[arg-type]
    if found.order == "bshd":
        return _columns(edit, replace(found, nodes=nodes), piece.inputs[0], cut[0], start)
    if found.order != "bhsd":
        return None
    return _stacked(edit, replace(found, nodes=nodes), piece.inputs[0], cut[0], start)


def _columns(edit: Edit, found: Operand, source: str, axis: int, start: int) -> Operand | None:
    """Columns of [B, S, n * D] from `start` on, seen as [B, S, H, D]."""
    whole, (batch, steps, heads, size) = edit.value(source).shape, found.shape
    if len(whole) != 3 or axis != 2 or whole[:2] != (batch, steps):
        return None
    width = whole[2]
    if not isinstance(width, int) or not isinstance(size, int) or not isinstance(heads, int):
        return None
    if size == 0 or width % size or start % size:
        return None
    return replace(found, source=source, shape=(batch, steps, width // size, size), first=start // size,
                   given_heads=heads)


def _stacked(edit: Edit, found: Operand, source: str, axis: int, start: int) -> Operand | None:
    """One of three, [3, B, H, S, D] or the like, made by a Transpose of [B, S, 3, H, D]."""
    transpose = edit.made_by(source, "Transpose")
    if transpose is None:
        return None
    perm, whole = ints_of(transpose.attrs, "perm"), edit.value(transpose.inputs[0]).shape
    batch, heads, steps, size = found.shape
    order = tuple(place for i, place in enumerate(perm) if i != axis)
    if len(perm) != 5 or perm[axis] != 2 or order != (0, 3, 1, 4) or whole[:2] != (batch, steps):
        return None
    count = whole[2]
    if whole[3:] != (heads, size) or not isinstance(count, int) or not isinstance(heads, int):
        return None
    return replace(found, source=transpose.inputs[0], shape=(batch, steps, count * heads, size), order="bshd",
                   first=start * heads, given_heads=heads, nodes=(*found.nodes, transpose))
