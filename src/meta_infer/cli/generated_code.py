"""The C functions of a package, each with the ONNX nodes it computes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from meta_infer.support.errors import UsageError

if TYPE_CHECKING:
    from meta_infer.runtime.reader import Package, Target

_FUNCTION = re.compile(r"^(?:static )?(?:inline )?[\w*]+ \*?(\w+)\([^;{]*\)\s*\{\n.*?^\}$", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r'^    \{"(\w+)", \w+, \w+, (\w+)\},', re.MULTILINE)
"""A row of the kernel table: the kernel's name, and that of its function."""


@dataclass(frozen=True)
class KernelCode:
    """One kernel: its name in the code's table, the ONNX nodes it serves, and its C function."""

    name: str
    nodes: tuple[str, ...]
    text: str


def code_by_kernel(package: Package, target: Target, node: str | None = None) -> list[KernelCode]:
    """Kernels of a target as they first run; `node` (with * and ?) keeps those that serve such a node.

    Raises UsageError when no node fits, naming the nearest.
    """
    debug = package.debug_info(target)
    order = dict.fromkeys([*debug.called, *debug.kernels])
    sources = [package.text(member) for member in package.names() if member.startswith(f"sources/{target.isa}/")]
    functions = {match[1]: match[0] for source in sources for match in _FUNCTION.finditer(source)}
    symbols = {row[1]: row[2] for source in sources for row in _ROW.finditer(source)}
    kernels = [KernelCode(name, debug.kernels.get(name, ()), functions[symbols[name]]) for name in order
               if symbols.get(name) in functions]
    if node is None:
        return kernels
    found = [k for k in kernels if any(fnmatchcase(n, node) for n in k.nodes)]
    if not found:
        raise _no_such_node(node, [n for k in kernels for n in k.nodes])
    return found


def _no_such_node(node: str, known: Sequence[str]) -> UsageError:
    near = difflib.get_close_matches(node, known, n=1)
    some = f"for instance {known[0]!r}" if known else "the package has no nodes"
    hint = f"did you mean {near[0]!r}?" if near else some
    return UsageError("no kernel of the package computes such a node (it may have been folded away)",
                      what=f"--node {node!r}", hint=hint)
