"""The process in which candidates run: `python -m meta_infer.search.measure.measure_child REQUEST.json`.

It may crash or hang: before it touches candidate k it prints `{"at": k}`, so that its parent knows who did it; after
a turn `{"at": k, "seconds": s, "probe": p}`, the time of one run and that of the probe just before. The last line is
`{"done": true}`. Groups of candidates follow each other; those of one group take turns.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from meta_infer.backends.cpu.loaded import LoadedModule
from meta_infer.search.measure.measure_places import LINE, place, region_sizes, whole_lines
from meta_infer.search.measure.measure_protocol import (
    BATCH_SECONDS,
    BATCHES,
    FEWEST_ROUNDS,
    GOOD_SPREAD,
    LONGEST_TURN,
    PROBE_EVERY,
    median_and_spread,
    rest_of,
)
from meta_infer.support.dtypes import dtype_named

_PROBE = -1
"""The candidate that is the probe of the machine's peak."""


class _Launch(ctypes.Structure):
    """`launch` of runtime/c/mi_measure.c."""

    _fields_ = [("kernel", ctypes.c_void_p), ("dims", ctypes.c_void_p), ("bases", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("args", ctypes.c_int64)]


def _aligned(count: int, dtype: np.dtype) -> np.ndarray:
    """Uninitialised memory at a multiple of a cache line."""
    raw = np.empty(count * dtype.itemsize + LINE, np.uint8)
    begin = -raw.ctypes.data % LINE
    return raw[begin:begin + count * dtype.itemsize].view(dtype)


def _filled(count: int, dtype: np.dtype) -> np.ndarray:
    """Memory with contents that no operation stumbles over: floats of [-1, 1); integers 0, a valid index."""
    array = _aligned(count, dtype)
    if dtype.kind != "f":
        array[:] = 0
        return array
    pattern = np.random.default_rng(0).uniform(-1, 1, min(count, 1 << 16)).astype(dtype)
    for begin in range(0, count, 1 << 16):
        array[begin:begin + (1 << 16)] = pattern[:count - begin]
    return array


class Memory:
    """One region per role and dtype, shared by all candidates: they run one at a time, and inputs are never written."""

    def __init__(self, candidates: Iterable[Mapping[str, Any]], cache_bytes: int) -> None:
        self._cache_bytes = cache_bytes
        sizes = region_sizes((spec["buffers"] for spec in candidates), cache_bytes)
        self._regions = {region: _filled(-(-size // dtype_named(region[1]).numpy.itemsize),
                                         dtype_named(region[1]).numpy) for region, size in sizes.items()}

    def place(self, buffers: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, tuple[int, int]], int]:
        """(address of the first copy, bytes between copies) of every buffer, and the number of copies."""
        places, copies = place(buffers, self._cache_bytes)
        return {name: (self._regions[p.region].ctypes.data + p.offset, p.stride) for name, p in places.items()}, copies


class Runner:
    """One candidate, loaded and placed."""

    def __init__(self, driver: ctypes.CDLL, spec: Mapping[str, Any], memory: Memory, threads: int) -> None:
        self._driver, self._threads = driver, threads
        self._module = LoadedModule(Path(spec["library"]))
        places, self._copies = memory.place(spec["buffers"])
        self._next = 0
        self._repeats = self._batches = 0
        self._kept: list[object] = []
        self._launches = (_Launch * len(spec["launches"]))()
        scratch = 0
        for slot, launch in zip(self._launches, spec["launches"], strict=True):
            name, args = launch["kernel"], launch["args"]
            dims = self._int64s(launch["dims"])
            bases, strides = self._int64s([places[a][0] for a in args]), self._int64s([places[a][1] for a in args])
            slot.kernel, slot.args = self._module.address(name), len(args)
            slot.dims, slot.bases, slot.strides = map(ctypes.addressof, (dims, bases, strides))
            scratch = max(scratch, self._module.scratch(name, launch["dims"]))
        self._stride = whole_lines(scratch)
        self._scratch = _aligned(max(self._stride * threads, LINE), np.dtype(np.uint8))

    def _int64s(self, values: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
        made = (ctypes.c_int64 * max(len(values), 1))(*values)
        self._kept.append(made)
        return made

    def run(self, repeats: int) -> float:
        """Seconds of `repeats` runs, on the next copies of the weights."""
        spent = self._driver.mi_measure(
            self._launches, len(self._launches), self._copies, self._next, repeats, self._threads,
            self._scratch.ctypes.data, self._stride)
        if spent < 0:
            raise ValueError("a launch has too many arguments, or there are too many threads")
        self._next = (self._next + repeats) % self._copies
        return spent / 1e9

    def turn(self) -> float:
        """Seconds of one run: the mean over the quickest batch, after an untimed run."""
        self.run(1)
        if not self._repeats:
            self._repeats, spent = 1, self.run(1)
            while spent < BATCH_SECONDS / 4:
                self._repeats *= 4
                spent = self.run(self._repeats)
            one = spent / self._repeats
            self._repeats = max(1, round(BATCH_SECONDS / one))
            self._batches = max(1, min(BATCHES, int(LONGEST_TURN / (one * self._repeats))))
        return min(self.run(self._repeats) for _ in range(self._batches)) / self._repeats


def _say(line: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _settled(times: Mapping[int, Sequence[float]]) -> bool:
    """Whether more rounds would tell little."""
    found = [median_and_spread(seconds) for seconds in times.values()]
    return all(spread <= GOOD_SPREAD * median for median, spread in found)


def load_driver(path: str) -> ctypes.CDLL:
    """The timing loop, runtime/c/mi_measure.c."""
    driver = ctypes.CDLL(path)
    driver.mi_measure.restype = ctypes.c_int64
    driver.mi_measure.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64,
                                  ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64]
    return driver


class Turns:
    """The turns of all candidates, and of the probe among them."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._driver, self._threads = load_driver(request["driver"]), request["threads"]
        self._specs = {int(key): spec for key, spec in request["candidates"].items()}
        self._memory = Memory(self._specs.values(), request["cache_bytes"])
        self._probe = Runner(self._driver, self._specs[_PROBE], self._memory, self._threads)
        self._probed, self._peak = -PROBE_EVERY, 0.0

    def group(self, keys: Sequence[int], rounds: int, seconds: float) -> None:
        """Rounds until all is settled, the time is over, or there were enough of them."""
        runners: dict[int, Runner] = {}
        times: dict[int, list[float]] = {key: [] for key in keys}
        start = time.perf_counter()
        for i in range(rounds):
            for key in [*keys[i % len(keys):], *keys[:i % len(keys)]]:
                self._look_at_probe()
                _say({"at": key})
                if key not in runners:
                    runners[key] = Runner(self._driver, self._specs[key], self._memory, self._threads)
                taken = runners[key].turn()
                _say({"at": key, "seconds": taken, "probe": self._peak})
                times[key].append(taken)
            if time.perf_counter() - start >= seconds or i + 1 >= FEWEST_ROUNDS and _settled(times):
                return

    def _look_at_probe(self) -> None:
        if time.perf_counter() - self._probed >= PROBE_EVERY:
            _say({"at": _PROBE})
            self._peak, self._probed = self._probe.turn(), time.perf_counter()


def main(request: Mapping[str, Any]) -> None:
    """One group after the other; of the first one's time `spent` may be over, in a process before this one."""
    turns, seconds = Turns(request), request["seconds"]
    for i, keys in enumerate(request["groups"]):
        turns.group(keys, request["rounds"], seconds if i else rest_of(seconds, request["spent"]))
    _say({"done": True})


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
