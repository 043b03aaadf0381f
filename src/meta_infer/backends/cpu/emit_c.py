"""Loop functions as C: one C function per LoopFunc, many to a translation unit, and the table that lists them.

    y[i] = max(x[i], 0) for i in chunk      void relu(void* const* bufs, const int64_t* dims, int64_t begin,
                                     ->               int64_t end, void* scratch) { ... for each chunk ... }

Pointers to arguments are deliberately not `restrict`: the memory planner may give an input and an output the same
memory. Registers are explicit in the IR, so little is lost.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from meta_infer.backends.cpu.c_prelude import HEADER, Prelude
from meta_infer.backends.cpu.c_types import identifier, memory_type
from meta_infer.backends.cpu.emit_dims import emit_eval_dims
from meta_infer.backends.cpu.emit_expr import Code, ExprEmitter, is_plain
from meta_infer.hardware.isa import isa_named
from meta_infer.ir.loop import (
    Assign,
    Buffer,
    Const,
    Decl,
    Expr,
    Fence,
    For,
    If,
    Let,
    LoopFunc,
    Prefetch,
    Stmt,
    Store,
    Var,
)
from meta_infer.ir.shapes import Dim, Symbol
from meta_infer.ir.source import Source
from meta_infer.ir.walk_loop import names_in, operands, walk_stmts
from meta_infer.support.dtypes import FLOAT32
from meta_infer.support.errors import InternalError

_SIGNATURE = "void {name}(void* const* bufs, const int64_t* dims, int64_t begin, int64_t end, void* scratch)"
_UNIT_STATEMENTS = 1500
"""Statements after which a new unit is begun: large enough to share a prelude, small enough to compile in about 1 s."""
_ALONE_STATEMENTS = 150
"""Statements from which on a function is a unit of its own: it takes longer to compile than a compiler to start."""
_ANONYMOUS = "mi_anonymous_kernel_"
_NUMBER = re.compile(r"_[0-9]+$")

KERNEL_TYPE = """\
typedef struct {
    const char* name;
    int64_t (*chunks)(const int64_t* dims);
    int64_t (*scratch)(const int64_t* dims);
    void (*run)(void* const* bufs, const int64_t* dims, int64_t begin, int64_t end, void* scratch);
} mi_kernel;
"""


def _shared(roots: Sequence[Expr]) -> list[Expr]:
    """Expressions (by identity) that occur more than once below `roots`, operands before users."""
    seen: set[int] = set()
    again: set[int] = set()
    order: list[Expr] = []

    def visit(expr: Expr) -> None:
        if id(expr) in seen:
            again.add(id(expr))
            return
        seen.add(id(expr))
        for child in operands(expr):
            visit(child)
        order.append(expr)

    for root in roots:
        visit(root)
    return [e for e in order if id(e) in again and not is_plain(e)] if again else []


class _FunctionEmitter:
    """Prints one function; statements become lines, two shared operands become named constants."""

    def __init__(self, func: LoopFunc, prelude: Prelude) -> None:
        self.func = func
        self.lines: list[str] = []
        self.depth = 1
        self.numbered = 1                                # the next number to try for a shared operand's name
        self.taken: set[str] = {func.name}
        self.names: dict[str, str] = {}
        self.exprs = ExprEmitter(prelude, self.names)
        self.mutable = {s.var.name for s in walk_stmts(func.body) if isinstance(s, Decl)}
        self.apart: list[str] = []                       # functions that loops have become
        for buffer in (*func.params, *func.locals):
            self.names[buffer.name] = identifier(buffer.name, self.taken)
        for var in (*func.dims, func.chunk):
            self.names[var.name] = identifier(var.name, self.taken)

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text if text else "")

    def prepare(self, *roots: Expr) -> None:
        """Name the operands that the coming statement would otherwise compute, and print, more than once."""
        self.exprs.hoisted.clear()
        for expr in _shared(roots):
            code = self.exprs.code(expr)
            name = identifier("s", self.taken) if "s" not in self.taken else self._numbered("s")
            self.line(f"const {self._register(expr, code)} {name} = {code.text};")
            self.exprs.hoisted[id(expr)] = Code(name, mask_bits=code.mask_bits)

    def _numbered(self, stem: str) -> str:
        while f"{stem}{self.numbered}" in self.taken:
            self.numbered += 1
        return identifier(f"{stem}{self.numbered}", self.taken)

    def _register(self, expr: Expr, code: Code) -> str:
        if code.mask_bits:
            return self.exprs.prelude.mask(code.mask_bits, expr.type.lanes)
        return self.exprs.prelude.register(expr.type)

    # --- statements ---------------------------------------------------------------------------------------

    def block(self, body: Sequence[Stmt]) -> None:
        self.depth += 1
        for stmt in body:
            self.stmt(stmt)
        self.depth -= 1

    def stmt(self, stmt: Stmt) -> None:
        match stmt:
            case Let(var=var, value=value):
                self._define(var, value, "const ")
            case Decl(var=var, value=value):
                self._define(var, value, "")
            case Assign(var=var, value=value):
                self.prepare(value)
                bits = self.exprs.masks.get(var.name, 0)
                text = self.exprs.mask(value, bits) if bits else self.exprs.text(value)
                self.line(f"{self.names[var.name]} = {text};")
            case Store():
                self._store(stmt)
            case For():
                self._for_apart(stmt) if stmt.apart else self._for(stmt)
            case If(cond=cond, then=then, orelse=orelse):
                self.prepare(cond)
                self.line(f"if ({self.exprs.text(cond)}) {{")
                self.block(then)
                if orelse:
                    self.line("} else {")
                    self.block(orelse)
                self.line("}")
            case Prefetch(buffer=buffer, index=index):
                self.prepare(index)
                self.line(f"__builtin_prefetch({self.exprs.address(buffer.name, index)});")
            case Fence():
                self.line('__asm__ volatile("" ::: "memory");')
            case Source():
                self._source(stmt)
            case _:
                raise InternalError(f"no C for {type(stmt).__name__}", what=f"kernel {self.func.name}")

    def _define(self, var: Var, value: Expr, qualifier: str) -> None:
        self.prepare(value)
        code = self.exprs.code(value)
        name = self.names[var.name] = identifier(var.name, self.taken)
        if code.mask_bits:
            self.exprs.masks[var.name] = code.mask_bits
        self.line(f"{qualifier}{self._register(value, code)} {name} = {code.text};")

    def _store(self, stmt: Store) -> None:
        buffer, value = stmt.buffer, stmt.value
        roots = (stmt.index, value) if stmt.count is None else (stmt.index, value, stmt.count)
        self.prepare(*roots)
        prelude, lanes = self.exprs.prelude, value.type.lanes
        if lanes == 1:
            target = f"{self.names[buffer.name]}[{self.exprs.text(stmt.index)}]"
            guard = "" if stmt.count is None else f"if ({self.exprs.code(stmt.count).at(10)} > 0) "
            self.line(f"{guard}{target} = {self.exprs.text(value)};")
            return
        where = self.exprs.address(buffer.name, stmt.index)
        text = self.exprs.text(value)
        if value.type.dtype.kind == "bool":
            text = f"({prelude.vector(buffer.dtype, lanes)})({self.exprs.mask(value, 8)} & 1)"
        if stmt.count is None:
            self.line(f"{prelude.use('store', buffer.dtype, lanes)}({where}, {text});")
        else:
            name = prelude.use("store_n", buffer.dtype, lanes)
            self.line(f"{name}({where}, {text}, {self.exprs.text(stmt.count)});")

    def _source(self, stmt: Source) -> None:
        """Text of a user in a block of its own, where the names are what the statement says."""
        for function in stmt.math:
            self.exprs.prelude.math(function, FLOAT32, 1)
        self.exprs.prelude.of_user(stmt.head, stmt.file, stmt.linked)
        self.prepare(*(value for _, value in stmt.values))
        own = [(name, "const int64_t", self.exprs.text(value)) for name, value in stmt.values]
        own += [(name, f"{'const ' if held.mode == 'in' else ''}{memory_type(held.dtype)}* const",
                 self.names[held.name]) for name, held in stmt.buffers]
        self.line("{")                                   # two blocks: a name may be that of a register outside
        for name, kind, text in own:
            self.line(f"{kind} mi_{name} = {text};")     # no register begins with mi_
        self.line("{")
        for name, kind, _ in own:
            self.line(f"{kind} {name} = mi_{name}; (void){name};")
        self.lines += [f"#define {name} {value}" for name, value in stmt.macros]
        self.lines += stmt.before.splitlines()
        self.lines += [f'#line 1 "{stmt.file}"'] if stmt.file else []
        self.lines += stmt.text.splitlines()
        self.lines += [f"#undef {name}" for name, _ in stmt.macros]
        self.line("}}")

    def _bound(self, expr: Expr, stem: str) -> str:
        """A loop bound: computed once, before the loop, unless it is a constant or an immutable register."""
        if isinstance(expr, Const) or isinstance(expr, Var) and expr.name not in self.mutable:
            return self.exprs.text(expr)
        name = identifier(stem, self.taken)
        self.line(f"const int64_t {name} = {self.exprs.text(expr)};")
        return name

    def _for(self, stmt: For) -> None:
        self.prepare(stmt.start, stmt.stop, stmt.step)
        start = self.exprs.text(stmt.start)
        stop = self._bound(stmt.stop, f"{stmt.var.name}_end")
        step = self._bound(stmt.step, f"{stmt.var.name}_step")
        name = self.names[stmt.var.name] = identifier(stmt.var.name, self.taken)
        bounds = (stmt.start, stmt.stop, stmt.step)
        if stmt.unroll and all(isinstance(bound, Const) for bound in bounds):
            first, last, pace = (int(bound.value) for bound in bounds if isinstance(bound, Const))
            self.line(f"UNROLL({max(len(range(first, last, pace)), 1)})")
        advance = f"++{name}" if step == "1" else f"{name} += {step}"
        self.line(f"for (int64_t {name} = {start}; {name} < {stop}; {advance}) {{")
        self.block(stmt.body)
        self.line("}")

    def _for_apart(self, stmt: For) -> None:
        """The loop as a call of a function that gets all it uses: buffers, and index registers of the blocks around."""
        used = names_in((stmt,))
        inside = {s.var.name for s in walk_stmts((stmt,)) if isinstance(s, (For, Let, Decl))}
        buffers = [b for b in (*self.func.params, *self.func.locals) if b.name in used]
        outer = [name for name in dict.fromkeys(used) if name not in inside and name not in {b.name for b in buffers}]
        given = [(f"{'const ' if b.mode == 'in' else ''}{memory_type(b.dtype)}* const", self.names[b.name])
                 for b in buffers] + [("const int64_t", self.names[name]) for name in outer]
        name = identifier(f"{self.func.name}_part", self.taken)
        around, self.lines, depth, self.depth = self.lines, [], self.depth, 1
        self._for(stmt)
        head = f"static __attribute__((noinline)) void {name}({', '.join(f'{kind} {arg}' for kind, arg in given)}) {{"
        self.apart.append("\n".join([head, *self.lines, "}"]))
        self.lines, self.depth = around, depth
        self.line(f"{name}({', '.join(arg for _, arg in given)});")

    # --- functions ----------------------------------------------------------------------------------------

    def _dims(self) -> None:
        for i, dim in enumerate(self.func.dims):
            self.line(f"const int64_t {self.names[dim.name]} = dims[{i}];")

    def _scratch_bytes(self, buffer: Buffer) -> str:
        assert buffer.size is not None
        self.prepare(buffer.size)
        size = self.exprs.code(buffer.size).at(12)
        return f"({size} * {buffer.dtype.bytes} + 63) / 64 * 64"

    def _locals(self) -> None:
        offset = ""
        scratch = [b for b in self.func.locals if b.space == "scratch"]
        for i, buffer in enumerate(scratch):
            name, element = self.names[buffer.name], memory_type(buffer.dtype)
            self.line(f"{element}* const {name} = ({element}*)((char*)scratch{offset});")
            if i + 1 < len(scratch):
                end = identifier(f"{buffer.name}_end", self.taken)
                before = "" if not offset else offset[3:] + " + "
                self.line(f"const int64_t {end} = {before}{self._scratch_bytes(buffer)};")
                offset = f" + {end}"
        for buffer in self.func.locals:
            if buffer.space == "stack":
                assert isinstance(buffer.size, Const)
                size = max(int(buffer.size.value), 1)
                name = self.names[buffer.name]
                self.line(f"{memory_type(buffer.dtype)} {name}[{size}] __attribute__((aligned(64)));")

    def run(self) -> str:
        func = self.func
        self.lines = [_SIGNATURE.format(name=func.name) + " {"]
        for i, buffer in enumerate(func.params):
            const = "const " if buffer.mode == "in" else ""
            self.line(f"{const}{memory_type(buffer.dtype)}* const {self.names[buffer.name]} = bufs[{i}];")
        self._dims()
        self._locals()
        chunk = self.names[func.chunk.name]
        self.line(f"for (int64_t {chunk} = begin; {chunk} < end; ++{chunk}) {{")
        self.block(func.body)
        self.line("}")
        return "\n\n".join([*self.apart, "\n".join([*self.lines, "}"])])

    def size_function(self, kind: str, sizes: Sequence[Buffer] | Expr) -> str:
        """NAME_chunks or NAME_scratch."""
        self.lines = [f"int64_t {self.func.name}_{kind}(const int64_t* dims) {{"]
        self._dims()
        if isinstance(sizes, Expr):
            self.prepare(sizes)
            self.line(f"return {self.exprs.text(sizes)};")
        else:
            self.line(f"return {' + '.join(map(self._scratch_bytes, sizes)) or '0'};")
        return "\n".join([*self.lines, "}"])


def _emit(func: LoopFunc, prelude: Prelude, label: str) -> str:
    scratch = [b for b in func.locals if b.space == "scratch"]
    parts = [
        _FunctionEmitter(func, prelude).size_function("chunks", func.chunks),
        _FunctionEmitter(func, prelude).size_function("scratch", scratch),
        _FunctionEmitter(func, prelude).run(),
    ]
    return f"{_comment(label)}\n" + "\n\n".join(parts) + "\n"


def emit_function(func: LoopFunc, isa: str, label: str = "") -> str:
    """The C of one function without the helpers it calls, for people to read. `isa` is a name of hardware/isa.py.

    Raises UnsupportedError for an element type that C has no register for (bfloat16, 4-bit integers).
    """
    return _emit(func, Prelude(isa_named(isa)), label or func.name)


def _units(funcs: Sequence[LoopFunc]) -> list[list[LoopFunc]]:
    """Neighbouring functions of similar total size; two units at least where there are two functions."""
    sizes = [20 + sum(1 for _ in walk_stmts(f.body)) for f in funcs]
    total = sum(sizes)
    count = min(len(funcs), max(2, -(-total // _UNIT_STATEMENTS)))
    units: list[list[LoopFunc]] = [[] for _ in range(count)]
    before = 0
    for func, size in zip(funcs, sizes, strict=True):
        units[(2 * before + size) * count // (2 * total)].append(func)      # by where its middle lies
        before += size
    return [unit for unit in units if unit]


@dataclass(frozen=True)
class KernelUnit:
    """A translation unit of one function, under a name that tells its code: `stem` and a hash of the text.

    So whoever compiles the same loops again, in another plan or another package, finds the object in the cache.
    """

    symbol: str
    text: str


def emit_alone(func: LoopFunc, isa: str) -> KernelUnit:
    """A function as a unit of its own; the number that tells it from others of its kernel is no part of its name."""
    stem = _NUMBER.sub("", func.name)
    text = emit_unit([replace(func, name=_ANONYMOUS)], isa, {_ANONYMOUS: stem})
    symbol = f"{stem}_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    return KernelUnit(symbol, text.replace(_ANONYMOUS, symbol))


def _is_alone(func: LoopFunc) -> bool:
    """Whether it is a unit of its own: it is long, or a user's text has functions that others must not see."""
    stmts = list(walk_stmts(func.body))
    return len(stmts) >= _ALONE_STATEMENTS or any(isinstance(stmt, Source) and stmt.head for stmt in stmts)


