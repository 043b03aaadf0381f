"""One profile for each instruction set that a package is to hold code for."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace

from meta_infer.hardware.isa import NAMES, isa_named
from meta_infer.hardware.profile import Profile
from meta_infer.support.errors import UsageError


def target_profiles(profile: Profile, isas: Sequence[str]) -> tuple[Profile, ...]:
    """`profile` as seen by code for each of `isas`, each once; by default for its own instruction set alone.

    Raises UsageError, with the nearest name, for an instruction set that is not known.
    """
    return tuple(restrict(profile, isa) for isa in dict.fromkeys(isas)) or (profile,)


def restrict(profile: Profile, isa: str) -> Profile:
    """The chip of `profile` as code for `isa` may use it: that set's registers and features, the same cores and caches.

    Rates per cycle and fitted costs belong to the chip's own instruction set and are left out. Raises UsageError.
    """
    if isa not in NAMES:
        near = difflib.get_close_matches(isa, NAMES, n=1)
        guess = f"did you mean {near[0]!r}? " if near else ""
        raise UsageError("is no known instruction set", what=f"--isa {isa}",
                         hint=f"{guess}known are {', '.join(NAMES)}")
    if isa == profile.isa:
        return profile
    known = isa_named(isa)
    return replace(profile, name=f"{profile.name} as {isa}", isa=isa, features=known.features,
                   simd_bits=known.simd_bits, has_fma=known.has_fma, macs_per_cycle={},
                   chip=profile.chip.model_copy(update={"cost": ()}))
