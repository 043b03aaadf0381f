"""Whole packages in turns on a connected board, by the C program of runtime/c/mi_turns.c."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from meta_infer.backends.cpu.driver_request import request_of
from meta_infer.backends.cpu.on_board import require_programs
from meta_infer.backends.cpu.toolchain import compile_program
from meta_infer.hardware.device import Board, Ended
from meta_infer.runtime.reader import Package
from meta_infer.runtime.sources import TURNS_SOURCES

_PATIENCE = 60.0
_SLACK = 15.0


def turns_on_board(board: Board, packages: Sequence[Path], inputs: Sequence[Mapping[str, np.ndarray]], *, threads: int,
                   rounds: int, seconds: float) -> list[tuple[float, ...]]:
    """Seconds of a run of each package in every round, all points of `inputs` added up; nothing of one that failed.

    They run in turns, about `seconds` in all; one that crashes or hangs costs the turns of all so far. Each package
    holds one target. Raises DeviceError.
    """
    require_programs(board)
    program = board.keep(compile_program(TURNS_SOURCES, str(board.profile.isa)))
    files: dict[str, Path | bytes] = {f"{i}.bin": path for i, path in enumerate(packages)}
    for i, path in enumerate(packages):
        package = Package(path)
        files[f"{i}.in"] = request_of(package, package.targets[0], inputs, threads, 0)
    left = list(range(len(packages)))
    with board.job(files) as folder:
        while left:
            words = ["MI-TURNS-1", round(1e9 * _PATIENCE), rounds, round(1e9 * seconds), len(left)]
            for i in left:
                words += [i, f"{folder}/{i}.bin", f"{folder}/{i}.in"]
            found, failed = _follow(board, program, words, left, len(inputs), rounds)
            if failed is None:
                return [found.get(i, ()) for i in range(len(packages))]
            left.remove(failed)
    return [() for _ in packages]


def _follow(board: Board, program: str, words: Sequence[object], keys: Sequence[int], points: int,
            rounds: int) -> tuple[dict[int, tuple[float, ...]], int | None]:
    """The rounds of each package, or the one that stopped the program."""
    turns: dict[int, list[list[float]]] = {key: [[] for _ in range(points)] for key in keys}
    at, done, ended = keys[0], False, Ended(1, "")
    request = (" ".join(map(str, words)) + "\n").encode()
    with board.job({"request": request}) as folder, board.run(folder, [program, "request"]) as running:
        try:
            for text in running.lines(_PATIENCE + _SLACK):
                if not text.startswith("{"):
                    continue
                line = json.loads(text)
                at, done = line.get("at", at), line.get("done", False)
                if "seconds" in line:
                    turns[at][round(line["point"])].append(line["seconds"])
            ended = running.end()
        except TimeoutError:
            pass
    if not done or ended.code:
        return {}, at
    return {key: tuple(sum(one) for one in zip(*found, strict=True)) for key, found in turns.items()}, None
