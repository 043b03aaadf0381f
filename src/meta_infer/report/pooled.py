"""Which tensors of a build are sized while running: what makes them, and which sizes have no useful bound."""

from __future__ import annotations

from typing import Any

from meta_infer.ir.program import Call, Command, Copy, MemoryPlan, Program, walk_commands
from meta_infer.package.debug_info import writers


def pooled_rows(program: Program, memory: MemoryPlan) -> list[dict[str, Any]]:
    """One row per tensor that lies in the session's pool, in the order of first use.

    `tensor` is its ONNX name where it has one, `op` and `nodes` what makes it, `symbols` the sizes that only running
    can tell, `bound_bytes` what it may take: None where a size has no bound.
    """
    commands, written = list(walk_commands(program.commands)), writers(program)
    rows = []
    origins: dict[str, str] = {}                       # a value that a loop carries has only views with a name
    for buffer in program.buffers.values():
        if buffer.origin is not None and (buffer.alias is None or program.root(buffer.name) not in origins):
            origins[program.root(buffer.name)] = buffer.origin
    for name, pooled in sorted(memory.pooled.items(), key=lambda item: (item[1].first, item[0])):
        decl = program.buffers[name]
        call = _maker(name, commands, written)
        shape = [d if isinstance(d, int) else str(d) for d in decl.shape]
        rows.append({"tensor": origins.get(name, name), "shape": shape, "op": call.label if call else "",
                     "nodes": list(call.origins) if call else [], "symbols": [s.name for s in pooled.symbols],
                     "bound_bytes": pooled.bound})
    return rows


def _maker(name: str, commands: list[Command], written: dict[str, list[int]]) -> Call | None:
    """The kernel call that makes what buffer `name` holds, followed through copies; None where no call does."""
    seen: set[str] = set()
    while name not in seen and written[name]:
        seen.add(name)
        command = commands[written[name][-1]]
        if isinstance(command, Call):
            return command
        if not isinstance(command, Copy):
            return None
        name = command.src
    return None
