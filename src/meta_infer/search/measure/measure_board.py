"""One session of measuring on a connected board, where the C agent of runtime/c/mi_agent.c takes the child's place.

It gets the numbers of measure_protocol.py and the placement of measure_places.py with the request, and tells the same
lines. What it runs are the shared objects that would run here: it loads them by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from meta_infer.backends.cpu.on_board import require_programs
from meta_infer.backends.cpu.toolchain import compile_program
from meta_infer.hardware.device import Board
from meta_infer.runtime.sources import AGENT_SOURCES
from meta_infer.search.measure.measure_places import place, region_sizes
from meta_infer.search.measure.measure_protocol import (
    BATCH_SECONDS,
    BATCHES,
    FEWEST_ROUNDS,
    GOOD_SPREAD,
    LONGEST_TURN,
    PROBE_EVERY,
    rest_of,
)
from meta_infer.support.dtypes import dtype_named
from meta_infer.support.errors import DeviceError

_PATTERN = 1 << 16
_SLACK = 15.0
"""Seconds beyond the patience with a candidate, after which the connection counts as broken."""


def run_on_board(board: Board, request: Mapping[str, Any], patience: float,
                 on_line: Callable[[Mapping[str, Any]], None]) -> tuple[int, str] | None:
    """Follows one session of the agent to its end, every line to `on_line`; `request` is that of the child.

    Returns (candidate, reason) when one stopped the session, None when it came to its end. Raises DeviceError.
    """
    require_programs(board)
    agent = board.keep(compile_program(AGENT_SOURCES, str(board.profile.isa)))
    words, files = _words(request, patience)
    text = (" ".join(map(str, words)) + "\n").encode()
    at, done = next(iter(request["candidates"])), False
    with board.job({"request": text, **files}) as folder, board.run(folder, [agent, "request"]) as running:
        try:
            for line in _told(running.lines(patience + _SLACK)):
                done, at = line.get("done", False), line.get("at", at)
                on_line(line)
        except TimeoutError:
            return at, f"no sign of life for {patience:g} s"
        ended = running.end()
    if done and ended.code == 0:
        return None
    if ended.signal == "SIGALRM":
        return at, f"no sign of life for {patience:g} s"
    if ended.signal:
        return at, f"killed by {ended.signal}"
    if ended.code in (126, 127):
        raise DeviceError(f"does not run the measuring program: {ended.error}", what=f"device {board.address.text}",
                          hint="its folder may let no programs run: name another, ssh://host/FOLDER")
    return at, ended.error or f"exit code {ended.code}"


def _told(lines: Iterator[str]) -> Iterator[Mapping[str, Any]]:
    return (json.loads(line) for line in lines if line.startswith("{"))


def _words(request: Mapping[str, Any], patience: float) -> tuple[list[object], dict[str, Path | bytes]]:
    """The request as runtime/c/mi_agent.c reads it, and the files that it names."""
    specs = request["candidates"]
    libraries = {path: f"lib_{i}" for i, path in enumerate(dict.fromkeys(
        [request["driver"], *(spec["library"] for spec in specs.values())]))}
    placed = {key: place(spec["buffers"], request["cache_bytes"]) for key, spec in specs.items()}
    sizes = region_sizes((spec["buffers"] for spec in specs.values()), request["cache_bytes"])
    regions = {region: i for i, region in enumerate(sizes)}
    fills = {dtype: i for i, dtype in enumerate(dict.fromkeys(dtype for _, dtype in regions if _is_float(dtype)))}
    filled = {f"fill_{i}": _pattern(dtype) for dtype, i in fills.items()}

    words: list[object] = [
        "MI-MEASURE-1", _ns(patience), _ns(BATCH_SECONDS), BATCHES, _ns(LONGEST_TURN), _ns(PROBE_EVERY),
        FEWEST_ROUNDS, round(1e6 * GOOD_SPREAD), request["threads"], libraries[request["driver"]], len(filled),
        *filled, len(regions)]
    for (_, dtype), size in sizes.items():
        words += [size, fills.get(dtype, -1)]
    words.append(len(specs))
    for key, spec in specs.items():
        places, copies = placed[key]
        words += [key, libraries[spec["library"]], copies, len(spec["launches"])]
        for launch in spec["launches"]:
            words += [launch["kernel"], len(launch["dims"]), *launch["dims"], len(launch["args"])]
            for arg in launch["args"]:
                words += [regions[places[arg].region], places[arg].offset, places[arg].stride]
    number = {key: i for i, key in enumerate(specs)}
    words.append(len(request["groups"]))
    for i, group in enumerate(request["groups"]):
        seconds = request["seconds"] if i else rest_of(request["seconds"], request["spent"])
        words += [request["rounds"], _ns(seconds), len(group), *(number[key] for key in group)]
    return words, filled | {name: Path(path) for path, name in libraries.items()}


def _ns(seconds: float) -> int:
    return round(1e9 * seconds)


def _is_float(dtype: str) -> bool:
    return dtype_named(dtype).numpy.kind == "f"


def _pattern(dtype: str) -> bytes:
    """What memory of a float dtype is filled with, again and again: floats of [-1, 1)."""
    return np.random.default_rng(0).uniform(-1, 1, _PATTERN).astype(dtype_named(dtype).numpy).tobytes()
