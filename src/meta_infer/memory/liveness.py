"""When each buffer of a program is needed.

Commands are numbered in program order, those of regions included. A buffer is live from the command that first
writes it to the one that last reads it, or to the end of the program; calls that run together count as one command.
What is touched both inside a loop and outside of it is live during the whole loop: the next pass reads it again, or it
gathers what all passes write (scan outputs).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from meta_infer.ir.program import Call, Command, Copy, Fill, If, Loop, Program, SetDim, walk_commands


@dataclass(frozen=True)
class LiveRange:
    """Commands [first, last] during which a root buffer holds something needed."""

    first: int
    last: int

    def overlaps(self, other: LiveRange) -> bool:
        return self.first <= other.last and other.first <= self.last


def touched(command: Command) -> tuple[str, ...]:
    """Buffers that the command itself (not its body) reads or writes."""
    match command:
        case Call(args=args):
            return args
        case Copy(src=src, dst=dst):
            return (src, dst)
        case Fill(dst=dst):
            return (dst,)
        case SetDim(src=src):
            return (src,)
        case If(cond=cond):
            return (cond,)
        case Loop(trip_count=trip, cond=cond, iteration=iteration):
            return tuple(n for n in (trip, cond, iteration) if n)
    return ()


def _positions(commands: tuple[Command, ...], start: int,
               loops: tuple[tuple[int, int], ...]) -> Iterator[tuple[int, Command, tuple[tuple[int, int], ...]]]:
    """(position, command, enclosing loops as (first, last) positions) for the whole tree, in program order."""
    position = start
    for command in commands:
        size = command_count((command,))
        inner = (*loops, (position, position + size - 1)) if isinstance(command, Loop) else loops
        yield position, command, inner
        match command:
            case If(then=then, orelse=orelse):
                yield from _positions(then, position + 1, loops)
                yield from _positions(orelse, position + 1 + command_count(then), loops)
            case Loop(body=body):
                yield from _positions(body, position + 1, inner)
        position += size


def command_count(commands: tuple[Command, ...]) -> int:
    """Commands of a region tree, holders included."""
    total = 0
    for command in commands:
        total += 1
        match command:
            case If(then=then, orelse=orelse):
                total += command_count(then) + command_count(orelse)
            case Loop(body=body):
                total += command_count(body)
    return total


def _together(program: Program) -> dict[int, tuple[int, int]]:
    """Position of a call that runs together with others -> the first and last position of them all."""
    found: dict[int, tuple[int, int]] = {}
    first = 0
    for position, command in enumerate(walk_commands(program.commands)):
        if not isinstance(command, Call) or command.joined == "alone":
            first = position
            continue
        found |= dict.fromkeys(range(first, position + 1), (first, position))
    return found


def live_ranges(program: Program) -> dict[str, LiveRange]:
    """Live range of every root buffer of kind 'temp' that some command touches; the program's outputs outlive it."""
    found: dict[str, LiveRange] = {}
    uses: dict[str, list[tuple[int, tuple[tuple[int, int], ...]]]] = {}
    together = _together(program)
    for position, command, loops in _positions(program.commands, 0, ()):
        for name in touched(command):
            places = uses.setdefault(program.root(name), [])
            places += [(at, loops) for at in together.get(position, (position,))]
    for name, places in uses.items():
        if program.buffers[name].kind != "temp":
            continue
        first, last = min(p for p, _ in places), max(p for p, _ in places)
        spans = {span for _, loops in places for span in loops}
        for begin, end in spans:
            if first <= begin or last > end:
                first, last = min(first, begin), max(last, end)
        found[name] = LiveRange(first, last)
    for name in {program.root(n) for n in program.outputs} & found.keys():
        found[name] = LiveRange(found[name].first, command_count(program.commands))
    return found
