"""One call of a compiler, at fixed addresses, and again where the compiler itself fails.

clang 22 orders some of its work by where its memory lies: with randomised addresses one source gave two different
assemblies, and in one call of two none at all ("Cannot encode high byte register in REX-prefixed instruction"). At
fixed addresses it makes the same of the same. Where it fails there, other addresses may help.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext

TRIES = 4
_OWN_FAULTS = ("error in backend", "PLEASE ATTACH THE FOLLOWING FILES", "internal compiler error")
_ADDR_NO_RANDOMIZE, _ASK = 0x0040000, 0xFFFFFFFF
"""Of <sys/personality.h>, and what personality(2) answers without a change."""


def run_compiler(command: Sequence[str], env: Mapping[str, str],
                 timeout: float) -> tuple[subprocess.CompletedProcess[str], bool]:
    """What a call came to, and whether the compiler itself failed, TRIES times. Raises as subprocess.run."""
    for tried in range(TRIES):
        with nullcontext() if tried else fixed_addresses():
            done = subprocess.run(command, capture_output=True, text=True, env=env, errors="replace", timeout=timeout,
                                  check=False)
        if done.returncode <= 0 or not any(fault in done.stderr for fault in _OWN_FAULTS):
            return done, False
    return done, True


@contextmanager
def fixed_addresses() -> Iterator[None]:
    """Processes that this thread starts meanwhile have their memory where it always is, if the system allows that."""
    if sys.platform != "linux":
        yield
        return
    personality = ctypes.CDLL(None).personality
    personality.argtypes, personality.restype = (ctypes.c_ulong,), ctypes.c_int
    before = personality(_ASK)
    if before >= 0:
        personality(before | _ADDR_NO_RANDOMIZE)
    try:
        yield
    finally:
        if before >= 0:
            personality(before)
