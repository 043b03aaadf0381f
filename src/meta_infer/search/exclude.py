"""Leaving kernels or single variants out of a build: for a kernel that is wrong or slow, and to find which one is."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence

from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Group, Variant
from meta_infer.kernels import registry
from meta_infer.search.default_plan import Variants
from meta_infer.support.errors import UsageError


def check_kernel_names(names: Iterable[str]) -> None:
    """Raises UsageError for a name that is no 'KERNEL' or 'KERNEL/VARIANT', with the nearest kernel."""
    known = [kernel.name for kernel in registry.all_kernels()]
    for name in names:
        kernel = name.partition("/")[0]
        if kernel not in known:
            near = difflib.get_close_matches(kernel, known, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise UsageError("there is no such kernel", what=f"--exclude {name}",
                             hint=f"{hint}kernels are {', '.join(known)}; give one as KERNEL or KERNEL/VARIANT")


def is_excluded(variant: Variant, names: Sequence[str]) -> bool:
    """Whether `names` hold the variant's kernel, or the variant itself as KERNEL/VARIANT."""
    return variant.kernel in names or f"{variant.kernel}/{variant.name}" in names


def without_excluded(variants: Variants, names: Sequence[str], warn: Callable[[str], None]) -> Variants:
    """`variants` without those that `names` exclude.

    A group that nothing else computes keeps them, with a warning: a package without it could not be. Groups of several
    anchors do not: they stand in for others.
    """
    def kept(group: Group, profile: Profile) -> Iterator[Variant]:
        offered = list(variants(group, profile))
        left = [variant for variant in offered if not is_excluded(variant, names)]
        if offered and not left and not group.prologue:
            warn(f"{group.label}: nothing but what was excluded computes it, {offered[0].kernel} is used all the same")
        yield from left if group.prologue else left or offered

    return kept if names else variants
