"""What people and tools want to know of a target that running it does not need: its debug.json.

`inspect --code` shows the C of each ONNX node by it, `compare --layers` finds which buffer holds which ONNX tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from meta_infer.ir.program import (
    AssignDims,
    Call,
    CheckDims,
    Command,
    Copy,
    Fill,
    Loop,
    MemoryPlan,
    Program,
    SetDim,
    walk_commands,
)
from meta_infer.ir.shapes import Dim
from meta_infer.package.command_table import buffer_order


def _command(command: Command) -> dict[str, Any]:
    row: dict[str, Any] = {"op": type(command).__name__}
    match command:
        case Call():
            row |= {"kernel": command.kernel, "label": command.label, "origins": list(command.origins),
                    "output": command.output, "args": list(command.args), "dims": [str(d) for d in command.dims]}
        case Copy():
            row |= {"args": [command.src, command.dst], "count": str(command.count)}
        case Fill():
            row |= {"args": [command.dst], "value": command.value}
        case SetDim():
            row |= {"args": [command.src], "symbol": command.symbol}
        case AssignDims():
            row |= {"symbols": list(command.symbols), "dims": [str(d) for d in command.dims]}
        case CheckDims():
            row |= {"dims": [str(command.a), str(command.b)], "text": command.text}
    return row


def _written(program: Program, command: Command) -> tuple[str, ...]:
    """Buffers the command itself writes, by the names it writes them under."""
    match command:
        case Call(kernel=kernel, args=args):
            params = program.kernels[kernel].params
            return tuple(arg for arg, param in zip(args, params, strict=True) if param.mode != "in")
        case Copy(dst=dst) | Fill(dst=dst):
            return (dst,)
        case Loop(iteration=iteration):
            return (iteration,)
    return ()


def writers(program: Program) -> dict[str, list[int]]:
    """Buffer -> commands right after which it holds its value, in program order.

    A kernel that works in place writes under the name of its result, so its source keeps the command that made it.
    A view that nobody writes is there when the buffer it lies in is, a buffer that is written only through views of all
    of it when they are, and one that is written in parts when the last of them is.
    """
    found: dict[str, list[int]] = {name: [] for name in program.buffers}
    for position, command in enumerate(walk_commands(program.commands)):
        for name in _written(program, command):
            found[name].append(position)
    direct = {name for name in found if found[name]}
    for name, decl in program.buffers.items():
        parent = decl.alias
        if name in direct and parent is not None and parent not in direct:
            if decl.elements == program.buffers[parent].elements:
                found[parent] = sorted(found[parent] + found[name])
    parts: dict[str, list[str]] = {}
    for name, decl in program.buffers.items():
        if decl.alias is not None:
            parts.setdefault(decl.alias, []).append(name)
    for name in reversed(buffer_order(program)):
        if not found[name] and (whole := _joined(program, name, parts.get(name, ()), found)) is not None:
            found[name] = [whole]
    for name in buffer_order(program):
        if not found[name] and (alias := program.buffers[name].alias) is not None:
            found[name] = found[alias]
    return found


def _joined(program: Program, name: str, parts: Sequence[str], written: Mapping[str, Sequence[int]]) -> int | None:
    """The command with which the parts of `name` fill it: later ones write over them."""
    size: Dim = 0
    for last, part in sorted((written[part][-1], part) for part in parts if written[part]):
        size += program.buffers[part].elements
        if size == program.buffers[name].elements:
            return last
    return None


def debug_info(program: Program, plan: MemoryPlan) -> dict[str, Any]:
    """Commands in program order, buffers by index in the command table, and per kernel the ONNX nodes it serves."""
    written = writers(program)
    buffers = []
    for name in buffer_order(program):
        decl = program.buffers[name]
        place = plan.placements.get(program.root(name))
        buffers.append({
            "name": name, "dtype": decl.dtype.name, "shape": [d if isinstance(d, int) else str(d) for d in decl.shape],
            "kind": decl.kind, "block": decl.layout.block, "axis": decl.layout.axis, "origin": decl.origin,
            "alias": decl.alias, "writers": written[name],
            "offset": None if place is None else place.offset, "bytes": None if place is None else place.nbytes,
        })
    kernels: dict[str, list[str]] = {name: [] for name in program.kernels}
    for command in walk_commands(program.commands):
        if isinstance(command, Call):
            kernels[command.kernel] += [o for o in command.origins if o not in kernels[command.kernel]]
    commands = [_command(c) for c in walk_commands(program.commands)]
    return {"symbols": list(program.symbols), "commands": commands, "buffers": buffers, "kernels": kernels}
