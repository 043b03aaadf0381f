"""Which calls need not wait for the one before them.

    %a = conv(%x); %b = conv(%x)            ->   %a = conv(%x); beside %b = conv(%x)
    %s = add(%x, %y); %r = mul(%s, %z)      ->   %s = add(%x, %y); matched %r = mul(%s, %z)

Threads meet at the end of every parallel loop, and whoever comes last keeps the others waiting. Neighbouring calls
are one loop where that changes nothing: where neither touches what the other writes (the branches of a network), or
where all that they share is cut into the same pieces, chunk i having the i-th.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from meta_infer.ir.program import MOST_JOINED, Call, Command, Joined
from meta_infer.ir.shapes import Dim
from meta_infer.lower.program_builder import ProgramBuilder


@dataclass(frozen=True)
class Access:
    """A buffer through which a call sees memory: the pieces it is cut into, and where it lies in its root."""

    name: str
    writes: bool
    piece: str
    root: str
    begin: Dim                          # bytes
    end: Dim


def _same_memory(builder: ProgramBuilder, name: str) -> str:
    """The buffer that `name` is but another name of: views of all of it are."""
    decl = builder.buffers[name]
    while decl.alias is not None and decl.offset == 0 and builder.buffers[decl.alias].nbytes == decl.nbytes:
        name, decl = decl.alias, builder.buffers[decl.alias]
    return name


def accesses(builder: ProgramBuilder, call: Call) -> list[Access]:
    """What the call does to memory."""
    found = []
    pieces = call.pieces or ("",) * len(call.args)
    for name, param, piece in zip(call.args, builder.kernels[call.kernel].params, pieces, strict=True):
        decl, begin = builder.buffers[name], builder.offset(name)
        found.append(Access(_same_memory(builder, name), param.mode != "in", piece, builder.root(name), begin,
                            begin + decl.nbytes))
    return found


def _apart(a: Access, b: Access) -> bool:
    """Whether no byte is in both, whatever the sizes."""
    return a.root != b.root or any(
        isinstance(gap, int) and gap >= 0 for gap in (b.begin - a.end, a.begin - b.end))


def relation(builder: ProgramBuilder, a: Call, b: Call) -> Joined:
    """How `b` may run together with `a`: 'alone' when it has to wait for it."""
    first, second = accesses(builder, a), accesses(builder, b)
    shared = [(x, y) for x in first for y in second if (x.writes or y.writes) and not _apart(x, y)]
    if not shared:
        return "beside"
    alike = all((x.name, x.piece) == (y.name, y.piece) and x.piece for x, y in shared)
    return "matched" if alike else "alone"


def join_calls(commands: Sequence[Command], builder: ProgramBuilder) -> list[Command]:
    """The commands of one region, each call joined to those before it where it may be."""
    made: list[Command] = []
    together: list[Call] = []
    for command in commands:
        if not isinstance(command, Call):
            together = []
        elif (joined := _joined(builder, together, command)) != "alone":
            command = replace(command, joined=joined)
            together.append(command)
        else:
            together = [command]
        made.append(command)
    return made


def _joined(builder: ProgramBuilder, together: Sequence[Call], call: Call) -> Joined:
    if not together or len(together) == MOST_JOINED:
        return "alone"
    found = {relation(builder, other, call) for other in together}
    if "alone" in found:
        return "alone"
    kind: Joined = "matched" if "matched" in found or together[-1].joined == "matched" else "beside"
    if len(together) > 1 and kind != together[-1].joined:
        return "alone"
    # One loop of matched chunks needs as many of them in every call: what is cut alike has.
    return "alone" if kind == "matched" and not all(_cuts(call) & _cuts(other) for other in together) else kind


def _cuts(call: Call) -> set[str]:
    return {piece for piece in call.pieces if piece}
