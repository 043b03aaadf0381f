"""Writing a ZIP of stored, page-aligned members: same bytes for the same contents, replaced atomically.

The format is PKWARE's APPNOTE.TXT, version 2.0 features only. Members are stored, so that their data can be mapped
from the file; each is pushed to a page boundary by an extra field of zeros in its local header (the field that
Android's zipalign uses, 0xD935).
"""

from __future__ import annotations

import os
import struct
import tempfile
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from meta_infer.package.format import PAGE, Piece, total_bytes
from meta_infer.support.errors import PackageError

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_ALIGNMENT_FIELD = 0xD935
_LARGEST = 0xFFFFFFFF
_UTF8 = 0x0800


def _dos_time() -> tuple[int, int]:
    """Time and date for every member: SOURCE_DATE_EPOCH if set, else the first day of the format."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not epoch.isdigit():
        return 0, 0x21
    t = time.gmtime(max(int(epoch), 315532800))
    year = min(t.tm_year, 2107) - 1980
    return t.tm_hour << 11 | t.tm_min << 5 | t.tm_sec // 2, year << 9 | t.tm_mon << 5 | t.tm_mday


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


def _write_members(file: BinaryIO, members: Mapping[str, Sequence[Piece]], comment: bytes) -> int:
    clock, date = _dos_time()
    central, offset = [], 0
    for name, pieces in members.items():
        encoded, size, crc = name.encode(), total_bytes(pieces), _crc(pieces)
        if size >= _LARGEST or offset >= _LARGEST:
            raise PackageError(f"is {size + offset} bytes, more than the 4 GiB a package can hold",
                               what=f"member {name!r}", hint="use a smaller precision for the weights")
        extra = _alignment_extra(offset + _LOCAL.size + len(encoded))
        file.write(_LOCAL.pack(b"PK\3\4", 20, _UTF8, 0, clock, date, crc, size, size, len(encoded), len(extra)))
        file.write(encoded + extra)
        for piece in pieces:
            file.write(piece)
        central.append(_CENTRAL.pack(b"PK\1\2", 20, 20, _UTF8, 0, clock, date, crc, size, size, len(encoded), 0, 0,
                                     0, 0, 0, offset) + encoded)
        offset += _LOCAL.size + len(encoded) + len(extra) + size
    directory = b"".join(central)
    if offset + len(directory) >= _LARGEST:
        raise PackageError(f"is {offset} bytes, more than the 4 GiB a package can hold", what="the package",
                           hint="use a smaller precision for the weights")
    file.write(directory)
    file.write(_END.pack(b"PK\5\6", 0, 0, len(members), len(members), len(directory), offset, len(comment)) + comment)
    return offset + len(directory) + _END.size + len(comment)


def write_archive(path: Path, members: Mapping[str, Sequence[Piece]], comment: bytes) -> int:
    """Write `members` in order to `path` and return the file's bytes.

    The file appears under its name only when it is complete and on disk; until then, and after any failure, what was
    there before stays. Raises PackageError when the folder or the disk does not take it.
    """
    part: Path | None = None
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        part = Path(name)
        with open(descriptor, "wb") as file:
            size = _write_members(file, members, comment)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)                      # temporary files are private, a package is an ordinary file
        part.replace(path)
        return size
    except OSError as error:
        raise PackageError(f"cannot be written: {error.strerror or error}", what=f"package {str(path)!r}",
                           hint="choose another --output, or free space on that disk") from error
    finally:
        if part is not None and part.exists():
            part.unlink()
