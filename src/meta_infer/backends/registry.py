"""All backends, as one explicit tuple."""

from __future__ import annotations

from meta_infer.backends.base import Backend
from meta_infer.backends.cpu.backend import CPU
from meta_infer.hardware.profile import Profile
from meta_infer.support.errors import ProfileError

BACKENDS: tuple[Backend, ...] = (CPU,)


def backend_named(name: str) -> Backend:
    """The backend called `name`, as profiles name it. Raises KeyError when there is none."""
    for backend in BACKENDS:
        if backend.name == name:
            return backend
    raise KeyError(name)


def backend_for(profile: Profile) -> Backend:
    """The backend that generates code for a profile. Raises ProfileError when it names none, or an unknown one."""
    try:
        return backend_named(profile.backend or "")
    except KeyError:
        problem = f"names the unknown backend {profile.backend!r}" if profile.backend else "names no backend"
        raise ProfileError(problem, what=f"profile {profile.name!r}",
                           hint=f"backends are: {', '.join(b.name for b in BACKENDS)}") from None
