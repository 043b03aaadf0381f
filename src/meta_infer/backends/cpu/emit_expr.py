"""Loop IR expressions as C expressions."""

from __future__ import annotations

from dataclasses import dataclass, field

from meta_infer.backends.cpu.c_dot import DotShape
from meta_infer.backends.cpu.c_prelude import Prelude
from meta_infer.backends.cpu.c_types import literal, mask_name, scalar_type, short_name
from meta_infer.ir.loop import (
    COMPARISONS,
    Bin,
    Bitcast,
    Cast,
    Const,
    Dot,
    Expr,
    Intrin,
    Iota,
    Load,
    Mad,
    Reduce,
    Select,
    Shuffle,
    Splat,
    Type,
    Un,
    Var,
)
from meta_infer.support.dtypes import FLOAT32, dtype_named
from meta_infer.support.errors import InternalError

_PRECEDENCE = {"*": 12, "/": 12, "%": 12, "+": 11, "-": 11, "<<": 10, ">>": 10, "<": 9, "<=": 9, ">": 9, ">=": 9,
               "==": 8, "!=": 8, "&": 7, "^": 6, "|": 5, "?": 3}
_ATOM, _UNARY = 15, 13


@dataclass(frozen=True)
class Code:
    """C text, how tightly its outermost operator binds, and for bool vectors the bits of a mask element."""

    text: str
    level: int = _ATOM
    mask_bits: int = 0

    def at(self, level: int) -> str:
        """The text, in parentheses if it binds less tightly than `level`."""
        return self.text if self.level >= level else f"({self.text})"


