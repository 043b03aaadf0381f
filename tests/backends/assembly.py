"""What the compiler makes of kernels, as text: the instructions of their innermost loops."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from meta_infer.backends.cpu.emit_c import emit_module
from meta_infer.backends.cpu.targets import COMPILE_FLAGS, TARGETS
from meta_infer.backends.cpu.toolchain import find_compiler
from meta_infer.ir.loop import LoopFunc

_LABEL = re.compile(r"^(\.?L[\w$.]*):")
_JUMP = re.compile(r"^\s+[a-z][\w.]*\s.*?(\.?L[\w$.]*)\s*(?:#.*|//.*)?$")


def assembly(funcs: Sequence[LoopFunc], isa: str) -> str:
    """The assembly of functions for an instruction set, by the compiler and flags that packages use."""
    target, compiler = TARGETS[isa], find_compiler()
    assert compiler.kind == "zig", "the other compilers are asked for their own machine only"
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "unit.c", Path(folder) / "unit.s"
        source.write_text(emit_module(funcs, (), (), isa)[0])
        subprocess.run([*compiler.command, "-target", target.triple, f"-mcpu={target.cpu}", *target.tuning,
                        *COMPILE_FLAGS, "-S", str(source), "-o", str(made)], check=True, capture_output=True)
        return made.read_text()


def innermost_loops(text: str) -> Iterator[list[str]]:
    """The instructions of every loop that is one straight block: from a label to the jump back to it."""
    label, block = "", []
    for line in text.splitlines():
        found = _LABEL.match(line)
        if found:
            label, block = found.group(1), []
            continue
        instruction = line.split("#")[0].split("//")[0].strip()
        if not instruction or instruction.startswith("."):
            continue
        block.append(instruction)
        jump = _JUMP.match(line)
        if jump and jump.group(1) == label:
            yield block
            label, block = "", []
