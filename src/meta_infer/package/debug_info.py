"""What people and tools want to know of a package that running it does not need: debug.json.

`inspect --code` shows the C of each ONNX node by it, `compare --layers` finds which buffer holds which ONNX tensor.
"""

from __future__ import annotations

from typing import Any

from meta_infer.ir.program import Call, Command, Copy, Fill, MemoryPlan, Program, SetDim, walk_commands
from meta_infer.package.command_table import buffer_order, last_writers


def _command(command: Command) -> dict[str, Any]:
    row: dict[str, Any] = {"op": type(command).__name__}
    match command:
        case Call():
            row |= {"kernel": command.kernel, "label": command.label, "origins": list(command.origins),
                    "args": list(command.args), "dims": [str(d) for d in command.dims]}
        case Copy():
            row |= {"args": [command.src, command.dst], "count": str(command.count)}
        case Fill():
            row |= {"args": [command.dst], "value": command.value}
        case SetDim():
            row |= {"args": [command.src], "symbol": command.symbol}
    return row


def debug_info(program: Program, plan: MemoryPlan) -> dict[str, Any]:
    """Commands in program order, buffers by index in the command table, and per kernel the ONNX nodes it serves."""
    writers = last_writers(program)
    buffers = []
    for name in buffer_order(program):
        decl = program.buffers[name]
        place = plan.placements.get(program.root(name))
        buffers.append({
            "name": name, "dtype": decl.dtype.name, "shape": [d if isinstance(d, int) else str(d) for d in decl.shape],
            "kind": decl.kind, "block": decl.layout.block, "axis": decl.layout.axis, "origin": decl.origin,
            "alias": decl.alias, "writer": writers.get(name),
            "offset": None if place is None else place.offset, "bytes": None if place is None else place.nbytes,
        })
    kernels: dict[str, list[str]] = {name: [] for name in program.kernels}
    for command in walk_commands(program.commands):
        if isinstance(command, Call):
            kernels[command.kernel] += [o for o in command.origins if o not in kernels[command.kernel]]
    commands = [_command(c) for c in walk_commands(program.commands)]
    return {"symbols": list(program.symbols), "commands": commands, "buffers": buffers, "kernels": kernels}
