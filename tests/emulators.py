"""Other processors for tests: emulated by qemu, loudly absent where that is not installed."""

from __future__ import annotations

import pytest

from meta_infer.backends.cpu.emulated import EMULATORS, HINT, emulator


def need_emulator(isa: str) -> None:
    """Skips the test where programs for `isa` cannot be emulated."""
    if emulator(isa) is None:
        pytest.skip(f"EMULATED TARGET NOT CHECKED: {EMULATORS[isa][0]} is not installed; {HINT}")
