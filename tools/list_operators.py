#!/usr/bin/env python3
"""Writes docs/operators.md: what the compiler imports from ONNX, how each op is computed, and what it refuses.

    python tools/list_operators.py [FILE]           default: docs/operators.md

Everything comes from the registries of ops and kernels and from the list of gaps: the page cannot disagree with them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from meta_infer.frontend.check_model import OLDEST_OPSET
from meta_infer.frontend.schemas import schema_for
from meta_infer.ir.graph import Node
from meta_infer.kernels.registry import kernels_for
from meta_infer.ops.gaps import GAPS
from meta_infer.ops.opdef import NEWEST_OPSET, OnnxImport, OpDef, Sample, TensorType
from meta_infer.ops.registry import COMBINATIONS, OPS
from meta_infer.support.dtypes import ALL, dtype_of

PAGE = Path(__file__).resolve().parent.parent / "docs" / "operators.md"

HEAD = f"""# Operators

Written by `python tools/list_operators.py` from the registries of ops and kernels, and a test compares the two. Edit
those, not this page.

Models of opset {OLDEST_OPSET} and newer are read, older ones after a conversion by onnx; an operator that changed after
opset {NEWEST_OPSET} is refused.
*Versions* are those of the operator in ONNX: `6+` takes every version since 6, `1-9` those up to 9. *Dtypes* are those
of its first operand: *floats* are bfloat16, float16, float32 and float64, *ints* all signed and unsigned integers of 8
to 64 bits, *narrow* the types of 8 and fewer bits that numpy lacks (float8, float4, int4, int2). Types without
instructions of their own are computed in float32 or int32 and rounded once.

| computed by | meaning |
|---|---|
| elementwise | an expression per element: fused into the kernel before it, or one pass with other elementwise ops |
| kernel | a kernel class of `src/meta_infer/kernels/`, the preferred one first; `--stop-after plan` says which it was |
| decomposed | replaced by the ops named, which are fused and computed like any others |
| view | no code: the same memory under another shape |
| commands | branches and loops of the program, which the runtime follows |
| folded | known when the model is built, so nothing is left to run |

Two more kinds of nodes are accepted. What depends on constants alone is computed at build. An operator that is not
listed, but that ONNX defines as a function of others, is replaced by that function's body, and so are functions of the
model itself. All else is refused when the model is read, with exit code 4 and the node's name.

## What is imported

The importer of an operator may make several core ops: Sum becomes a chain of Add, DepthToSpace becomes Reshape,
Transpose, Reshape. Identity, Dropout and Constant leave nothing to run. A BatchNormalization after a convolution is
folded into its weights first.

"""

GAPS_HEAD = """
## Known gaps

Valid ONNX that is refused, by the operator it is a case of (`src/meta_infer/ops/gaps.py`). Operators on strings, on
sequences and optionals, and for training stay out as a whole.

"""


def versions(rules: Iterable[OnnxImport]) -> str:
    """Ranges of versions in words, those that touch joined: '1-9', '6+'."""
    spans: list[tuple[int, int]] = []
    for rule in sorted(rules, key=lambda rule: rule.since):
        if spans and spans[-1][1] + 1 >= rule.since:
            spans[-1] = (spans[-1][0], max(spans[-1][1], rule.until))
        else:
            spans.append((rule.since, rule.until))
    return ", ".join(f"{lo}+" if hi >= NEWEST_OPSET else str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in spans)


def computed_by(op: OpDef) -> str:
    """How nodes of a core op get computed, in the words of the page."""
    if op.is_control_flow:
        return "commands"
    if op.is_view:
        return "view"
    if op.expr is not None:
        return "elementwise"
    kernels = kernels_for(op.name)
    ways = [f"kernel {', '.join(kernel.name for kernel in kernels)}"] if kernels else []
    pieces = pieces_of(op)
    if pieces:
        ways.append(f"decomposed: {', '.join(pieces)}")
    return "; ".join(ways) or "folded"


def pieces_of(op: OpDef) -> tuple[str, ...]:
    """The ops into which the op's own samples decompose, each once, in order."""
    if op.decompose is None:
        return ()
    return tuple(dict.fromkeys(piece.op for sample in op.samples(np.random.default_rng(0))
                               for piece in _decomposed(op, sample)))


