"""Random: the Mersenne Twister, one state for the whole tensor and therefore one chunk.

A batch of 624 words makes 312 doubles of 53 bits: (27 bits of a word * 2^26 + 26 bits of the next) / 2^53.

No knob: there is one chunk and one order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import Buffer, Expr, Type, cast, const, minimum, select
from meta_infer.ir.shapes import product
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.ops.attrs import int_of
from meta_infer.support.dtypes import FLOAT64, UINT32

_WORDS, _MIDDLE = 624, 397
_WORD = Type(UINT32)


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    yield Variant("random", "plain", {}, {group.outputs[0]: PLAIN})


def _seed(b: Builder, state: Buffer, seed: int) -> None:
    b.store(state, 0, const(seed, _WORD))
    with b.loop(1, _WORDS, 1, "i") as i:
        last = b.let(b.load(state, i - 1), "last")
        b.store(state, i, (last ^ (last >> 30)) * 1812433253 + cast(i, UINT32))


def _advance(b: Builder, state: Buffer) -> None:
    with b.loop(0, _WORDS, 1, "i") as i:
        pair = b.let((b.load(state, i) & 0x80000000) | (b.load(state, (i + 1) % _WORDS) & 0x7fffffff), "pair")
        twist = select((pair & 1).eq(1), const(0x9908b0df, _WORD), const(0, _WORD))
        b.store(state, i, b.load(state, (i + _MIDDLE) % _WORDS) ^ (pair >> 1) ^ twist)


def _tempered(b: Builder, word: Expr) -> Expr:
    y = b.let(word, "y")
    y = b.let(y ^ (y >> 11), "y")
    y = b.let(y ^ ((y << 7) & 0x9d2c5680), "y")
    y = b.let(y ^ ((y << 15) & 0xefc60000), "y")
    return y ^ (y >> 18)


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    out = group.values[group.outputs[0]]
    b = Builder("random")
    numbers = b.output("numbers", FLOAT64)
    state = b.scratch("state", UINT32, _WORDS)
    count, half = b.dim(product(out.shape)), _WORDS // 2
    with b.chunks(1):
        _seed(b, state, int_of(group.anchor.attrs, "seed"))
        with b.loop(0, count, half, "first") as first:
            _advance(b, state)
            with b.loop(0, minimum(count - first, half), 1, "at") as at:
                high = cast(_tempered(b, b.load(state, at * 2)) >> 5, FLOAT64)
                low = cast(_tempered(b, b.load(state, at * 2 + 1)) >> 6, FLOAT64)
                b.store(numbers, first + at, (high * 2.0**26 + low) / 2.0**53)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (out.name,), dims),))


RANDOM = Kernel("random", ("Random",), _variants, _lower)
