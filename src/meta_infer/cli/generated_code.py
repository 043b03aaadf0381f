"""The C functions of a package, each with the ONNX nodes it computes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from meta_infer.support.errors import UsageError

if TYPE_CHECKING:
    from meta_infer.runtime.reader import Package, Target

_FUNCTION = re.compile(r"^(?:static )?(?:inline )?[\w*]+ \*?(\w+)\([^;{]*\)\s*\{\n.*?^\}$", re.MULTILINE | re.DOTALL)


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
    functions = dict(_functions(package, target))
    kernels = [KernelCode(name, debug.kernels.get(name, ()), functions[name]) for name in order if name in functions]
    if node is None:
        return kernels
    found = [k for k in kernels if any(fnmatchcase(n, node) for n in k.nodes)]
    if not found:
        raise _no_such_node(node, [n for k in kernels for n in k.nodes])
    return found


def _functions(package: Package, target: Target) -> Iterator[tuple[str, str]]:
    """Name and text of every C function in a target's sources."""
    for member in package.names():
        if member.startswith(f"sources/{target.isa}/"):
            for match in _FUNCTION.finditer(package.text(member)):
                yield match[1], match[0]


def _no_such_node(node: str, known: Sequence[str]) -> UsageError:
    near = difflib.get_close_matches(node, known, n=1)
    some = f"for instance {known[0]!r}" if known else "the package has no nodes"
    hint = f"did you mean {near[0]!r}?" if near else some
    return UsageError("no kernel of the package computes such a node (it may have been folded away)",
                      what=f"--node {node!r}", hint=hint)
