"""Damaged and hostile packages: each gives a PackageError that names the file, never a crash or a wrong run."""

from __future__ import annotations

import hashlib
import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from meta_infer.package.archive import write_archive
from meta_infer.runtime.reader import Package
from meta_infer.runtime.session import load
from meta_infer.support.errors import PackageError
from tests.runtime.programs import CODE, ISA, PLAN


def contents(package: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(package) as zipped:
        return {name: zipped.read(name) for name in zipped.namelist()}


def rewrite(path: Path, members: dict[str, bytes], sign: bool = True, version: int = 1) -> Path:
    """A package of these members; with `sign`, the manifest's checksums are made to fit."""
    members = dict(members)
    if sign:
        manifest = json.loads(members["manifest.json"])
        manifest["members"] = {n: {"sha256": hashlib.sha256(d).hexdigest(), "bytes": len(d)}
                               for n, d in members.items() if n != "manifest.json"}
        members["manifest.json"] = json.dumps(manifest).encode()
    digest = hashlib.sha256(members["manifest.json"]).hexdigest()
    write_archive(path, {n: [d] for n, d in members.items()}, f"meta-infer package {version} sha256:{digest}".encode())
    return path


def refuse(path: Path, says: str) -> None:
    with pytest.raises(PackageError, match=says) as caught:
        load(path, threads=1)
    assert str(path) in str(caught.value) and caught.value.hint


def test_rewriting_unchanged_still_loads(package_file: Path, tmp_path: Path) -> None:
    load(rewrite(tmp_path / "p.bin", contents(package_file)), threads=1).close()


@pytest.mark.parametrize("keep", [0, 1, 3, 21, 22, 1000, -1, -30, -300])
def test_cut_short(package_file: Path, tmp_path: Path, keep: int) -> None:
    path = tmp_path / "p.bin"
    path.write_bytes(package_file.read_bytes()[:keep])
    refuse(path, "empty|not a meta-infer package|no end record|after its end|cut short|contradicts")


def test_not_a_package(tmp_path: Path) -> None:
    text, zipped = tmp_path / "model.onnx", tmp_path / "a.zip"
    text.write_bytes(b"\x08\x07\x12\x04 not a package at all" * 10)
    refuse(text, "not a meta-infer package")
    with zipfile.ZipFile(zipped, "w") as file:
        file.writestr("a.txt", "a")
    refuse(zipped, "kind that packages do not have|not a meta-infer package")
    refuse(tmp_path / "missing.bin", "cannot be opened: No such file")
    refuse(tmp_path, "cannot be opened: Is a directory")


@pytest.mark.parametrize("member", [CODE, PLAN, "manifest.json"])
def test_changed_code_plan_or_manifest(package_file: Path, tmp_path: Path, member: str) -> None:
    members = contents(package_file)
    members[member] = members[member][:-2] + bytes([members[member][-2] ^ 1]) + members[member][-1:]
    path = tmp_path / "p.bin"
    if member != "manifest.json":
        refuse(rewrite(path, members, sign=False), f"{member}.*checksum")
        return
    data = bytearray(package_file.read_bytes())
    data[data.index(b'"hand written"') + 2] ^= 1
    path.write_bytes(data)
    refuse(path, "manifest.json.*checksum")


def test_changed_weights_are_found_when_asked(package_file: Path, tmp_path: Path) -> None:
    path = rewrite(tmp_path / "p.bin", contents(package_file) | {"weights.bin": b"\0\0\0\0"}, sign=False)
    load(path, threads=1).close()
    with pytest.raises(PackageError, match="weights.bin.*checksum"):
        load(path, verify=True)


def test_missing_and_unlisted_members(package_file: Path, tmp_path: Path) -> None:
    members = contents(package_file)
    del members["report.json"]
    refuse(rewrite(tmp_path / "p.bin", members, sign=False), "report.json.*not in the file")
    members = contents(package_file) | {"evil.so": b"x"}
    refuse(rewrite(tmp_path / "q.bin", members, sign=False), "evil.so.*not in the manifest")
    members = contents(package_file)
    del members[CODE]
    refuse(rewrite(tmp_path / "r.bin", members), f"{CODE}.*missing")


def test_another_format_version(package_file: Path, tmp_path: Path) -> None:
    refuse(rewrite(tmp_path / "p.bin", contents(package_file), version=2), "format version 2.*reads 1")


def edit(data: bytes, change: Callable[[bytearray, list[int], int], None]) -> bytes:
    """Change the raw ZIP: gets the bytes, the places of all local headers, and that of the directory."""
    raw = bytearray(data)
    end = raw.rindex(b"PK\5\6")
    [directory] = struct.unpack_from("<I", raw, end + 16)
    headers, at = [], directory
    while raw[at:at + 4] == b"PK\1\2":
        name, extra, comment = struct.unpack_from("<3H", raw, at + 28)
        headers.append(struct.unpack_from("<I", raw, at + 42)[0])
        at += 46 + name + extra + comment
    change(raw, headers, directory)
    return bytes(raw)


def _other_name(raw: bytearray, headers: list[int], directory: int) -> None:
    raw[headers[1] + 30] ^= 1


def _other_size(raw: bytearray, headers: list[int], directory: int) -> None:
    raw[headers[1] + 22] ^= 1


def _compressed(raw: bytearray, headers: list[int], directory: int) -> None:
    raw[directory + 10] = 8


def _twice(raw: bytearray, headers: list[int], directory: int) -> None:
    end = raw.rindex(b"PK\5\6")
    entry = raw[directory:raw.index(b"PK\1\2", directory + 4)]
    raw[end:end] = entry
    end += len(entry)
    count, size = struct.unpack_from("<HI", raw, end + 10)
    struct.pack_into("<HHI", raw, end + 8, count + 1, count + 1, size + len(entry))


def _overlap(raw: bytearray, headers: list[int], directory: int) -> None:
    second = raw.index(b"PK\1\2", directory + 4)
    struct.pack_into("<I", raw, second + 42, headers[0])


def _trailing(raw: bytearray, headers: list[int], directory: int) -> None:
    raw += b"more"


def _hidden(raw: bytearray, headers: list[int], directory: int) -> None:
    raw[directory:directory] = b"hidden"
    struct.pack_into("<I", raw, raw.rindex(b"PK\5\6") + 16, directory + 6)


def _prefixed(raw: bytearray, headers: list[int], directory: int) -> None:
    raw[0:0] = b"#!/bin/sh\n"


@pytest.mark.parametrize(("change", "says"), [
    (_other_name, "differs between its header and the directory"),
    (_other_size, "differs between its header and the directory"),
    (_compressed, "compressed"),
    (_twice, "appears twice"),
    (_overlap, "overlaps another"),
    (_trailing, "after its end"),
    (_hidden, "hidden data"),
    (_prefixed, "not a meta-infer package"),
])
def test_zip_tricks(package_file: Path, tmp_path: Path, change: Callable[..., None], says: str) -> None:
    path = tmp_path / "p.bin"
    path.write_bytes(edit(package_file.read_bytes(), change))
    refuse(path, says)


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "a\\evil"])
def test_names_that_leave_their_folder(package_file: Path, tmp_path: Path, name: str) -> None:
    refuse(rewrite(tmp_path / "p.bin", contents(package_file) | {name: b""}), "leaves its folder")


