"""Iota: 0, 1, 2, ... in rows of a few thousand elements.

No knob: it writes a few thousand indices once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.loop import minimum
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering

_CHUNK = 1 << 14


def _variants(group: Group, profile: Profile) -> Iterable[Variant]:
    if group.epilogue or group.prologue:
        return
    yield Variant("iota", "plain", {}, {group.outputs[0]: PLAIN})


def _lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    out = group.values[group.outputs[0]]
    b = Builder("iota")
    to = b.output("out0", out.dtype)
    size = b.dim(out.shape[0])
    with b.chunks((size + (_CHUNK - 1)) // _CHUNK) as chunk:
        first = b.let(chunk * _CHUNK, "first")
        with b.loop(first, minimum(first + _CHUNK, size), name="i") as i:
            b.store(to, i, i)
    func, dims = b.finish()
    return Lowering((KernelCall(func, (out.name,), dims),))


IOTA = Kernel("iota", ("Iota",), _variants, _lower)
