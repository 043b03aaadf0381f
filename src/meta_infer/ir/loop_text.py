"""Loop IR as text for people; `loop_parser.parse_func` reads the same text back to the same IR.

    kernel scale(in x: float32, out y: float32) dims(d) chunk in (d + 1023) // 1024:
        scratch tmp: float32[d * 8]
        let t: int64 = chunk * 1024
        for i in range(t, min(t + 1024, d), 8):
            store(y, i, load(x, i, 8) * splat(float32(2.0), 8))

Expressions are written as in Python. Plain numbers are indices (int64); others say their type: `float32(2.0)`.
A scalar load is `x[i]`; a vector one `load(x, i, lanes)`, with a fourth operand when only some lanes are read.
"""

from __future__ import annotations

from collections.abc import Iterator

from meta_infer.ir.loop import (
    COMPARISONS,
    INDEX,
    Assign,
    Bin,
    Bitcast,
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
    Un,
    Var,
)
from meta_infer.ir.source import Source

CALLED = ("min", "max", "rem")
"""Binary operations that are written as calls."""

_COMPARISON, _ATOM = 1, 9
_LEVEL = {"*": 7, "/": 7, "//": 7, "%": 7, "+": 6, "-": 6, "<<": 5, ">>": 5, "&": 4, "^": 3, "|": 2,
          **dict.fromkeys(COMPARISONS, _COMPARISON)}
REDUCTIONS = {"+": "reduce_add", "min": "reduce_min", "max": "reduce_max"}


def _expr(expr: Expr) -> tuple[str, int]:
    """The text of an expression, and how tightly it binds."""
    match expr:
        case Const(value=value, type=type):
            if type == INDEX and not isinstance(value, bool):
                return str(value), _ATOM if value >= 0 else 8
            return f"{type.dtype}({value!r})", _ATOM
        case Var(name=name):
            return name, _ATOM
        case Bin(op=op, a=a, b=b) if op not in _LEVEL:                  # min, max, rem, and what no verifier passes
            return _call(op, a, b)
        case Bin(op=op, a=a, b=b):
            level = _LEVEL[op]
            left = _at(a, level + (level == _COMPARISON))
            return f"{left} {op} {_at(b, level + 1)}", level
        case Un(op=op, a=a):
            return _call("not_" if op == "not" else op, a)
        case Mad(a=a, b=b, c=c):
            return _call("mad", a, b, c)
        case Dot(a=a, b=b, c=c, narrow=narrow):
            return _call("dot_narrow" if narrow else "dot", a, b, c)
        case Cast(a=a, type=type):
            return f"cast({print_expr(a)}, {type.dtype})", _ATOM
        case Bitcast(a=a, type=type):
            return f"bitcast({print_expr(a)}, {type.dtype})", _ATOM
        case Select(cond=cond, a=a, b=b):
            return _call("select", cond, a, b)
        case Splat(a=a, type=type):
            return f"splat({print_expr(a)}, {type.lanes})", _ATOM
        case Iota(type=type):
            return f"iota({type.lanes})", _ATOM
        case Load(buffer=buffer, index=index, type=type, count=count):
            if type.lanes == 1 and count is None:
                return f"{buffer.name}[{print_expr(index)}]", _ATOM
            limit = "" if count is None else f", {print_expr(count)}"
            return f"load({buffer.name}, {print_expr(index)}, {type.lanes}{limit})", _ATOM
        case Shuffle(a=a, b=b, picks=picks):
            return f"shuffle({print_expr(a)}, {print_expr(b)}, {', '.join(map(str, picks))})", _ATOM
        case Reduce(op=op, a=a):
            return _call(REDUCTIONS.get(op, f"reduce_{op}"), a)
        case Intrin(name=name, args=args):
            return _call(name, *args)
    raise TypeError(f"no text for {expr!r}")


def _call(name: str, *args: Expr) -> tuple[str, int]:
    return f"{name}({', '.join(map(print_expr, args))})", _ATOM


def _at(expr: Expr, level: int) -> str:
    text, own = _expr(expr)
    return text if own >= level else f"({text})"


def print_expr(expr: Expr) -> str:
    """An expression on one line."""
    return _expr(expr)[0]


def _stmt(stmt: Stmt, pad: str) -> Iterator[str]:
    inner = pad + "    "
    match stmt:
        case Let(var=var, value=value):
            yield f"{pad}let {var.name}: {var.type} = {print_expr(value)}"
        case Decl(var=var, value=value):
            yield f"{pad}var {var.name}: {var.type} = {print_expr(value)}"
        case Assign(var=var, value=value):
            yield f"{pad}{var.name} = {print_expr(value)}"
        case Store(buffer=buffer, index=index, value=value, count=count):
            limit = "" if count is None else f", {print_expr(count)}"
            yield f"{pad}store({buffer.name}, {print_expr(index)}, {print_expr(value)}{limit})"
        case For(var=var, start=start, stop=stop, step=step, body=body, unroll=unroll, apart=apart):
            word = "unrolled" if unroll else "apart" if apart else "range"
            yield f"{pad}for {var.name} in {word}({print_expr(start)}, {print_expr(stop)}, {print_expr(step)}):"
            yield from _block(body, inner)
        case If(cond=cond, then=then, orelse=orelse):
            yield f"{pad}if {print_expr(cond)}:"
            yield from _block(then, inner)
            if orelse:
                yield f"{pad}else:"
                yield from _block(orelse, inner)
        case Prefetch(buffer=buffer, index=index):
            yield f"{pad}prefetch({buffer.name}, {print_expr(index)})"
        case Fence():
            yield f"{pad}fence()"
        case Source(text=text, values=values, buffers=buffers, macros=macros):
            given = [f"{name} = {print_expr(value)}" for name, value in values] + [f"{n} = {v}" for n, v in macros]
            yield f"{pad}source({', '.join([*(f'{name} = {held.name}' for name, held in buffers), *given])}):"
            yield from (f"{inner}{line}".rstrip() for line in text.splitlines())
        case _:
            raise TypeError(f"no text for {stmt!r}")


def _block(body: tuple[Stmt, ...], pad: str) -> Iterator[str]:
    for stmt in body:
        yield from _stmt(stmt, pad)
    if not body:
        yield f"{pad}pass"


def print_func(func: LoopFunc) -> str:
    """A whole function. Functions that the verifier would refuse have a text too, for its messages."""
    params = ", ".join(f"{p.mode} {p.name}: {p.dtype}" for p in func.params)
    dims = ", ".join(d.name for d in func.dims)
    lines = [f"kernel {func.name}({params}) dims({dims}) {func.chunk.name} in {print_expr(func.chunks)}:"]
    for buffer in func.locals:
        size = "" if buffer.size is None else print_expr(buffer.size)
        lines.append(f"    {buffer.space} {buffer.name}: {buffer.dtype}[{size}]")
    lines += _block(func.body, "    ")
    return "\n".join(lines) + "\n"
