"""Checks that a loop function is well formed: names, scopes, types, modes of buffers, sizes of local memory."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
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
from meta_infer.ir.loop_text import print_expr, print_func
from meta_infer.ir.source import Source
from meta_infer.ir.walk_loop import names_in, operands
from meta_infer.support.dtypes import BOOL, INT32
from meta_infer.support.errors import InternalError


class _Invalid(Exception):
    """What is wrong, before it is known where."""


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise _Invalid(problem)


@dataclass
class _Checker:
    func: LoopFunc
    buffers: dict[str, Buffer] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    checked: set[int] = field(default_factory=set)

    def define(self, name: str) -> None:
        _require(name.isidentifier() and not keyword.iskeyword(name), f"{name!r} is not an identifier")
        _require(name not in self.used, f"the name {name!r} is used twice")
        self.used.add(name)

    # --- expressions --------------------------------------------------------------------------------------

    def index(self, expr: Expr, scope: Mapping[str, Var], what: str) -> None:
        self.expr(expr, scope)
        _require(expr.type == INDEX, f"{what} is {expr.type}, not {INDEX}: {print_expr(expr)}")

    def expr(self, expr: Expr, scope: Mapping[str, Var]) -> None:
        """Types from the leaves up. A shared operand is checked once per statement."""
        if id(expr) in self.checked:
            return
        self.checked.add(id(expr))
        for child in operands(expr):
            self.expr(child, scope)
        lanes = expr.type.lanes
        _require(lanes >= 1 and lanes & (lanes - 1) == 0, f"{lanes} lanes is not a power of two")
        self.rule(expr, scope)

    def rule(self, expr: Expr, scope: Mapping[str, Var]) -> None:
        type = expr.type
        match expr:
            case Const(value=value):
                _require(type.lanes == 1, "a constant is a scalar")
                _require(isinstance(value, bool) or type.dtype.kind != "bool", f"bool constant {value!r}")
                _require(type.dtype.is_float or value == int(value), f"{type} constant {value!r}")
            case Var(name=name):
                _require(name in scope, f"{name!r} is not in scope")
                _require(scope[name].type == type, f"{name!r} is {scope[name].type}, used as {type}")
            case Bin(op=op, a=a, b=b):
                self.binary(op, a, b, type)
            case Un(op=op, a=a):
                fits = {"sqrt": a.type.dtype.is_float, "not": not a.type.dtype.is_float,
                        "neg": a.type.dtype.kind != "bool"}.get(op, True)
                _require(op in UNARY and a.type == type and fits, f"{op} of {a.type} as {type}")
            case Mad(a=a, b=b, c=c):
                _require(a.type == b.type == c.type == type and type.dtype.kind != "bool",
                         f"mad of {a.type}, {b.type}, {c.type} as {type}")
            case Dot(a=a, b=b, c=c):
                x, y = a.type, b.type
                _require(c.type == type and type.dtype == INT32 and x.lanes == y.lanes
                         and x.lanes % type.lanes == 0 and x.lanes > type.lanes and x.dtype.bits == y.dtype.bits <= 16
                         and x.dtype.is_integer and y.dtype.is_integer, f"dot of {x}, {y}, {c.type} as {type}")
            case Cast(a=a):
                _require(a.type.lanes == type.lanes, f"cast of {a.type} to {type}")
            case Bitcast(a=a):
                _require(a.type.lanes * a.type.dtype.bits == type.lanes * type.dtype.bits,
                         f"bitcast of {a.type} to {type}")
                _require("bool" not in (a.type.dtype.kind, type.dtype.kind) or a.type == type, "bitcast of bool")
            case Select(cond=cond, a=a, b=b):
                _require(cond.type == Type(BOOL, type.lanes) and a.type == b.type == type,
                         f"select on {cond.type} between {a.type} and {b.type} as {type}")
            case Splat(a=a):
                _require(a.type == Type(type.dtype) and type.lanes > 1, f"splat of {a.type} to {type}")
            case Iota():
                _require(type.dtype == INT32 and type.lanes > 1, f"iota of {type}")
            case Load(buffer=buffer, index=index, count=count):
                self.access(buffer, type, index, count)
            case Shuffle(a=a, b=b, picks=picks):
                _require(a.type == b.type and type == Type(a.type.dtype, len(picks)),
                         f"shuffle of {a.type} and {b.type} to {type}")
                _require(all(0 <= p < 2 * a.type.lanes for p in picks), f"shuffle picks {picks} of {a.type}")
            case Reduce(op=op, a=a):
                _require(op in ("+", "min", "max") and a.type.lanes > 1 and type == Type(a.type.dtype)
                         and type.dtype.kind != "bool", f"reduce {op!r} of {a.type} to {type}")
            case Intrin(name=name, args=args):
                _require(name in MATH and len(args) == (2 if name == "pow" else 1) and type.dtype.is_float
                         and all(a.type == type for a in args), f"{name} of {[str(a.type) for a in args]}")
            case _:
                raise _Invalid(f"unknown expression {expr!r}")

    def binary(self, op: str, a: Expr, b: Expr, type: Type) -> None:
        _require(op in ARITHMETIC or op in COMPARISONS, f"unknown operation {op!r}")
        made = Type(BOOL, a.type.lanes) if op in COMPARISONS else a.type
        _require(a.type == b.type and type == made, f"{a.type} {op} {b.type} as {type}")
        kind = a.type.dtype.kind
        if op in ("//", "%"):
            _require(a.type.lanes == 1 and a.type.dtype.is_integer, f"{op} is for scalar integers, not {a.type}")
        if op in ("<<", ">>", "rem"):
            _require(a.type.dtype.is_integer, f"{op} on {a.type}")
        if op in ("&", "|", "^"):
            _require(kind != "float", f"{op} on {a.type}")
        if kind == "bool":
            _require(op in ("&", "|", "^", "min", "max") or op in COMPARISONS, f"{op} on {a.type}")

    def access(self, buffer: Buffer, type: Type, index: Expr, count: Expr | None) -> None:
        _require(self.buffers.get(buffer.name) == buffer, f"buffer {buffer.name!r} is not the function's own")
        _require(type.dtype == buffer.dtype, f"{buffer.name} holds {buffer.dtype}, not {type.dtype}")
        _require(index.type == INDEX, f"index into {buffer.name} is {index.type}: {print_expr(index)}")
        _require(count is None or count.type == INDEX, "a count of lanes is an index")

    # --- statements ---------------------------------------------------------------------------------------

    def block(self, body: tuple[Stmt, ...], scope: Mapping[str, Var], mutable: frozenset[str]) -> None:
        """Check statements in order; registers they define are in scope to the end of the block."""
        scope = dict(scope)
        for stmt in body:
            self.checked.clear()
            match stmt:
                case Let(var=var, value=value) | Decl(var=var, value=value):
                    self.expr(value, scope)
                    self.define(var.name)
                    _require(var.type == value.type, f"{var.name!r} is {var.type}, its value {value.type}")
                    scope[var.name] = var
                    if isinstance(stmt, Decl):
                        mutable |= {var.name}
                case Assign(var=var, value=value):
                    self.expr(value, scope)
                    self.expr(var, scope)
                    _require(var.name in mutable, f"{var.name!r} is assigned, but not declared as var")
                    _require(var.type == value.type, f"{var.name!r} is {var.type}, its value {value.type}")
                case Store(buffer=buffer, index=index, value=value, count=count):
                    for operand in (index, value, *(() if count is None else (count,))):
                        self.expr(operand, scope)
                    self.access(buffer, value.type, index, count)
                    _require(buffer.mode != "in", f"store to input {buffer.name!r}")
                case For(var=var, start=start, stop=stop, step=step, body=inner, apart=apart):
                    for bound in (start, stop, step):
                        self.index(bound, scope, f"a bound of the loop over {var.name!r}")
                    _require(not isinstance(step, Const) or step.value > 0, f"loop over {var.name!r} has step {step}")
                    self.define(var.name)
                    _require(var.type == INDEX, f"loop variable {var.name!r} is {var.type}")
                    self.block(inner, {**scope, var.name: var}, mutable)
                    for name in names_in(inner) if apart else ():
                        _require(name not in scope or scope[name].type == INDEX and name not in mutable,
                                 f"{name!r} is no constant index, but a loop apart uses it")
                case If(cond=cond, then=then, orelse=orelse):
                    self.expr(cond, scope)
                    _require(cond.type == Type(BOOL), f"condition is {cond.type}")
                    self.block(then, scope, mutable)
                    self.block(orelse, scope, mutable)
                case Prefetch(buffer=buffer, index=index):
                    self.index(index, scope, "an address")
                    _require(self.buffers.get(buffer.name) == buffer, f"buffer {buffer.name!r} is not the function's")
                case Fence():
                    pass
                case Source(values=values, buffers=buffers):
                    for name, value in values:
                        self.index(value, scope, f"value {name!r}")
                    for name, held in buffers:
                        _require(self.buffers.get(held.name) == held, f"{name!r} is no buffer of the function")
                case _:
                    raise _Invalid(f"unknown statement {stmt!r}")

    def run(self) -> None:
        func = self.func
        for buffer in (*func.params, *func.locals):
            self.define(buffer.name)
            self.buffers[buffer.name] = buffer
        for var in (*func.dims, func.chunk):
            self.define(var.name)
            _require(var.type == INDEX, f"{var.name!r} is {var.type}, not {INDEX}")
        for param in func.params:
            _require(param.space == "global" and param.mode in ("in", "out", "inout"),
                     f"param {param.name!r} is {param.space} {param.mode}")
        dims = {d.name: d for d in func.dims}
        self.index(func.chunks, dims, "the number of chunks")
        for buffer in func.locals:
            _require(buffer.space in ("scratch", "stack") and buffer.size is not None,
                     f"local {buffer.name!r} is {buffer.space} of size {buffer.size}")
            assert buffer.size is not None
            self.index(buffer.size, dims, f"the size of {buffer.name!r}")
            _require(buffer.space == "scratch" or isinstance(buffer.size, Const),
                     f"the size of stack {buffer.name!r} is not constant")
        self.block(func.body, {**dims, func.chunk.name: func.chunk}, frozenset())


def verify_func(func: LoopFunc) -> None:
    """Raises InternalError, with the function's text, when it breaks a rule of loop IR."""
    try:
        _Checker(func).run()
    except _Invalid as error:
        raise InternalError(f"{error}\n{print_func(func)}", what=f"kernel {func.name}",
                            hint="report it: the kernel built invalid loop IR") from None
