"""What a written package looks like, and that writing never harms what was there."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from meta_infer.package import archive
from meta_infer.package.constants import place_constants
from meta_infer.package.format import CONSTANT_ALIGNMENT, PAGE
from meta_infer.runtime.archive import read_archive
from meta_infer.runtime.reader import Package
from meta_infer.runtime.session import load
from meta_infer.support.errors import PackageError
from tests.runtime import programs


def test_an_ordinary_zip_tool_reads_it(package_file: Path) -> None:
    with zipfile.ZipFile(package_file) as zipped:
        assert zipped.testzip() is None
        names = zipped.namelist()
        assert names[0] == "manifest.json" and names[-1] == "weights.bin"
        assert {"report.json", "build.lock.json", "config.yaml", "tests/random.npz", programs.CODE, programs.PLAN,
                programs.DEBUG} <= set(names)
        assert any(name.startswith("sources/") and name.endswith(".c") for name in names)
        manifest = json.loads(zipped.read("manifest.json"))
        assert set(manifest["members"]) == set(names) - {"manifest.json"}
        for name, entry in manifest["members"].items():
            assert entry == {"bytes": len(zipped.read(name)), "sha256": hashlib.sha256(zipped.read(name)).hexdigest()}
        assert all(info.compress_type == zipfile.ZIP_STORED for info in zipped.infolist())
        assert zipped.read("config.yaml") == b"a: 1\n" and json.loads(zipped.read("report.json"))["note"]


def test_members_begin_on_pages(package_file: Path) -> None:
    found = read_archive(memoryview(package_file.read_bytes()), "p")
    assert all(member.offset % PAGE == 0 for member in found.members.values())


def test_same_arguments_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = programs.write(tmp_path / "a.bin"), programs.write(tmp_path / "b.bin")
    assert first.read_bytes() == second.read_bytes()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    dated = programs.write(tmp_path / "c.bin")
    with zipfile.ZipFile(dated) as zipped:
        assert zipped.infolist()[0].date_time == (2023, 11, 14, 22, 13, 20)
    assert np.array_equal(load(dated, threads=1).run(["same"], programs.feeds(1, 4, 0, True))[0],
                          programs.feeds(1, 4, 0, True)["x"])


def test_equal_constants_are_stored_once(package_file: Path) -> None:
    [placed] = place_constants([programs.make_program()])
    assert placed.offsets["bias"] == placed.offsets["bias_again"] and placed.total == 4
    assert all(offset % CONSTANT_ALIGNMENT == 0 for offset in placed.offsets.values())
    assert bytes(Package(package_file).member("weights.bin")) == programs.BIAS.tobytes()


def test_bundled_test_passes(package_file: Path) -> None:
    with load(package_file, verify=True) as session:
        [(name, (inputs, outputs))] = session.package.tests().items()
        assert name == "random"
        for got, key in zip(session.run(None, inputs), ("rows", "tail", "same"), strict=True):
            np.testing.assert_array_equal(got, outputs[key])


def test_debug_info_names_commands_and_buffers(package_file: Path) -> None:
    debug = Package(package_file).json(programs.DEBUG)
    assert [c["op"] for c in debug["commands"]][:6] == ["Call", "If", "Call", "Copy", "Fill", "Loop"]
    assert debug["commands"][0]["origins"] == ["MulNode"] and debug["kernels"]["add"] == ["AddNode"]
    names = [b["name"] for b in debug["buffers"]]
    assert names.index("chosen") < names.index("chosen_flat") < names.index("last_row")


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"the old one")

    def full(descriptor: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(archive.os, "fsync", full)
    with pytest.raises(PackageError, match="No space left"):
        programs.write(path)
    assert path.read_bytes() == b"the old one" and os.listdir(tmp_path) == ["model.bin"]


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="cannot be written"):
        programs.write(tmp_path / "nowhere" / "model.bin")


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        assert programs.write(tmp_path / "model.bin").stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)


@pytest.mark.parametrize("threshold", [0, 1, 50, 5000, 9000])
def test_zip64_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threshold: int) -> None:
    """With the switch to ZIP64 at a small size instead of 4 GiB, everything is still found, also by zipfile."""
    monkeypatch.setattr(archive, "_ZIP64_FROM", threshold)
    members = {"empty": b"", "small": b"s" * 49, "large": b"l" * 6000, "last": b"x"}
    path = tmp_path / "z"
    size = archive.write_archive(path, {n: [d] for n, d in members.items()}, b"note")
    assert size == path.stat().st_size
    data = path.read_bytes()
    found = read_archive(memoryview(data), "z")
    assert {n: data[m.offset:m.offset + m.size] for n, m in found.members.items()} == members
    assert all(m.offset % PAGE == 0 for m in found.members.values()) and found.comment == b"note"
    with zipfile.ZipFile(path) as zipped:
        assert zipped.testzip() is None and {n: zipped.read(n) for n in zipped.namelist()} == members


@pytest.mark.parametrize("name_length", [1, 5, 2000])
@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097])
def test_alignment_for_every_size(tmp_path: Path, name_length: int, size: int) -> None:
    members = {"a": [b"x" * size], "n" * name_length + "b": [b"", b"y"], "last": []}
    path = tmp_path / "z"
    assert archive.write_archive(path, members, b"note") == path.stat().st_size
    found = read_archive(memoryview(path.read_bytes()), "z")
    assert {m.name: m.size for m in found.members.values()} == {"a": size, "n" * name_length + "b": 1, "last": 0}
    assert all(m.offset % PAGE == 0 for m in found.members.values()) and found.comment == b"note"
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as zipped:
        assert zipped.testzip() is None and zipped.read("a") == b"x" * size
