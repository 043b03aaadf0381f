"""Symbolic dimensions as C: the function that computes all of a program's dims from the symbols' values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meta_infer.ir.shapes import Apply, Atom, Dim, Symbol

_HELPERS = """\
static int64_t dim_floordiv(int64_t a, int64_t b) {
    if (b <= 0) return 0;                   /* no valid run has it; the range check of the symbols reports it */
    return a / b - (a % b < 0);
}

static int64_t dim_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t dim_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}
"""


def _atom(atom: Atom, places: Mapping[str, int]) -> str:
    if isinstance(atom, Apply):
        return f"dim_{atom.op}({dim_text(atom.a, places)}, {dim_text(atom.b, places)})"
    return f"symbols[{places[atom.name]}]"


def dim_text(dim: Dim, places: Mapping[str, int]) -> str:
    """`dim` as a C expression of int64 over `symbols[i]`, i being the symbol's place."""
    if isinstance(dim, int):
        return f"{dim}LL"
    terms = []
    for monomial, coefficient in dim.terms:
        factors = [_atom(a, places) for a in monomial]
        if coefficient != 1 or not factors:
            factors.insert(0, f"{coefficient}LL" if coefficient >= 0 else f"({coefficient}LL)")
        terms.append(" * ".join(factors))
    return " + ".join(terms)


def emit_eval_dims(dims: Sequence[Dim], symbols: Sequence[Symbol]) -> str:
    """`void mi_eval_dims(const int64_t* symbols, int64_t* dims)`. Raises KeyError for a symbol not in `symbols`."""
    places = {symbol.name: i for i, symbol in enumerate(symbols)}
    lines = [f"    dims[{i}] = {dim_text(dim, places)};" for i, dim in enumerate(dims)]
    head = "void mi_eval_dims(const int64_t* symbols, int64_t* dims) {"
    unused = "    (void)symbols, (void)dims;"
    used = [f"dim_{op}" in "".join(lines) for op in ("floordiv", "min", "max")]
    helpers = "\n".join(h for h, u in zip(_HELPERS.split("\n\n"), used, strict=True) if u)
    return "\n".join([helpers, head, *(lines or [unused]), "}\n"])
