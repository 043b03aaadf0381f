"""Reads back the text that graph_text.py prints: a tokenizer and a recursive-descent parser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from meta_infer.ir.graph import Attr, Graph, Node, Quant, Value
from meta_infer.ir.shapes import Dim, Symbol, parse_dim
from meta_infer.support.dtypes import ALL, DType, dtype_named

_TOKEN = re.compile(r"""
    (?P<space>[ \t]+|//[^\n]*) | (?P<line>\n)
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<dims>\[[^\]\n]*\])
  | (?P<arrow>->)
  | (?P<float>-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|inf\b|nan\b))(?![A-Za-z0-9_./])
  | (?P<int>-?\d+)(?![A-Za-z0-9_./])
  | (?P<hash>\#[0-9a-f]+)
  | (?P<word>[A-Za-z0-9_./]+)
  | (?P<mark>[%@(){},:=])
""", re.VERBOSE)
_DTYPES = {dtype.name for dtype in ALL}
_WORDS: Mapping[str, bool | None] = {"true": True, "false": False, "none": None}


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    line: int


def parse_graph(text: str, constants: Mapping[str, np.ndarray] | None = None) -> Graph:
    """The graph that `print_graph` printed as `text`; `constants` is its `constant_table`.

    `// ...` up to the end of a line is a comment. Raises ValueError naming the line for text that is no graph
    or for a constant whose contents are neither inline nor in the table. The result is not verified.
    """
    parser = _Parser(_tokens(text), constants or {})
    parser.expect("graph")
    graph = parser.graph()
    if parser.kind != "end":
        raise parser.error("nothing after the graph")
    return graph


def _tokens(text: str) -> list[_Token]:
    tokens, at, line = [], 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"line {line}: cannot read {text[at:at + 20]!r}")
        kind = match.lastgroup or ""
        if kind == "line":
            line += 1
        elif kind != "space":
            tokens.append(_Token(kind, match.group(), line))
        at = match.end()
    return [*tokens, _Token("end", "end of text", line)]


class _Parser:
    def __init__(self, tokens: list[_Token], table: Mapping[str, np.ndarray]) -> None:
        self._tokens, self._at, self._table = tokens, 0, table
        self._symbols: dict[str, Symbol] = {}
        for i, token in enumerate(tokens[:-8]):                # now: types may stand before declarations
            if token.text == "symbol" and tokens[i + 2].text == "in":
                name, step = tokens[i + 1].text, int(tokens[i + 5].text)
                lo, hi = (int(part) for part in tokens[i + 3].text[1:-1].split(","))
                self._at = i + 6
                usual = int(self.take()) if self.take_if("usually") else 0
                maker = self.ref() if self.take_if("from") else ""
                self._symbols[name] = Symbol(name, lo, hi, step, maker, usual)
        self._at = 0

    # --- tokens -------------------------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        return self._tokens[self._at].kind

    @property
    def text(self) -> str:
        return self._tokens[self._at].text

    def error(self, wanted: str) -> ValueError:
        token = self._tokens[self._at]
        return ValueError(f"line {token.line}: expected {wanted}, found {token.text!r}")

    def take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1].text

    def take_if(self, text: str) -> bool:
        if self.text != text or self.kind == "string":
            return False
        self._at += 1
        return True

    def expect(self, text: str) -> None:
        if not self.take_if(text):
            raise self.error(repr(text))

    def string(self) -> str:
        if self.kind != "string":
            raise self.error("a quoted string")
        return str(json.loads(self.take()))

    def word(self) -> str:
        if self.kind == "string":
            return self.string()
        if self.kind not in ("word", "int", "float"):
            raise self.error("a name")
        return self.take()

    def listed(self, item: Callable[[], None]) -> None:
        """`(item, item, ...)`, a trailing comma allowed."""
        self.expect("(")
        while not self.take_if(")"):
            item()
            if self.text != ")":
                self.expect(",")

    # --- graph --------------------------------------------------------------------------------------------

    def ref(self) -> str:
        if self.take_if("_"):
            return ""
        self.expect("%")
        return self.word()

    def refs(self) -> tuple[str, ...]:
        names: list[str] = []
        self.listed(lambda: names.append(self.ref()))
        return tuple(names)

    def graph(self) -> Graph:
        name = self.word()
        values: dict[str, Value] = {}
        inputs: list[str] = []

        def add_input() -> None:
            inputs.append(self.typed(values))

        self.listed(add_input)
        captures = self.refs() if self.take_if("captures") else ()
        self.expect("->")
        outputs = self.refs()
        self.expect("{")
        constants: dict[str, np.ndarray] = {}
        nodes = []
        while not self.take_if("}"):
            if self.take_if("symbol"):
                for _ in range(5):                             # NAME in [lo, hi] step N, read above
                    self.take()
                if self.take_if("usually"):
                    self.take()
                if self.take_if("from"):
                    self.ref()
            elif self.take_if("const"):
                made = self.typed(values)
                self.expect("=")
                constants[made] = self.contents(values[made])
            else:
                nodes.append(self.node(values))
        return Graph(name, tuple(inputs), outputs, tuple(nodes), values, constants, captures)

    def typed(self, values: dict[str, Value]) -> str:
        """`%name: dtype[dims] @"origin" quant(...)`, added to `values`; gives the name, '' for `_`."""
        name = self.ref()
        if not name:
            return ""
        if name in values:
            raise ValueError(f"line {self._tokens[self._at].line}: %{name} is defined twice")
        self.expect(":")
        dtype = self.dtype()
        shape = self.dims()
        origin = self.string() if self.take_if("@") else None
        quant = self.quant() if self.take_if("quant") else None
        values[name] = Value(name, dtype, shape, origin, quant)
        return name

    def dtype(self) -> DType:
        if self.text not in _DTYPES:
            raise self.error("an element type")
        return dtype_named(self.take())

    def dims(self) -> tuple[Dim, ...]:
        if self.kind != "dims":
            raise self.error("[dims]")
        inside = self.text[1:-1].strip()
        parts, depth, start = [], 0, 0
        for i, char in enumerate(inside):
            depth += (char == "(") - (char == ")")
            if char == "," and depth == 0:
                parts.append(inside[start:i])
                start = i + 1
        parts += [inside[start:]] if inside else []
        try:
            shape = tuple(parse_dim(part.strip(), self._symbols) for part in parts)
        except (ValueError, SyntaxError) as error:
            raise self.error(f"dimensions of declared symbols ({error})") from None
        self.take()
        return shape

    def quant(self) -> Quant:
        items: list[Attr] = []
        self.listed(lambda: items.append(self.attr()))
        if len(items) != 4:
            raise self.error("quant(scales, zero points, axis, block)")
        return Quant(*items)  # type: ignore[arg-type]

    def contents(self, value: Value) -> np.ndarray:
        if self.kind == "hash":
            key = self.take()[1:]
            if key not in self._table:
                raise ValueError(f"constant %{value.name}: its contents #{key} are not in the table given")
            return self._table[key]
        shape = tuple(d for d in value.shape if isinstance(d, int))
        elements = self.attr()
        try:
            return np.array(elements, value.dtype.numpy).reshape(shape)
        except (ValueError, TypeError):
            raise self.error(f"elements of a constant {value}") from None

    def node(self, values: dict[str, Value]) -> Node:
        outputs = [self.typed(values)]
        while self.take_if(","):
            outputs.append(self.typed(values))
        self.expect("=")
        op = self.word()
        inputs = self.refs()
        attrs: dict[str, Attr] = {}
        if self.take_if("{"):
            while not self.take_if("}"):
                key = self.word()
                self.expect("=")
                attrs[key] = self.attr()
                if self.text != "}":
                    self.expect(",")
        origins: list[str] = []
        if self.take_if("from"):
            self.listed(lambda: origins.append(self.string()))
        regions = []
        if self.take_if("regions"):
            self.expect("{")
            while self.take_if("region"):
                regions.append(self.graph())
            self.expect("}")
        return Node(op, inputs, tuple(outputs), attrs, tuple(origins), tuple(regions))

    def attr(self) -> Attr:
        if self.kind == "string":
            return self.string()
        if self.kind == "int":
            return int(self.take())
        if self.kind == "float":
            return float(self.take())
        if self.kind == "dims":
            return self.dims()[0]
        if self.text == "(":
            items: list[Attr] = []
            self.listed(lambda: items.append(self.attr()))
            return tuple(items)
        if self.text in _WORDS:
            return _WORDS[self.take()]
        return self.dtype()
