#!/usr/bin/env python3
"""Writes docs/kernels.md: every kernel class, the ops it computes, its variants and what can be chosen inside them.

    python tools/list_kernels.py [FILE]             default: docs/kernels.md

Names, variants and knobs come from the registry, asked about the samples of every op for a processor with AVX2; the
sentence on each kernel is the first of its module's note.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import numpy as np

import meta_infer.kernels
from meta_infer.hardware.load import load_profile
from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Node, Value
from meta_infer.ir.group import Group, Layout, Variant
from meta_infer.kernels.kernel import Kernel
from meta_infer.kernels.registry import KERNELS
from meta_infer.ops.infer import counted_symbols, infer_node
from meta_infer.ops.opdef import Sample, ShapeError, TensorType
from meta_infer.ops.registry import op_named
from meta_infer.support.dtypes import dtype_of

PAGE = Path(__file__).resolve().parent.parent / "docs" / "kernels.md"
PROFILE = "x86-64-v3"

HEAD = """# Kernels

Written by `python tools/list_kernels.py` from the registry of kernels, and a test compares the two. Edit the kernels,
not this page.

A kernel class computes groups around the ops named (`docs/operators.md` has the ops that need no kernel). It offers a
group *variants*, which differ in algorithm or in the layouts they read and write; inside a variant, *knobs* choose
tiles, chunks and the like, and a value that cannot be is refused with one of the reasons `registers`, `cache`,
`alignment`, `shape`, `code`, `isa`. `--stop-after plan` prints what was taken, `--exclude KERNEL/VARIANT` leaves one
out, and `python benchmarks/kernels.py --tunings` times them all.

`b8@1` is a layout in blocks of 8 along axis 1 (NCHW8c), as for AVX2; `plain` is dense row-major. *Risk* is the error
relative to the largest element that a variant adds beyond rounding; the plan without a search takes none above 1e-4.

"""


def groups_of(op: str) -> Iterator[Group]:
    """The op's samples as groups, with nothing constant and with all operands but the first."""
    with np.errstate(all="ignore"):
        samples = list(op_named(op).samples(np.random.default_rng(0)))
    for sample in samples:
        for known in (False, True):
            group = _group(op, sample, known)
            if group is not None:
                yield group


def _group(op: str, sample: Sample, known: bool) -> Group | None:
    names = [f"x{i}" if array is not None else "" for i, array in enumerate(sample.inputs)]
    arrays = {n: np.asarray(a) for n, a in zip(names, sample.inputs, strict=True) if a is not None}
    types = {n: TensorType(dtype_of(a), a.shape) for n, a in arrays.items()}
    constants = {n: arrays[n] for n in names[1:] if n} if known else {}
    node = Node(op, tuple(names), ("y0",), dict(sample.attrs))
    try:
        found = infer_node(node, types, constants, counted_symbols("found"))
    except ShapeError:                                   # an operand has to be known, or must not be
        return None
    outputs = tuple(f"y{i}" for i in range(len(found)))
    types |= dict(zip(outputs, found, strict=True))
    values = {n: Value(n, t.dtype, tuple(t.shape)) for n, t in types.items()}
    return Group(Node(op, node.inputs, outputs, node.attrs), tuple(dict.fromkeys(n for n in names if n)), outputs,
                 values, constants)


def _modules() -> dict[str, str]:
    """Kernel name -> the first sentence of the note of the module that defines it."""
    found = {}
    for info in walk_packages(meta_infer.kernels.__path__, f"{meta_infer.kernels.__name__}."):
        name = info.name.rpartition(".")[2]
        if info.ispkg or name == "registry":
            continue
        module = import_module(info.name)
        sentence = " ".join((module.__doc__ or "").split("\n\n")[0].split())
        for value in vars(module).values():
            if isinstance(value, Kernel) and (value.name not in found or name == value.name):
                found[value.name] = sentence
    return found


def _layouts(layouts: Sequence[Layout]) -> str:
    return ", ".join(sorted({str(layout) for layout in layouts})) or "constants only"


def _range(values: Sequence[int | str]) -> str:
    return ", ".join(map(str, sorted(values, key=lambda v: (isinstance(v, str), v))))


def rows(kernel: Kernel, profile: Profile) -> list[tuple[str, str, str, str]]:
    """(variant, layouts, knobs, risk) of every variant that some sample gets."""
    found: dict[str, list[tuple[Variant, dict[str, set[int | str]]]]] = {}
    for op in kernel.anchors:
        for group in groups_of(op):
            for variant in kernel.variants(group, profile):
                knobs = {k.name: set(k.values) for k in kernel.knobs(group, variant, profile)}
                found.setdefault(variant.name, []).append((variant, knobs))
    made = []
    for name, seen in found.items():
        reads = _layouts([layout for v, _ in seen for layout in v.inputs.values()])
        writes = _layouts([layout for v, _ in seen for layout in v.outputs.values()])
        knobs = {k: set().union(*(s[k] for _, s in seen if k in s)) for _, s in seen for k in s}
        text = "; ".join(f"`{k}` {_range(list(v))}" for k, v in knobs.items()) or "none"
        risk = max(v.risk for v, _ in seen)
        made.append((name, f"{reads} → {writes}", text, f"{risk:.0e}" if risk else "0"))
    return made


def page() -> str:
    """The whole page."""
    profile, notes = load_profile(PROFILE), _modules()
    parts = [HEAD]
    for kernel in KERNELS:
        parts.append(f"## {kernel.name}\n\n{notes[kernel.name]}\n\nOps: {', '.join(kernel.anchors)}.\n\n")
        table = rows(kernel, profile)
        if table:
            parts.append("| variant | layouts | knobs | risk |\n|---|---|---|---:|\n")
            parts += [f"| {' | '.join(row)} |\n" for row in table]
            parts.append("\n")
    return "".join(parts).rstrip("\n") + "\n"


def main(arguments: Sequence[str]) -> int:
    Path(arguments[0] if arguments else PAGE).write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