def _decomposed(op: OpDef, sample: Sample) -> tuple[Node, ...]:
    assert op.decompose is not None
    inputs = {f"in{i}": array for i, array in enumerate(sample.inputs) if array is not None}
    names = tuple(f"in{i}" if array is not None else "" for i, array in enumerate(sample.inputs))
    results = op.reference(sample.attrs, sample.inputs)
    outputs = {f"out{i}": array for i, array in enumerate(results)}
    types: Mapping[str, TensorType] = {
        name: TensorType(dtype_of(array.dtype), array.shape) for name, array in {**inputs, **outputs}.items()}
    fresh = _Names()
    made = op.decompose(Node(op.name, names, tuple(outputs), dict(sample.attrs)), fresh.name,
                        lambda array, hint: fresh.name(hint), types)
    return made or ()


class _Names:
    """Names that were not given out before."""

    def __init__(self) -> None:
        self._count = 0

    def name(self, hint: str) -> str:
        self._count += 1
        return f"{hint}.{self._count}"


def table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def full_name(rule: OnnxImport) -> str:
    """The ONNX op with its domain, when that is another than ONNX's own."""
    return f"{rule.domain}.{rule.op}" if rule.domain else rule.op


_FLOATS = ("bfloat16", "float16", "float32", "float64")
_INTS = tuple(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))
_FLOAT6 = ("float6e2m3", "float6e3m2")
_NARROW = tuple(t.name for t in ALL if t.name not in (*_FLOATS, *_INTS, *_FLOAT6, "bool"))
_GROUPS = (("floats", _FLOATS), ("ints", _INTS), ("narrow", _NARROW), ("float6", _FLOAT6))


def dtypes(domain: str, onnx_op: str) -> str:
    """Element types of the first operand by the newest schema, in the words of the page; '' where there is none.

    Strings and complex numbers, which no tensor here holds, are left out.
    """
    schema = schema_for(domain, onnx_op, NEWEST_OPSET if domain == "" else 1)
    tensors = schema.inputs or schema.outputs if schema is not None else ()
    if not tensors:
        return ""
    known = {str(t).removeprefix("tensor(").removesuffix(")") for t in tensors[0].types}
    names = {{"float": "float32", "double": "float64"}.get(name, name) for name in known}
    names &= {*_FLOATS, *_INTS, *_NARROW, *_FLOAT6, "bool"}
    words = []
    for word, group in _GROUPS:
        if names >= {*group}:
            words.append(word)
            names -= {*group}
        else:
            words += [name for name in group if name in names]
    return ", ".join([*words, *(["bool"] if "bool" in names else [])])


def import_rows() -> list[tuple[str, ...]]:
    """(ONNX op, versions, dtypes, core op, how computed), by ONNX name."""
    rules: dict[tuple[str, str], list[OnnxImport]] = {}
    for op in OPS:
        for rule in op.onnx:
            rules.setdefault((full_name(rule), op.name), []).append(rule)
    for rule in COMBINATIONS:
        rules.setdefault((full_name(rule), "several"), []).append(rule)
    ways = {"several": "their own", **{op.name: computed_by(op) for op in OPS}}
    return [(onnx_op, versions(found), dtypes(found[0].domain, found[0].op), core, ways[core])
            for (onnx_op, core), found in sorted(rules.items(), key=lambda item: item[0])]


def page() -> str:
    """The whole page."""
    lines = [*table(("ONNX operator", "versions", "dtypes", "core op", "computed by"), import_rows())]
    inner = [(op.name, computed_by(op)) for op in OPS if not op.onnx]
    if inner:
        lines += ["", "Core ops that only the compiler makes:", "", *table(("core op", "computed by"), inner)]
    gaps = table(("operator", "case", "why", "instead"),
                 ((gap.op, gap.case, gap.reason, gap.instead) for gap in sorted(GAPS, key=lambda gap: gap.op)))
    return HEAD + "\n".join(lines) + "\n" + GAPS_HEAD + "\n".join(gaps) + "\n"


def main(arguments: list[str]) -> int:
    target = Path(arguments[0]) if arguments else PAGE
    target.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
