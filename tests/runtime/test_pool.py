"""Buffers that are sized while running: contents, growth, reuse, outputs in the session's memory, errors."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from meta_infer.ir.program_text import print_program
from meta_infer.memory.planner import plan_memory
from meta_infer.runtime.reader import Package
from meta_infer.runtime.session import Session, load
from meta_infer.support.errors import InputError
from tests.sanitizers.whole_package import CannotCheck, check

from .pool_programs import artifact, expected, feeds, make_program, write
from .programs import PLAN
from .test_c_runtime import Parts, build, drive
from .test_session import assert_same

CASES = [(5, 3, 10, True), (1, 1, 0, True), (4096, 40, 100_000, True), (7, 0, 1, False), (64, 17, 3_000_000, False),
         (3, 200, 5, True), (5, 3, 10, True)]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("pool") / "p.bin")


@pytest.fixture(params=["", "separate", "poison"])
def session(request: pytest.FixtureRequest, package: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setenv("META_INFER_ARENA", request.param)
    with load(package, threads=2) as opened:
        yield opened


def allocations(session: Session) -> int:
    return int(session._library.functions.mi_allocations())


def test_matches_numpy_whatever_the_sizes(session: Session) -> None:
    rng = random.Random(1)
    more = [(rng.randint(1, 300), rng.randint(1, 60), rng.choice((0, 3, 20_000)), rng.random() < 0.5)
            for _ in range(20)]
    for case in (*CASES, *more):
        fed = feeds(*case)
        assert_same(session.run(None, fed), expected(fed))


def test_a_second_run_of_the_same_sizes_asks_the_system_for_nothing(session: Session) -> None:
    for case in CASES:
        session.run(None, feeds(*case))
    before = allocations(session)
    for case in reversed(CASES):
        session.run(None, feeds(*case))
    assert allocations(session) == before
    session.run(None, feeds(8, 2, 6_000_000, False))
    assert allocations(session) > before


def test_the_plan_says_what_lies_in_the_pool() -> None:
    program = make_program()
    plan = plan_memory(program)
    assert set(plan.pooled) == {"rows", "filled", "half_made", "twice", "grown", "longer", "chosen"}
    assert not set(plan.pooled) & set(plan.placements) and plan.sizes["ram"] < 64 * 1024
    assert [s.name for s in plan.pooled["rows"].symbols] == ["T"] and plan.pooled["rows"].bound is None
    assert re.search(r"%rows: float32\[T, N\] plain @ pool \(no bound, live 1\.\.\d+\)", print_program(program, plan))


def test_layers_of_buffers_that_grow_and_die(session: Session) -> None:
    fed = feeds(6, 9, 11, False)
    found, want = session.layers(fed), expected(fed)
    np.testing.assert_array_equal(found["rows"], want[0])
    np.testing.assert_array_equal(found["half_made"], want[1] / 2)
    np.testing.assert_array_equal(found["grown"], want[2])
    np.testing.assert_array_equal(found["last"], want[0][-1])


def test_outputs_are_the_callers_own(session: Session) -> None:
    fed, other = feeds(5, 3, 10, True), feeds(5, 4, 12, False)
    first = session.run(None, fed)
    session.run(None, other)
    assert_same(first, expected(fed))
    assert all(a.flags.owndata and a.flags.writeable for a in first)


def test_threads_do_not_mix_results(package: Path) -> None:
    wrong: list[object] = []

    def work(seed: int) -> None:
        for i in range(25):
            fed = feeds(1 + (seed * 7 + i) % 40, 1 + i % 9, 1000 * (seed + 1), i % 2 == 0, seed)
            for got, want in zip(session.run(None, fed), expected(fed), strict=True):
                if not np.array_equal(got, want):
                    wrong.append((seed, i))

    with load(package, threads=2) as session:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_arrays_of_the_caller(session: Session) -> None:
    fed = feeds(5, 3, 10, True)
    want = expected(fed)
    room, exact = np.zeros(1000, np.float32), np.zeros((3, 5), np.float32)
    got = session.run_with(fed, {"twice": room, "rows": exact})
    assert_same(got, want)
    assert np.shares_memory(got[1], room) and got[0] is exact
    with pytest.raises(InputError, match=r"output 'twice'.*has 36 bytes, this run's result of shape \[10\] takes 40"):
        session.run_with(fed, {"twice": np.zeros(9, np.float32)})
    for bad in (np.zeros(1000), np.zeros(1000, np.float32)[::2]):
        with pytest.raises(InputError, match="must be a writable dense float32 array$"):
            session.run_with(fed, {"twice": bad})
    assert_same(session.run(None, fed), want)


def test_a_size_out_of_range_or_beyond_memory_is_an_error_with_names(session: Session) -> None:
    fed = feeds(5, 3, 10, True)
    with pytest.raises(InputError, match="dimension 'K' became -1 while running, allowed are 0..2147483647"):
        session.run(None, {**fed, "count": np.array(-1)})
    with pytest.raises(InputError, match="dimension 'K' became 2147483648 while running"):
        session.run(None, {**fed, "count": np.array(1 << 31)})
    assert_same(session.run(None, fed), expected(fed))


LIMITED = """
import resource, sys
import numpy as np
from meta_infer.runtime.session import load
from meta_infer.support.errors import InputError
from tests.runtime.pool_programs import expected, feeds
with load(sys.argv[1], threads=1) as session:
    fed, big = feeds(5, 3, 10, True), feeds(5, 3, 4_300_000, True)
    session.run(None, fed)
    room, want = np.zeros(4_300_000, np.float32), expected(big)
    # Beside 26 MB of scratch, two buffers of 17 MB get the power of two above, and the third what there is.
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 115_000_000,) * 2)
    for _ in range(3):
        try:
            session.run(None, feeds(5, 3, 2_000_000_000, True))
        except InputError as error:
            print(error)
    assert all(map(np.array_equal, session.run(None, fed), expected(fed)))
    assert all(map(np.array_equal, session.run_with(big, {"twice": room}), want))
    print("went on")
"""


def test_no_memory_names_the_buffer_and_the_session_goes_on(package: Path) -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED, str(package)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("buffer 'filled' needs 8000000000 bytes, which this machine does not have") == 3
    assert done.stdout.endswith("went on\n")


def test_clean_under_address_sanitizer(package: Path, tmp_path: Path) -> None:
    try:
        check(package, feeds(5, 30, 20_000, True), "asan", tmp_path / "asan")
    except CannotCheck as reason:
        pytest.skip(f"PACKAGE NOT CHECKED by asan: {reason}")


def test_damaged_tables_are_refused(package: Path, tmp_path: Path) -> None:
    """Bytes changed and ends cut off, in a table with pool buffers, symbols that grow, assignments and checks."""
    units = []
    for name, text in artifact().sources.items():
        units.append(tmp_path / name)
        units[-1].write_text('#pragma GCC optimize("wrapv")\n' + text)        # as in test_c_runtime.py
    opened = Package(package)
    (tmp_path / "plan.bin").write_bytes(opened.member(PLAN))
    (tmp_path / "weights.bin").write_bytes(opened.member("weights.bin"))
    parts = Parts(tmp_path, units, tmp_path / "plan.bin", tmp_path / "weights.bin")
    driver = build(parts, "asan", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    assert int(drive(parts, driver, "fuzz").split()[1]) < 1500
