"""Instruction sets: what each one implies.

Feature names are those Linux prints in /proc/cpuinfo (flags on x86, Features on Arm), so that a profile and a
probed machine speak one language. The x86-64 levels are those of the x86-64 psABI. A suffix names instructions for
products of 8-bit integers: VNNI on x86, the dot product and the 8-bit matrix extension on Arm.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass


@dataclass(frozen=True)
class Isa:
    """An instruction set: its architecture, the features it guarantees, bits and number of vector registers."""

    name: str
    architecture: str
    features: frozenset[str]
    simd_bits: int
    simd_registers: int = 16

    @property
    def has_fma(self) -> bool:
        # vfpv4 has it on 32-bit Arm, the D extension on riscv64.
        return "fma" in self.features or self.architecture in ("aarch64", "arm", "riscv64")


_V1 = frozenset({"cmov", "cx8", "fxsr", "mmx", "sse", "sse2"})
_V2 = _V1 | {"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"}
_V3 = _V2 | {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"}
_V4 = _V3 | {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}
_ARM = frozenset({"fp", "asimd"})

ISAS = (
    Isa("x86-64", "x86_64", _V1, 128),
    Isa("x86-64-v2", "x86_64", _V2, 128),
    Isa("x86-64-v3", "x86_64", _V3, 256),
    Isa("x86-64-v4", "x86_64", _V4, 512, 32),
    Isa("x86-64-v3-vnni", "x86_64", _V3 | {"avx_vnni"}, 256),
    Isa("x86-64-v4-vnni", "x86_64", _V4 | {"avx512_vnni"}, 512, 32),
    Isa("aarch64", "aarch64", _ARM, 128, 32),
    Isa("aarch64-dot", "aarch64", _ARM | {"asimddp"}, 128, 32),
    Isa("aarch64-i8mm", "aarch64", _ARM | {"asimddp", "i8mm"}, 128, 32),
    Isa("armv7", "arm", frozenset({"neon", "vfpv4"}), 128),
    # The base of riscv64 Linux distributions, RV64GC, has no vectors.
    Isa("riscv64", "riscv64", frozenset(), 0),
    Isa("hexagon", "hexagon", frozenset(), 1024, 32),
)
_BY_NAME = {isa.name: isa for isa in ISAS}
NAMES = tuple(_BY_NAME)

# Every feature that code may be generated for; a machine reports many more that say nothing about that.
EXTENSIONS = frozenset().union(*(isa.features for isa in ISAS)) | {
    "amx_bf16", "amx_int8", "amx_tile", "avx512_bf16", "avx512_fp16", "avx512_vnni", "avx512vbmi", "avx_vnni",
    "asimddp", "asimdhp", "atomics", "bf16", "fphp", "i8mm", "sve", "sve2",
    "v", "zvfh",
    "hvx",
}


PRODUCTS = frozenset({"avx_vnni", "avx512_vnni", "asimddp", "i8mm"})
"""Features that are products of 8-bit integers."""


def isa_named(name: str) -> Isa:
    """The instruction set called `name`. Raises KeyError for an unknown one."""
    return _BY_NAME[name]


def with_products(name: str, features: Set[str]) -> str:
    """The instruction set `name`, or the one that adds to it the products of 8-bit integers that `features` have."""
    base = isa_named(name)
    more = [isa for isa in ISAS if base.features < isa.features <= features and isa.architecture == base.architecture
            and isa.features - base.features <= PRODUCTS]
    return max(more, key=lambda isa: len(isa.features)).name if more else name


def highest_isa(architecture: str, features: Set[str]) -> Isa | None:
    """The most capable set of `architecture` (as `uname -m` prints it) that `features` satisfy, or None."""
    architecture = "arm" if architecture.startswith("armv7") else architecture
    fitting = [isa for isa in ISAS if isa.architecture == architecture and isa.features <= features]
    return max(fitting, key=lambda isa: len(isa.features), default=None)
