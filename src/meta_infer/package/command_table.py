"""A program and its memory plan as the binary command table that the runtime interprets.

    Call(conv_direct, (x, w, y), dims=(4*W,))   ->   record {op 1, kernel 0, args refs[0:3], dims refs[3:4]}

The records are those of runtime/c/mi_plan.h, which checks every field when a package is loaded. A dim is an index
into the dim table: the slots of `lower.dims.program_dims`, then literals.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from meta_infer.ir.pooling import late_symbols
from meta_infer.ir.program import (
    PREPARED,
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
    walk_commands,
)
from meta_infer.ir.shapes import Dim, is_unbounded, symbols_of, upper, usual_upper
from meta_infer.lower.dims import program_dims
from meta_infer.package.constants import ConstantPlacement
from meta_infer.package.format import PLAN_VERSION
from meta_infer.support.errors import InternalError

MAGIC = b"MI-PLAN\0"
NONE = 0xFFFFFFFF
MAX_RANK = 16
_LARGEST = 1 << 56
_KINDS = {"input": 0, "output": 1, "const": 2, "temp": 3, "prepared": 5}
_POOL = 4
_JOINED = {"alone": 0, "beside": 1, "matched": 2}
_HEADER = struct.Struct("<8sIIQQQQ10III")
_SYMBOL = struct.Struct("<qqqII")
_BUFFER = struct.Struct("<QQ12I")
_COMMAND = struct.Struct("<10IQ")
_KERNEL = struct.Struct("<4I")


def buffer_order(program: Program) -> tuple[str, ...]:
    """Buffer names by index in the table: as declared, but a view always after the buffer it lies in."""
    order: dict[str, None] = {}
    for name in program.buffers:
        chain = [name]
        while (alias := program.buffers[chain[-1]].alias) is not None:
            chain.append(alias)
        order.update(dict.fromkeys(reversed(chain)))
    return tuple(order)


def command_count(commands: tuple[Command, ...]) -> int:
    return sum(1 for _ in walk_commands(commands))


def _exceeds(dim: Dim) -> bool:
    return max(upper(dim), upper(-dim)) > _LARGEST


def _growing(program: Program, plan: MemoryPlan, given: Collection[str]) -> set[str]:
    """Symbols whose upper end is too large to reserve anything for: late ones, and given ones without an end."""
    late = {s for s in program.symbols.values() if s.name not in given and is_unbounded(s)}
    late |= {s for buffer in plan.pooled.values() for s in buffer.symbols}
    late |= {s for dim in program_dims(program) if _exceeds(dim) for s in late_symbols(dim, given)}
    return {s.name for s in late} | {s.name for s in program.symbols.values() if s.usual}


@dataclass
class _Encoder:
    """The sections as they fill."""

    program: Program
    plan: MemoryPlan
    placed: ConstantPlacement
    kernels: Sequence[str]
    refs: list[int] = field(default_factory=list)
    text: bytearray = field(default_factory=bytearray)
    literals: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.buffers = buffer_order(self.program)
        self.index = {name: i for i, name in enumerate(self.buffers)}
        self.slots: dict[Dim, int] = {dim: i for i, dim in enumerate(program_dims(self.program))}
        self.symbols = {name: i for i, name in enumerate(self.program.symbols)}
        self.kernel_index = {name: i for i, name in enumerate(self.kernels)}
        self.given = {d.symbol.name for d in self.program.input_dims}
        self.growing = _growing(self.program, self.plan, self.given)

    def dim(self, dim: Dim) -> int:
        """Index of `dim` in the dim table."""
        if isinstance(dim, int):
            return len(self.slots) + self.literals.setdefault(dim, len(self.literals))
        if _exceeds(dim) and not late_symbols(dim, self.given) and not any(s.usual for s in symbols_of(dim)):
            raise InternalError(f"dimension {dim} may reach {upper(dim)}, more than the runtime can address",
                                hint="give its symbols smaller ranges with --shape")
        return self.slots[dim]

    def add_refs(self, values: Sequence[int]) -> int:
        """Where `values` begin among the refs."""
        self.refs += values
        return len(self.refs) - len(values)

    def add_text(self, text: str) -> int:
        start = len(self.text)
        self.text += text.replace("\0", "?").encode() + b"\0"
        return start

    # --- records ------------------------------------------------------------------------------------------

    def symbol(self, name: str) -> bytes:
        symbol = self.program.symbols[name]
        return _SYMBOL.pack(symbol.lo, symbol.hi, symbol.step, self.add_text(name), int(name in self.growing))

    def buffer(self, name: str) -> bytes:
        decl = self.program.buffers[name]
        offset = capacity = first = last = 0
        kind, shown = _KINDS[decl.kind], name
        if decl.alias is None and decl.kind in ("temp", "prepared") and name in self.plan.placements:
            place = self.plan.placements[name]
            offset, capacity, first, last = place.offset, place.nbytes, place.first, place.last
        elif name in self.plan.pooled:
            kind, first, last = _POOL, self.plan.pooled[name].first, self.plan.pooled[name].last
        elif decl.kind == "const" and decl.alias is None:
            offset, capacity = self.placed.offsets[name], self.placed.sizes[name]
        with_shape = name in self.program.inputs or name in self.program.outputs
        if with_shape:
            if self.program.root(name) not in self.plan.pooled:
                capacity = capacity or min(decl.dtype.nbytes(max(usual_upper(decl.elements), 0)), _LARGEST)
            shown = self._user_name(name)
        if with_shape and len(decl.shape) > MAX_RANK:
            raise InternalError(f"rank {len(decl.shape)} is more than {MAX_RANK}", what=f"buffer {name!r}")
        shape = self.add_refs([self.dim(d) for d in decl.shape]) if with_shape else 0
        late = late_symbols(decl.elements, self.given)
        return _BUFFER.pack(
            offset, capacity, kind, decl.dtype.bytes * 8,
            NONE if decl.alias is None else self.index[decl.alias], self.dim(decl.offset), self.dim(decl.elements),
            first, last, shape, len(decl.shape) if with_shape else 0, self.add_text(shown), int(bool(late)),
            int(self.may_outgrow(decl)))

    def may_outgrow(self, decl: BufferDecl) -> bool:
        """Whether a buffer of the arena may become larger than its place in it, and then lies in the pool."""
        return decl.kind == "temp" and decl.alias is None and any(s.usual for s in symbols_of(decl.elements))

    def _user_name(self, buffer: str) -> str:
        """The ONNX name of an input or output, for messages."""
        program = self.program
        for buffers, names in ((program.inputs, program.input_names), (program.outputs, program.output_names)):
            if buffer in buffers and names:
                return names[buffers.index(buffer)]
        return buffer

    def kernel(self, name: str) -> bytes:
        func = self.program.kernels[name]
        return _KERNEL.pack(self.add_text(name), len(func.params), len(func.dims), 0)

    def command(self, command: Command) -> bytes:
        value, waits, signals = 0, getattr(command, "waits", ()), getattr(command, "signals", None)
        match command:
            case Call():
                args = self.add_refs([self.index[a] for a in command.args])
                dims = self.add_refs([self.dim(d) for d in command.dims])
                op, operands = 1, [self.kernel_index[command.kernel], args, len(command.args), dims, len(command.dims)]
                value = _JOINED[command.joined]
            case Copy():
                op, operands = 2, [self.index[command.src], self.index[command.dst], self.dim(command.count),
                                   self.dim(command.src_offset), self.dim(command.dst_offset)]
            case Fill():
                op, operands = 3, [self.index[command.dst]]
                value = element_bits(self.program.buffers[command.dst], command.value)
            case SetDim():
                op, operands = 4, [self.symbols[command.symbol], self.index[command.src], command.index]
            case If():
                op, operands = 5, [self.index[command.cond], command_count(command.then), command_count(command.orelse)]
            case Loop():
                op, operands = 6, [self.index[n] if n else NONE for n in (
                    command.trip_count, command.cond, command.iteration)]
                operands += [command_count(command.body), self.symbols[command.symbol] if command.symbol else NONE]
            case Wait():
                op, operands, waits = 7, [], command.tokens
            case AssignDims():
                symbols = self.add_refs([self.symbols[name] for name in command.symbols])
                dims = self.add_refs([self.dim(d) for d in command.dims])
                op, operands = 8, [symbols, len(command.symbols), dims, len(command.dims)]
            case CheckDims():
                op, operands = 9, [self.dim(command.a), self.dim(command.b), self.add_text(command.text)]
        operands += [0] * (5 - len(operands))
        return _COMMAND.pack(op, command.queue, NONE if signals is None else signals, self.add_refs(list(waits)),
                             len(waits), *operands, value)


def element_bits(buffer: BufferDecl, value: float | int) -> int:
    """The bits of one element of `buffer` that holds `value`, as an unsigned number."""
    return int.from_bytes(np.array(value).astype(buffer.dtype.numpy).tobytes(), "little")


def encode_program(program: Program, memory_plan: MemoryPlan, kernel_order: Sequence[str],
                   placed: ConstantPlacement) -> bytes:
    """The command table of `program` for code whose kernel table is in `kernel_order`.

    `placed` says where each constant lies in weights.bin. Raises InternalError for a dim of the inputs beyond 2^56,
    a rank beyond 16, or a space other than 'ram' and that of what sessions prepare.
    """
    spaces = set(memory_plan.sizes) - {"ram", PREPARED}
    if spaces:
        raise InternalError(f"the processor runtime has no memory space {sorted(spaces)[0]!r}")
    enc = _Encoder(program, memory_plan, placed, kernel_order)
    symbols = b"".join(enc.symbol(name) for name in program.symbols)
    buffers = b"".join(enc.buffer(name) for name in enc.buffers)
    commands = b"".join(enc.command(c) for c in walk_commands(program.commands))
    kernels = b"".join(enc.kernel(name) for name in kernel_order)
    inputs = [enc.index[n] for n in program.inputs]
    input_dims = [n for d in program.input_dims
                  for n in (enc.symbols[d.symbol.name], program.inputs.index(d.input), d.axis)]
    words = [*inputs, *(enc.index[n] for n in program.outputs), *input_dims, *enc.refs]
    enc.add_text("")
    body = b"".join([struct.pack(f"<{len(enc.literals)}q", *enc.literals), symbols, buffers, commands, kernels,
                     struct.pack(f"<{len(words)}I", *words), bytes(enc.text)])
    header = _HEADER.pack(
        MAGIC, PLAN_VERSION, 0, _HEADER.size + len(body), memory_plan.sizes.get("ram", 0), placed.total,
        memory_plan.sizes.get(PREPARED, 0),
        len(program.symbols), len(enc.slots), len(enc.literals), len(enc.buffers), len(program.inputs),
        len(program.outputs), len(program.input_dims), len(enc.refs), command_count(program.commands),
        len(kernel_order), len(enc.text), program.prepares)
    return header + body
