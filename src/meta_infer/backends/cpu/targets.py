"""What the C compilers call each instruction set, and the flags every unit is compiled with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """`triple`, `cpu` and `tuning` for clang as shipped with zig; `march` flags for a compiler of this machine."""

    triple: str
    cpu: str
    march: tuple[str, ...]
    tuning: tuple[str, ...] = ()


# Register tiles are written in an order that just fits the registers. Clang's scheduler before register allocation
# hoists loads and spills accumulators (half as many spills as multiply-adds on aarch64); the one after it stays on.
_AS_WRITTEN = ("-mllvm=-enable-misched=false",)

TARGETS = {
    "x86-64": Target("x86_64-linux-gnu.2.17", "x86_64", ("-march=x86-64",), _AS_WRITTEN),
    "x86-64-v2": Target("x86_64-linux-gnu.2.17", "x86_64_v2", ("-march=x86-64-v2",), _AS_WRITTEN),
    "x86-64-v3": Target("x86_64-linux-gnu.2.17", "x86_64_v3", ("-march=x86-64-v3",), _AS_WRITTEN),
    "x86-64-v4": Target("x86_64-linux-gnu.2.17", "x86_64_v4", ("-march=x86-64-v4",), _AS_WRITTEN),
    "x86-64-v3-vnni": Target("x86_64-linux-gnu.2.17", "x86_64_v3+avxvnni", ("-march=x86-64-v3", "-mavxvnni"),
                             _AS_WRITTEN),
    "x86-64-v4-vnni": Target("x86_64-linux-gnu.2.17", "x86_64_v4+avx512vnni", ("-march=x86-64-v4", "-mavx512vnni"),
                             _AS_WRITTEN),
    "aarch64": Target("aarch64-linux-gnu.2.17", "generic", ("-march=armv8-a",), _AS_WRITTEN),
    "aarch64-dot": Target("aarch64-linux-gnu.2.17", "generic+dotprod", ("-march=armv8.2-a+dotprod",), _AS_WRITTEN),
    "aarch64-i8mm": Target("aarch64-linux-gnu.2.17", "generic+dotprod+i8mm", ("-march=armv8.2-a+dotprod+i8mm",),
                           _AS_WRITTEN),
    "armv7": Target("arm-linux-gnueabihf.2.17", "generic+v7a+neon+vfp4",
                    ("-march=armv7-a+neon-vfpv4", "-mfloat-abi=hard"), _AS_WRITTEN),
    "riscv64": Target("riscv64-linux-gnu.2.27", "baseline_rv64", ("-march=rv64gc",)),
}
"""By the names of hardware/isa.py. A glibc of 2.17 is asked for only so that headers of every Linux fit."""

COMPILE_FLAGS = (
    "-std=gnu11", "-O3", "-g0", "-fPIC", "-fvisibility=hidden",
    "-ffreestanding", "-fno-builtin",                 # no call of libc that the source does not write
    "-ffp-contract=off", "-fno-math-errno",           # `mad` says where to fuse; sqrt is one instruction
    "-fwrapv",                                        # integer tensors wrap around
    "-fomit-frame-pointer", "-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-w",
)
LINK_FLAGS = ("-shared", "-nostdlib", "-Wl,-z,noexecstack")
PROGRAM_FLAGS = ("-static", "-nostdlib", "-Wl,-z,noexecstack")
