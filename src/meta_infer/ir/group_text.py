"""A group as one line of text without names: groups that do the same work on tensors of the same types read alike.

    group_text       Conv(float32[1, 64, 56, 56], const float32[64, 64, 3, 3]) {...} -> %a; Relu(%a) -> out
    structure_text   the same without sizes: what carries over to other models and other input sizes
"""

from __future__ import annotations

import hashlib

from meta_infer.ir.graph import Attr, Node, Value
from meta_infer.ir.group import Group

_OF_STRUCTURE = ("kernel_shape", "strides", "dilations", "perm", "axis", "axes", "mode", "transA", "transB")
"""Attributes that say what kind of work it is, whatever the size."""


def group_text(group: Group) -> str:
    """The group's nodes with their attributes and the types of all they read; equal texts, equal work."""
    return _text(group, sized=True)


def structure_text(group: Group) -> str:
    """As `group_text`, of types only dtype and rank, of attributes only those that hold no size."""
    return _text(group, sized=False)


def structure_hash(group: Group) -> str:
    """16 hex digits that stand for `structure_text`."""
    return hashlib.sha256(structure_text(group).encode()).hexdigest()[:16]


def _text(group: Group, sized: bool) -> str:
    known: dict[str, str] = {}

    def operand(name: str) -> str:
        if not name:
            return "_"
        if name not in known:
            known[name] = f"%{len(known)}"
            return known[name] + ": " + ("const " if name in group.constants else "") + _type(group.values[name], sized)
        return known[name]

    parts = []
    for node in group.nodes:
        reads = ", ".join(operand(name) for name in node.inputs)
        makes = ", ".join(operand(name) for name in node.outputs)
        parts.append(f"{node.op}({reads}){_attributes(node, sized)} -> {makes}")
    leaving = ", ".join(known[name] for name in group.outputs)
    anchor = group.nodes.index(group.anchor)
    return "; ".join(parts) + f" -> {leaving}" + (f" by {anchor}" if anchor else "")


def _type(value: Value, sized: bool) -> str:
    return f"{value.dtype}[{', '.join(map(str, value.shape))}]" if sized else f"{value.dtype} {value.rank}d"


def _attributes(node: Node, sized: bool) -> str:
    named = sorted(node.attrs.items())
    if not sized:
        named = [(name, value) for name, value in named if name in _OF_STRUCTURE]
        named += [("grouped", "yes")] if node.attrs.get("group", 1) != 1 else []
    text = ", ".join(f"{name} = {_value(value)}" for name, value in named)
    return f" {{{text}}}" if text else ""


def _value(value: Attr) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_value, value))})"
    return str(value)
