"""The helper functions that generated C calls, each written out only in the units that use it.

Helpers are `static inline` and named OPERATION_TYPE (`load_f32x8`, `select_f32x8`, `min_i64`). A helper's text may
ask the prelude for others, which then come before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from meta_infer.backends.cpu.c_dot import DotShape, dot_text
from meta_infer.backends.cpu.c_types import mask_name, memory_type, scalar_type, short_name
from meta_infer.backends.cpu.linked import link_line
from meta_infer.backends.cpu.vector_math import instantiate, needs, templates
from meta_infer.hardware.isa import Isa
from meta_infer.ir.loop import Type
from meta_infer.ir.source import Linked
from meta_infer.support.dtypes import FLOAT32, FLOAT64, INT16, INT32, INT64, DType, dtype_named

HEADER = """\
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#define INLINE static inline __attribute__((always_inline, unused))
#define PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define UNROLL(count) PRAGMA(clang loop unroll(full))
#else
#define UNROLL(count) PRAGMA(GCC unroll count)
#endif
"""


class Prelude:
    """Collects the typedefs and helpers a unit needs, in the order of definition."""

    def __init__(self, isa: Isa) -> None:
        self.isa = isa
        self._done: set[str] = set()
        self._texts: list[str] = []

    def text(self) -> str:
        return "\n".join([HEADER, *self._texts])

    def _add(self, name: str, text: str) -> None:
        self._done.add(name)
        self._texts.append(text)

    def vector(self, dtype: DType, lanes: int) -> str:
        """Name of a vector type, defined with its unaligned twin for memory."""
        name = short_name(dtype, lanes)
        if name not in self._done:
            size = lanes * dtype.bits // 8
            element = memory_type(dtype)
            self._add(name, f"typedef {element} {name} __attribute__((vector_size({size})));\n"
                            f"typedef {element} {name}_u __attribute__((vector_size({size}), aligned({dtype.bytes}), "
                            "may_alias));")
        return name

    def mask(self, bits: int, lanes: int) -> str:
        """Name of the mask type for `lanes` comparisons of `bits`-bit elements."""
        return self.vector(dtype_named(f"int{bits}"), lanes)

    def register(self, type: Type) -> str:
        """C type of a register that is not a bool vector."""
        return scalar_type(type.dtype) if type.lanes == 1 else self.vector(type.dtype, type.lanes)

    def use(self, operation: str, dtype: DType, lanes: int = 1) -> str:
        """Name of a helper, defined on first use. Raises KeyError for an unknown operation."""
        name = f"{operation}_{short_name(dtype, lanes)}"
        if name in self._done:
            return name
        if lanes > 1:
            self.vector(dtype, lanes)
        text = self._scalar(operation, name, dtype) if lanes == 1 else self._vector(operation, name, dtype, lanes)
        self._add(name, text)
        return name

    def dot(self, shape: DotShape) -> str:
        """Name of the function that adds sums of neighbouring products."""
        if shape.name not in self._done:
            wide = shape.lanes * shape.terms
            for dtype, lanes in ((shape.a, wide), (shape.b, wide), (INT32, wide), (INT32, shape.lanes),
                                 (INT16, max(2, wide // 2))):
                self.register(Type(dtype, lanes))
            self._add(shape.name, dot_text(shape, self.isa))
        return shape.name

    def of_user(self, head: str, file: str, linked: Sequence[Linked]) -> None:
        """What stands before the functions for text of a user, once in a unit."""
        text = "\n".join([*map(link_line, linked), *([f'#line 1 "{file}, head"'] if head and file else []), head])
        if text.strip() and text not in self._done:
            self._add(text, text)

    def reinterpret(self, source: Type, target: Type) -> str:
        """Name of the function that gives the bits of a `source` as a `target`, of which one is a scalar."""
        name = f"as_{short_name(target.dtype, target.lanes)}_of_{short_name(source.dtype, source.lanes)}"
        if name not in self._done:
            have, want = self.register(source), self.register(target)
            self._add(name, f"INLINE {want} {name}({have} a) {{ union {{ {have} from; {want} to; }} bits = {{a}}; "
                            "return bits.to; }")
        return name

    def math(self, function: str, dtype: DType, lanes: int) -> str:
        """Name of a function of MATH for this width; a scalar is computed in a vector of four."""
        name = f"{function}_{short_name(dtype, lanes)}"
        if name in self._done:
            return name
        if lanes == 1:
            wide, splat = self.math(function, dtype, 4), self.use("splat", dtype, 4)
            element = scalar_type(dtype)
            names = ("a", "b") if function == "pow" else ("a",)
            params = ", ".join(f"{element} {n}" for n in names)
            args = ", ".join(f"{splat}({n})" for n in names)
            self._add(name, f"INLINE {element} {name}({params}) {{ return {wide}({args})[0]; }}")
            return name
        known = templates(dtype.bits)
        types = {"V": dtype, "I": dtype_named(f"int{dtype.bits}"), "D": FLOAT64, "L": INT64}
        for operation, letter in needs(known[function]):
            if not operation:
                self.vector(types[letter], lanes)
            elif operation == function and letter == "V":
                continue
            elif operation in templates(types[letter].bits):
                self.math(operation, types[letter], lanes)
            else:
                self.use(operation, types[letter], lanes)
        text = instantiate(known[function], {k: short_name(t, lanes) for k, t in types.items()})
        self._add(name, text)
        return name

    # --- scalars ------------------------------------------------------------------------------------------

    def _scalar(self, operation: str, name: str, dtype: DType) -> str:
        t = scalar_type(dtype)
        match operation:
            case "min" | "max":
                sign = "<" if operation == "min" else ">"
                return f"INLINE {t} {name}({t} a, {t} b) {{ return a {sign} b ? a : b; }}"
            case "floordiv" | "mod":
                sign = "/" if operation == "floordiv" else "%"
                return (f"/* of non-negative operands */\n"
                        f"INLINE {t} {name}({t} a, {t} b) {{ return ({t})((uint{dtype.bits}_t)a {sign} "
                        f"(uint{dtype.bits}_t)b); }}")
            case "div" | "rem":
                return _scalar_division(operation, name, t, dtype.kind == "uint")
            case "abs":
                if dtype.is_float:
                    return f"INLINE {t} {name}({t} a) {{ return ({t})__builtin_fabs{_suffix(dtype)}(a); }}"
                return f"INLINE {t} {name}({t} a) {{ return ({t})(a < 0 ? -a : a); }}"
            case "sqrt":
                return f"INLINE {t} {name}({t} a) {{ return ({t})__builtin_sqrt{_suffix(dtype)}(a); }}"
            case "mad":
                if dtype.is_float and self.isa.has_fma and dtype.bits >= 32:
                    body = f"__builtin_fma{_suffix(dtype)}(a, b, c)"
                else:
                    body = "a * b + c"
                return f"INLINE {t} {name}({t} a, {t} b, {t} c) {{ return ({t})({body}); }}"
            case "floor" | "ceil" | "trunc" | "rint":
                wide = self.use(operation, dtype, 4)
                splat = self.use("splat", dtype, 4)
                return f"INLINE {t} {name}({t} a) {{ return {wide}({splat}(a))[0]; }}"
        raise KeyError(operation)

    # --- vectors ------------------------------------------------------------------------------------------

    def _vector(self, operation: str, name: str, dtype: DType, lanes: int) -> str:
        v, t = short_name(dtype, lanes), memory_type(dtype)
        m = self.mask(dtype.bits, lanes)
        match operation:
            case "splat":
                return f"INLINE {v} {name}({t} a) {{ return ({v}){{{', '.join('a' * lanes)}}}; }}"
            case "load":
                return f"INLINE {v} {name}(const {t}* p) {{ return *(const {v}_u*)p; }}"
            case "store":
                return f"INLINE void {name}({t}* p, {v} a) {{ *({v}_u*)p = a; }}"
            case "load_n" | "store_n":
                return self._partial(operation, name, dtype, lanes)
            case "select":
                if dtype.is_float:
                    return (f"INLINE {v} {name}({m} m, {v} a, {v} b) "
                            f"{{ return ({v})((m & ({m})a) | (~m & ({m})b)); }}")
                return f"INLINE {v} {name}({m} m, {v} a, {v} b) {{ return (({v})m & a) | (~({v})m & b); }}"
            case "min" | "max":
                select, sign = self.use("select", dtype, lanes), "<" if operation == "min" else ">"
                return f"INLINE {v} {name}({v} a, {v} b) {{ return {select}(({m})(a {sign} b), a, b); }}"
            case "abs":
                if dtype.is_float:
                    low = (1 << (dtype.bits - 1)) - 1
                    return f"INLINE {v} {name}({v} a) {{ return ({v})(({m})a & {low:#x}{'LL' if low >> 32 else ''}); }}"
                if dtype.kind == "uint":
                    return f"INLINE {v} {name}({v} a) {{ return a; }}"
                select = self.use("select", dtype, lanes)
                return f"INLINE {v} {name}({v} a) {{ return {select}(a < 0, -a, a); }}"
            case "div" | "rem":
                return self._vector_division(operation, name, dtype, lanes)
            case "mad":
                return self._mad(name, dtype, lanes)
            case "sqrt":
                one = f"({t})__builtin_sqrt{_suffix(dtype)}(a[i])"
                slow = f"    {v} r;\n    for (int i = 0; i < {lanes}; ++i) r[i] = {one};\n    return r;"
                return _either(f"INLINE {v} {name}({v} a)", "    return __builtin_elementwise_sqrt(a);", slow)
            case "floor" | "ceil" | "trunc" | "rint":
                return self._round(operation, name, dtype, lanes)
            case "reduce_add" | "reduce_min" | "reduce_max":
                return self._reduce(operation[7:], name, dtype, lanes)
        raise KeyError(operation)

    def _partial(self, operation: str, name: str, dtype: DType, lanes: int) -> str:
        """Loads and stores of the first n lanes: masked instructions where the target has them, else a loop."""
        v, t = short_name(dtype, lanes), memory_type(dtype)
        loop = f"for (int i = 0; i < {lanes}; ++i) if (i < n) "
        if operation == "load_n":
            head = f"INLINE {v} {name}(const {t}* p, int64_t n)"
            body = f"    {v} r = {{0}};\n    {loop}r[i] = p[i];\n    return r;"
        else:
            head, body = f"INLINE void {name}({t}* p, {v} a, int64_t n)", f"    {loop}p[i] = a[i];"
        if "avx2" not in self.isa.features or dtype.bits < 32:
            return f"{head} {{\n{body}\n}}"
        m, first = self.mask(dtype.bits, lanes), ", ".join(map(str, range(lanes)))
        mask = f"    const {m} inside = ({m}){{{first}}} < ({scalar_type(dtype_named(f'int{dtype.bits}'))})n;\n"
        bools = f"    typedef bool mask __attribute__((ext_vector_type({lanes})));\n" \
                f"    typedef {t} value __attribute__((ext_vector_type({lanes})));\n"
        masked = "__builtin_convertvector(inside, mask)"
        fast = (f"    return ({v})__builtin_masked_load({masked}, p, (value)({v}){{0}});" if operation == "load_n"
                else f"    __builtin_masked_store({masked}, (value)a, p);")
        return _either(head, mask + bools + fast, body)

    def _mad(self, name: str, dtype: DType, lanes: int) -> str:
        v = short_name(dtype, lanes)
        head = f"INLINE {v} {name}({v} a, {v} b, {v} c)"
        if not (dtype.is_float and self.isa.has_fma and dtype.bits >= 32):
            return f"{head} {{ return a * b + c; }}"
        loop = (f"    {v} r;\n    for (int i = 0; i < {lanes}; ++i) r[i] = "
                f"__builtin_fma{_suffix(dtype)}(a[i], b[i], c[i]);\n    return r;")
        gcc = _gcc_x86_fma(dtype, lanes) if self.isa.architecture == "x86_64" else ""
        other = f"    return {gcc}(a, b, c);" if gcc else loop
        return _either(head, "    return __builtin_elementwise_fma(a, b, c);", other)

    def _round(self, operation: str, name: str, dtype: DType, lanes: int) -> str:
        """Rounding to integers. Without an instruction: add and subtract 2^(mantissa bits), then correct."""
        v, m = short_name(dtype, lanes), mask_name(dtype.bits, lanes)
        if dtype.bits == 16:                # compilers may keep sums of halves in float: adding 1024 rounds nothing
            wide, f = self.use(operation, FLOAT32, lanes), short_name(FLOAT32, lanes)
            return (f"INLINE {v} {name}({v} a) {{ "
                    f"return __builtin_convertvector({wide}(__builtin_convertvector(a, {f})), {v}); }}")
        abs_, select = self.use("abs", dtype, lanes), self.use("select", dtype, lanes)
        big = {32: "8388608.0f", 64: "4503599627370496.0"}[dtype.bits]
        one = "1.0" if dtype.bits == 64 else "1.0f"
        fix = {
            "rint": "",
            "floor": f"    r -= {select}(r > a, one, zero);\n",
            "ceil": f"    r += {select}(r < a, one, zero);\n",
            "trunc": f"    r -= {select}({abs_}(r) > {abs_}(a), sign_of_one, zero);\n",
        }[operation]
        slow = (f"    const {v} zero = {{0}}, one = zero + {one}, big = zero + {big};\n"
                f"    const {m} sign = ({m})a & ({m})-zero;\n"
                f"    const {v} signed_big = ({v})(({m})big | sign);\n"
                + (f"    const {v} sign_of_one = ({v})(({m})one | sign);\n" if operation == "trunc" else "")
                + ("    (void)one;\n" if operation in ("rint", "trunc") else "")
                + f"    {v} r = (a + signed_big) - signed_big;\n{fix}"
                f"    r = ({v})(({m}){abs_}(r) | sign);\n"
                f"    return {select}({abs_}(a) < big, r, a);")
        head = f"INLINE {v} {name}({v} a)"
        if not ("sse4_1" in self.isa.features or self.isa.architecture == "aarch64"):
            return f"{head} {{\n{slow}\n}}"
        return _either(head, f"    return __builtin_elementwise_{operation}(a);", slow)

    def _reduce(self, operation: str, name: str, dtype: DType, lanes: int) -> str:
        """Halves are combined until one element is left, always in this order."""
        v, t = short_name(dtype, lanes), memory_type(dtype)
        half = lanes // 2
        element = scalar_type(dtype)
        if half == 1:
            low, high = "a[0]", "a[1]"
            inner = (f"({element})({low} + {high})" if operation == "add"
                     else f"{self.use(operation, dtype)}({low}, {high})")
            return f"INLINE {t} {name}({v} a) {{ return {inner}; }}"
        h = self.vector(dtype, half)
        rest = self.use(f"reduce_{operation}", dtype, half)
        picks_low, picks_high = (", ".join(map(str, range(s, s + half))) for s in (0, half))
        low, high = f"__builtin_shufflevector(a, a, {picks_low})", f"__builtin_shufflevector(a, a, {picks_high})"
        both = "low + high" if operation == "add" else f"{self.use(operation, dtype, half)}(low, high)"
        return (f"INLINE {t} {name}({v} a) {{\n    const {h} low = {low};\n    const {h} high = {high};\n"
                f"    return {rest}({both});\n}}")

    def _vector_division(self, operation: str, name: str, dtype: DType, lanes: int) -> str:
        v = short_name(dtype, lanes)
        select = self.use("select", dtype, lanes)
        head = f"INLINE {v} {name}({v} a, {v} b)"
        if dtype.kind == "uint":
            safe = f"    const {v} safe = {select}(b == 0, a - a + 1, b);\n"
            quotient = f"    const {v} q = {select}(b == 0, a - a, a / safe);\n"
        else:
            safe = f"    const {v} safe = {select}((b == 0) | (b == -1), a - a + 1, b);\n"
            quotient = f"    const {v} q = {select}(b == 0, a - a, {select}(b == -1, -a, a / safe));\n"
        result = "q" if operation == "div" else f"{select}(b == 0, a - a, a - q * b)"
        return f"{head} {{\n{safe}{quotient}    return {result};\n}}"


def _either(head: str, clang: str, other: str) -> str:
    """A function with one body for clang and one for other compilers."""
    return f"{head} {{\n#if defined(__clang__)\n{clang}\n#else\n{other}\n#endif\n}}"


def _suffix(dtype: DType) -> str:
    return "" if dtype.bits == 64 else "f"


def _gcc_x86_fma(dtype: DType, lanes: int) -> str:
    return {(32, 4): "__builtin_ia32_vfmaddps", (32, 8): "__builtin_ia32_vfmaddps256",
            (64, 2): "__builtin_ia32_vfmaddpd", (64, 4): "__builtin_ia32_vfmaddpd256"}.get((dtype.bits, lanes), "")


def _scalar_division(operation: str, name: str, t: str, unsigned: bool) -> str:
    """C division that does not trap: x / 0 and x rem 0 are 0, and MIN / -1 wraps."""
    if unsigned:
        sign = "/" if operation == "div" else "%"
        return f"INLINE {t} {name}({t} a, {t} b) {{ return ({t})(b == 0 ? 0 : a {sign} b); }}"
    if operation == "div":
        return f"INLINE {t} {name}({t} a, {t} b) {{ return ({t})(b == 0 ? 0 : b == -1 ? -a : a / b); }}"
    return f"INLINE {t} {name}({t} a, {t} b) {{ return ({t})(b == 0 || b == -1 ? 0 : a % b); }}"

