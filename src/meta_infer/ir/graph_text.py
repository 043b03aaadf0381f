"""Graph IR as text, for people, dumps and fixtures; `parse_graph` in graph_parser.py reads it back.

    graph main(%x: float32[N, 4] @"x", %c: bool[]) -> (%y) {
      symbol N in [1, 8] step 1
      symbol k in [0, 32] step 1 from %found
      const %w: float32[4] = (1.0, 2.0, 3.0, 4.0)
      const %big: float32[512, 512] = #3f9a01c2d4e5f607
      %s: float32[N, 4] @"sum" = Add(%x, %w) from ("add1")
      %y: float32[N, 4] = Clip(%s) {max = 6.0, min = 0.0} from ("clip1", "cast7")
    }

A name that is no plain word is quoted as JSON (`%"onnx::Add_3"`); an absent operand is `_`. After a type stand
the ONNX tensor that the value equals (`@"sum"`) and `quant(...)`. Attributes keep their kind: `1` int, `1.0`
float, `true` bool, `"a"` string, `float32` a DType, `none`, `(1, 2)` a tuple, `[N + 1]` a symbolic dimension. A
constant of at most 16 elements is written out, a larger one is named by a hash of its contents: `constant_table`
holds these.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable

import numpy as np

from meta_infer.ir.graph import Attr, Graph, Node, Quant, Value, attr_symbols, walk_graphs
from meta_infer.ir.shapes import Expr, Symbol, symbols_of
from meta_infer.support.dtypes import DType

WORD = re.compile(r"[A-Za-z0-9_./]+")
INLINE_ELEMENTS = 16


def print_graph(graph: Graph) -> str:
    """`graph` as text. Big constants are named by hash: keep `constant_table(graph)` to read them back."""
    lines = [f"graph {word(graph.name)}{_signature(graph)} {{"]
    found = {symbol.name: symbol for symbol in symbols_used(graph)}
    for name in sorted(found):
        symbol = found[name]
        made = f" usually {symbol.usual}" if symbol.usual else ""
        made += f" from %{word(symbol.maker)}" if symbol.maker else ""
        lines.append(f"  symbol {name} in [{symbol.lo}, {symbol.hi}] step {symbol.step}{made}")
    lines += [f"  {line}" for line in _body(graph)]
    return "\n".join([*lines, "}", ""])


def constant_table(graph: Graph) -> dict[str, np.ndarray]:
    """Contents of every constant of the region tree that the text names by hash."""
    return {content_hash(array): array for holder in walk_graphs(graph)
            for name, array in holder.constants.items() if not is_inline(array, holder.values[name].dtype)}


def print_node(node: Node, graph: Graph) -> str:
    """One node as it stands in the text of `graph`."""
    return "\n".join(_node(node, graph))


def content_hash(array: np.ndarray) -> str:
    """16 hex digits that stand for dtype, shape and contents."""
    digest = hashlib.sha256(f"{array.dtype.name}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def is_inline(array: np.ndarray, dtype: DType) -> bool:
    """Whether the text writes the elements out; packed and exotic element types never are."""
    return array.size <= INLINE_ELEMENTS and array.dtype.kind in "biuf" and array.dtype.name == dtype.name


def symbols_used(graph: Graph) -> set[Symbol]:
    """Every symbol in the types and attributes of the region tree."""
    found: set[Symbol] = set()
    for holder in walk_graphs(graph):
        for value in holder.values.values():
            for dim in value.shape:
                found |= symbols_of(dim)
        for node in holder.nodes:
            for attr in node.attrs.values():
                found |= attr_symbols(attr)
    return found


def word(name: str) -> str:
    """`name` bare when it is a plain word, else quoted."""
    return name if WORD.fullmatch(name) and "//" not in name else json.dumps(name)


def _ref(name: str) -> str:
    return f"%{word(name)}" if name else "_"


def _refs(names: Iterable[str]) -> str:
    return f"({', '.join(map(_ref, names))})"


def _typed(value: Value) -> str:
    origin = "" if value.origin is None else f" @{json.dumps(value.origin)}"
    quant = "" if value.quant is None else f" {_quant(value.quant)}"
    return f"{_ref(value.name)}: {value.dtype}[{', '.join(map(str, value.shape))}]{origin}{quant}"


def _quant(quant: Quant) -> str:
    axis = print_attr(quant.axis)
    scale, zero = print_attr(quant.scale), print_attr(quant.zero_point)
    return f"quant({scale}, {zero}, {axis}, {quant.block})"


def print_attr(attr: Attr) -> str:
    """One attribute; its kind can be told from the text, and floats read back exactly."""
    match attr:
        case None:
            return "none"
        case bool():
            return "true" if attr else "false"
        case str():
            return json.dumps(attr)
        case int():
            return str(attr)
        case float():
            return repr(float(attr))
        case DType():
            return attr.name
        case tuple():
            return f"({', '.join(map(print_attr, attr))}{',' if len(attr) == 1 else ''})"
        case Expr():
            return f"[{attr}]"
    raise TypeError(f"an attribute cannot be a {type(attr).__name__}")


def _signature(graph: Graph) -> str:
    inputs = ", ".join(_typed(graph.values[name]) for name in graph.inputs)
    captures = f" captures {_refs(graph.captures)}" if graph.captures else ""
    return f"({inputs}){captures} -> {_refs(graph.outputs)}"


def _body(graph: Graph) -> list[str]:
    lines = []
    for name, array in graph.constants.items():
        text = f"#{content_hash(array)}"
        if is_inline(array, graph.values[name].dtype):
            text = print_attr(tuple(array.reshape(-1).tolist()))
        lines.append(f"const {_typed(graph.values[name])} = {text}")
    for node in graph.nodes:
        lines += _node(node, graph)
    return lines


def _node(node: Node, graph: Graph) -> list[str]:
    outputs = ", ".join(_typed(graph.values[name]) if name else "_" for name in node.outputs)
    attrs = ", ".join(f"{key} = {print_attr(node.attrs[key])}" for key in sorted(node.attrs))
    text = f"{outputs} = {word(node.op)}{_refs(node.inputs)}"
    text += f" {{{attrs}}}" if attrs else ""
    if node.origins:
        text += f" from ({', '.join(map(json.dumps, node.origins))})"
    if not node.regions:
        return [text]
    lines = [text + " regions {"]
    for region in node.regions:
        lines.append(f"  region {word(region.name)}{_signature(region)} {{")
        lines += [f"    {line}" for line in _body(region)]
        lines.append("  }")
    return [*lines, "}"]
