"""Numbered IR files for people: META_INFER_DUMP=folder gets one after every pass that changed something."""

from __future__ import annotations

import os
import re
from pathlib import Path

from meta_infer.ir.graph import Graph
from meta_infer.ir.graph_text import print_graph
from meta_infer.support.errors import UsageError

_NUMBERED = re.compile(r"(\d+)_.*\.ir")


def dump_graph(folder: Path, name: str, graph: Graph) -> Path:
    """Write `graph` as NUMBER_name.ir, numbered after what `folder` holds; a reader never sees half a file.

    Raises UsageError when the folder does not take it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = [int(match.group(1)) for entry in folder.iterdir() if (match := _NUMBERED.fullmatch(entry.name))]
        target = folder / f"{max(taken, default=-1) + 1:03d}_{name}.ir"
        part = target.with_suffix(f".{os.getpid()}.part")
        part.write_text(print_graph(graph), encoding="utf-8")
        os.replace(part, target)
    except OSError as error:
        raise UsageError(f"cannot be written to: {error.strerror}", what=f"META_INFER_DUMP={folder}",
                         hint="name a folder where you may write, or unset it") from error
    return target
