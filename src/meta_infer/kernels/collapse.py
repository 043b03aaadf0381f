"""Fewer, longer dimensions: merges neighbouring axes that every operand of a group walks alike.

    shape [B, S, 384], operands [B, S, 384] and [384]          ->  [B*S, 384], [B*S, 384] and [1, 384]
    shape [N, C, H, W], operands [N, C, H, W] and [C, 1, 1]    ->  [N, C, H*W], [N, C, H*W] and [1, C, 1]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Shape, Value
from meta_infer.ir.group import Group
from meta_infer.ir.loop import Expr, const
from meta_infer.ir.shapes import product


@dataclass(frozen=True)
class Collapsed:
    """An iteration space and its operands, all of the same rank; an operand's dim is the space's, or 1.

    `starts[i]` is the first dim of the i-th segment asked for; every segment has at least one dim.
    """

    shape: Shape
    values: Mapping[str, Value]
    starts: tuple[int, ...]

    def group(self, group: Group) -> Group:
        """`group` with its operands and outputs seen in the merged shapes."""
        return replace(group, values={**group.values, **self.values})


def _padded(value: Value, rank: int) -> Shape:
    return (1,) * (rank - value.rank) + value.shape


def collapse(shape: Shape, values: Mapping[str, Value], cuts: Sequence[int] = ()) -> Collapsed:
    """Merge axes of `shape`, over which all of `values` broadcast; never across the axes where a cut stands.

    `cuts` are ascending axis numbers in [0, rank]: a new segment begins at each. Dims of 1 vanish unless their
    segment has no other.
    """
    rank = len(shape)
    padded = {name: _padded(value, rank) for name, value in values.items()}
    bounds = [0, *cuts, rank]
    merged: list[list[int]] = []                          # axes of each new dim
    starts: list[int] = []
    for first, last in zip(bounds, bounds[1:], strict=False):
        starts.append(len(merged))
        runs: list[list[int]] = []
        previous: tuple[bool, ...] | None = None
        for axis in range(first, last):
            if shape[axis] == 1:
                continue
            full = tuple(dims[axis] != 1 for dims in padded.values())
            if full == previous:
                runs[-1].append(axis)
            else:
                runs.append([axis])
            previous = full
        merged.extend(runs or [[]])
    new = {name: replace(values[name], shape=tuple(product(dims[a] for a in axes) for axes in merged))
           for name, dims in padded.items()}
    return Collapsed(tuple(product(shape[a] for a in axes) for axes in merged), new, tuple(starts))


def unflatten(b: Builder, index: Expr, dims: Shape) -> tuple[Expr, ...]:
    """Coordinates in `dims` of the row-major flat `index`."""
    coords: list[Expr] = []
    for dim in reversed(dims[1:]):
        if dim == 1:
            coords.append(const(0))
            continue
        size = b.dim(dim)
        coords.append(b.let(index % size, "c"))
        index = b.let(index // size, "c")
    return (index, *reversed(coords)) if dims else ()


def operand_values(group: Group) -> dict[str, Value]:
    """What meets the anchor's result element by element: operands of the epilogue, and the group's outputs."""
    made = {out for node in group.nodes for out in node.outputs}
    read = [name for node in group.epilogue for name in node.inputs if name and name not in made]
    return {name: group.values[name] for name in (*dict.fromkeys(read), *group.outputs)}


def keeps_shape(group: Group) -> bool:
    """Whether everything the group yields has the shape of its anchor's first output."""
    shape = group.values[group.anchor.outputs[0]].shape
    return all(group.values[name].shape == shape for name in group.outputs)
