"""The C runtime by itself: sanitizers, allocations, damaged command tables, warnings, and what the code links to."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from meta_infer.backends.cpu.toolchain import find_compiler
from meta_infer.runtime.reader import Package
from meta_infer.runtime.sources import (
    AGENT_SOURCES,
    C_FOLDER,
    C_SOURCES,
    DRIVER_SOURCES,
    PLACED_SOURCES,
    TURNS_SOURCES,
)

from . import programs

DRIVER = Path(__file__).with_name("driver.c")
# Under a sanitizer libc's own memcpy is the one that is watched.
SOURCES = [path for path in C_SOURCES if path.name != "mi_memory.c"]


@dataclass(frozen=True)
class Parts:
    """Files a driver is built of and reads: generated C, command table, weights."""

    folder: Path
    units: list[Path]
    plan: Path
    weights: Path


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory, package_file: Path) -> Parts:
    folder = tmp_path_factory.mktemp("driver")
    units = []
    for i, text in enumerate(programs.sources_of(programs.make_program())):
        units.append(folder / f"unit{i}.c")
        # Generated code is compiled with -fwrapv, unlike the runtime: its integer tensors wrap around.
        units[-1].write_text('#pragma GCC optimize("wrapv")\n' + text)
    package = Package(package_file)
    (folder / "plan.bin").write_bytes(package.member(programs.PLAN))
    (folder / "weights.bin").write_bytes(package.member("weights.bin"))
    return Parts(folder, units, folder / "plan.bin", folder / "weights.bin")


def build(parts: Parts, name: str, *flags: str) -> Path:
    """A driver made by gcc with `flags`. Skips when gcc, or what the flags need, is not there."""
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("C RUNTIME NOT CHECKED: no gcc on this machine")
    target = parts.folder / name
    done = subprocess.run(
        [gcc, "-std=gnu11", "-O1", "-g", "-march=native", "-ffp-contract=off", f"-I{C_FOLDER}", *flags, str(DRIVER),
         *map(str, SOURCES), *map(str, parts.units), "-o", str(target), "-pthread"], capture_output=True, text=True)
    if done.returncode and ("cannot find -l" in done.stderr or "unrecognized" in done.stderr):
        pytest.skip(f"C RUNTIME NOT CHECKED: gcc lacks {flags}")
    assert done.returncode == 0, done.stderr
    return target


def drive(parts: Parts, driver: Path, job: str) -> str:
    env = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0", "TSAN_OPTIONS": "halt_on_error=1",
           "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
    done = subprocess.run([str(driver), job, str(parts.plan), str(parts.weights)], capture_output=True, text=True,
                          env=env, timeout=300)
    if "unexpected memory mapping" in done.stderr or "ptrace" in done.stderr:
        pytest.skip("C RUNTIME NOT CHECKED: this kernel's address layout does not suit the sanitizer")
    assert done.returncode == 0 and "Sanitizer" not in done.stderr and "runtime error" not in done.stderr, done.stderr
    return done.stdout


def test_address_and_undefined_behaviour(parts: Parts) -> None:
    driver = build(parts, "asan", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    drive(parts, driver, "run")
    accepted = int(drive(parts, driver, "fuzz").split()[1])
    assert accepted < 1500                     # most damage is found; the rest met names, ranges, sizes that still fit


def test_data_races(parts: Parts) -> None:
    drive(parts, build(parts, "tsan", "-fsanitize=thread"), "run")


def test_running_allocates_nothing(parts: Parts) -> None:
    """malloc, calloc, realloc, mmap and thread creation are counted in the whole process during 200 runs."""
    driver = build(parts, "count", "-DCOUNT_ALLOCATIONS", "-Wl,--wrap=pthread_create", "-fno-builtin")
    assert "allocations while running: 0" in drive(parts, driver, "alloc")


def test_no_warnings(tmp_path: Path) -> None:
    compiler = find_compiler()
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-ffreestanding", *map(str, C_SOURCES)]
    commands = [["gcc", "-O2", "-c"]] if shutil.which("gcc") else []
    if compiler.kind == "zig":
        triples = ("x86_64-linux-gnu.2.17", "aarch64-linux-gnu.2.17", "riscv64-linux-gnu.2.27")
        commands += [[*compiler.command, "-O0", "-c", "-target", triple] for triple in triples]
    for command in commands:
        done = subprocess.run([*command, *flags], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr


def test_no_warnings_in_the_programs(tmp_path: Path) -> None:
    compiler = find_compiler()
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-ffreestanding", "-O1", "-c"]
    targets = [[f"--target={cpu}-linux-gnu"] if compiler.kind == "clang" else ["-target", f"{cpu}-linux-gnu.2.17"]
               for cpu in ("x86_64", "aarch64")] if compiler.kind != "gcc" else [[]]
    for target in targets:
        for sources in (DRIVER_SOURCES, AGENT_SOURCES, TURNS_SOURCES, PLACED_SOURCES):
            done = subprocess.run([*compiler.command, *target, *flags, *map(str, sources)], capture_output=True,
                                  text=True, cwd=tmp_path)
            assert done.returncode == 0, done.stderr


def test_header_is_plain_c_and_cxx(tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("C RUNTIME NOT CHECKED: no gcc on this machine")
    text = '#include "mi_runtime.h"\nint main(void) { return sizeof(mi_tensor) == 152 ? 0 : 1; }\n'
    (tmp_path / "use.c").write_text(text)
    subprocess.run(["gcc", "-std=c99", "-pedantic", "-Wall", "-Werror", f"-I{C_FOLDER}", str(tmp_path / "use.c"), "-o",
                    str(tmp_path / "use")], check=True)
    assert subprocess.run([str(tmp_path / "use")]).returncode == 0


def test_code_asks_little_of_its_host() -> None:
    """The shared object may import only what every Linux libc has had unchanged, and no allocator."""
    names = programs.artifact().library
    for forbidden in (b"malloc", b"calloc", b"realloc", b"printf", b"pthread_cond", b"__tls_get_addr", b"GLIBC_"):
        assert forbidden not in names
