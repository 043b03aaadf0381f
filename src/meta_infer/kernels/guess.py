"""Guesses of time before anything is measured, in operations at the chip's peak: where kernels state none, and for what
lies between two groups."""

from __future__ import annotations

from collections.abc import Iterable

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Value
from meta_infer.ir.group import Group, Variant
from meta_infer.ir.shapes import product, usual_upper
from meta_infer.kernels.conv_chunks import l2_bytes
from meta_infer.ops.registry import op_named

ELEMENT_COST = 4.0
"""A node's pass over one element in cache, where nothing is multiplied."""
_EXPECTED_SHARE = 0.8
# A byte written by one group and read by the next, within L2 and beyond it.
_NEAR_BYTE, _FAR_BYTE = 0.4, 1.8


def value_bytes(value: Value) -> int:
    """At usual sizes."""
    return usual_upper(product(value.shape)) * value.dtype.bytes


def alone_cost(group: Group, variants: Iterable[Variant]) -> float:
    """What the variants state, at least; where the first one states none, from its operations or, where those are not
    counted, from the elements. Views cost nothing."""
    if op_named(group.anchor.op).is_view and not group.epilogue:
        return 0.0
    found = list(variants)
    first = next(iter(found), None)
    if first is not None and first.cost:
        return min(variant.cost for variant in found if variant.cost)
    if first is not None and first.flops:
        return usual_upper(first.flops) / _EXPECTED_SHARE
    names = [*group.inputs, *group.outputs]
    return ELEMENT_COST * len(group.nodes) * max(usual_upper(product(group.values[name].shape)) for name in names)


def passing_cost(value: Value, profile: Profile) -> float:
    """Writing a value and reading it again."""
    size = value_bytes(value)
    return size * (_NEAR_BYTE if size <= l2_bytes(profile) // 2 else _FAR_BYTE)
