"""The C compiler: finds it, compiles units in parallel, links them into one freestanding shared object.

Objects and linked results are cached by the hash of everything that determines them (source, headers, flags, compiler
version), so a second build of the same program starts no compiler; object_cache.py keeps them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from meta_infer.backends.base import Artifact
from meta_infer.backends.cpu.compiler_call import TRIES, run_compiler
from meta_infer.backends.cpu.linked import linked_files
from meta_infer.backends.cpu.object_cache import is_cached, keep, prune_at_times, work_folder
from meta_infer.backends.cpu.targets import COMPILE_FLAGS, LINK_FLAGS, PROGRAM_FLAGS, TARGETS
from meta_infer.support.errors import CompilerFaultError, ToolchainError
from meta_infer.support.switches import Switches, read_switches

_TIME_LIMIT = 600
_GENERATED = "kernels.c"
_MEMORY_FUNCTIONS = "".join(f"__attribute__((weak, visibility(\"default\"))) void {name}(void) {{}}\n"
                            for name in ("memcpy", "memmove", "memset", "memcmp"))
"""What compilers call for loops that copy, for a link that is thrown away."""


@dataclass(frozen=True)
class Compiler:
    """A C compiler. `kind` is 'zig', 'clang' or 'gcc'."""

    command: tuple[str, ...]
    kind: str
    version: str


def find_compiler(switches: Switches | None = None) -> Compiler:
    """The compiler META_INFER_CC names, else the one of the ziglang package. Raises ToolchainError when absent."""
    named = (switches or read_switches()).compiler
    if not named:
        spec = util.find_spec("ziglang")
        if spec is None or spec.origin is None:
            raise ToolchainError("the ziglang package is not installed", what="C compiler",
                                 hint="pip install ziglang, or name another compiler in META_INFER_CC")
        zig = Path(spec.origin).parent / "zig"
        return Compiler((str(zig), "cc"), "zig", f"ziglang {metadata.version('ziglang')}")
    words = named.split()
    if shutil.which(words[0]) is None:
        raise ToolchainError(f"{words[0]!r} is not an executable on the PATH",
                             what="environment variable META_INFER_CC",
                             hint="give a full path, or unset it to use the ziglang package")
    macros = _printed(named, "-E", "-dM", "-x", "c", os.devnull)
    if "__GNUC__" not in macros:                                  # gcc, clang and zig define it
        raise ToolchainError(f"{named!r} is no C compiler that this version knows",
                             what="environment variable META_INFER_CC", hint="name a gcc or clang")
    kind = "zig" if "zig" in Path(words[0]).name else "clang" if "__clang__" in macros else "gcc"
    return Compiler(tuple(words), kind, (_printed(named, "--version").splitlines() or [named])[0])


def _printed(named: str, *flags: str) -> str:
    """What the compiler that META_INFER_CC names prints for `flags`."""
    what, hint = "environment variable META_INFER_CC", "name a gcc or clang, and flags that it knows"
    try:
        done = subprocess.run([*named.split(), *flags], capture_output=True, text=True, errors="replace", timeout=60,
                              check=False)
    except (subprocess.SubprocessError, OSError) as error:
        raise ToolchainError(f"{named!r} failed: {error}", what=what, hint=hint) from error
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["it says nothing"])[0]
        raise ToolchainError(f"{named!r} failed with {done.returncode}: {said}", what=what, hint=hint)
    return done.stdout


def _target_flags(compiler: Compiler, isa: str) -> tuple[str, ...]:
    if isa not in TARGETS:
        raise ToolchainError(f"no compiler flags for instruction set {isa!r}", what="C compiler",
                             hint=f"use a profile with one of: {', '.join(TARGETS)}")
    target = TARGETS[isa]
    if compiler.kind == "zig":
        return ("-target", target.triple, f"-mcpu={target.cpu}", *target.tuning)
    return target.march


@dataclass(frozen=True)
class _Unit:
    """One source to compile: its text, and the folder of its headers for a file of the runtime."""

    text: str
    name: str
    include: Path | None = None

    @property
    def file(self) -> str:
        """What the compiler is told: it writes that into the object, which other modules may take from the cache."""
        return _GENERATED if self.include is None else self.name

    def digest(self, identity: str) -> str:
        parts = [identity, self.file, self.text]
        if self.include is not None:
            parts += [header.read_text(encoding="utf-8") for header in sorted(self.include.glob("*.h"))]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


@dataclass(frozen=True)
class _Workshop:
    """A compiler with its cache folder."""

    compiler: Compiler
    flags: tuple[str, ...]
    cache: Path
    link_flags: tuple[str, ...] = LINK_FLAGS

    @property
    def identity(self) -> str:
        return "\0".join([self.compiler.version, *self.compiler.command, *self.flags, *self.link_flags])

    def compile(self, unit: _Unit) -> tuple[Path, int]:
        """The object of a unit, and how many compiler calls it took."""
        target = self.cache / f"{unit.digest(self.identity)}.o"
        if is_cached(target):
            return target, 0
        with work_folder(self.cache) as folder:
            source, made = folder / unit.file, folder / "unit.o"
            source.write_text(unit.text, encoding="utf-8")
            include = () if unit.include is None else (f"-I{unit.include}",)
            self._run([*self.flags, *include, "-c", str(source), "-o", str(made)], folder, unit)
            keep(made, target)
        return target, 1

    def link(self, objects: Sequence[Path], linked: Sequence[Path] = ()) -> tuple[Path, int]:
        names = "\0".join([self.identity, *(o.name for o in (*objects, *linked))])
        target = self.cache / f"{hashlib.sha256(names.encode()).hexdigest()[:40]}.so"
        if is_cached(target):
            return target, 0
        with work_folder(self.cache) as folder:
            made = folder / "module.so"
            linking = [f for f in self.flags if f.startswith(("-target", "-m")) or "-linux-" in f]
            self._run([*linking, *self.link_flags, *map(str, (*objects, *linked)), "-o", str(made)], folder, None)
            keep(made, target)
        return target, 1

    def require_whole(self, kernels: Sequence[Path], linked: Sequence[Path]) -> None:
        """Raises ToolchainError naming what kernels, with what users link to them, call and nobody has."""
        given, _ = self.compile(_Unit(_MEMORY_FUNCTIONS, "memory.c"))
        with work_folder(self.cache) as folder:
            linking = [f for f in self.flags if f.startswith(("-target", "-m")) or "-linux-" in f]
            self._run([*linking, *self.link_flags, "-Wl,-z,defs", *map(str, (*kernels, given, *linked)), "-o",
                       str(folder / "whole.so")], folder, None)

    def _run(self, arguments: list[str], folder: Path, unit: _Unit | None) -> None:
        # zig keeps every object in its local cache: a folder that goes away with this call keeps that bounded.
        env = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(self.cache / "zig"),
               "ZIG_LOCAL_CACHE_DIR": str(folder / "zig")}
        try:
            done, is_own_fault = run_compiler([*self.compiler.command, *arguments], env, _TIME_LIMIT)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolchainError(f"could not run: {error}", what=self.compiler.version,
                                 hint="reinstall ziglang or name another compiler in META_INFER_CC") from error
        if done.returncode == 0:
            return
        if done.returncode < 0:
            raise ToolchainError(f"was ended by {signal.Signals(-done.returncode).name}", what=self.compiler.version,
                                 hint="the machine may be short of memory; end other programs and build again")
        lines = done.stderr.strip().splitlines()
        errors = [line for line in lines if "error" in line.lower()] or lines
        kept = ""
        if unit is not None:
            failed = self.cache / f"failed-{unit.digest(self.identity)[:12]}-{unit.name}"
            failed.write_text(unit.text, encoding="utf-8")
            kept = f"\n  source kept at {failed}"
        what, said = f"{self.compiler.version} exited with {done.returncode}", "\n  ".join(errors[:5]) + kept
        if is_own_fault:
            raise CompilerFaultError(said, what=what,
                                     hint=f"the compiler itself failed, {TRIES} times: report it with the kept source, "
                                          "or name another compiler in META_INFER_CC")
        raise ToolchainError(said, what=what,
                             hint="this is a fault of the code generator: report it with the kept source")


def compile_module(sources: Sequence[str], isa: str, extra_c_files: Sequence[Path] = (),
                   switches: Switches | None = None, extra_flags: Sequence[str] = (), jobs: int | None = None,
                   link_flags: Sequence[str] = LINK_FLAGS) -> Artifact:
    """Compile C sources and files of the runtime, and link them into one shared object for `isa`.

    `sources` are those of `emit_module`: units of kernels, the table last.

    At most `jobs` compilers run at once (default: the CPUs this process may use). Raises ToolchainError with the
    compiler's first messages and the path of the kept source.
    """
    shop = _workshop(isa, switches, extra_flags, link_flags)
    names = [f"kernels_{i}.c" for i in range(len(sources) - 1)] + ["table.c"]
    units = [_Unit(text, name) for name, text in zip(names, sources, strict=True)]
    library, data, calls = _make(shop, [*units, *map(_unit_of, extra_c_files)], jobs)
    return Artifact(isa, data, library, dict(zip(names, sources, strict=True)), shop.compiler.version, calls)


def compile_program(c_files: Sequence[Path], isa: str, switches: Switches | None = None) -> Path:
    """A statically linked program for `isa` that uses no C library, in the cache. Raises ToolchainError."""
    made, _, _ = _make(_workshop(isa, switches, (), PROGRAM_FLAGS), list(map(_unit_of, c_files)), None)
    made.chmod(0o755)
    return made


def _workshop(isa: str, switches: Switches | None, extra_flags: Sequence[str],
              link_flags: Sequence[str]) -> _Workshop:
    switches = switches or read_switches()
    compiler = find_compiler(switches)
    flags = (*_target_flags(compiler, isa), *COMPILE_FLAGS, *extra_flags)
    return _Workshop(compiler, flags, switches.cache / "objects", tuple(link_flags))


def _unit_of(path: Path) -> _Unit:
    return _Unit(path.read_text(encoding="utf-8"), path.name, path.parent)


def _make(shop: _Workshop, units: Sequence[_Unit], jobs: int | None) -> tuple[Path, bytes, int]:
    """What the linker made of all units: its path in the cache, its bytes, and how many compiler calls it took."""
    try:
        shop.cache.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(max_workers=jobs or len(os.sched_getaffinity(0))) as pool:
            objects = list(pool.map(shop.compile, units))
        linked = linked_files([unit.text for unit in units], shop.cache)
        library, link_calls = shop.link([path for path, _ in objects], linked)
        if linked and link_calls:
            shop.require_whole([path for (path, _), unit in zip(objects, units, strict=True) if unit.include is None],
                               linked)
        calls = sum(count for _, count in objects) + link_calls
        data = library.read_bytes()
        if calls:
            prune_at_times(shop.cache)
    except OSError as error:
        raise ToolchainError(f"cannot be used: {error.strerror or error}", what=f"cache folder {shop.cache}",
                             hint="free space on its disk, or name another folder in META_INFER_CACHE") from error
    return library, data, calls
