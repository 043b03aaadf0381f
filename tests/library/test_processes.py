"""Several builds at once lose nothing and see no lock, and a killed one loses at most what it was about to add."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from meta_infer.library.connection import Connection
from meta_infer.library.store import Counts, Library
from meta_infer.support.errors import LibraryUnwritableError
from tests.library.made_up import sample

ROOT = Path(__file__).resolve().parents[2]


def command(path: Path, name: str, count: int) -> list[str]:
    return [sys.executable, "-m", "tests.library.writer", str(path), name, str(count)]


def test_processes_that_write_at_once(tmp_path: Path) -> None:
    """All begin on a file that none of them has made yet; two readers look on."""
    path = tmp_path / "library.sqlite"
    writers = [subprocess.Popen(command(path, f"w{i}", 60), cwd=ROOT, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True) for i in range(5)]
    seen = 0
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            with Library.open_to_read(path) as library:
                now = library.counts().decisions
                assert now >= seen
                seen = now
        time.sleep(0.02)
    for writer in writers:
        _, errors = writer.communicate()
        assert (writer.returncode, errors) == (0, "")
    with Library.open(path) as library:
        assert library.counts() == Counts(5 * 60 + 1, 5 * 60)
        assert set(library.known(f"w{i}-{n}" for i in range(5) for n in range(60))) == {
            f"w{i}-{n}" for i in range(5) for n in range(60)}


def test_threads_with_a_library_each(tmp_path: Path) -> None:
    def work(name: int) -> None:
        with Library.open(tmp_path / "library.sqlite") as library:
            for i in range(20):
                library.add([sample(f"{name}-{i}")])
                library.prune(cpu="nowhere")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    with Library.open(tmp_path / "library.sqlite") as library:
        assert library.counts().samples == 120


def test_all_make_the_file_at_once(tmp_path: Path) -> None:
    def work(path: Path) -> Counts:
        with Library.open(path) as library:
            return library.counts()

    with ThreadPoolExecutor(6) as pool:
        for i in range(15):
            assert set(pool.map(work, [tmp_path / f"{i}.sqlite"] * 6)) == {Counts(0, 0)}


def test_kill_at_random_moments(tmp_path: Path, full: bool) -> None:
    """From the making of the file on: it opens, has all that was told to be in, and each transaction whole or not."""
    rng, path = random.Random(3), tmp_path / "library.sqlite"
    told: dict[str, int] = {}
    for turn in range(40 if full else 10):
        name = f"turn{turn}"
        with (tmp_path / name).open("w") as said:
            writer = subprocess.Popen(command(path, name, 100_000), cwd=ROOT, stdout=said)
        while turn % 3 and not (tmp_path / name).stat().st_size:    # every third is killed while it starts
            time.sleep(0.001)
        time.sleep(rng.uniform(0.0, 0.15) if turn % 3 else rng.uniform(0.2, 0.5))
        writer.kill()
        writer.wait()
        told[name] = (tmp_path / name).read_text().count("\n")
        with Library.open(path) as library:
            keys = {s.key for s in library.samples()}
            groups = {d.group for d in library.decisions()}
        for known, count in told.items():
            assert {f"{known}-{i}" for i in range(count)} <= keys
            assert {f"group {known} {i}" for i in range(count)} <= groups
            assert f"{known}-{count + 1}" not in keys and f"group {known} {count + 1}" not in groups
    assert sum(told.values()) > 10


def test_who_holds_the_file_too_long_is_told_of(tmp_path: Path) -> None:
    path = tmp_path / "library.sqlite"
    with Library.open(path) as library, Library.open(path, patience=0.1) as impatient:
        def work(_db: object) -> None:
            begin = time.monotonic()
            with pytest.raises(LibraryUnwritableError, match="in use by another program that does not let go"):
                impatient.add([sample()])
            assert time.monotonic() - begin < 5
        writing(library)(work)
        impatient.add([sample()])
        assert library.counts().samples == 1


def test_a_transaction_is_whole_or_not_at_all(tmp_path: Path) -> None:
    with Library.open(tmp_path / "library.sqlite") as library:
        def interrupted(db: object) -> None:
            db.execute("DELETE FROM samples")                   # type: ignore[attr-defined]
            raise KeyboardInterrupt
        library.add([sample("here")])
        with pytest.raises(KeyboardInterrupt):
            writing(library)(interrupted)
        assert [s.key for s in library.samples()] == ["here"]


def writing(library: Library) -> Callable[[Callable[[object], None]], None]:
    file = library._file
    assert isinstance(file, Connection)
    return file.write                                           # type: ignore[return-value]
