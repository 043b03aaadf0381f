"""One package under one sanitizer: its own sources and the runtime compiled by gcc, run, compared with the package."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from meta_infer.backends.cpu.targets import TARGETS
from meta_infer.runtime.reader import Package
from meta_infer.runtime.session import load
from meta_infer.runtime.sources import C_FOLDER, C_SOURCES
from meta_infer.verify.metrics import distance

DRIVER = Path(__file__).with_name("driver.c")
FLAGS = {"asan": ("-fsanitize=address,undefined", "-fno-sanitize-recover=all"), "tsan": ("-fsanitize=thread",)}
ENVIRONMENT = {"ASAN_OPTIONS": "detect_leaks=0", "TSAN_OPTIONS": "halt_on_error=1",
               "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
ENDING = ("unexpected memory mapping", "ptrace")
"""Words of a sanitizer that cannot run on this kernel at all."""
LARGEST_DIFFERENCE = 1e-4
"""gcc and clang order sums of vectors alike, but not every division and square root of vectors."""


class CannotCheck(Exception):
    """This machine lacks gcc, a sanitizer's library, or a kernel it can run on."""


class Unclean(Exception):
    """The sanitizer complained, or results differ; the text says what."""


def check(package_file: Path, inputs: Mapping[str, np.ndarray], kind: str, folder: Path, threads: int = 2) -> None:
    """Run a package under 'asan' (with UBSan) or 'tsan'. Raises Unclean, or CannotCheck.

    Objects of the runtime are kept beside `folder`, for the next package.
    """
    folder.mkdir(parents=True, exist_ok=True)
    package = Package(package_file)
    with load(package_file, threads=1) as session:
        target = session.target
        want = session.run(None, inputs)
        names = [t.name for t in session.get_inputs()]
    sources = {name: package.text(name) for name in package.names() if _is_source(name, target.isa)}
    driver = _compile(sources, TARGETS[target.isa].march, kind, folder)
    (folder / "plan.bin").write_bytes(package.member(target.plan))
    (folder / "weights.bin").write_bytes(package.member(target.weights))
    (folder / "inputs").write_bytes(b"".join(_tensor_bytes(inputs[name]) for name in names))
    arguments = [folder / name for name in ("plan.bin", "weights.bin", "inputs", "outputs")]
    done = subprocess.run([driver, *arguments, str(threads)], capture_output=True, text=True, errors="replace",
                          env={**os.environ, **ENVIRONMENT}, timeout=1800, check=False)
    if any(word in done.stderr for word in ENDING):
        raise CannotCheck("this kernel's address layout does not suit the sanitizer")
    if done.returncode or "Sanitizer" in done.stderr or "runtime error" in done.stderr:
        raise Unclean(done.stderr[-6000:] or f"exit {done.returncode}")
    for array, found in zip(want, _arrays(folder / "outputs", want), strict=True):
        if not _close(found, array):
            raise Unclean("results differ from those of the package")


def _close(found: np.ndarray, want: np.ndarray) -> bool:
    if want.dtype.kind == "f":
        return bool(distance(found, want).relative <= LARGEST_DIFFERENCE)
    return np.array_equal(found, want)


def _is_source(name: str, isa: str) -> bool:
    return name.startswith("sources/") and name.endswith(".c") and (f"/{isa}/" in name or name.count("/") == 1)


def _compile(sources: Mapping[str, str], march: Sequence[str], kind: str, folder: Path) -> Path:
    gcc = shutil.which("gcc")
    if gcc is None:
        raise CannotCheck("no gcc on this machine")
    common = [gcc, "-std=gnu11", "-O1", "-g1", "-w", "-ffp-contract=off", "-fno-math-errno", f"-I{C_FOLDER}",
              *FLAGS[kind]]
    # Under a sanitizer libc's own memcpy is the one that is watched. The runtime counts on no wrapping integers.
    units = [(path, march) for path in (DRIVER, *C_SOURCES) if path.name != "mi_memory.c"]
    runtime = {path: folder.parent / f"{kind}{''.join(march)}-{path.stem}.o" for path, _ in units}
    for i, text in enumerate(sources.values()):
        path = folder / f"unit{i}.c"
        path.write_text(text, encoding="utf-8")
        units.append((path, [*march, "-fwrapv"]))

    def compiled(unit: tuple[Path, Sequence[str]]) -> Path:
        path, flags = unit
        target = runtime.get(path, folder / f"{kind}-{path.stem}.o")
        if not target.exists():
            _run([*common, *flags, "-c", str(path), "-o", str(target)])
        return target

    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        objects = list(pool.map(compiled, units))
    driver = folder / kind
    _run([*common, *map(str, objects), "-o", str(driver), "-pthread"])
    return driver


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode and ("cannot find" in done.stderr or "unrecognized" in done.stderr):
        raise CannotCheck(f"gcc lacks what the sanitizer needs: {done.stderr.splitlines()[0]}")
    if done.returncode:
        raise Unclean(done.stderr[-3000:])


def _tensor_bytes(array: np.ndarray) -> bytes:
    return struct.pack(f"<{2 + array.ndim}q", array.nbytes, array.ndim, *array.shape) + array.tobytes()


def _arrays(path: Path, like: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The driver's outputs; one that only running could size is longer than its shape."""
    data, at, found = path.read_bytes(), 0, []
    for array in like:
        size, rank = struct.unpack_from("<2q", data, at)
        shape = struct.unpack_from(f"<{rank}q", data, at + 16)
        at += 16 + 8 * rank
        flat = np.frombuffer(data[at:at + size], array.dtype)
        found.append(flat[:int(np.prod(shape, dtype=np.int64))].reshape(shape))
        at += size
    return found


def compare_arenas(package_file: Path, inputs: Mapping[str, np.ndarray]) -> None:
    """Run the package itself in every arena mode, twice each. Raises Unclean unless all outputs are the same bytes."""
    before = os.environ.get("META_INFER_ARENA")
    want = None
    try:
        for mode in ("", "separate", "poison"):
            os.environ["META_INFER_ARENA"] = mode
            for threads in (1, 2):
                with load(package_file, threads=threads) as session:
                    for _ in range(2):
                        found = [array.tobytes() for array in session.run(None, inputs)]
                        want = want or found
                        if found != want:
                            raise Unclean(f"META_INFER_ARENA={mode or 'unset'}, {threads} threads: other outputs")
    finally:
        if before is None:
            del os.environ["META_INFER_ARENA"]
        else:
            os.environ["META_INFER_ARENA"] = before
