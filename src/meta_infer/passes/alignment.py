"""How many channels a chip computes together."""

from __future__ import annotations

from meta_infer.hardware.profile import Profile
from meta_infer.support.dtypes import DType


def channel_step(profile: Profile, dtype: DType) -> int:
    """The channel alignment that the profile states, else the elements of a vector register; 1 without either."""
    return profile.aligned_channel if profile.aligned_channel > 1 else profile.lanes(dtype)
