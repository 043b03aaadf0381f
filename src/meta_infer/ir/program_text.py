"""Programs and plans as text, for people. (The runtime reads the binary command table instead.)"""

from __future__ import annotations

from collections.abc import Iterator

from meta_infer.ir.group import Plan
from meta_infer.ir.program import (
    AssignDims,
    BufferDecl,
    Call,
    CheckDims,
    Command,
    Copy,
    Fill,
    If,
    Loop,
    MemoryPlan,
    Program,
    SetDim,
    Wait,
)


def _buffer_line(buffer: BufferDecl, memory: MemoryPlan | None) -> str:
    shape = ", ".join(map(str, buffer.shape))
    place = ""
    if buffer.alias is not None:
        place = f" = view of %{buffer.alias}" + (f" + {buffer.offset}" if buffer.offset != 0 else "")
    elif memory is not None and buffer.name in memory.placements:
        placed = memory.placements[buffer.name]
        place = f" @ {placed.space}+{placed.offset} ({placed.nbytes} B, live {placed.first}..{placed.last})"
    elif memory is not None and buffer.name in memory.pooled:
        pooled = memory.pooled[buffer.name]
        bound = "no bound" if pooled.bound is None else f"at most {pooled.bound} B"
        place = f" @ pool ({bound}, live {pooled.first}..{pooled.last})"
    origin = f"  # {buffer.origin}" if buffer.origin else ""
    return f"  {buffer.kind} %{buffer.name}: {buffer.dtype}[{shape}] {buffer.layout}{place}{origin}"


def _command_lines(commands: tuple[Command, ...], indent: str) -> Iterator[str]:
    for command in commands:
        match command:
            case Call(kernel=kernel, args=args, dims=dims, origins=origins, label=label, joined=joined):
                passed = f" dims({', '.join(map(str, dims))})" if dims else ""
                note = f"  # {label}" + (f": {'+'.join(origins)}" if origins else "")
                how = "" if joined == "alone" else f"{joined} "
                yield f"{indent}{how}call {kernel}({', '.join('%' + a for a in args)}){passed}{note}"
            case Copy(src=src, dst=dst, count=count, src_offset=src_at, dst_offset=dst_at):
                yield f"{indent}copy %{src}[{src_at}] -> %{dst}[{dst_at}], {count}"
            case Fill(dst=dst, value=value):
                yield f"{indent}fill %{dst} = {value}"
            case SetDim(symbol=symbol, src=src, index=index):
                yield f"{indent}setdim {symbol} = %{src}[{index}]"
            case AssignDims(symbols=symbols, dims=dims):
                yield f"{indent}assign {', '.join(symbols)} = {', '.join(map(str, dims))}"
            case CheckDims(a=a, b=b, text=text):
                yield f"{indent}check {a} == {b}  # {text}"
            case Wait(tokens=tokens, queue=queue):
                yield f"{indent}wait queue {queue} for {', '.join(map(str, tokens))}"
            case If(cond=cond, then=then, orelse=orelse):
                yield f"{indent}if %{cond} {{"
                yield from _command_lines(then, indent + "  ")
                yield f"{indent}}} else {{"
                yield from _command_lines(orelse, indent + "  ")
                yield f"{indent}}}"
            case Loop(trip_count=trip, cond=cond, iteration=iteration, body=body, symbol=symbol):
                limit = f"%{iteration} < %{trip}" if trip else f"%{iteration}"
                yield f"{indent}loop {limit}" + (f" while %{cond}" if cond else "") + " {"
                yield from _command_lines(body, indent + "  ")
                yield f"{indent}}}" + (f" -> {symbol}" if symbol else "")


def print_program(program: Program, memory: MemoryPlan | None = None) -> str:
    """Buffers (with their addresses, when planned) and commands."""
    lines = [f"program {program.name} {{"]
    for symbol in program.symbols.values():
        step = f" step {symbol.step}" if symbol.step != 1 else ""
        lines.append(f"  dim {symbol.name} in [{symbol.lo}, {symbol.hi}]{step}")
    lines += [_buffer_line(buffer, memory) for buffer in program.buffers.values()]
    if program.prepares:
        lines += ["  prepare {", *_command_lines(program.commands[:program.prepares], "    "), "  }"]
    lines += _command_lines(program.commands[program.prepares:], "  ")
    lines.append(f"  return {', '.join('%' + name for name in program.outputs)}")
    if memory is not None:
        for space, size in memory.sizes.items():
            lines.append(f"  # space {space}: {size} bytes, lower bound {memory.lower_bounds[space]}")
    return "\n".join([*lines, "}"])


def print_plan(plan: Plan, indent: str = "") -> str:
    """One line per group: ops, chosen kernel and variant, layouts in and out."""
    lines = []
    for planned in plan.groups:
        group, variant = planned.group, planned.variant
        ins = ", ".join(f"%{n}:{variant.inputs[n]}" for n in group.inputs if n in variant.inputs)
        outs = ", ".join(f"%{n}:{variant.outputs[n]}" for n in group.outputs)
        knobs = "".join(f" {k}={v}" for k, v in variant.knobs.items())
        lines.append(f"{indent}{group.label}: {variant.kernel}.{variant.name}{knobs} ({ins}) -> ({outs})")
        for (name, index), region in plan.regions.items():
            if name == group.anchor.outputs[0]:
                lines.append(f"{indent}  region {index}:")
                lines.append(print_plan(region, indent + "    "))
    return "\n".join(lines)
