"""Every environment switch of meta-infer, in one place."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from meta_infer.support.errors import UsageError


def _level(name: str, highest: int) -> int:
    text = os.environ.get(name, "0") or "0"
    if not text.isdigit() or int(text) > highest:
        raise UsageError(f"is {text!r}, expected an integer 0..{highest}", what=f"environment variable {name}",
                         hint=f"unset {name} or give it a number")
    return int(text)


def _words(name: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(os.environ.get(name, "")))
    except ValueError as error:
        raise UsageError(f"is no command: {error}", what=f"environment variable {name}") from error


@dataclass(frozen=True)
class Switches:
    """The environment as read once at the start of a command."""

    debug: int                 # META_INFER_DEBUG 0..4: how much the compiler prints of itself
    verify: int                # META_INFER_VERIFY 0..3: 1 IR verifier, 2 text round trip, 3 runs both sides
    dump: Path | None          # META_INFER_DUMP: folder for numbered IR after every pass
    cache: Path                # META_INFER_CACHE: compiled objects and other things that can be made again
    compiler: str | None       # META_INFER_CC: another C compiler than ziglang's
    arena: str                 # META_INFER_ARENA: '', 'separate' (malloc per buffer) or 'poison' (NaN in dead ranges)
    library: Path              # META_INFER_LIBRARY: the experience library; default: library.sqlite in the cache
    ssh: tuple[str, ...] = ("ssh",)  # META_INFER_SSH: the ssh client for boards, with options
    measure: str = ""          # META_INFER_MEASURE: '' or 'replay' (nothing is measured); 'replay:FILE' sets `library`


def read_switches() -> Switches:
    """Read all META_INFER_* variables. Raises UsageError for a value that makes no sense."""
    env = os.environ
    arena = env.get("META_INFER_ARENA", "")
    if arena not in ("", "separate", "poison"):
        raise UsageError(f"is {arena!r}, expected 'separate' or 'poison'", what="environment variable META_INFER_ARENA")
    measure, _, recording = env.get("META_INFER_MEASURE", "").partition(":")
    if measure not in ("", "replay"):
        raise UsageError(f"is {measure!r}, expected 'replay' or 'replay:FILE'",
                         what="environment variable META_INFER_MEASURE",
                         hint="what is measured is always kept, in the file that META_INFER_LIBRARY names")
    cache_home = Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = Path(env.get("META_INFER_CACHE") or cache_home / "meta-infer")
    return Switches(
        debug=_level("META_INFER_DEBUG", 4),
        verify=_level("META_INFER_VERIFY", 3),
        dump=Path(env["META_INFER_DUMP"]) if env.get("META_INFER_DUMP") else None,
        cache=cache,
        compiler=env.get("META_INFER_CC") or None,
        arena=arena,
        library=Path(recording or env.get("META_INFER_LIBRARY") or cache / "library.sqlite"),
        ssh=_words("META_INFER_SSH") or ("ssh",),
        measure=measure,
    )
