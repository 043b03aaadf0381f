"""Loading and unloading: many times, several packages, damaged command tables in child processes."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np

from meta_infer.runtime import native
from meta_infer.runtime.loader import load_library
from meta_infer.runtime.reader import Package
from meta_infer.runtime.session import load

from .programs import CODE, PLAN, expected, feeds


def mappings() -> int:
    return Path("/proc/self/maps").read_text().count("\n")


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_load_and_unload_many_times(package_file: Path) -> None:
    fed = feeds(8, 64, 2, True)
    want = expected(fed["x"], 2, True)
    seen = {}
    for count in range(1001):
        with load(package_file, threads=2) as session:
            for a, b in zip(session.run(None, fed), want, strict=True):
                np.testing.assert_array_equal(a, b)
        del session
        if count in (100, 1000):
            seen[count] = mappings(), len(os.listdir("/proc/self/fd")), resident_bytes()
    growth = [late - early for early, late in zip(seen[100], seen[1000], strict=True)]
    # A leaked page or descriptor per load would show as 900 of them.
    assert growth[0] <= 20 and growth[1] <= 2 and growth[2] < 900 * 4096, f"left behind by 900 loads: {growth}"


def test_one_pool_for_all_packages(package_file: Path) -> None:
    with load(package_file, threads=3) as first:
        first.run(None, feeds(8, 256, 6, True))
        before = len(os.listdir("/proc/self/task"))
        sessions = [load(package_file, threads=3) for _ in range(4)]
        for session in sessions:
            session.run(None, feeds(8, 256, 6, True))
        assert len(os.listdir("/proc/self/task")) == before, "a second package started threads of its own"
        for session in sessions:
            session.close()
        first.run(None, feeds(8, 256, 6, True))


def test_a_pool_of_another_version_is_refused(package_file: Path) -> None:
    library = load_library(bytes(Package(package_file).check(CODE)), "test")
    table = (native.c_int32 * 8)(99, 24)
    assert library.functions.mi_use_pool(table) == native.BAD_ARGUMENT
    assert library.functions.mi_use_pool(None) == native.BAD_ARGUMENT
    library.close()


def test_running_maps_no_memory(package_file: Path) -> None:
    with load(package_file, threads=2) as session:
        count = session._library.functions.mi_allocations
        before = count()
        for i in range(50):
            session.run(None, feeds(1 + i % 8, 4 + 4 * i, i % 7, True))
        assert before > 0 and count() == before


def _mutated(plan: bytes, seed: int) -> bytes:
    rng = random.Random(seed)
    raw = bytearray(plan)
    for _ in range(rng.randint(1, 6)):
        raw[rng.randrange(len(raw))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(raw[:rng.randrange(len(raw))]) if seed % 10 == 0 else bytes(raw)


def _survives(batch: range, package_file: Path) -> bool:
    """Whether a child process can try to open sessions on all these mutations of the plan."""
    child = os.fork()
    if child == 0:
        package = Package(package_file)
        library = load_library(bytes(package.check(CODE)), "test")
        plan, weights = bytes(package.member(PLAN)), np.frombuffer(package.member("weights.bin"), np.uint8)
        for seed in batch:
            bytes_ = np.frombuffer(_mutated(plan, seed), np.uint8)
            config = native.Config(bytes_.ctypes.data, bytes_.size, weights.ctypes.data, weights.size, 1, seed % 3)
            handle, error = native.c_void_p(), native.Error()
            if library.functions.mi_session_create(handle, config, error) == native.OK:
                library.functions.mi_session_destroy(handle)
            elif not error.text:
                os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_damaged_command_tables_give_errors(package_file: Path) -> None:
    assert all(_survives(range(start, start + 100), package_file) for start in (0, 100, 200))
