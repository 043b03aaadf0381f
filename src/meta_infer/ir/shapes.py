"""Symbolic dimensions: integer polynomials over named, ranged symbols.

A dimension is a plain `int` or an `Expr`. An Expr is kept in a canonical form, a sum of `coefficient * monomial`,
where a monomial is a product of atoms: a `Symbol` (`W in [32, 960]`) or an `Apply` (floor division, min, max) of
other dims. Equal polynomials are therefore equal objects, which is what lets `Shape -> Gather -> Mul -> Reshape`
chains fold. All values are taken to be exact integers, and divisors to be positive.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

UNBOUNDED = (1 << 31) - 1
"""`hi` of a symbol without a known bound. Bounds are plain integers in Python, however many such symbols a dim
multiplies; while running such dims saturate at 2^56, and a symbol beyond this value is a run-time error."""


@dataclass(frozen=True)
class Symbol:
    """A named dimension that takes values `lo, lo + step, ..., hi` (inclusive).

    `usual` is the end of the sizes that memory is planned for, 0 when that is `hi`: larger ones are right as well, and
    their tensors get memory while the model runs. `maker` is the value of the graph whose computation tells the size
    while running, '' when an input's shape does. Two symbols are equal whatever these say.
    """

    name: str
    lo: int = 1
    hi: int = 1 << 20
    step: int = 1
    maker: str = field(default="", compare=False)
    usual: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return self.name

    @property
    def dim(self) -> Dim:
        """This symbol as a dimension; a range of one value is just that number."""
        return self.lo if self.lo == self.hi else Expr((((self,), 1),))


@dataclass(frozen=True)
class Apply:
    """An operation that does not distribute over the polynomial: 'floordiv', 'min' or 'max' of two dims."""

    op: str
    a: Dim
    b: Dim

    def __str__(self) -> str:
        return f"({_wrap(self.a)} // {_wrap(self.b)})" if self.op == "floordiv" else f"{self.op}({self.a}, {self.b})"


def is_unbounded(symbol: Symbol) -> bool:
    """Whether nothing useful is known of how large `symbol` may become: a bound that was derived from such a size, as
    one less than it, tells nothing either."""
    return symbol.hi >= UNBOUNDED // 2


Atom = Symbol | Apply
Monomial = tuple[Atom, ...]


@dataclass(frozen=True)
class Expr:
    """A canonical polynomial: sorted `(monomial, coefficient)` terms, the empty monomial being the constant."""

    terms: tuple[tuple[Monomial, int], ...]

    def __add__(self, other: Dim) -> Dim:
        return _build([*self.terms, *_terms(other)])

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return _build([(m, -c) for m, c in self.terms])

    def __sub__(self, other: Dim) -> Dim:
        return self + (-other)

    def __rsub__(self, other: Dim) -> Dim:
        return (-self) + other

    def __mul__(self, other: Dim) -> Dim:
        return _build([(_sorted(m + n), c * d) for m, c in self.terms for n, d in _terms(other)])

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floordiv(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return self - floordiv(self, other) * other

    def __rmod__(self, other: Dim) -> Dim:
        return other - floordiv(other, self) * self

    @cached_property
    def text(self) -> str:
        parts = []
        for monomial, coef in self.terms:
            factors = [str(a) for a in monomial]
            if abs(coef) != 1 or not factors:
                factors.insert(0, str(abs(coef)))
            sign = "-" if coef < 0 else "+"
            parts.append(f"{sign} {'*'.join(factors)}")
        joined = " ".join(parts)
        return joined[2:] if joined.startswith("+ ") else "-" + joined[2:]

    def __str__(self) -> str:
        return self.text


Dim = int | Expr


def _wrap(dim: Dim) -> str:
    text = str(dim)
    return f"({text})" if " " in text and not (text[0] == "(" and text.find(")") == len(text) - 1) else text


def _terms(dim: Dim) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(dim, Expr):
        return dim.terms
    return (((), int(dim)),) if dim else ()


def _sorted(atoms: Iterable[Atom]) -> Monomial:
    return tuple(sorted(atoms, key=str))


def _build(terms: Iterable[tuple[Monomial, int]]) -> Dim:
    sums: dict[Monomial, int] = {}
    for monomial, coef in terms:
        sums[monomial] = sums.get(monomial, 0) + coef
    kept = [(m, c) for m, c in sums.items() if c]
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]
    kept.sort(key=lambda t: (-len(t[0]), [str(a) for a in t[0]]))
    return _reduced(Expr(tuple(kept)))


def _divide_exactly(a: Dim, b: Expr) -> Dim | None:
    """`a / b` when b is a single term that divides every term of a, or a is a multiple of b; else None."""
    if a == b:
        return 1
    if len(b.terms) != 1:
        return _divide_by_sum(a, b)
    (monomial, coef) = b.terms[0]
    quotient = []
    for m, c in _terms(a):
        rest = list(m)
        if c % coef:
            return None
        for atom in monomial:
            if atom not in rest:
                return None
            rest.remove(atom)
        quotient.append((tuple(rest), c // coef))
    return _build(quotient)


def _divide_by_sum(a: Dim, b: Expr) -> Dim | None:
    """Polynomial long division by a sum, one leading term at a time; None unless the remainder is zero."""
    quotient: Dim = 0
    for _ in range(16):
        if a == 0:
            return quotient
        lead = Expr((_terms(a)[0],)) if _terms(a)[0][0] else _terms(a)[0][1]
        step = _divide_exactly(lead, Expr((b.terms[0],))) if b.terms[0][0] else None
        if step is None:
            return None
        quotient, a = quotient + step, a - step * b
    return None


def floordiv(a: Dim, b: Dim) -> Dim:
    """floor(a / b) for b > 0, folded as far as exact arithmetic allows."""
    if isinstance(b, int):
        if b <= 0:
            raise ZeroDivisionError(f"divisor {b} of a dimension must be positive")
        if isinstance(a, int):
            return a // b
        if b == 1:
            return a
        if len(a.terms) == 1 and a.terms[0][1] == 1 and len(a.terms[0][0]) == 1:
            atom = a.terms[0][0][0]
            if isinstance(atom, Apply) and atom.op == "floordiv" and isinstance(atom.b, int):
                return floordiv(atom.a, atom.b * b)                       # (x // m) // n == x // (m * n)
        whole = _build([(m, c // b) for m, c in a.terms])                 # c = b * (c // b) + c % b, exactly
        whole, rest = _divide_multiples(whole, [(m, c % b) for m, c in a.terms if c % b], b)
        low, high = bounds(rest)
        if low // b == high // b:
            return whole + low // b
        if rest != a:
            return whole + floordiv(rest, b)
        return whole + Expr((((Apply("floordiv", rest, b),), 1),))
    if isinstance(a, int) and a == 0:
        return 0
    exact = _divide_exactly(a, b)
    if exact is not None:
        return exact
    (a_lo, a_hi), (b_lo, _) = bounds(a), bounds(b)
    if b_lo > 0 and a_lo >= 0 and a_hi < b_lo:
        return 0
    return Expr((((Apply("floordiv", a, b),), 1),))


def _divide_multiples(whole: Dim, terms: list[tuple[Monomial, int]], b: int) -> tuple[Dim, Dim]:
    """Move terms that are multiples of b by the steps of their symbols out of the rest, divided by b.

    (W + 1) // 2 is W // 2 when W takes multiples of 32, and the quotient is a multiple of 16 in its turn.
    """
    rest: list[tuple[Monomial, int]] = []
    for monomial, coef in terms:
        if len(monomial) == 1 and (coef * _atom_factor(monomial[0])) % b == 0 and len(terms) > 1:
            common = math.gcd(coef, b)
            whole = whole + floordiv(Expr(((monomial, 1),)), b // common) * (coef // common)
        else:
            rest.append((monomial, coef))
    return whole, _build(rest)


def _reduced(dim: Dim) -> Dim:
    """2 * (W // 32) as W // 16 when W takes multiples of 32, so that equal quotients are equal objects."""
    for monomial, coef in _terms(dim):
        for i, atom in enumerate(monomial):
            if not isinstance(atom, Apply) or atom.op != "floordiv" or not isinstance(atom.b, int):
                continue
            common = math.gcd(coef, atom.b)
            if common > 1 and divisible(atom.a, atom.b):
                others = [(m, c) for m, c in _terms(dim) if m != monomial]
                rest = monomial[:i] + monomial[i + 1:]
                return _build(others + [(_sorted(m + rest), c * (coef // common))
                                        for m, c in _terms(floordiv(atom.a, atom.b // common))])
    return dim


def _atom_factor(atom: Atom) -> int:
    """A number that every value of `atom` is a multiple of."""
    if isinstance(atom, Symbol):
        return atom.step if atom.lo % atom.step == 0 else 1
    if atom.op == "floordiv" and isinstance(atom.b, int) and isinstance(atom.a, Expr):
        factor = math.gcd(*(_factor(m, c) for m, c in atom.a.terms))
        return factor // atom.b if factor % atom.b == 0 else 1
    return 1


def _factor(monomial: Monomial, coef: int) -> int:
    return abs(coef) * math.prod(map(_atom_factor, monomial))


def _is_multiple(dim: Expr, k: int) -> bool:
    """True when every value of `dim` is a multiple of k by the steps of its symbols."""
    return all(_factor(monomial, coef) % k == 0 for monomial, coef in dim.terms)


def divisible(dim: Dim, k: int) -> bool:
    """True when `dim` is known to be a multiple of k."""
    return dim % k == 0 if isinstance(dim, int) else _is_multiple(dim, k)


def ceildiv(a: Dim, b: Dim) -> Dim:
    """ceil(a / b) for b > 0."""
    return floordiv(a + b - 1, b)


def _extreme(op: str, a: Dim, b: Dim) -> Dim:
    (a_lo, a_hi), (b_lo, b_hi) = bounds(a - b), (0, 0)
    if a_lo >= b_hi:
        return a if op == "max" else b
    if a_hi <= b_lo:
        return b if op == "max" else a
    first, second = sorted((a, b), key=str)
    return Expr((((Apply(op, first, second),), 1),))


def dim_min(a: Dim, b: Dim) -> Dim:
    return _extreme("min", a, b)


def dim_max(a: Dim, b: Dim) -> Dim:
    return _extreme("max", a, b)


def product(dims: Iterable[Dim]) -> Dim:
    total: Dim = 1
    for dim in dims:
        total = total * dim
    return total


def _atom_bounds(atom: Atom) -> tuple[int, int]:
    if isinstance(atom, Symbol):
        return atom.lo, atom.hi
    (a_lo, a_hi), (b_lo, b_hi) = bounds(atom.a), bounds(atom.b)
    if atom.op == "floordiv":
        b_lo, b_hi = max(b_lo, 1), max(b_hi, 1)
        corners = [x // y for x in (a_lo, a_hi) for y in (b_lo, b_hi)]
        return min(corners), max(corners)
    pick = min if atom.op == "min" else max
    return pick(a_lo, b_lo), pick(a_hi, b_hi)


def bounds(dim: Dim) -> tuple[int, int]:
    """An interval that holds every value of `dim` (interval arithmetic: sound, not always tight)."""
    if isinstance(dim, int):
        return dim, dim
    low = high = 0
    for monomial, coef in dim.terms:
        lo, hi = coef, coef
        for atom in monomial:
            a_lo, a_hi = _atom_bounds(atom)
            corners = (lo * a_lo, lo * a_hi, hi * a_lo, hi * a_hi)
            lo, hi = min(corners), max(corners)
        low, high = low + lo, high + hi
    return _less_remainder(dim, low, high)


def _less_remainder(dim: Expr, low: int, high: int) -> tuple[int, int]:
    """[low, high] narrowed by what a remainder can be: W - 32 * (W // 32) is in [0, 31], whatever W.

    In general c * (a // b) with c = n * b is n * (a - r), 0 <= r < b: an expression with one quotient less.
    """
    for monomial, coef in dim.terms:
        atom = monomial[0] if len(monomial) == 1 else None
        if isinstance(atom, Apply) and atom.op == "floordiv" and isinstance(atom.b, int) and coef % atom.b == 0:
            times = coef // atom.b
            rest_low, rest_high = bounds(dim - Expr(((monomial, coef),)) + atom.a * times)
            ends = sorted((0, -times * (atom.b - 1)))
            return max(low, rest_low + ends[0]), min(high, rest_high + ends[1])
    return low, high


def upper(dim: Dim) -> int:
    """The largest value `dim` can take, as far as interval arithmetic knows."""
    return bounds(dim)[1]


def usual_upper(dim: Dim) -> int:
    """The largest value `dim` takes at the sizes that memory is planned for."""
    narrow = {s.name: replace(s, hi=s.usual, usual=0).dim for s in symbols_of(dim) if s.usual}
    return upper(substitute(dim, narrow)) if narrow else upper(dim)


def symbols_of(dim: Dim) -> set[Symbol]:
    """Every symbol that `dim` mentions."""
    found: set[Symbol] = set()
    for monomial, _ in _terms(dim):
        for atom in monomial:
            if isinstance(atom, Symbol):
                found.add(atom)
            else:
                found |= symbols_of(atom.a) | symbols_of(atom.b)
    return found


def _map_atoms(dim: Dim, leaf: Mapping[str, Dim]) -> Dim:
    total: Dim = 0
    for monomial, coef in _terms(dim):
        value: Dim = coef
        for atom in monomial:
            if isinstance(atom, Symbol):
                value = value * leaf.get(atom.name, atom.dim)
                continue
            a, b = _map_atoms(atom.a, leaf), _map_atoms(atom.b, leaf)
            value = value * {"floordiv": floordiv, "min": dim_min, "max": dim_max}[atom.op](a, b)
        total = total + value
    return total


def substitute(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """`dim` with symbols replaced by name; symbols that are not named stay."""
    return dim if isinstance(dim, int) else _map_atoms(dim, values)


def evaluate(dim: Dim, values: Mapping[str, int]) -> int:
    """`dim` as a number. Raises KeyError naming a symbol that has no value."""
    missing = [s.name for s in symbols_of(dim) if s.name not in values]
    if missing:
        raise KeyError(f"no value for dimension {missing[0]!r}")
    result = substitute(dim, values)
    assert isinstance(result, int)
    return result


def parse_dim(text: str, symbols: Mapping[str, Symbol]) -> Dim:
    """Read back what `str(dim)` printed. Raises ValueError for anything else."""
    def walk(node: ast.expr) -> Dim:
        match node:
            case ast.Constant(value=int(value)):
                return value
            case ast.Name(id=name) if name in symbols:
                return symbols[name].dim
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -walk(operand)
            case ast.BinOp(left=left, op=op, right=right):
                a, b = walk(left), walk(right)
                match op:
                    case ast.Add():
                        return a + b
                    case ast.Sub():
                        return a - b
                    case ast.Mult():
                        return a * b
                    case ast.FloorDiv():
                        return floordiv(a, b)
            case ast.Call(func=ast.Name(id="min"), args=[x, y]):
                return dim_min(walk(x), walk(y))
            case ast.Call(func=ast.Name(id="max"), args=[x, y]):
                return dim_max(walk(x), walk(y))
        raise ValueError(f"not a dimension: {text!r}")

    return walk(ast.parse(text, mode="eval").body)
