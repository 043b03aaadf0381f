"""Object files and archives that users bring for their kernels: linked from here, named in generated C by contents.

    /* links 3f9a...  libvendor.a */

Text alone says what a module is made of: so keys of measurements and of cached objects hold the contents of what is
linked, and no path of the machine that built it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from meta_infer.backends.cpu.object_cache import is_cached, keep, work_folder
from meta_infer.ir.source import Linked
from meta_infer.support.errors import ToolchainError

_LINE = re.compile(r"^/\* links ([0-9a-f]{64}) (.*) \*/$", re.M)
_KNOWN: dict[str, bytes] = {}


def link_with(path: Path) -> Linked:
    """Lets generated code be linked with the file at `path`, for the life of the process. Raises OSError."""
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    _KNOWN[digest] = data
    return Linked(path.name.replace("*/", ""), digest)


def link_line(linked: Linked) -> str:
    return f"/* links {linked.sha256} {linked.name} */"


def linked_files(sources: Iterable[str], cache: Path) -> list[Path]:
    """Copies in the cache of all files that the sources name, in their order. Raises ToolchainError, OSError."""
    named = dict.fromkeys(found for source in sources for found in _LINE.findall(source))
    paths = []
    for digest, name in named:
        if digest not in _KNOWN:
            raise ToolchainError(f"{name} is not at hand", what="linking",
                                 hint="give the file of the kernel that links it with --custom")
        path = cache / f"{digest[:40]}.a"
        if not is_cached(path):
            with work_folder(cache) as folder:
                made = folder / "linked"
                made.write_bytes(_KNOWN[digest])
                keep(made, path)
        paths.append(path)
    return paths
