"""What is no library, or lies where none can be, ends in one error that says so; a build goes on without it."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_infer.library import schema
from meta_infer.library.failures import check_place
from meta_infer.library.store import Library
from meta_infer.support.errors import LibraryError, LibraryUnwritableError
from tests.library.made_up import sample

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "library.sqlite"


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A library in a folder of others, with one sample; whoever runs this has no special rights meanwhile."""
    folder = Path(tempfile.mkdtemp(prefix="meta-infer-theirs-"))
    with Library.open(folder / "library.sqlite") as library:
        library.add([sample()])
    (folder / "library.sqlite").chmod(0o444)
    folder.chmod(0o555)
    uid = os.geteuid()
    if uid == 0:
        os.seteuid(NOBODY)
    try:
        yield folder / "library.sqlite"
    finally:
        os.seteuid(uid)
        folder.chmod(0o755)
        shutil.rmtree(folder)


def unusable(path: Path, message: str, kind: type[LibraryError] = LibraryError) -> None:
    """Every way to open it ends in this error, and a build is warned once."""
    before = path.read_bytes() if path.is_file() else None
    for opening in (Library.open, Library.open_to_read):
        with pytest.raises(kind, match=message) as error:
            opening(path)
        assert error.value.exit_code == 11 and str(path) in str(error.value) and "\n  try: " in str(error.value)
        assert isinstance(error.value, LibraryUnwritableError) == (kind is LibraryUnwritableError)
    warnings: list[str] = []
    assert Library.open_or_warn(path, warnings.append) is None
    assert len(warnings) == 1 and message in warnings[0]
    assert before is None or path.read_bytes() == before, "what is not ours is left as it is"


def test_a_file_of_another_kind(path: Path) -> None:
    path.write_bytes(b"accelerator:\n  name: chip\n" * 50)
    unusable(path, "is not a library: not an SQLite file")


