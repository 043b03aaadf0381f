"""Writing a ZIP of stored, page-aligned members: same bytes for the same contents, replaced atomically.

The format is PKWARE's APPNOTE.TXT; a member or place beyond 4 GiB takes ZIP64 fields. Members are stored, so that
their data can be mapped from the file; each is pushed to a page boundary by an extra field of zeros in its local
header (the field that Android's zipalign uses, 0xD935).
"""

from __future__ import annotations

import os
import struct
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from meta_infer.package.format import PAGE, Piece, total_bytes
from meta_infer.support.errors import PackageError, UsageError
from meta_infer.support.output_file import check_replaceable, is_package, replacing

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR = struct.Struct("<4sIQI")
_ALIGNMENT_FIELD = 0xD935
_ZIP64_FIELD = 1
_ELSEWHERE = 0xFFFFFFFF
"""In a 32-bit field: the value stands in the ZIP64 field."""
_ZIP64_FROM = 0xFFFFFFFF
_UTF8 = 0x0800
_FIRST_SECOND, _LAST_SECOND = 315532800, 4354819199
"""The years 1980 to 2107, which the format can tell, in seconds since 1970."""


def _dos_time() -> tuple[int, int]:
    """Time and date for every member: SOURCE_DATE_EPOCH if set, else the first day of the format.

    Source: reproducible-builds.org/specs/source-date-epoch. Raises UsageError where that is no number of seconds.
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not epoch:
        return 0, 0x21
    if not (epoch.isascii() and epoch.isdigit()):
        raise UsageError(f"is {epoch!r}, expected seconds since 1970, a whole number",
                         what="environment variable SOURCE_DATE_EPOCH", hint="give what `date +%s` prints, or unset it")
    t = time.gmtime(min(max(int(epoch), _FIRST_SECOND), _LAST_SECOND))
    return t.tm_hour << 11 | t.tm_min << 5 | t.tm_sec // 2, (t.tm_year - 1980) << 9 | t.tm_mon << 5 | t.tm_mday


def _crc(pieces: Sequence[Piece]) -> int:
    crc = 0
    for piece in pieces:
        crc = zlib.crc32(piece, crc)
    return crc


def _alignment_extra(position: int) -> bytes:
    """An extra field after which data that would begin at `position` begins at a page boundary."""
    missing = -position % PAGE
    if missing == 0:
        return b""
    if missing < 6:
        missing += PAGE
    return struct.pack("<HHH", _ALIGNMENT_FIELD, missing - 4, PAGE) + bytes(missing - 6)


def _short(value: int) -> int:
    """A size or place as a 32-bit field has it."""
    return value if value < _ZIP64_FROM else _ELSEWHERE


def _zip64_extra(*values: int) -> bytes:
    """The ZIP64 field with those of the values that have no room in their 32 bits."""
    large = [value for value in values if value >= _ZIP64_FROM]
    return struct.pack(f"<HH{len(large)}Q", _ZIP64_FIELD, 8 * len(large), *large) if large else b""


def _end_records(count: int, size: int, offset: int, comment: bytes) -> bytes:
    """The end record, after its ZIP64 form if the directory begins or ends too far out."""
    end = _END.pack(b"PK\5\6", 0, 0, count, count, _short(size), _short(offset), len(comment)) + comment
    if max(size, offset) < _ZIP64_FROM:
        return end
    end64 = _END64.pack(b"PK\6\6", _END64.size - 12, 45, 45, 0, 0, count, count, size, offset)
    return end64 + _LOCATOR.pack(b"PK\6\7", 0, offset + size, 1) + end


def _write_members(file: BinaryIO, members: Mapping[str, Sequence[Piece]], comment: bytes) -> int:
    clock, date = _dos_time()
    central, offset = [], 0
    for name, pieces in members.items():
        encoded, size, crc = name.encode(), total_bytes(pieces), _crc(pieces)
        extra = _zip64_extra(size, size)
        extra += _alignment_extra(offset + _LOCAL.size + len(encoded) + len(extra))
        file.write(_LOCAL.pack(b"PK\3\4", 45, _UTF8, 0, clock, date, crc, _short(size), _short(size), len(encoded),
                               len(extra)))
        file.write(encoded + extra)
        for piece in pieces:
            file.write(piece)
        far = _zip64_extra(size, size, offset)
        central.append(_CENTRAL.pack(b"PK\1\2", 45, 45, _UTF8, 0, clock, date, crc, _short(size), _short(size),
                                     len(encoded), len(far), 0, 0, 0, 0, _short(offset)) + encoded + far)
        offset += _LOCAL.size + len(encoded) + len(extra) + size
    directory = b"".join(central)
    end = _end_records(len(members), len(directory), offset, comment)
    file.write(directory + end)
    return offset + len(directory) + len(end)


def make_folder(path: Path) -> None:
    """The folder that the file `path` will go to, made now: a build should fail before its work, not after it.

    Raises PackageError when it cannot be made or written to, or when `path` is itself a folder; UsageError when
    something other than a package is there already, or the date of members makes no sense.
    """
    _dos_time()
    check_replaceable(path, is_package, "a package")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        writable = os.access(path.parent, os.W_OK)
        problem = "is a folder" if path.is_dir() else "" if writable else "its folder is read-only"
    except OSError as error:
        problem = f"its folder cannot be made: {error.strerror}"
    if problem:
        raise PackageError(problem, what=f"package {str(path)!r}", hint="choose another --output")


def write_archive(path: Path, members: Mapping[str, Sequence[Piece]], comment: bytes) -> int:
    """Write `members` in order to `path` and return the file's bytes.

    The file appears under its name only when it is complete and on disk; until then, and after any failure, what was
    there before stays. Raises PackageError when the folder or the disk does not take it.
    """
    try:
        with replacing(path) as file:
            return _write_members(file, members, comment)
    except OSError as error:
        raise PackageError(f"cannot be written: {error.strerror or error}", what=f"package {str(path)!r}",
                           hint="choose another --output, or free space on that disk") from error