@dataclass
class ExprEmitter:
    """Prints expressions of one function. `names` maps IR names to C names, `masks` bool vector registers to bits.

    `hoisted` holds expressions that the current statement uses several times and has given a name.
    """

    prelude: Prelude
    names: dict[str, str]
    masks: dict[str, int] = field(default_factory=dict)
    hoisted: dict[int, Code] = field(default_factory=dict)

    def text(self, expr: Expr) -> str:
        return self.code(expr).text

    def mask(self, expr: Expr, bits: int) -> str:
        """A bool vector as a mask of `bits`-bit elements."""
        code = self.code(expr, bits)
        if code.mask_bits == bits:
            return code.text
        return f"__builtin_convertvector({code.text}, {self.prelude.mask(bits, expr.type.lanes)})"

    def natural_mask(self, expr: Expr) -> int:
        """The mask width in which a bool vector comes at no cost; 0 when any will do."""
        match expr:
            case Bin(op=op, a=a) if op in COMPARISONS and a.type.dtype.kind != "bool":
                return a.type.dtype.bits
            case Var(name=name):
                return self.masks[name]
            case Load():
                return 8
            case Bin(a=a, b=b):
                return self.natural_mask(a) or self.natural_mask(b)
            case Un(a=a):
                return self.natural_mask(a)
            case Select(cond=cond, a=a, b=b):
                return self.natural_mask(a) or self.natural_mask(b) or self.natural_mask(cond)
            case Shuffle(a=a, b=b):
                return self.natural_mask(a) or self.natural_mask(b) if a.type.lanes > 1 else 0
            case Cast(a=a):
                return a.type.dtype.bits
        return 0

    def code(self, expr: Expr, mask_bits: int = 0) -> Code:
        """C for an expression. A bool vector comes as a mask of whatever width suits, `mask_bits` if it is free."""
        if id(expr) in self.hoisted:
            return self.hoisted[id(expr)]
        if expr.type.dtype.kind == "bool" and expr.type.lanes > 1:
            return self._bool_vector(expr, mask_bits)
        match expr:
            case Const(value=value, type=type):
                text = literal(value, type)
                return Code(text, _UNARY if text.startswith("-") else _ATOM)
            case Var(name=name):
                return Code(self.names[name])
            case Bin():
                return self._binary(expr)
            case Un():
                return self._unary(expr)
            case Mad(a=a, b=b, c=c, type=type):
                return self._call("mad", type, a, b, c)
            case Dot(a=a, b=b, c=c, type=type, narrow=narrow):
                shape = DotShape(a.type.dtype, b.type.dtype, a.type.lanes // type.lanes, type.lanes, narrow)
                return Code(f"{self.prelude.dot(shape)}({', '.join(self.text(x) for x in (a, b, c))})")
            case Cast():
                return self._cast(expr)
            case Bitcast(a=a, type=type):
                return self._bitcast(a, type)
            case Select(cond=cond, a=a, b=b, type=type):
                return self._select(cond, a, b, type)
            case Splat(a=a, type=type):
                if isinstance(a, Const) and not a.value and str(a.value)[0] != "-":
                    return Code(f"({self.prelude.register(type)}){{0}}", _UNARY)
                return self._call("splat", type, a)
            case Iota(type=type):
                return Code(f"({self.prelude.register(type)}){{{', '.join(map(str, range(type.lanes)))}}}", _UNARY)
            case Load():
                return self._load(expr)
            case Shuffle():
                return self._shuffle(expr)
            case Reduce(op=op, a=a):
                name = {"+": "reduce_add", "min": "reduce_min", "max": "reduce_max"}[op]
                return Code(f"{self.prelude.use(name, a.type.dtype, a.type.lanes)}({self.text(a)})")
            case Intrin():
                return self._intrin(expr)
        raise InternalError(f"no C for {expr.__class__.__name__}", what="CPU code generator")

    def _call(self, operation: str, type: Type, *args: Expr) -> Code:
        name = self.prelude.use(operation, type.dtype, type.lanes)
        return Code(f"{name}({', '.join(self.text(a) for a in args)})")

    def address(self, buffer: str, index: Expr) -> str:
        if isinstance(index, Const) and index.value == 0:
            return self.names[buffer]
        return f"{self.names[buffer]} + {self.code(index).at(_PRECEDENCE['+'])}"

    # --- numbers ------------------------------------------------------------------------------------------

    def _binary(self, expr: Bin) -> Code:
        op, a, b, type = expr.op, expr.a, expr.b, expr.a.type
        dtype, scalar = type.dtype, type.lanes == 1
        if dtype.kind == "bool" and op in ("min", "max", "*", "+"):
            op = {"min": "&", "max": "|", "*": "&", "+": "|"}[op]
        if op in ("min", "max"):
            return self._call(op, type, a, b)
        if op in ("//", "%"):
            if scalar and dtype.is_integer:
                return self._call("floordiv" if op == "//" else "mod", type, a, b)
            op = "/" if op == "//" else op
            if dtype.is_float or op == "%":
                raise InternalError(f"{expr.op!r} on {type}", what="CPU code generator")
        if op == "rem" or op == "/" and dtype.is_integer:
            return self._call("div" if op == "/" else "rem", type, a, b)
        level = _PRECEDENCE[op]
        left, right = self._operands(a, b, level)
        # A constant is an int of C's; a shift has the type of its left side alone.
        if isinstance(a, Const) and (isinstance(b, Const) or scalar and op in ("<<", ">>")) and dtype.is_integer:
            left = f"({scalar_type(dtype)}){left}"
        text = f"{left} {op} {right}"
        if scalar and (dtype.bits < 32) and op not in COMPARISONS and dtype.kind != "bool":
            return Code(f"({scalar_type(dtype)})({text})", _UNARY)          # C computed in int
        return Code(text, level)

    def _operands(self, a: Expr, b: Expr, level: int) -> tuple[str, str]:
        """Both sides of an operator. C widens a scalar beside a vector, so one constant side needs no splat."""
        right = _filling(b)
        left = None if right else _filling(a)
        a, b = left or a, right or b
        left_code, right_code = self.code(a), self.code(b)
        compares = level in (_PRECEDENCE["<"], _PRECEDENCE["=="])          # a < b < c is an error of some compilers
        return left_code.at(level + compares), right_code.at(level + 1)

    def _unary(self, expr: Un) -> Code:
        op, a, type = expr.op, expr.a, expr.type
        if op == "not":
            if type.dtype.kind == "bool":
                return Code("!" + self.code(a).at(_UNARY), _UNARY)
            code = Code("~" + self.code(a).at(_UNARY), _UNARY)
            narrow = type.lanes == 1 and type.dtype.bits < 32
            return Code(f"({scalar_type(type.dtype)}){code.text}", _UNARY) if narrow else code
        if op == "neg":
            inner = self.code(a).at(_ATOM)
            narrow = type.lanes == 1 and type.dtype.bits < 32
            return Code(f"({scalar_type(type.dtype)})-{inner}" if narrow else f"-{inner}", _UNARY)
        if not type.dtype.is_float and op in ("floor", "ceil", "trunc", "rint"):
            return self.code(a)
        if type.dtype.kind == "bool" and op == "abs":
            return self.code(a)
        if type.dtype.kind == "uint" and op == "abs":
            return self.code(a)
        return self._call(op, type, a)

    def _cast(self, expr: Cast) -> Code:
        a, type = expr.a, expr.type
        if type.lanes == 1:
            if type.dtype.kind == "bool":
                return Code(f"{self.code(a).at(9)} != 0", 8)
            return Code(f"({scalar_type(type.dtype)}){self.code(a).at(_ATOM)}", _UNARY)
        target = self.prelude.register(type)
        if a.type.dtype.kind == "bool":
            bits = type.dtype.bits
            ones = f"({self.mask(a, bits)} & 1)"
            if type.dtype.is_float or type.dtype.kind == "uint":
                return Code(f"__builtin_convertvector({ones}, {target})")
            return Code(ones)
        return Code(f"__builtin_convertvector({self.text(a)}, {target})")

    def _bitcast(self, a: Expr, type: Type) -> Code:
        if a.type == type:
            return self.code(a)
        if type.lanes > 1 and a.type.lanes > 1:
            return Code(f"({self.prelude.register(type)}){self.code(a).at(_ATOM)}", _UNARY)
        return Code(f"{self.prelude.reinterpret(a.type, type)}({self.text(a)})")

    def _select(self, cond: Expr, a: Expr, b: Expr, type: Type) -> Code:
        if type.lanes > 1:
            name = self.prelude.use("select", type.dtype, type.lanes)
            return Code(f"{name}({self.mask(cond, type.dtype.bits)}, {self.text(a)}, {self.text(b)})")
        level = _PRECEDENCE["?"]
        text = f"{self.code(cond).at(level + 1)} ? {self.code(a).at(level + 1)} : {self.code(b).at(level + 1)}"
        narrow = type.dtype.bits < 32 and type.dtype.kind != "bool"
        return Code(f"({scalar_type(type.dtype)})({text})", _UNARY) if narrow else Code(text, level)

    def _load(self, expr: Load) -> Code:
        buffer, index, type = expr.buffer, expr.index, expr.type
        if type.lanes == 1:
            element = Code(f"{self.names[buffer.name]}[{self.text(index)}]")
            if expr.count is not None:
                return Code(f"{self.code(expr.count).at(10)} > 0 ? {element.text} : 0", _PRECEDENCE["?"])
            return Code(f"{element.text} != 0", 8) if type.dtype.kind == "bool" else element
        where = self.address(buffer.name, index)
        if expr.count is None:
            return Code(f"{self.prelude.use('load', type.dtype, type.lanes)}({where})")
        return Code(f"{self.prelude.use('load_n', type.dtype, type.lanes)}({where}, {self.text(expr.count)})")

    def _shuffle(self, expr: Shuffle) -> Code:
        a, b, picks, type = expr.a, expr.b, expr.picks, expr.type
        both = (a, b)
        if a.type.lanes == 1:
            parts = [self.code(both[p]).at(_PRECEDENCE["?"]) for p in picks]
            return Code(parts[0]) if type.lanes == 1 else Code(
                f"({self.prelude.register(type)}){{{', '.join(parts)}}}", _UNARY)
        if type.lanes == 1:
            side, lane = divmod(picks[0], a.type.lanes)
            return Code(f"{self.code(both[side]).at(_ATOM)}[{lane}]")
        self.prelude.register(type)
        places = ", ".join(map(str, picks))
        return Code(f"({short_name(type.dtype, type.lanes)})__builtin_shufflevector({self.text(a)}, {self.text(b)}, "
                    f"{places})", _UNARY)

    def _intrin(self, expr: Intrin) -> Code:
        type = expr.type
        args = [self.text(a) for a in expr.args]
        if type.dtype.bits >= 32:
            return Code(f"{self.prelude.math(expr.name, type.dtype, type.lanes)}({', '.join(args)})")
        wide = Type(FLOAT32, type.lanes)
        name = self.prelude.math(expr.name, FLOAT32, type.lanes)
        if type.lanes == 1:
            return Code(f"({scalar_type(type.dtype)}){name}({', '.join(args)})", _UNARY)
        target, source = self.prelude.register(type), self.prelude.register(wide)
        wide_args = ", ".join(f"__builtin_convertvector({a}, {source})" for a in args)
        return Code(f"__builtin_convertvector({name}({wide_args}), {target})")

    # --- bool vectors -------------------------------------------------------------------------------------

    def _bool_vector(self, expr: Expr, wanted: int) -> Code:
        lanes = expr.type.lanes
        bits = self.natural_mask(expr) or wanted or 32
        mask = self.prelude.mask(bits, lanes)
        match expr:
            case Bin(op=op, a=a, b=b) if op in COMPARISONS and a.type.dtype.kind != "bool":
                level = _PRECEDENCE[op]
                left, right = self._operands(a, b, level)
                return Code(f"({mask})({left} {op} {right})", _UNARY, bits)
            case Bin(op=op, a=a, b=b):
                return self._mask_binary(op, self.mask(a, bits), self.mask(b, bits), bits)
            case Var(name=name):
                return Code(self.names[name], _ATOM, bits)
            case Un(op="not", a=a):
                return Code(f"~({self.mask(a, bits)})", _UNARY, bits)
            case Un(a=a):
                return Code(self.mask(a, bits), 0, bits)
            case Splat(a=a):
                element = scalar_type(dtype_named(f"int{bits}"))
                splat = self.prelude.use("splat", dtype_named(f"int{bits}"), lanes)
                return Code(f"{splat}(({element})-{self.code(a).at(_ATOM)})", _ATOM, bits)
            case Load():
                loaded = Code(self._load(expr).text)
                return Code(f"({mask_name(8, lanes)})({loaded.text} != 0)", _UNARY, 8)
            case Select(cond=cond, a=a, b=b):
                name = self.prelude.use("select", dtype_named(f"int{bits}"), lanes)
                return Code(f"{name}({self.mask(cond, bits)}, {self.mask(a, bits)}, {self.mask(b, bits)})", _ATOM, bits)
            case Cast(a=a):
                return Code(f"({mask})({self.code(a).at(9)} != 0)", _UNARY, bits)
            case Shuffle(a=a, b=b, picks=picks) if a.type.lanes > 1:
                places = ", ".join(map(str, picks))
                return Code(f"({mask})__builtin_shufflevector({self.mask(a, bits)}, {self.mask(b, bits)}, {places})",
                            _UNARY, bits)
            case Shuffle(a=a, b=b, picks=picks):
                parts = ", ".join(f"-{self.code((a, b)[p]).at(_ATOM)}" for p in picks)
                return Code(f"({mask}){{{parts}}}", _UNARY, bits)
            case Bitcast(a=a):
                return self.code(a, wanted)
        raise InternalError(f"no C for a bool vector {expr.__class__.__name__}", what="CPU code generator")

    def _mask_binary(self, op: str, a: str, b: str, bits: int) -> Code:
        """Booleans as masks, where true is -1: an order of truth values is the reverse of that of the masks."""
        match op:
            case "&" | "min" | "*":
                return Code(f"({a}) & ({b})", _PRECEDENCE["&"], bits)
            case "|" | "max" | "+":
                return Code(f"({a}) | ({b})", _PRECEDENCE["|"], bits)
            case "^" | "!=" | "-":
                return Code(f"({a}) ^ ({b})", _PRECEDENCE["^"], bits)
            case "==":
                return Code(f"~(({a}) ^ ({b}))", _UNARY, bits)
            case "<":
                return Code(f"~({a}) & ({b})", _PRECEDENCE["&"], bits)
            case "<=":
                return Code(f"~({a}) | ({b})", _PRECEDENCE["|"], bits)
            case ">":
                return Code(f"({a}) & ~({b})", _PRECEDENCE["&"], bits)
            case ">=":
                return Code(f"({a}) | ~({b})", _PRECEDENCE["|"], bits)
        raise InternalError(f"{op!r} on bool lanes", what="CPU code generator")


def _filling(expr: Expr) -> Const | None:
    """The constant that fills a float vector, or None."""
    if isinstance(expr, Splat) and isinstance(expr.a, Const) and expr.type.dtype.name in ("float32", "float64"):
        return expr.a
    return None


def is_plain(expr: Expr) -> bool:
    """Whether printing an expression twice costs nothing."""
    return isinstance(expr, (Const, Var)) or isinstance(expr, Splat) and isinstance(expr.a, Const)


