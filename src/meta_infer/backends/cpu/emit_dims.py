"""Symbolic dimensions as C: the function that computes all of a program's dims from the symbols' values.

    dims[0] = 4LL * symbols[0] * symbols[1];
    dims[1] = dim_plus(dim_times(symbols[2], symbols[3]), -1LL);        // may pass 2^56 within the symbols' ranges

A dim that may pass 2^56 on the way is computed with arithmetic that saturates there: what reaches +-2^56 stays there
whatever is added, taken away or divided, as infinity does, and the runtime takes no such number for a size.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence

from meta_infer.ir.shapes import Apply, Atom, Dim, Symbol

LARGEST = 1 << 56
"""The number at which dims saturate: MI_TOO_LARGE of the runtime."""

_HELPERS = {
    "floordiv": """\
static int64_t dim_floordiv(int64_t a, int64_t b) {
    if (b <= 0) return 0;                   /* no valid run has it; the range check of the symbols reports it */
    return a / b - (a % b < 0);
}
""",
    "min": """\
static int64_t dim_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}
""",
    "max": """\
static int64_t dim_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}
""",
    "times": f"""\
static int64_t dim_times(int64_t a, int64_t b) {{
    const int64_t most = {LARGEST}LL;
    if (a == 0 || b == 0) return 0;
    int64_t x = a < 0 ? -a : a, y = b < 0 ? -b : b, size = x > most / y ? most : x * y;
    return (a < 0) == (b < 0) ? size : -size;
}}
""",
    "plus": f"""\
static int64_t dim_plus(int64_t a, int64_t b) {{
    const int64_t most = {LARGEST}LL;
    if (a >= most || b >= most || a + b >= most) return most;
    return a <= -most || b <= -most || a + b <= -most ? -most : a + b;
}}
""",
    "quotient": f"""\
static int64_t dim_quotient(int64_t a, int64_t b) {{
    const int64_t most = {LARGEST}LL;
    if (b <= 0) return 0;
    return a >= most || a <= -most ? a : a / b - (a % b < 0);
}}
""",
}
"""C functions by the end of their name, in the order in which they are emitted."""


def _magnitude(dim: Dim) -> int:
    """No sum or product on the way to a value of `dim` is larger than this."""
    if isinstance(dim, int):
        return abs(dim)
    total = 0
    for monomial, coefficient in dim.terms:
        total += abs(coefficient) * math.prod(max(_atom_magnitude(atom), 1) for atom in monomial)
    return total


def _atom_magnitude(atom: Atom) -> int:
    if isinstance(atom, Symbol):
        return max(abs(atom.lo), abs(atom.hi))
    return max(_magnitude(atom.a), _magnitude(atom.b))


def _literal(value: int) -> str:
    return f"{value}LL" if value >= 0 else f"({value}LL)"


def dim_text(dim: Dim, places: Mapping[str, int]) -> str:
    """`dim` as a C expression of int64 over `symbols[i]`, i being the symbol's place."""
    return _saturating(dim, places) if _magnitude(dim) > LARGEST else _plain(dim, places)


def _plain(dim: Dim, places: Mapping[str, int]) -> str:
    if isinstance(dim, int):
        return f"{dim}LL"
    terms = []
    for monomial, coefficient in dim.terms:
        factors = [f"dim_{a.op}({_plain(a.a, places)}, {_plain(a.b, places)})" if isinstance(a, Apply)
                   else f"symbols[{places[a.name]}]" for a in monomial]
        if coefficient != 1 or not factors:
            factors.insert(0, _literal(coefficient))
        terms.append(" * ".join(factors))
    return " + ".join(terms)


def _saturating(dim: Dim, places: Mapping[str, int]) -> str:
    if isinstance(dim, int):
        return _literal(max(-LARGEST, min(dim, LARGEST)))
    total = ""
    for monomial, coefficient in dim.terms:
        factors = [_saturating_atom(a, places) for a in monomial]
        if coefficient != 1 or not factors:
            factors.append(_saturating(coefficient, places))
        term = functools.reduce(lambda a, b: f"dim_times({a}, {b})", factors)
        total = f"dim_plus({total}, {term})" if total else term
    return total


def _saturating_atom(atom: Atom, places: Mapping[str, int]) -> str:
    if isinstance(atom, Symbol):
        return f"symbols[{places[atom.name]}]"
    op = "quotient" if atom.op == "floordiv" else atom.op
    return f"dim_{op}({_saturating(atom.a, places)}, {_saturating(atom.b, places)})"


def emit_eval_dims(dims: Sequence[Dim], symbols: Sequence[Symbol]) -> str:
    """`void mi_eval_dims(const int64_t* symbols, int64_t* dims)`. Raises KeyError for a symbol not in `symbols`."""
    places = {symbol.name: i for i, symbol in enumerate(symbols)}
    lines = [f"    dims[{i}] = {dim_text(dim, places)};" for i, dim in enumerate(dims)]
    head = "void mi_eval_dims(const int64_t* symbols, int64_t* dims) {"
    unused = "    (void)symbols, (void)dims;"
    text = "\n".join(lines)
    helpers = "\n".join(code for name, code in _HELPERS.items() if f"dim_{name}(" in text)
    return "\n".join([helpers, head, *(lines or [unused]), "}\n"])