def emit_unit(funcs: Sequence[LoopFunc], isa: str, labels: Mapping[str, str]) -> str:
    """One translation unit: helpers, then the functions. `labels` gives a comment per function name."""
    prelude = Prelude(isa_named(isa))
    bodies = [_emit(func, prelude, labels.get(func.name, func.name)) for func in funcs]
    return prelude.text() + "\n" + "\n".join(bodies)


def emit_table(kernels: Mapping[str, str], dim_exprs: Sequence[Dim] = (), symbols: Sequence[Symbol] = (),
               labels: Mapping[str, str] | None = None) -> str:
    """The unit that lists all kernels, and computes every dimension of the program from its symbols.

    `kernels` gives the C name of each kernel, `labels` a comment.
    """
    parts = [HEADER, KERNEL_TYPE]
    for symbol in dict.fromkeys(kernels.values()):
        sizes = [f"int64_t {symbol}_{kind}(const int64_t* dims);" for kind in ("chunks", "scratch")]
        parts.append("\n".join([*sizes, _SIGNATURE.format(name=symbol) + ";"]))
    rows = [f'    {{"{name}", {symbol}_chunks, {symbol}_scratch, {symbol}}},{_row_comment((labels or {}).get(name))}'
            for name, symbol in kernels.items()]
    rows = rows or ["    {0, 0, 0, 0},"]
    export = '__attribute__((visibility("default")))'
    parts.append(f"{export} extern const mi_kernel mi_kernels[];\n{export} extern const int32_t mi_kernel_count;\n"
                 "extern const int32_t mi_symbol_count, mi_dim_count;\n"
                 f"{export} void mi_eval_dims(const int64_t* symbols, int64_t* dims);\n")
    parts.append("const mi_kernel mi_kernels[] = {\n" + "\n".join(rows) + "\n};\n"
                 f"const int32_t mi_kernel_count = {len(kernels)};\n"
                 f"const int32_t mi_symbol_count = {len(symbols)}, mi_dim_count = {len(dim_exprs)};\n")
    parts.append(emit_eval_dims(dim_exprs, symbols))
    return "\n".join(parts)


def emit_module(funcs: Sequence[LoopFunc], dim_exprs: Sequence[Dim], symbols: Sequence[Symbol], isa: str,
                labels: Mapping[str, str] | None = None) -> list[str]:
    """C sources of a whole program: units of kernels, the table last. Function names must be distinct C names.

    Small functions share a unit. `dim_exprs` are what `mi_eval_dims` writes, in that order; `symbols` the order of the
    values it reads.
    """
    small = [func for func in funcs if not _is_alone(func)]
    names = {func.name for func in small}
    alone = {func.name: emit_alone(func, isa) for func in funcs if func.name not in names}
    units = [emit_unit(unit, isa, {}) for unit in _units(small)] if small else []
    units += dict.fromkeys(unit.text for unit in alone.values())
    table = {func.name: alone[func.name].symbol if func.name in alone else func.name for func in funcs}
    return [*units, emit_table(table, dim_exprs, symbols, labels)]


def _row_comment(label: str | None) -> str:
    return f"  {_comment(label)}" if label else ""


def _comment(text: str) -> str:
    text = text.replace("*/", "* /").replace("\n", " ")
    return f"/* {text} */"
