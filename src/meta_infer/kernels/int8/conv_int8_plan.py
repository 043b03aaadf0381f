"""What an 8-bit convolution asks for, and everything that its knobs decide: tiles, passes, chunks, packing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Group
from meta_infer.ir.shapes import Dim, usual_upper
from meta_infer.kernels.blocked import blocks
from meta_infer.kernels.conv.conv_pointwise import flatten
from meta_infer.kernels.conv.conv_shape import ConvShape, any_conv_of
from meta_infer.kernels.conv.conv_tile import split_evenly
from meta_infer.kernels.conv_chunks import Cut, Work, cut, l1_bytes
from meta_infer.kernels.int8.dot_path import DotPath
from meta_infer.kernels.int8.dot_tile import most_columns, pack_steps, step_cost
from meta_infer.kernels.int8.int8_operands import Int8Operands, int8_operands
from meta_infer.kernels.kernel import KnobValue
from meta_infer.support.dtypes import INT32

_MOST_VECTORS = 4


@dataclass(frozen=True)
class Problem:
    """The convolution; one of 1x1 with an image as one row when `is_flat`, and the group in those shapes.

    Its channels lie in `parts` parts that know nothing of each other, each a dense convolution: the convolution's own
    groups, or some of them side by side (`operands.weights` are zero where two of them would meet).
    """

    group: Group
    conv: ConvShape
    operands: Int8Operands
    is_flat: bool
    block: int
    parts: int = 1

    @property
    def out_blocks(self) -> int:
        """Output blocks of a part."""
        return -(-blocks(self.conv.out_channels, self.block) // self.parts)

    @property
    def in_blocks(self) -> int:
        """Input blocks of a part."""
        return -(-blocks(self.conv.in_channels, self.block) // self.parts)

    @property
    def lines(self) -> Dim:
        """What chunks divide: rows, or positions of the one row."""
        return self.conv.out_spatial[1 if self.is_flat else 0]

    @property
    def row_step(self) -> int:
        """Distance of the rows that are needed: kernels of one row skip those between."""
        return self.conv.strides[0] if self.conv.kernel[0] == 1 else 1

    def rows(self, lines: int) -> int:
        """Rows that `lines` rows of output read."""
        conv = self.conv
        return lines if conv.kernel[0] == 1 else (lines - 1) * conv.strides[0] + (
            conv.kernel[0] - 1) * conv.dilations[0] + 1


def problem_of(group: Group, profile: Profile) -> Problem | None:
    """A convolution of one or two spatial dims, its channels known at build; None for one channel per group."""
    operands, block = int8_operands(group), profile.lanes(INT32)
    found = any_conv_of(group)
    if operands is None or found is None or block == 1 or found.is_depthwise or len(found.kernel) not in (1, 2):
        return None
    conv = replace(found, bias=None)
    if not isinstance(conv.in_channels, int) or not isinstance(conv.out_channels, int) or 0 in conv.y.shape:
        return None
    if min(*conv.begin, *conv.end) < 0:
        return None
    together = _groups_of_a_part(conv, block)
    if together is None:
        return None
    parts, operands = conv.group // together, replace(operands, weights=_spread(operands.weights, conv, together))
    plain = conv.taps == 1 and set(conv.strides) == {1} and not any((*conv.begin, *conv.end))
    flat = flatten(group, conv) if plain else None
    if flat is not None:
        one = replace(conv, x=flat.values[conv.x.name], y=flat.values[conv.y.name], kernel=(1, 1), strides=(1, 1),
                      begin=(0, 0), end=(0, 0), dilations=(1, 1))
        return Problem(flat, one, operands, True, block, parts)
    return Problem(group, conv, operands, False, block, parts) if len(conv.kernel) == 2 else None


def _groups_of_a_part(conv: ConvShape, block: int) -> int | None:
    """The fewest groups side by side whose channels fill whole blocks, or all of them; None where too many zeros would
    be multiplied."""
    channels = [int(dim) // conv.group for dim in (conv.in_channels, conv.out_channels)]       # type: ignore[arg-type]
    fitting = [n for n in range(1, conv.group) if conv.group % n == 0 and not any(n * c % block for c in channels)]
    together = min(fitting, default=conv.group)
    return together if together <= block else None


def _spread(weights: np.ndarray, conv: ConvShape, together: int) -> np.ndarray:
    """[OC, IC / group, ...] -> [OC, together * IC / group, ...]: zeros for the channels of the other groups."""
    if together == 1:
        return weights
    out_channels, depth, *kernel = weights.shape
    split = weights.reshape(-1, together, out_channels // conv.group, depth, *kernel)
    wide = np.zeros((split.shape[0], together, split.shape[2], together, depth, *kernel), weights.dtype)
    for i in range(together):
        wide[:, i, :, i] = split[:, i]
    return wide.reshape(out_channels, together * depth, *kernel)


@dataclass(frozen=True)
class Tiling:
    """Everything that knobs decide. `in_group` input blocks make a pass, `cut` says what a chunk is."""

    path: DotPath
    sizes: tuple[int, ...]                               # output blocks of each tile
    columns: int
    in_group: int
    cut: Cut


def _work(problem: Problem, path: DotPath, tiles: int) -> Work:
    conv, block = problem.conv, problem.block
    each = problem.in_blocks * block * path.x.bytes
    weights = problem.in_blocks * problem.out_blocks * block * block * conv.taps
    places = usual_upper(conv.out_spatial[0]) * usual_upper(conv.out_spatial[1])
    line = each if problem.is_flat else each * usual_upper(conv.in_spatial[1])
    images = conv.y.shape[0] if isinstance(conv.y.shape[0], int) else 1
    halo = 0 if problem.is_flat else line * max(0, problem.rows(1) - conv.strides[0])
    # Half of the float operations: sums of two products or more run at twice their rate at least. Half of that again,
    # since every chunk stages its input anew: fewer chunks of more output channels do that less often.
    step = line * (1 if problem.is_flat else conv.strides[0])
    return Work(images * problem.parts, tiles, usual_upper(problem.lines), 1, step, halo, weights * path.weight.bytes,
                float(weights) * places / 2)


def _default_tile(problem: Problem, path: DotPath, profile: Profile) -> tuple[int, int]:
    """Vectors and columns with the least predicted time."""
    width = problem.conv.out_spatial[1]

    def cost(vectors: int) -> float:
        columns = most_columns(vectors, path, profile)
        sizes = split_evenly(width, columns) if isinstance(width, int) and width < 64 else [columns]
        per_column = sum(step_cost(vectors, c) for c in sizes) / sum(sizes)
        return per_column * -(-problem.out_blocks // vectors)

    fitting = [v for v in range(1, min(_MOST_VECTORS, problem.out_blocks) + 1) if most_columns(v, path, profile)]
    vectors = min(fitting, key=cost)
    return vectors, most_columns(vectors, path, profile)


def _default_pass(problem: Problem, path: DotPath, vectors: int, profile: Profile) -> int:
    """Input blocks whose weights take a third of L1: they stay there while the columns of a chunk go by."""
    l1, each = l1_bytes(profile), problem.conv.taps * problem.block * problem.block * vectors * path.weight.bytes
    if problem.in_blocks * each <= 3 * l1 // 2:
        return problem.in_blocks
    passes = -(-problem.in_blocks // max(1, l1 // 3 // each))
    return -(-problem.in_blocks // passes)


def path_of(problem: Problem, name: KnobValue, profile: Profile) -> DotPath | None:
    return next((path for path in problem.operands.paths(profile) if path.name == name), None)


def default_knobs(problem: Problem, path: DotPath, profile: Profile) -> dict[str, KnobValue]:
    vectors, columns = _default_tile(problem, path, profile)
    chosen = cut(_work(problem, path, -(-problem.out_blocks // vectors)), profile)
    lines = -(-chosen.lines // columns) * columns if problem.is_flat else chosen.lines
    return {"path": path.name, "vectors": vectors, "columns": columns, "tiles": chosen.tiles, "lines": lines,
            "pass": _default_pass(problem, path, vectors, profile)}


def tiling_of(problem: Problem, knobs: Mapping[str, KnobValue], profile: Profile) -> Tiling:
    path = path_of(problem, knobs["path"], profile)
    assert path is not None, "a variant has a path that its operands take"
    sizes = split_evenly(problem.out_blocks, int(knobs["vectors"]))
    return Tiling(path, tuple(sizes), int(knobs["columns"]), int(knobs["pass"]),
                  Cut(int(knobs["tiles"]), int(knobs["lines"])))


def right_padding(problem: Problem, columns: int) -> int:
    """Positions of padding after a row: as far as the last tile of columns reads, be it cut off at the border."""
    conv = problem.conv
    width = conv.out_spatial[1]
    if problem.is_flat or not isinstance(width, int):
        return conv.end[1] + columns * conv.strides[1]
    return conv.end[1]


def row_pitch(problem: Problem, tiling: Tiling) -> Dim:
    """Positions of a staged row."""
    inside = tiling.cut.lines if problem.is_flat else problem.conv.in_spatial[1]
    return inside + problem.conv.begin[1] + right_padding(problem, tiling.columns)


def staged_elements(problem: Problem, tiling: Tiling) -> Dim:
    return row_pitch(problem, tiling) * (problem.in_blocks * staged_rows(problem, tiling) * problem.block)


def staged_rows(problem: Problem, tiling: Tiling) -> int:
    return 1 if problem.is_flat else problem.rows(tiling.cut.lines)


def kept_row_pitch(problem: Problem, tiling: Tiling) -> Dim:
    """Sums of a row that wait for the next pass, those beyond the border included."""
    width = problem.conv.out_spatial[1]
    if problem.is_flat:
        return tiling.cut.lines + tiling.columns
    return width if isinstance(width, int) else width + tiling.columns


def kept_elements(problem: Problem, tiling: Tiling) -> Dim:
    """Sums that wait for the next pass: those of one output tile; 0 when there is one pass."""
    if tiling.in_group >= problem.in_blocks:
        return 0
    lines = 1 if problem.is_flat else tiling.cut.lines
    return kept_row_pitch(problem, tiling) * (lines * tiling.sizes[0] * problem.block)


def pack_weights(problem: Problem, tiling: Tiling) -> np.ndarray:
    """[OC, IC, kh, kw] of int16 -> per part, tile and pass [kh][kw][ib][c / terms][v][c][terms], zero beyond the
    channels."""
    weights = problem.operands.weights
    weights = weights.reshape(*weights.shape[:2], -1, weights.shape[-1])
    return np.concatenate([_pack_part(part, problem, tiling) for part in np.split(weights, problem.parts)])


def _pack_part(weights: np.ndarray, problem: Problem, tiling: Tiling) -> np.ndarray:
    out_blocks, in_blocks, block = problem.out_blocks, problem.in_blocks, problem.block
    oc, ic, kh, kw = weights.shape
    full = np.zeros((out_blocks * block, in_blocks, block, kh, kw), np.int16)
    full.reshape(out_blocks * block, in_blocks * block, kh, kw)[:oc, :ic] = weights
    parts, first = [], 0
    for vectors in tiling.sizes:
        tile = full[first * block:(first + vectors) * block].transpose(3, 4, 1, 2, 0)         # [kh, kw, IB, c, v * c]
        parts += [pack_steps(tile[:, :, ib:ib + tiling.in_group], tiling.path, block)
                  for ib in range(0, in_blocks, tiling.in_group)]
        first += vectors
    return np.concatenate(parts)


def column_sums(weights: np.ndarray, width: int) -> np.ndarray:
    """What one step of the zero point adds to each of `width` output channels: [OC, ...] -> [width] of int32."""
    sums = np.zeros(width, np.int32)
    sums[:weights.shape[0]] = weights.reshape(weights.shape[0], -1).sum(1, dtype=np.int64)
    return sums