def test_a_processor_without_a_feature(package_file: Path, tmp_path: Path) -> None:
    members = contents(package_file)
    manifest = json.loads(members["manifest.json"])
    manifest["targets"][0]["features"].append("amx_of_tomorrow")
    members["manifest.json"] = json.dumps(manifest).encode()
    refuse(rewrite(tmp_path / "p.bin", members), rf"lacks: amx_of_tomorrow \(target {ISA}\)")


@pytest.mark.parametrize(("old", "new"), [
    (b'"float32"', b'"float33"'), (b'"inputs"', b'"input"'), (b'"given"', b'"gives"'), (b'"min": 4', b'"min": "4 to"'),
    (b'"name": "x"', b'"nom": "x"'), (b'"B",', b'1.5,'), (b'"code"', b'"cod"'),
])
def test_manifests_of_another_form(package_file: Path, tmp_path: Path, old: bytes, new: bytes) -> None:
    members = contents(package_file)
    assert old in members["manifest.json"]
    members["manifest.json"] = members["manifest.json"].replace(old, new)
    refuse(rewrite(tmp_path / "p.bin", members), "is not a manifest of format 1")


def test_a_manifest_for_another_plan(package_file: Path, tmp_path: Path) -> None:
    members = contents(package_file)
    manifest = json.loads(members["manifest.json"])
    manifest["outputs"].pop()
    members["manifest.json"] = json.dumps(manifest).encode()
    refuse(rewrite(tmp_path / "p.bin", members), "other inputs or outputs")


def test_another_architecture(package_file: Path, tmp_path: Path) -> None:
    members = contents(package_file)
    manifest = json.loads(members["manifest.json"])
    manifest["targets"][0]["architecture"] = "pdp11"
    members["manifest.json"] = json.dumps(manifest).encode()
    refuse(rewrite(tmp_path / "p.bin", members), f"holds code for {ISA}, this machine is")


def test_code_that_is_no_code(package_file: Path, tmp_path: Path) -> None:
    refuse(rewrite(tmp_path / "p.bin", contents(package_file) | {CODE: b"\x7fELF nonsense"}), "does not load")


def test_a_plan_for_other_code(package_file: Path, tmp_path: Path) -> None:
    members = contents(package_file)
    members[PLAN] = members[PLAN].replace(b"\0double_it\0", b"\0double_at\0")
    refuse(rewrite(tmp_path / "p.bin", members), "kernel 0 is 'double_at'.*'double_it'")


def test_a_failed_load_can_be_repeated(package_file: Path, tmp_path: Path) -> None:
    bad = rewrite(tmp_path / "p.bin", contents(package_file) | {PLAN: b"MI-PLAN\0" + bytes(88)})
    for _ in range(20):
        refuse(bad, "version 0, this runtime reads 3")
    assert Package(bad).inputs[0].name == "x"
