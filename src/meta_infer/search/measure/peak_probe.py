"""A kernel that does nothing but multiply and add in registers: the most that the machine gives at that moment.

    acc[0..11] = 1
    4096 times: acc[k] = acc[k] * 0.5 + 1.0      twelve chains hide the latency of two FMA units, and need no memory

Timed in every round beside the candidates, it says how fast the machine ran just then; a candidate's share of it
stays meaningful when the clock changes or somebody else takes time.
"""

from __future__ import annotations

from meta_infer.hardware.isa import isa_named
from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import LoopFunc, mad
from meta_infer.support.dtypes import FLOAT32

CHUNKS = 16
_CHAINS = 12
_STEPS = 4096


def lanes_of(isa: str) -> int:
    """Floats in a vector register of `isa`, at least one."""
    return max(1, isa_named(isa).simd_bits // 32)


def probe_flops(isa: str) -> int:
    """Floating-point operations of one run."""
    return 2 * CHUNKS * _STEPS * _CHAINS * lanes_of(isa)


def probe_elements(isa: str) -> tuple[int, int]:
    """Elements of the probe's input (a factor, then a summand) and of its output."""
    return 2 * lanes_of(isa), CHUNKS * _CHAINS * lanes_of(isa)


def peak_probe(isa: str) -> LoopFunc:
    """The probe for an instruction set: peak_probe(x, y)."""
    lanes = lanes_of(isa)
    b = Builder("peak_probe")
    x, y = b.input("x", FLOAT32), b.output("y", FLOAT32)
    with b.chunks(CHUNKS) as chunk:
        factor, summand = b.let(b.load(x, 0, lanes), "factor"), b.let(b.load(x, lanes, lanes), "summand")
        chains = [b.var(summand, "acc") for _ in range(_CHAINS)]
        with b.loop(0, _STEPS):
            for chain in chains:
                b.assign(chain, mad(chain, factor, summand))
        for k, chain in enumerate(chains):
            b.store(y, (chunk * _CHAINS + k) * lanes, chain)
    func, _ = b.finish()
    return func
