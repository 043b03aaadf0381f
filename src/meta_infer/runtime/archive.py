"""A strict reader of the package's ZIP: only what the writer writes is accepted.

Ordinary ZIP readers forgive much (members twice, data between members, headers that contradict the directory), and
two readers may then see two different packages in one file. Here the members must tile the file exactly: local
header, data, next local header, ..., directory, end record, end of file.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from meta_infer.support.errors import PackageError

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR = struct.Struct("<4sIQI")
_ELSEWHERE = 0xFFFFFFFF
_LONGEST_COMMENT = 200
_UTF8 = 0x0800
REBUILD = "build the package again, or fetch it again if it was copied here"


@dataclass(frozen=True)
class Member:
    """Where a member's data lies in the file."""

    name: str
    offset: int
    size: int
    crc: int


@dataclass(frozen=True)
class Archive:
    members: Mapping[str, Member]
    comment: bytes


@dataclass(frozen=True)
class _Cut:
    """The file as bytes, with the words for an error about it."""

    data: memoryview
    file: str

    def fail(self, problem: str, member: str = "", hint: str = REBUILD) -> NoReturn:
        what = f"package {self.file!r}" + (f", member {member!r}" if member else "")
        raise PackageError(problem, what=what, hint=hint)

    def unpack(self, record: struct.Struct, at: int, signature: bytes, name: str) -> tuple[int, ...]:
        """The fields of a record after its signature."""
        if at < 0 or at + record.size > len(self.data):
            self.fail(f"is cut short at its {name}")
        found, *fields = record.unpack_from(self.data, at)
        if found != signature:
            self.fail(f"has no {name} where one must be, at byte {at}")
        return tuple(fields)


def _widen(cut: _Cut, values: tuple[int, ...], extra: bytes, name: str) -> list[int]:
    """The values, those that say 'elsewhere' taken from the ZIP64 field that `extra` must begin with."""
    far = sum(value == _ELSEWHERE for value in values)
    if not far:
        return list(values)
    if len(extra) < 4 + 8 * far or extra[:4] != struct.pack("<HH", 1, 8 * far):
        cut.fail("has no ZIP64 field where one must be", name)
    large = iter(struct.unpack_from(f"<{far}Q", extra, 4))
    return [next(large) if value == _ELSEWHERE else value for value in values]


def _find_end(cut: _Cut) -> int:
    if len(cut.data) < _END.size or bytes(cut.data[:4]) != b"PK\3\4":
        cut.fail("is not a meta-infer package", hint="`meta-infer build --model MODEL.onnx` makes one from a model")
    tail = bytes(cut.data[-(_END.size + _LONGEST_COMMENT):])
    at = tail.rfind(b"PK\5\6")
    if at < 0:
        cut.fail("has no end record: it is cut short, or something was appended to it")
    return len(cut.data) - len(tail) + at


def _directory(cut: _Cut, start: int, end: int, count: int) -> list[tuple[Member, int]]:
    """Members with the offsets of their local headers, in the order of the directory."""
    found = []
    at = start
    for _ in range(count):
        (_made, _needed, flags, method, _time, _date, crc, packed, size, name_size, extra_size, comment_size, disk,
         _internal, _external, header) = cut.unpack(_CENTRAL, at, b"PK\1\2", "directory entry")
        at += _CENTRAL.size
        raw, extra = bytes(cut.data[at:at + name_size]), bytes(cut.data[at + name_size:at + name_size + extra_size])
        try:
            name = raw.decode()
        except UnicodeDecodeError:
            cut.fail(f"has a member whose name is not UTF-8: {raw!r}")
        size, packed, header = _widen(cut, (size, packed, header), extra, name)
        if method != 0 or packed != size or flags != _UTF8 or comment_size or disk:
            cut.fail("is compressed, encrypted or of a kind that packages do not have", name)
        if name.startswith("/") or ".." in name.split("/") or "\\" in name or not name:
            cut.fail("has a name that leaves its folder", name)
        found.append((Member(name, 0, size, crc), header))
        at += name_size + extra_size
    if at != end:
        cut.fail("has a directory of another size than it says")
    return found


def _locate(cut: _Cut, member: Member, header: int) -> Member:
    """`member` with the offset of its data, its local header compared with the directory."""
    (_needed, flags, method, _time, _date, crc, packed, size, name_size, extra_size) = cut.unpack(
        _LOCAL, header, b"PK\3\4", "member header")
    start = header + _LOCAL.size
    name = bytes(cut.data[start:start + name_size])
    extra = bytes(cut.data[start + name_size:start + name_size + extra_size])
    size, packed = _widen(cut, (size, packed), extra, member.name)
    same = (name, crc, size, packed) == (member.name.encode(), member.crc, member.size, member.size)
    if not same or method != 0 or flags != _UTF8:
        cut.fail("differs between its header and the directory", member.name)
    return Member(member.name, start + name_size + extra_size, size, crc)


def _directory_place(cut: _Cut, end: int) -> tuple[int, int, int]:
    """Number of members, and where the directory begins and ends, from the end record at `end`."""
    disk, first_disk, here, count, size, start, comment_size = cut.unpack(_END, end, b"PK\5\6", "end record")
    if end + _END.size + comment_size != len(cut.data):
        cut.fail("has bytes after its end")
    stop = end
    if _ELSEWHERE in (size, start):
        stop = end - _LOCATOR.size - _END64.size
        _, place, _ = cut.unpack(_LOCATOR, end - _LOCATOR.size, b"PK\6\7", "ZIP64 locator")
        record, _, _, disk, first_disk, here, count, size, start = cut.unpack(
            _END64, stop, b"PK\6\6", "ZIP64 end record")
        if place != stop or record != _END64.size - 12:
            cut.fail("has an end record that contradicts the file")
    if disk or first_disk or here != count or start + size != stop:
        cut.fail("has an end record that contradicts the file")
    return count, start, stop


def read_archive(data: memoryview, file: str) -> Archive:
    """The members of a package. `file` is its name, for messages.

    Raises PackageError for anything but stored members that tile the file: duplicate, overlapping, hidden or
    trailing data, a header that contradicts the directory, a file cut short.
    """
    cut = _Cut(data, file)
    end = _find_end(cut)
    count, directory, stop = _directory_place(cut, end)
    members: dict[str, Member] = {}
    expected = 0
    for entry, header in _directory(cut, directory, stop, count):
        if entry.name in members:
            cut.fail("appears twice", entry.name)
        if header != expected:
            cut.fail("overlaps another member, or leaves a gap before it", entry.name)
        member = _locate(cut, entry, header)
        members[member.name] = member
        expected = member.offset + member.size
    if expected != directory:
        cut.fail("has hidden data between its members and its directory")
    return Archive(members, bytes(data[end + _END.size:]))