def test_an_sqlite_file_of_others(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE bookmarks (url)")
    db.commit()
    db.close()
    unusable(path, "an SQLite file that holds something else")


def test_a_newer_version(path: Path) -> None:
    Library.open(path).close()
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    db.close()
    unusable(path, f"is of version {schema.VERSION + 1}, this meta-infer knows {schema.VERSION}")


def test_a_folder(path: Path) -> None:
    path.mkdir()
    unusable(path, "cannot be written in that place", LibraryUnwritableError)


def test_below_a_file(path: Path) -> None:
    path.write_text("")
    with pytest.raises(LibraryUnwritableError, match="its folder cannot be made: "):
        Library.open(path / "sub" / "library.sqlite")
    with pytest.raises(LibraryError, match="does not exist"):
        Library.open_to_read(path.with_name("nothing"))


def test_an_empty_file_is_a_new_library(path: Path) -> None:
    path.write_bytes(b"")
    with Library.open(path) as library:
        library.add([sample()])


@pytest.mark.parametrize("spoil", ["cut", "zeros", "table", "header"])
def test_a_damaged_file(path: Path, spoil: str) -> None:
    with Library.open(path) as library:
        library.add(sample(f"{i}") for i in range(200))
    data = path.read_bytes()
    if spoil == "cut":
        path.write_bytes(data[:len(data) // 2])
    elif spoil == "zeros":
        path.write_bytes(data[:4096] + bytes(len(data) - 4096))
    elif spoil == "header":
        path.write_bytes(data[:40] + b"\xff" * 200 + data[240:])
    else:
        db = sqlite3.connect(path)
        db.execute("DROP TABLE decisions")
        db.commit()
        db.close()
    with pytest.raises(LibraryError) as error, Library.open(path) as library:
        library.samples()
        library.decisions()
    assert ("is not a library" if spoil == "header" else "is damaged") in str(error.value)
    assert not isinstance(error.value, LibraryUnwritableError)


def test_a_library_of_others_is_read(theirs: Path) -> None:
    with pytest.raises(LibraryUnwritableError, match="cannot be written in that place"):
        Library.open(theirs)
    warnings: list[str] = []
    for library in (Library.open_to_read(theirs), Library.open_or_warn(theirs, warnings.append)):
        assert library is not None and not library.writable
        with library:
            assert set(library.known(["a1"])) == {"a1"}
            with pytest.raises(LibraryUnwritableError):
                library.add([sample("b")])
    assert len(warnings) == 1 and "will not be remembered" in warnings[0]
    with pytest.raises(LibraryUnwritableError, match="cannot be written"):
        Library.open(theirs.with_name("new.sqlite"))
    with pytest.raises(LibraryUnwritableError, match="its folder cannot be made: Permission denied"):
        Library.open(theirs.parent / "sub" / "new.sqlite")


def test_an_old_library_of_others_cannot_be_migrated(theirs: Path) -> None:
    uid = os.geteuid()
    os.seteuid(os.getuid())
    theirs.parent.chmod(0o755)
    theirs.chmod(0o644)
    db = sqlite3.connect(theirs)
    db.execute("PRAGMA user_version = 1")
    db.close()
    theirs.chmod(0o444)
    theirs.parent.chmod(0o555)
    os.seteuid(uid)
    with pytest.raises(LibraryUnwritableError):
        Library.open_to_read(theirs)


def test_a_disk_that_is_full(path: Path) -> None:
    """What was added before stays, and it goes on when there is room again."""
    with Library.open(path) as library:
        library.add([sample()])
        library._file._db.execute("PRAGMA max_page_count = 20")
        with pytest.raises(LibraryUnwritableError, match="cannot grow: the disk is full"):
            library.add(sample(f"{i}") for i in range(1000))
        assert [s.key for s in library.samples()] == ["a1"]
        library._file._db.execute("PRAGMA max_page_count = 100000")
        library.add(sample(f"{i}") for i in range(1000))


def test_a_limit_on_files(path: Path) -> None:
    """A quota: the system refuses to write beyond some size."""
    Library.open(path).close()
    program = ("import sys; from pathlib import Path; from meta_infer.library.store import Library\n"
               "from tests.library.made_up import sample\n"
               "library = Library.open(Path(sys.argv[1]))\n"
               "try:\n    library.add(sample(str(i)) for i in range(2000))\n"
               "except Exception as error:\n    print(type(error).__name__, error)\n")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    done = subprocess.run([sys.executable, "-c", program, str(path)], cwd=ROOT, capture_output=True, text=True,
                          preexec_fn=limit, check=False)
    assert done.stdout.startswith("LibraryUnwritableError library: library "), done
    with Library.open(path) as library:
        assert library.samples() == []


MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /data rw,relatime shared:9 - nfs4 server:/data rw,vers=4.2
31 22 0:41 / /data/local\\040disk rw - xfs /dev/sdb1 rw
32 22 0:42 / /mnt rw - ext4 /dev/sdc rw
33 22 0:43 / /mnt rw master:3 - fuse.sshfs host: rw
34 22 0:44 / /database rw - tmpfs tmpfs rw
garbage
"""


@pytest.mark.parametrize(("place", "kind"), [
    ("/data/cache/library.sqlite", "nfs4"), ("/data/local disk/library.sqlite", ""), ("/database/library.sqlite", ""),
    ("/mnt/library.sqlite", "fuse.sshfs"), ("/var/library.sqlite", ""), ("/data", "nfs4"),
])
def test_network_file_systems(place: str, kind: str) -> None:
    if not kind:
        check_place(Path(place), MOUNTS)
        return
    with pytest.raises(LibraryError, match=rf"lies on a network file system \({kind}\)"):
        check_place(Path(place), MOUNTS)


def test_a_network_place_is_not_touched(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.read_text
    mounts = f"30 22 0:40 / {path.parent} rw - nfs server:/ rw\n"
    monkeypatch.setattr(Path, "read_text", lambda self, **kw: mounts if self.name == "mountinfo" else real(self, **kw))
    with pytest.raises(LibraryError, match="on a disk of this machine"):
        Library.open(path)
    assert not path.exists()
