"""The `dot` of loop IR in C: one instruction where the target has it, else widened products whose neighbours are added.

    x86-64                     two of int16         pmaddwd, then paddd
    x86-64 with SSSE3          four of uint8 x int8 pmaddubsw, pmaddwd, paddd, where sums of two fit in 16 bits
    x86-64 with VNNI           two of int16         vpdpwssd
                               four of uint8 x int8 vpdpbusd, which does not saturate (vpdpbusds does)
    aarch64                    two of int16         smull, smull2, addp, add
    aarch64 with asimddp       four of int8 x int8, or uint8 x uint8: sdot, udot
    aarch64 with i8mm          four of uint8 x int8 usdot
"""

from __future__ import annotations

from dataclasses import dataclass

from meta_infer.backends.cpu.c_types import short_name
from meta_infer.hardware.isa import Isa
from meta_infer.support.dtypes import INT8, INT16, INT32, UINT8, DType


@dataclass(frozen=True)
class DotShape:
    """`lanes` sums of int32, each of `terms` products of an `a` by a `b`; `narrow`: two of them fit in 16 bits."""

    a: DType
    b: DType
    terms: int
    lanes: int
    narrow: bool = False

    @property
    def name(self) -> str:
        wide = self.lanes * self.terms
        of = f"{short_name(self.a, wide)}_{short_name(self.b, wide)}_{short_name(INT32, self.lanes)}"
        return f"dot{'_narrow' * self.narrow}_{of}"

    @property
    def bits(self) -> int:
        return self.lanes * 32


def _head(shape: DotShape) -> str:
    wide, c = shape.lanes * shape.terms, short_name(INT32, shape.lanes)
    c = "int32_t" if shape.lanes == 1 else c
    return f"INLINE {c} {shape.name}({short_name(shape.a, wide)} a, {short_name(shape.b, wide)} b, {c} c)"


def _added(products: str, isa: Isa) -> str:
    """Sums that stay in the order in which they are written.

    Compilers add up the products of several steps first, since integers may be added in any order, and then they lack
    registers. The empty statement hides from them how c came about.
    """
    constraint = "+v" if "avx512f" in isa.features else "+x"
    return f'c += {products}; asm("" : "{constraint}"(c)); return c;'


def _in_16_bits(shape: DotShape, isa: Isa) -> str:
    """Sums of two in int16, then sums of two of those."""
    signed, halves = short_name(INT8, shape.lanes * 4), short_name(INT16, shape.lanes * 2)
    ones = ", ".join("1" * (shape.lanes * 2))
    return (f"const {halves} p = ({halves})__builtin_ia32_pmaddubsw{shape.bits}(({signed})a, b);\n    "
            + _added(f"(i32x{shape.lanes})__builtin_ia32_pmaddwd{shape.bits}(p, ({halves}){{{ones}}})", isa))


def _pairs_neon(shape: DotShape) -> str:
    """Products of both halves, neighbours added: as one statement it takes two registers beside its operands."""
    sums = short_name(INT32, shape.lanes)
    return (f'{sums} p, q; asm("smull %1.4s, %3.4h, %4.4h\\n\\tsmull2 %2.4s, %3.8h, %4.8h\\n\\taddp %1.4s, %1.4s, %2.4s'
            '\\n\\tadd %0.4s, %0.4s, %1.4s" : "+w"(c), "=&w"(p), "=&w"(q) : "w"(a), "w"(b)); return c;')


def _instruction(shape: DotShape, isa: Isa) -> str:
    """The statement that does it all; '' where the target has no such instruction."""
    forms = (shape.a, shape.b, shape.terms)
    vnni = {(INT16, INT16, 2): "vpdpwssd", (UINT8, INT8, 4): "vpdpbusd"}.get(forms, "")
    if isa.architecture == "x86_64" and vnni and shape.bits in (128, 256, 512):
        if "avx512_vnni" in isa.features:
            return f'asm("{vnni} %2, %1, %0" : "+v"(c) : "v"(a), "v"(b)); return c;'
        if "avx_vnni" in isa.features and shape.bits < 512:
            return f'asm("%{{vex%}} {vnni} %2, %1, %0" : "+x"(c) : "x"(a), "x"(b)); return c;'
    if isa.architecture == "x86_64" and forms == (INT16, INT16, 2) and shape.bits in (128, 256):
        fits = shape.bits == 128 or "avx2" in isa.features
        return _added(f"(i32x{shape.lanes})__builtin_ia32_pmaddwd{shape.bits}(a, b)", isa) if fits else ""
    if isa.architecture == "x86_64" and forms == (UINT8, INT8, 4) and shape.bits in (128, 256, 512):
        if shape.narrow and "avx2" in isa.features or shape.bits == 128 and "ssse3" in isa.features and shape.narrow:
            return _in_16_bits(shape, isa) if shape.bits < 512 else ""
    if isa.architecture == "aarch64" and forms == (INT16, INT16, 2) and shape.bits == 128:
        return _pairs_neon(shape)
    if isa.architecture == "aarch64" and shape.terms == 4 and shape.bits == 128:
        name = {(INT8, INT8): "sdot", (UINT8, UINT8): "udot", (UINT8, INT8): "usdot"}.get((shape.a, shape.b), "")
        feature = "i8mm" if name == "usdot" else "asimddp"
        if name and feature in isa.features:
            return f'asm("{name} %0.4s, %1.16b, %2.16b" : "+w"(c) : "w"(a), "w"(b)); return c;'
    return ""


def _wide_x86(shape: DotShape, isa: Isa) -> str:
    """pmaddwd of 512 bits, whose builtin only clang spells so."""
    if shape.bits != 512 or (shape.a, shape.b, shape.terms) != (INT16, INT16, 2):
        return ""
    if "avx512bw" not in isa.features or "avx512_vnni" in isa.features:
        return ""
    return _added(f"(i32x{shape.lanes})__builtin_ia32_pmaddwd512(a, b)", isa)


def _sums(shape: DotShape) -> str:
    """Products in int32, then neighbours added."""
    lanes, terms = shape.lanes, shape.terms
    wide = f"i32x{lanes * terms}"
    if lanes == 1:
        terms_of = " + ".join(f"p[{i}]" for i in range(terms))
        return f"const {wide} p = __builtin_convertvector(a, {wide}) * __builtin_convertvector(b, {wide});\n" \
               f"    return c + {terms_of};"
    parts = [f"__builtin_shufflevector(p, p, {', '.join(str(i * terms + t) for i in range(lanes))})"
             for t in range(terms)]
    return (f"const {wide} p = __builtin_convertvector(a, {wide}) * __builtin_convertvector(b, {wide});\n"
            f"    return c + {' + '.join(parts)};")


def dot_text(shape: DotShape, isa: Isa) -> str:
    """The helper function `shape.name`; the vector types it uses must be defined before it."""
    head, only_clang = _head(shape), _wide_x86(shape, isa)
    if only_clang:
        return f"{head} {{\n#if defined(__clang__)\n    {only_clang}\n#else\n    {_sums(shape)}\n#endif\n}}"
    return f"{head} {{\n    {_instruction(shape, isa) or _sums(shape)}\n}}"
