"""The toolchain: cache, parallel builds, other compilers, errors a user can act on."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from meta_infer.backends.cpu import toolchain
from meta_infer.backends.cpu.emit_c import emit_module
from meta_infer.backends.cpu.loaded import LoadedModule
from meta_infer.backends.cpu.object_cache import prune, prune_at_times
from meta_infer.backends.cpu.toolchain import Compiler, compile_module, find_compiler
from meta_infer.ir.builder import Builder
from meta_infer.ir.loop import LoopFunc
from meta_infer.support.dtypes import FLOAT32
from meta_infer.support.errors import CompilerFaultError, ToolchainError
from meta_infer.support.switches import Switches, read_switches
from tests.kernels.harness import host_isa


def copy_func(name: str, add: float) -> LoopFunc:
    b = Builder(name)
    x, y = b.input("x", FLOAT32), b.output("y", FLOAT32)
    with b.chunks(1):
        b.store(y, 0, b.load(x, 0) + add)
    return b.finish()[0]


def sources(*adds: float) -> list[str]:
    return emit_module([copy_func(f"k{i}", add) for i, add in enumerate(adds)], (), (), host_isa())


@pytest.fixture
def switches(tmp_path: Path) -> Switches:
    return replace(read_switches(), cache=tmp_path / "cache", compiler=None)


def test_second_build_makes_no_compiler_call(switches: Switches) -> None:
    first = compile_module(sources(1.0, 2.0), host_isa(), switches=switches)
    again = compile_module(sources(1.0, 2.0), host_isa(), switches=switches)
    assert (first.compiler_calls, again.compiler_calls) == (4, 0)         # two units, the table, the link
    assert again.library == first.library and again.path == first.path
    changed = compile_module(sources(1.0, 3.0), host_isa(), switches=switches)
    assert changed.compiler_calls == 2                                    # one unit and the link
    assert set(first.sources) == {"kernels_0.c", "kernels_1.c", "table.c"}
    assert LoadedModule(changed.path).names == ("k0", "k1")
    assert not [p for p in (switches.cache / "objects").iterdir() if p.name.startswith("work-")]


def test_flags_and_isa_are_part_of_the_key(switches: Switches) -> None:
    compile_module(sources(1.0), host_isa(), switches=switches)
    assert compile_module(sources(1.0), host_isa(), switches=switches, extra_flags=("-DX",)).compiler_calls == 3
    assert compile_module(sources(1.0), "aarch64", switches=switches).compiler_calls == 3


def test_headers_of_extra_files_are_part_of_the_key(switches: Switches, tmp_path: Path) -> None:
    (tmp_path / "number.h").write_text("#define NUMBER 1\n")
    extra = tmp_path / "extra.c"
    extra.write_text('#include "number.h"\nint number(void) { return NUMBER; }\n')
    compile_module(sources(1.0), host_isa(), [extra], switches=switches)
    assert compile_module(sources(1.0), host_isa(), [extra], switches=switches).compiler_calls == 0
    (tmp_path / "number.h").write_text("#define NUMBER 2\n")
    assert compile_module(sources(1.0), host_isa(), [extra], switches=switches).compiler_calls == 2


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:len(data) // 2],
                                    lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]],
                         ids=["empty", "cut short", "one bit"])
@pytest.mark.parametrize("suffix", [".o", ".so", ".sha256"])
def test_a_damaged_cache_is_made_again(switches: Switches, damage: Callable[[bytes], bytes], suffix: str) -> None:
    first = compile_module(sources(1.0), host_isa(), switches=switches)
    files = [f for f in (switches.cache / "objects").iterdir() if f.suffix == suffix]
    assert files
    for file in files:
        file.write_bytes(damage(file.read_bytes()))
    again = compile_module(sources(1.0), host_isa(), switches=switches)
    assert again.library == first.library and again.compiler_calls > 0
    assert compile_module(sources(1.0), host_isa(), switches=switches).compiler_calls == 0


def test_a_cache_that_cannot_be_written(switches: Switches, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ToolchainError, match="Not a directory") as caught:
        compile_module(sources(1.0), host_isa(), switches=replace(switches, cache=tmp_path / "file"))
    assert "META_INFER_CACHE" in str(caught.value)


def test_what_killed_builds_left_goes_away(tmp_path: Path) -> None:
    for name, when in (("work-old", 1_000_000), ("work-new", time.time())):
        (tmp_path / name).mkdir()
        (tmp_path / name / "unit.o").touch()
        os.utime(tmp_path / name, (when, when))
    prune(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["work-new"]


def test_concurrent_builds_of_the_same_sources(switches: Switches) -> None:
    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(lambda _: compile_module(sources(1.0, 2.0), host_isa(), switches=switches), range(3)))
    assert len({a.library for a in made}) == 1


def test_a_compile_error_names_the_line_and_keeps_the_source(switches: Switches) -> None:
    with pytest.raises(ToolchainError) as caught:
        compile_module(["int f(void) { return missing_name; }\n"], host_isa(), switches=switches)
    text = str(caught.value)
    assert "missing_name" in text and "ziglang" in text
    kept = Path(text.split("source kept at ")[1].splitlines()[0])
    assert "missing_name" in kept.read_text()


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_gcc_through_the_environment(switches: Switches, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("META_INFER_CC", "gcc")
    assert find_compiler().kind == "gcc"
    by_gcc = compile_module(sources(1.0), host_isa(), switches=replace(switches, compiler="gcc"))
    by_zig = compile_module(sources(1.0), host_isa(), switches=switches)
    assert by_gcc.compiler_calls == by_zig.compiler_calls == 3            # objects of compilers are not mixed
    assert by_gcc.compiler != by_zig.compiler


@pytest.mark.parametrize(("name", "message"), [
    ("no-such-compiler-here", "not an executable"), ("false", "failed"), ("true", "no C compiler"), ("ls", "failed")])
def test_a_wrong_compiler_is_named(switches: Switches, name: str, message: str) -> None:
    with pytest.raises(ToolchainError, match=message) as caught:
        find_compiler(replace(switches, compiler=name))
    assert "META_INFER_CC" in str(caught.value)


def test_an_unknown_instruction_set_is_an_error(switches: Switches) -> None:
    with pytest.raises(ToolchainError, match="pdp11"):
        compile_module(sources(1.0), "pdp11", switches=switches)


def test_a_folder_is_looked_through_once_in_a_while(tmp_path: Path) -> None:
    left, now = tmp_path / "work-left", time.time()

    def leave() -> None:
        left.mkdir(exist_ok=True)
        os.utime(left, (now - 1e6, now - 1e6))

    for age, stays in ((None, False), (None, True), (3600, False), (-3600, False)):
        leave()
        if age is not None:
            os.utime(tmp_path / "pruned", (now - age, now - age))
        prune_at_times(tmp_path)
        assert left.exists() == stays, age


def test_prune_keeps_what_was_used_last(tmp_path: Path) -> None:
    for age, name in enumerate(("new.o", "middle.so", "old.o")):
        (tmp_path / name).write_bytes(b"x" * 100)
        os.utime(tmp_path / name, (1_000_000 - age, 1_000_000 - age))
    prune(tmp_path, 250)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["middle.so", "new.o"]
    prune(tmp_path, 0)
    assert not list(tmp_path.iterdir())


ASK = 0xFFFFFFFF
"""What personality(2) answers without a change."""


def use_failing_compiler(monkeypatch: pytest.MonkeyPatch, folder: Path, times: int, says: str) -> None:
    """A compiler that fails on its first calls for objects, and counts them in `calls`."""
    real = " ".join(find_compiler(replace(read_switches(), compiler=None)).command)
    script = folder / "cc"
    script.write_text(f'#!/bin/sh\ncase " $* " in *" -c "*)\n  echo x >> {folder}/calls\n'
                      f'  {sys.executable} -c "import ctypes; print(ctypes.CDLL(None).personality({ASK}))"'
                      f' >> {folder}/seen\n'
                      f'  if [ $(wc -l < {folder}/calls) -le {times} ]; then echo "{says}" >&2; exit 1; fi;;\nesac\n'
                      f'exec {real} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setattr(toolchain, "find_compiler", lambda switches: Compiler((str(script),), "zig", "failing"))


def test_a_compiler_that_fails_in_itself_is_called_again(
        switches: Switches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = "fatal error: error in backend: Cannot encode"
    use_failing_compiler(monkeypatch, tmp_path, 2, fault)
    assert LoadedModule(compile_module(sources(1.0), host_isa(), switches=switches, jobs=1).path).names == ("k0",)
    assert len((tmp_path / "calls").read_text().split()) == 4              # the unit three times, the table once


def test_a_compiler_that_always_fails_in_itself_says_so(
        switches: Switches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_failing_compiler(monkeypatch, tmp_path, 99, "error in backend: x")
    with pytest.raises(CompilerFaultError, match="error in backend: x") as error:
        compile_module(sources(1.0), host_isa(), switches=switches, jobs=1)
    assert "itself failed, 4 times" in str(error.value) and "source kept at" in str(error.value)


def test_what_is_wrong_with_a_source_is_said_at_once(
        switches: Switches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_failing_compiler(monkeypatch, tmp_path, 99, "error: unknown type name")
    with pytest.raises(ToolchainError, match="unknown type name") as error:
        compile_module(sources(1.0), host_isa(), switches=switches, jobs=1)
    assert not isinstance(error.value, CompilerFaultError) and len((tmp_path / "calls").read_text().split()) <= 2


def test_a_compiler_runs_at_fixed_addresses_and_nothing_else_does(
        switches: Switches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system refuses them, as some containers do, addresses stay random."""
    personality, fixed = ctypes.CDLL(None).personality, 0x40000
    before = personality(ASK)
    wanted = before | fixed if personality(before | fixed) >= 0 else before
    personality(before)
    use_failing_compiler(monkeypatch, tmp_path, 0, "")
    compile_module(sources(1.0), host_isa(), switches=switches, jobs=1)
    assert {int(one) for one in (tmp_path / "seen").read_text().split()} == {wanted}
    assert personality(ASK) == before
