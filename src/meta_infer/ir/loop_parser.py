"""Reads the text of loop_text.py back to loop IR."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from meta_infer.ir.loop import (
    ARITHMETIC,
    COMPARISONS,
    INDEX,
    MATH,
    UNARY,
    Assign,
    Bin,
    Bitcast,
    Buffer,
    Cast,
    Const,
    Decl,
    Dot,
    Expr,
    Fence,
    For,
    If,
    Intrin,
    Iota,
    Let,
    Load,
    LoopFunc,
    Mad,
    Prefetch,
    Reduce,
    Select,
    Shuffle,
    Splat,
    Stmt,
    Store,
    Type,
    Un,
    Var,
)
from meta_infer.ir.loop_text import CALLED, REDUCTIONS
from meta_infer.support.dtypes import BOOL, INT32, dtype_named

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.BitAnd: "&",
    ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">",
    ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}
_SPECIAL = {"inf": float("inf"), "nan": float("nan")}
_REDUCED = {name: op for op, name in REDUCTIONS.items()}
_HEAD = re.compile(r"kernel (\w+)\((.*?)\) dims\((.*?)\) (\w+) in (.*):$")
_PARAM = re.compile(r"(in|out|inout) (\w+): (\w+)$")
_LOCAL = re.compile(r"(scratch|stack) (\w+): (\w+)\[(.*)\]$")
_REGISTER = re.compile(r"(let|var) (\w+): (\w+?)(?:x(\d+))? = (.*)$")
_ASSIGN = re.compile(r"(\w+) = (.*)$")
_FOR = re.compile(r"for (\w+) in (range|unrolled|apart)(\(.*\)):$")


class LoopSyntaxError(ValueError):
    """Text that is not loop IR; the message holds the line."""


@dataclass
class _Parser:
    """Names met so far, and the lines not yet read as (indentation, text)."""

    lines: list[tuple[int, str]]
    vars: dict[str, Var] = field(default_factory=dict)
    buffers: dict[str, Buffer] = field(default_factory=dict)

    # --- expressions --------------------------------------------------------------------------------------

    def expr(self, text: str) -> Expr:
        return self.walk(ast.parse(text.strip(), mode="eval").body)

    def walk(self, node: ast.expr) -> Expr:
        match node:
            case ast.Constant(value=int(value)):
                return Const(value, INDEX)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
                return Const(-value, INDEX)
            case ast.Name(id=name):
                return self.vars[name]
            case ast.BinOp(left=left, op=op, right=right):
                return _bin(_OPERATORS[type(op)], self.walk(left), self.walk(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return _bin(_OPERATORS[type(op)], self.walk(left), self.walk(right))
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                buffer = self.buffers[name]
                return Load(buffer, self.walk(index), Type(buffer.dtype))
            case ast.Call(func=ast.Name(id=name), args=args):
                return self.call(name, args)
        raise LoopSyntaxError(f"not an expression: {ast.unparse(node)}")

    def call(self, name: str, args: Sequence[ast.expr]) -> Expr:
        if name in ("cast", "bitcast"):
            a, dtype = self.walk(args[0]), dtype_named(_name(args[1]))
            if name == "cast":
                return Cast(a, Type(dtype, a.type.lanes))
            return Bitcast(a, Type(dtype, a.type.lanes * a.type.dtype.bits // dtype.bits))
        if name == "splat":
            a = self.walk(args[0])
            return Splat(a, Type(a.type.dtype, _int(args[1])))
        if name == "iota":
            return Iota(Type(INT32, _int(args[0])))
        if name == "load":
            buffer = self.buffers[_name(args[0])]
            count = self.walk(args[3]) if len(args) > 3 else None
            return Load(buffer, self.walk(args[1]), Type(buffer.dtype, _int(args[2])), count)
        if name == "shuffle":
            a, b, picks = self.walk(args[0]), self.walk(args[1]), tuple(map(_int, args[2:]))
            return Shuffle(a, b, picks, Type(a.type.dtype, len(picks)))
        values = [] if _is_dtype(name) else [self.walk(a) for a in args]
        if name in CALLED:
            return _bin(name, values[0], values[1])
        if name in UNARY or name == "not_":
            return Un("not" if name == "not_" else name, values[0], values[0].type)
        if name == "mad":
            return Mad(values[0], values[1], values[2], values[2].type)
        if name in ("dot", "dot_narrow"):
            return Dot(values[0], values[1], values[2], values[2].type, name == "dot_narrow")
        if name == "select":
            return Select(values[0], values[1], values[2], values[1].type)
        if name in _REDUCED:
            return Reduce(_REDUCED[name], values[0], Type(values[0].type.dtype))
        if name in MATH:
            return Intrin(name, tuple(values), values[0].type)
        return Const(_number(args[0]), Type(dtype_named(name)))

    # --- statements ---------------------------------------------------------------------------------------

    def block(self, indent: int) -> tuple[Stmt, ...]:
        """Statements indented by `indent`, up to the first line that is indented less."""
        found: list[Stmt] = []
        while self.lines and self.lines[0][0] == indent:
            stmt = self.stmt(indent)
            if stmt is not None:
                found.append(stmt)
        if self.lines and self.lines[0][0] > indent:
            raise LoopSyntaxError(f"unexpected indentation: {self.lines[0][1]}")
        return tuple(found)

    def stmt(self, indent: int) -> Stmt | None:
        text = self.lines.pop(0)[1]
        if text == "pass":
            return None
        if match := _REGISTER.match(text):
            kind, name, dtype, lanes, value = match.groups()
            made = self.expr(value)
            self.vars[name] = Var(name, Type(dtype_named(dtype), int(lanes or 1)))
            return (Let if kind == "let" else Decl)(self.vars[name], made)
        if match := _FOR.match(text):
            name, word, bounds = match.groups()
            start, stop, step = (self.walk(e) for e in _tuple(bounds))
            self.vars[name] = Var(name)
            return For(self.vars[name], start, stop, step, self.block(indent + 4), word == "unrolled",
                       word == "apart")
        if text.startswith("if "):
            cond = self.expr(text[3:-1])
            then = self.block(indent + 4)
            if self.lines and self.lines[0] == (indent, "else:"):
                self.lines.pop(0)
                return If(cond, then, self.block(indent + 4))
            return If(cond, then)
        if text.startswith("store("):
            buffer, *values = _tuple(text[5:])
            operands = [self.walk(v) for v in values]
            return Store(self.buffers[_name(buffer)], operands[0], operands[1], operands[2] if operands[2:] else None)
        if text == "fence()":
            return Fence()
        if text.startswith("prefetch("):
            buffer, index = _tuple(text[8:])
            return Prefetch(self.buffers[_name(buffer)], self.walk(index))
        if match := _ASSIGN.match(text):
            return Assign(self.vars[match.group(1)], self.expr(match.group(2)))
        raise LoopSyntaxError(f"not a statement: {text}")

    def func(self) -> LoopFunc:
        match = _HEAD.match(self.lines.pop(0)[1])
        if match is None:
            raise LoopSyntaxError("does not begin with 'kernel NAME(...) dims(...) CHUNK in N:'")
        name, params, dims, chunk, chunks = match.groups()
        made = []
        for text in filter(None, params.split(", ")):
            param = _PARAM.match(text)
            if param is None:
                raise LoopSyntaxError(f"not a parameter: {text}")
            mode, param_name, dtype = param.groups()
            made.append(Buffer(param_name, dtype_named(dtype), "global", mode))
        self.buffers = {b.name: b for b in made}
        self.vars = {d: Var(d) for d in filter(None, dims.split(", "))}
        dim_vars, count = tuple(self.vars.values()), self.expr(chunks)
        local = []
        while self.lines and (match := _LOCAL.match(self.lines[0][1])):
            space, local_name, dtype, size = match.groups()
            local.append(Buffer(local_name, dtype_named(dtype), space, "inout", self.expr(size)))
            self.buffers[local_name] = local[-1]
            self.lines.pop(0)
        self.vars[chunk] = Var(chunk)
        body = self.block(4)
        if self.lines:
            raise LoopSyntaxError(f"after the end of the function: {self.lines[0][1]}")
        return LoopFunc(name, tuple(made), dim_vars, count, Var(chunk), body, tuple(local))


def _bin(op: str, a: Expr, b: Expr) -> Expr:
    assert op in ARITHMETIC or op in COMPARISONS
    return Bin(op, a, b, Type(BOOL, a.type.lanes) if op in COMPARISONS else a.type)


def _tuple(text: str) -> list[ast.expr]:
    node = ast.parse(text.strip(), mode="eval").body
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _name(node: ast.expr) -> str:
    if not isinstance(node, ast.Name):
        raise LoopSyntaxError(f"expected a name, found {ast.unparse(node)}")
    return node.id


def _int(node: ast.expr) -> int:
    if not (isinstance(node, ast.Constant) and isinstance(node.value, int)):
        raise LoopSyntaxError(f"expected a number, found {ast.unparse(node)}")
    return node.value


def _number(node: ast.expr) -> int | float | bool:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(operand)
        case ast.Name(id=name) if name in _SPECIAL:
            return _SPECIAL[name]
        case ast.Constant(value=bool(value) | int(value) | float(value)):
            return value
    raise LoopSyntaxError(f"expected a number, found {ast.unparse(node)}")


def _is_dtype(name: str) -> bool:
    try:
        dtype_named(name)
    except KeyError:
        return False
    return True


def parse_func(text: str) -> LoopFunc:
    """The function that `loop_text.print_func` printed. Raises LoopSyntaxError for anything else."""
    lines = [(len(line) - len(line.lstrip()), line.strip()) for line in text.splitlines() if line.strip()]
    if not lines:
        raise LoopSyntaxError("no text")
    line = lines[0][1]
    parser = _Parser(lines)
    try:
        return parser.func()
    except (KeyError, SyntaxError, ValueError, IndexError, AssertionError) as error:
        if isinstance(error, LoopSyntaxError):
            raise
        raise LoopSyntaxError(f"in '{line}': {error}") from error
