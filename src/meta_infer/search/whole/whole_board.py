"""Whole packages on a connected board: in turns, and one with a clock around every command; by the C programs of
runtime/c/mi_turns.c and mi_placed.c."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from meta_infer.backends.cpu.driver_request import request_of
from meta_infer.backends.cpu.on_board import require_programs
from meta_infer.backends.cpu.toolchain import compile_program
from meta_infer.hardware.device import Board
from meta_infer.runtime.reader import Package
from meta_infer.runtime.sources import PLACED_SOURCES, TURNS_SOURCES
from meta_infer.search.whole.in_place import FEWEST_ROUNDS

_PATIENCE = 120.0
_SLACK = 15.0


def turns_on_board(board: Board, packages: Sequence[Path], inputs: Sequence[Mapping[str, np.ndarray]], *,
                   threads: Sequence[int], rounds: int, seconds: float) -> list[tuple[float, ...]]:
    """Seconds of a run of each package in every round, all points of `inputs` added up; nothing of one that failed.

    They run in turns, about `seconds` in all; one that crashes or hangs costs the turns of all so far. Each package
    holds one target. Raises DeviceError.
    """
    require_programs(board)
    program = board.keep(compile_program(TURNS_SOURCES, str(board.profile.isa)))
    files: dict[str, Path | bytes] = {f"{i}.bin": path for i, path in enumerate(packages)}
    for i, path in enumerate(packages):
        package = Package(path)
        files[f"{i}.in"] = request_of(package, package.targets[0], inputs, threads[i], 0)
    left = list(range(len(packages)))
    with board.job(files) as folder:
        while left:
            words = ["MI-TURNS-1", _ns(_PATIENCE), rounds, _ns(seconds), len(left)]
            for i in left:
                words += [i, f"{folder}/{i}.bin", f"{folder}/{i}.in"]
            found, failed = _follow(board, program, words, left, len(inputs))
            if failed is None:
                return [found.get(i, ()) for i in range(len(packages))]
            left.remove(failed)
    return [() for _ in packages]


def placed_on_board(board: Board, package: Path, inputs: Sequence[Mapping[str, np.ndarray]], holders: Sequence[int],
                    commands: int, *, threads: int, rounds: int,
                    seconds: float) -> list[list[tuple[float, list[float]]]] | None:
    """As search/whole/in_place.py, without probes: of every point the rounds, each with the seconds of the whole and of
    every command. None when the package failed. Raises DeviceError."""
    require_programs(board)
    program = board.keep(compile_program(PLACED_SOURCES, str(board.profile.isa)))
    opened = Package(package)
    words = ["MI-PLACED-1", _ns(_PATIENCE), rounds, FEWEST_ROUNDS, _ns(seconds), commands, "plan.bin", "plan.in",
             len(holders), *holders]
    files: dict[str, Path | bytes] = {"plan.bin": package, "request": _text(words),
                                      "plan.in": request_of(opened, opened.targets[0], inputs, threads, 0)}
    points: list[list[tuple[float, list[float]]]] = [[] for _ in inputs]

    def hear(line: Mapping[str, Any]) -> None:
        if "commands" in line:
            points[line["point"]].append((line["whole"] / 1e9, [one / 1e9 for one in line["commands"]]))

    return points if _run(board, files, program, hear) else None


def _follow(board: Board, program: str, words: Sequence[object], keys: Sequence[int],
            points: int) -> tuple[dict[int, tuple[float, ...]], int | None]:
    """The rounds of each package, or the one that stopped the program."""
    turns: dict[int, list[list[float]]] = {key: [[] for _ in range(points)] for key in keys}
    at = keys[0]

    def hear(line: Mapping[str, Any]) -> None:
        nonlocal at
        at = line.get("at", at)
        if "seconds" in line:
            turns[at][round(line["point"])].append(line["seconds"])

    if not _run(board, {"request": _text(words)}, program, hear):
        return {}, at
    return {key: tuple(sum(one) for one in zip(*found, strict=True)) for key, found in turns.items()}, None


def _run(board: Board, files: Mapping[str, Path | bytes], program: str,
         hear: Callable[[Mapping[str, Any]], None]) -> bool:
    """Runs a program on the request among `files`, its lines to `hear`; whether it came to its end."""
    done = False
    with board.job(files) as folder, board.run(folder, [program, "request"]) as running:
        try:
            for text in running.lines(_PATIENCE + _SLACK):
                if text.startswith("{"):
                    line = json.loads(text)
                    done = line.get("done", False)
                    hear(line)
            return running.end().code == 0 and done
        except TimeoutError:
            return False


def _ns(seconds: float) -> int:
    return round(1e9 * seconds)


def _text(words: Sequence[object]) -> bytes:
    return (" ".join(map(str, words)) + "\n").encode()
