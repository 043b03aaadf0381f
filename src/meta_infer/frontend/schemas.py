"""What ONNX knows of an op at an opset, and what to suggest for an op that is not supported."""

from __future__ import annotations

import difflib
from functools import cache

from onnx import defs

from meta_infer.frontend.vendor_schemas import vendor_schemas
from meta_infer.ops.registry import RULES


@cache
def _since_versions() -> dict[tuple[str, str], list[int]]:
    """(domain, op) -> the opset versions at which ONNX changed it, in order."""
    found: dict[tuple[str, str], list[int]] = {}
    for schema in defs.get_all_schemas_with_history():
        found.setdefault((schema.domain, schema.name), []).append(schema.since_version)
    return {key: sorted(versions) for key, versions in found.items()}


@cache
def schema_for(domain: str, op: str, opset: int) -> defs.OpSchema | None:
    """The schema of `op` that holds at `opset`: ONNX's, else another vendor's that is known here, else None."""
    versions = [v for v in _since_versions().get((domain, op), []) if v <= opset]
    return defs.get_schema(op, versions[-1], domain) if versions else vendor_schemas().get((domain, op))


def first_opset(domain: str, op: str) -> int | None:
    """The opset that introduced the op; None when ONNX never had it."""
    return _since_versions().get((domain, op), [None])[0]


def suggestion(op: str, domain: str = "") -> str:
    """What to try instead of an op that is not supported: the nearest name that is, else a way out."""
    names = sorted({rule.op for rule in RULES})
    folded = {name.lower(): name for name in names}
    near = difflib.get_close_matches(op.lower(), folded, 1, cutoff=0.7)
    if near and folded[near[0]] != op:
        return f"the nearest supported op is {folded[near[0]]!r}; express the node with supported ops"
    if domain == "com.microsoft.nchwc":
        return "this model was optimised for one machine's layout; optimise it with ORT_ENABLE_EXTENDED at most"
    return "express the node with supported ops, or cut it out of the model"
