"""The probe reads what the system states, on made-up systems and on this one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from meta_infer.hardware import cgroup
from meta_infer.hardware.isa import ISAS, highest_isa, isa_named
from meta_infer.hardware.load import load_profile, parse_profile
from meta_infer.hardware.probe import probe
from meta_infer.hardware.profile import Profile

V3 = " ".join(sorted(isa_named("x86-64-v3").features))
ONE_CPU = frozenset({0})


def make_system(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def cache(index: int, level: int, kind: str, size: str) -> dict[str, str]:
    folder = f"sys/devices/system/cpu/cpu0/cache/index{index}"
    return {f"{folder}/level": f"{level}\n", f"{folder}/type": f"{kind}\n", f"{folder}/size": f"{size}\n"}


def cpuinfo(*flags: str) -> dict[str, str]:
    entry = "processor\t: {}\nmodel name\t: A: B\ncpu MHz\t\t: 2000.5\nflags\t\t: {}\n\n"
    return {"proc/cpuinfo": "".join(entry.format(i, text) for i, text in enumerate(flags))}


def probed(root: Path, cpus: frozenset[int] = ONE_CPU, architecture: str = "x86_64") -> Profile:
    text, unread = probe(root, cpus, architecture)
    return parse_profile(text, "native", warnings=unread)


def test_a_whole_system(tmp_path: Path) -> None:
    profile = probed(make_system(tmp_path, {
        **cpuinfo(V3 + " avx_vnni hypervisor", V3 + " avx_vnni avx512f"),
        **cache(0, 1, "Data", "32K"), **cache(1, 1, "Instruction", "64K"), **cache(2, 2, "Unified", "1M"),
        **cache(3, 3, "Unified", "16384K"),
        "proc/meminfo": "MemTotal:  2048 kB\nMemFree: 1 kB\n",
        "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "3500000\n",
    }), cpus=frozenset({0, 1}))
    assert (profile.isa, profile.cores, profile.clock_ghz) == ("x86-64-v3-vnni", 2, 3.5)
    assert "avx_vnni" in profile.features, "an extension above the level is kept"
    # What one core lacks, or is no extension, is dropped.
    assert not {"avx512f", "hypervisor"} & profile.features
    assert (profile.l1d_bytes, profile.l2_bytes, profile.l3_bytes) == (32 << 10, 1 << 20, 16 << 20)
    assert profile.memory_bytes == 2 << 20 and profile.chip.description == "A: B"
    assert profile.warnings == ()


def test_an_empty_system_is_all_warnings(tmp_path: Path) -> None:
    profile = probed(tmp_path)
    assert profile.backend is None and profile.isa is None and profile.cores == 1
    assert (profile.clock_ghz, profile.l1d_bytes, profile.memory_bytes) == (None, None, None)
    text = "\n".join(profile.warnings)
    assert all(word in text for word in ("cpuinfo", "clock", "caches", "memory"))


def test_a_system_that_states_nonsense(tmp_path: Path) -> None:
    profile = probed(make_system(tmp_path, {
        "proc/cpuinfo": f"processor\t: 0\ncpu MHz\t: unknown\nflags\t: {V3}\n", "proc/meminfo": "",
        **cache(0, 1, "Data", "0K"), **cache(1, 2, "Unified", "lots"), **cache(2, 3, "Unified", ""),
        "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "<unknown>\n",
    }))
    assert profile.isa == "x86-64-v3" and profile.clock_ghz is None
    assert (profile.l1d_bytes, profile.l2_bytes, profile.l3_bytes) == (None, None, None)
    assert len(profile.warnings) == 3


def test_what_a_processor_without_a_name_is_called(tmp_path: Path) -> None:
    """Times of two boards must not be taken for each other's: the board's model, and the numbers of its cores."""
    cores = "".join(f"processor\t: {i}\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: {part}\n\n"
                    for i, part in enumerate(("0xd05", "0xd0b", "0xd05")))
    tree = make_system(tmp_path / "tree", {"proc/cpuinfo": cores, "proc/device-tree/model": "Board 5\0"})
    assert probed(tree, architecture="aarch64").chip.description == "Board 5, cores 0x41/0xd05 0x41/0xd0b"
    named = make_system(tmp_path / "named", {"proc/cpuinfo": cores + "Hardware\t: X\nModel\t\t: Board 4 Rev 1\n"})
    assert probed(named, architecture="aarch64").chip.description == "Board 4 Rev 1, cores 0x41/0xd05 0x41/0xd0b"
    riscv = make_system(tmp_path / "riscv", {"proc/cpuinfo": "hart\t: 0\nisa\t: rv64imafdc\nuarch\t: maker,u74\n\n"})
    assert probed(riscv, architecture="riscv64").chip.description == "maker,u74"
    bare = make_system(tmp_path / "bare", {"proc/cpuinfo": "processor\t: 0\nFeatures\t: fp asimd\n\n"})
    assert probed(bare, architecture="aarch64").chip.description is None


def test_an_arm_system(tmp_path: Path) -> None:
    text = "processor\t: 0\nFeatures\t: fp asimd asimddp crc32\nCPU part\t: 0xd0b\n\n"
    profile = probed(make_system(tmp_path, {"proc/cpuinfo": text}), architecture="aarch64")
    assert (profile.isa, profile.simd_bits, profile.has_fma) == ("aarch64-dot", 128, True)
    assert profile.features == {"fp", "asimd", "asimddp"}


V1_MOUNTS = (
    "30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
    "31 25 0:27 {root} /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n"
)
V2_MOUNTS = "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


def test_cgroup_v2_takes_the_tightest_level(tmp_path: Path) -> None:
    root = make_system(tmp_path, {
        "proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": V2_MOUNTS,
        "sys/fs/cgroup/a/b/cpu.max": "max 100000\n", "sys/fs/cgroup/a/cpu.max": "250000 100000\n",
        "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "1048576\n",
        "proc/meminfo": "MemTotal: 4096 kB\n", **cpuinfo(V3),
    })
    assert cgroup.cpu_limit(root) == 2.5 and cgroup.memory_limit(root) == 1 << 20
    profile = probed(root, cpus=frozenset(range(8)))
    assert profile.cores == 2 and profile.memory_bytes == 1 << 20


def test_cgroup_v1_inside_a_container(tmp_path: Path) -> None:
    root = make_system(tmp_path, {
        "proc/self/cgroup": "4:memory:/box/7/inner\n3:cpu,cpuacct:/x\n0::/\n",
        "proc/self/mountinfo": V1_MOUNTS.format(root="/box/7"),
        "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "50000\n",
        "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/memory/inner/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "2097152\n",
    })
    assert cgroup.cpu_limit(root) == 0.5 and cgroup.memory_limit(root) == 2 << 20
    assert probed(root, cpus=frozenset({0, 1})).cores == 1, "never less than one"


def test_no_limit_is_none(tmp_path: Path) -> None:
    assert cgroup.cpu_limit(tmp_path) is None and cgroup.memory_limit(tmp_path) is None
    root = make_system(tmp_path, {
        "proc/self/cgroup": "3:cpu:/\n", "proc/self/mountinfo": V1_MOUNTS.format(root="/"),
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"})
    assert cgroup.cpu_limit(root) is None


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name)
def test_the_highest_level_that_fits(isa: object) -> None:
    assert highest_isa(isa.architecture, isa.features | {"more"}) is isa  # type: ignore[attr-defined]
    assert highest_isa("z80", isa.features) is None  # type: ignore[attr-defined]


def test_this_machine() -> None:
    profile = load_profile("native")
    assert profile.name == "native" and profile.kind == "cpu"
    assert 1 <= profile.cores <= len(os.sched_getaffinity(0))
    assert profile.memory_bytes is None or profile.memory_bytes > 1 << 20
    assert profile.backend is None or profile.runs_on(profile)
