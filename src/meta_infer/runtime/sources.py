"""Where the C runtime's files lie: a backend compiles them into every package."""

from __future__ import annotations

from pathlib import Path

C_FOLDER = Path(__file__).resolve().parent / "c"
"""The folder to give the compiler with -I: generated code includes mi_kernel.h from it."""

C_SOURCES = tuple(C_FOLDER / name for name in (
    "mi_blocks.c", "mi_error.c", "mi_interpret.c", "mi_lock.c", "mi_memory.c", "mi_os.c", "mi_plan.c", "mi_pool.c",
    "mi_resolve.c", "mi_runtime.c", "mi_session.c",
))
MEASURE_SOURCES = tuple(C_FOLDER / name for name in ("mi_lock.c", "mi_measure.c", "mi_os.c", "mi_pool.c"))
"""What times single kernels during a search: no part of packages."""
_SYSTEM = ("mi_driver_elf.c", "mi_driver_system.c", "mi_memory.c")
DRIVER_SOURCES = tuple(C_FOLDER / name for name in ("mi_driver.c", "mi_driver_package.c", *_SYSTEM))
"""A program that runs packages without Python."""
AGENT_SOURCES = tuple(C_FOLDER / name for name in ("mi_agent.c", "mi_agent_text.c", *_SYSTEM))
"""A program that times single kernels without Python."""
TURNS_SOURCES = tuple(C_FOLDER / name for name in ("mi_turns.c", "mi_agent_text.c", "mi_driver_package.c", *_SYSTEM))
"""A program that times whole packages in turns without Python."""
PLACED_SOURCES = tuple(C_FOLDER / name for name in ("mi_placed.c", "mi_agent_text.c", "mi_driver_package.c", *_SYSTEM))
"""A program that times the commands of a package without Python."""
PUBLIC_HEADER = C_FOLDER / "mi_runtime.h"
