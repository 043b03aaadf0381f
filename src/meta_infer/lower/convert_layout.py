"""Values in the layout that a group wants: converted once per layout, constants at build."""

from __future__ import annotations

import numpy as np

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Value
from meta_infer.ir.group import PLAIN, Layout
from meta_infer.ir.program import Command
from meta_infer.kernels.movement.reorder import reorder
from meta_infer.lower.program_builder import ProgramBuilder


def block_array(array: np.ndarray, layout: Layout) -> np.ndarray:
    """`array` stored in `layout`, padding lanes zero: [N, C, H, W] -> [N, ceil(C/b), H, W, b] for axis 1."""
    if not layout.block:
        return np.ascontiguousarray(array)
    axis, block = layout.axis, layout.block
    missing = -array.shape[axis] % block
    padded = np.pad(array, [(0, missing if i == axis else 0) for i in range(array.ndim)])
    split = padded.reshape(*array.shape[:axis], padded.shape[axis] // block, block, *array.shape[axis + 1:])
    return np.ascontiguousarray(np.moveaxis(split, axis + 1, -1))


def buffer_in_layout(builder: ProgramBuilder, commands: list[Command], value: Value, layout: Layout,
                     constant: np.ndarray | None, profile: Profile) -> str:
    """The buffer that holds `value` in `layout`; the first time, appends the conversion to `commands`."""
    if (value.name, layout) in builder.where:
        return builder.where[value.name, layout]
    if constant is not None:
        stem = value.name if layout == PLAIN else f"{value.name}@{layout}"
        name = builder.constant(stem, block_array(constant, layout), value.origin, layout, value.shape)
    else:
        source_layout = next(lay for (n, lay) in builder.where if n == value.name)
        source = builder.where[value.name, source_layout]
        name = builder.temp(f"{value.name}@{layout}", value.dtype, value.shape, layout, value.origin)
        lowering = reorder(value, source_layout, layout, profile)
        (call,) = lowering.calls
        args = {call.args[0]: source, call.args[1]: name}
        commands += builder.calls(lowering, args, name, (), f"Reorder {source_layout} -> {layout}")
    builder.where[value.name, layout] = name
    return name
