"""Convolution, pooling and layout kernels, one by one: GFLOP/s (GB/s where nothing is multiplied) on one thread.

    python benchmarks/kernels.py [--rounds 10] [--only conv_direct]

Every round runs each kernel and a probe of nothing but multiply-adds, so that a busy or throttled machine slows both.
`peak` is the share of the probe's rate, the median over the rounds. Weights stay warm in cache here, unlike in a
network: `benchmarks/latency.py` measures whole models.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from meta_infer.backends.cpu.emit_c import emit_module
from meta_infer.backends.cpu.loaded import LoadedModule
from meta_infer.backends.cpu.toolchain import compile_module
from meta_infer.hardware.load import load_profile
from meta_infer.hardware.profile import Profile
from meta_infer.ir.builder import Builder
from meta_infer.ir.graph import Node, Value
from meta_infer.ir.group import PLAIN, Group, Layout, blocked
from meta_infer.ir.loop import LoopFunc, Type, const, mad
from meta_infer.ir.shapes import product
from meta_infer.kernels.kernel import KernelCall, Lowering
from meta_infer.kernels.registry import KERNELS
from meta_infer.kernels.reorder import reorder
from meta_infer.support.dtypes import FLOAT32

# (input channels, height and width, output channels, kernel, stride, groups): layers of resnet18 and mobilenetv2.
CONVOLUTIONS = (
    (3, 224, 64, 7, 2, 1), (64, 56, 64, 3, 1, 1), (64, 56, 128, 3, 2, 1), (64, 56, 128, 1, 2, 1),
    (128, 28, 128, 3, 1, 1), (256, 14, 256, 3, 1, 1), (512, 7, 512, 3, 1, 1), (3, 224, 32, 3, 2, 1),
    (32, 112, 32, 3, 1, 32), (16, 112, 96, 1, 1, 1), (96, 112, 96, 3, 2, 96), (96, 56, 24, 1, 1, 1),
    (24, 56, 144, 1, 1, 1), (144, 56, 144, 3, 1, 144), (192, 28, 192, 5, 1, 192), (384, 14, 64, 1, 1, 1),
    (960, 7, 160, 1, 1, 1), (320, 7, 1280, 1, 1, 1), (64, 28, 64, 3, 1, 4),
)
POOLS = (("MaxPool", 64, 112, 3, 2), ("AveragePool", 64, 56, 2, 2), ("GlobalAveragePool", 512, 7, 7, 1))
_PROBE_STEPS = 20_000
_PROBE_REGISTERS = 10


@dataclass(frozen=True)
class Case:
    """A lowering with memory of its own; `work` is floating-point operations, or bytes when `is_copy`."""

    kernel: str
    label: str
    lowering: Lowering
    memory: Mapping[str, np.ndarray]
    work: float
    is_copy: bool = False


def aligned(elements: int) -> np.ndarray:
    """Random floats on a 64-byte boundary."""
    raw = np.empty(elements + 16, np.float32)
    start = -raw.ctypes.data % 64 // 4
    raw[:] = np.random.default_rng(0).standard_normal(raw.size)
    return raw[start:start + elements]


def group_of(op: str, shapes: Mapping[str, tuple[int, ...]], attrs: Mapping[str, object]) -> Group:
    """A group of one node whose last shape is its output's and whose inputs but the first are constants."""
    values = {name: Value(name, FLOAT32, shape) for name, shape in shapes.items()}
    *inputs, output = values
    constants = {n: np.random.default_rng(1).standard_normal(shapes[n]).astype(np.float32) for n in inputs[1:]}
    return Group(Node(op, tuple(inputs), (output,), dict(attrs)), tuple(inputs), (output,), values, constants)


def cases_of(group: Group, label: str, profile: Profile, work: float) -> list[Case]:
    """A case for every variant of every kernel that can do `group`."""
    cases = []
    for kernel in (k for k in KERNELS if group.anchor.op in k.anchors):
        for variant in kernel.variants(group, profile):
            layouts = {n: PLAIN for n in (*group.inputs, *group.outputs)} | {**variant.inputs, **variant.outputs}
            lowering = kernel.lower(group, variant, layouts, profile)
            memory = {n: aligned(int(product(layouts[n].physical(group.values[n].shape)))) for n in layouts}
            name = kernel.name if variant.name == kernel.name else f"{kernel.name}:{variant.name}"
            cases.append(Case(name, label, lowering, memory | dict(lowering.packed), work))
    return cases


def conv_cases(profile: Profile) -> list[Case]:
    cases = []
    for channels, size, out, k, stride, groups in CONVOLUTIONS:
        pad = k // 2
        after = (size + 2 * pad - k) // stride + 1
        shapes = {"x": (1, channels, size, size), "w": (out, channels // groups, k, k), "b": (out,),
                  "y": (1, out, after, after)}
        attrs = {"kernel_shape": (k, k), "strides": (stride, stride), "pads": (pad,) * 4, "dilations": (1, 1),
                 "group": groups}
        kind = f"/{groups}" if groups > 1 else ""
        work = 2.0 * out * after * after * (channels // groups) * k * k
        cases += cases_of(group_of("Conv", shapes, attrs), f"{channels}x{size}x{size} -> {out}{kind} k{k} s{stride}",
                          profile, work)
    return cases


def pool_cases(profile: Profile) -> list[Case]:
    cases = []
    for op, channels, size, k, stride in POOLS:
        after = (size - k) // stride + 1
        shapes = {"x": (1, channels, size, size), "y": (1, channels, after, after)}
        attrs = {} if op.startswith("Global") else {"kernel_shape": (k, k), "strides": (stride, stride)}
        cases += cases_of(group_of(op, shapes, attrs), f"{op} {channels}x{size}x{size} k{k} s{stride}", profile,
                          float(channels * after * after * k * k))
    return cases


def reorder_cases(profile: Profile) -> list[Case]:
    value, block = Value("v", FLOAT32, (1, 64, 56, 56)), profile.lanes(FLOAT32)
    cases = []
    pairs: Sequence[tuple[Layout, Layout]] = ((PLAIN, blocked(block)), (blocked(block), PLAIN))
    for source, target in pairs:
        size = int(product(value.shape))
        memory = {"source": aligned(size), "target": aligned(size)}
        cases.append(Case("reorder", f"64x56x56 {source} -> {target}", reorder(value, source, target, profile), memory,
                          8.0 * size, True))
    return cases


def probe(profile: Profile) -> Case:
    """Independent multiply-adds in registers: what no kernel can exceed."""
    lanes = profile.lanes(FLOAT32)
    b = Builder("probe")
    x, y = b.input("x", FLOAT32), b.output("y", FLOAT32)
    with b.chunks(1):
        factor = b.let(b.load(x, 0, lanes), "factor")
        acc = [b.var(const(float(i), Type(FLOAT32, lanes)), "acc") for i in range(_PROBE_REGISTERS)]
        with b.loop(0, _PROBE_STEPS):
            for a in acc:
                b.assign(a, mad(a, factor, factor))
        for i, a in enumerate(acc):
            b.store(y, i * lanes, a)
    func, _ = b.finish()
    memory = {"x": aligned(lanes) * 0.1, "y": aligned(lanes * _PROBE_REGISTERS)}
    return Case("probe", "", Lowering((KernelCall(func, ("x", "y"), ()),)), memory,
                2.0 * lanes * _PROBE_REGISTERS * _PROBE_STEPS)


class Timer:
    """Seconds of one run of a case: the quickest of a few milliseconds of runs."""

    def __init__(self, case: Case, module: LoadedModule, names: Sequence[str]) -> None:
        self.case, self._module, self._calls = case, module, []
        for call, name in zip(case.lowering.calls, names, strict=True):
            scratch = aligned(module.scratch(name) // 4 + 16)
            self._calls.append((name, [case.memory[a].ctypes.data for a in call.args], scratch))

    def run(self) -> float:
        start = time.perf_counter()
        for name, addresses, scratch in self._calls:
            self._module.run(name, addresses, scratch=scratch.ctypes.data)
        return time.perf_counter() - start

    def quickest(self) -> float:
        first = self.run()
        return min([first, *(self.run() for _ in range(max(2, min(50, int(4e-3 / first)))))])


def timers_of(cases: Sequence[Case], isa: str) -> list[Timer]:
    """All kernels of all cases in one module, under names of their own."""
    funcs: list[LoopFunc] = []
    names: list[list[str]] = []
    for i, case in enumerate(cases):
        names.append([f"{call.func.name}_{i}_{j}" for j, call in enumerate(case.lowering.calls)])
        funcs += [replace(call.func, name=n) for call, n in zip(case.lowering.calls, names[-1], strict=True)]
    module = LoadedModule(compile_module(emit_module(funcs, (), (), isa), isa).path)
    return [Timer(case, module, own) for case, own in zip(cases, names, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    options = parser.parse_args()
    profile = load_profile("native")
    assert profile.isa is not None, "the probe names an instruction set for every CPU that kernels are made for"
    cases = [c for c in (*conv_cases(profile), *pool_cases(profile), *reorder_cases(profile))
             if options.only in c.kernel]
    top, *timers = timers_of([probe(profile), *cases], profile.isa)
    best = [float("inf")] * len(timers)
    shares: list[list[float]] = [[] for _ in timers]
    for _ in range(options.rounds):
        for i, timer in enumerate(timers):
            peak = top.case.work / top.quickest()
            seconds = timer.quickest()
            best[i] = min(best[i], seconds)
            shares[i].append(timer.case.work / seconds / peak)
    print(f"probe: {top.case.work / top.quickest() / 1e9:.0f} GFLOP/s, {profile.isa}, one thread")
    print(f"{'kernel':24} {'shape':34} {'us':>9} {'G/s':>7} {'peak':>6}")
    for timer, seconds, share in zip(timers, best, shares, strict=True):
        case = timer.case
        last = "" if case.is_copy else f"{median(share):6.0%}"
        print(f"{case.kernel:24} {case.label:34} {seconds * 1e6:9.1f} {case.work / seconds / 1e9:7.1f} {last}")


if __name__ == "__main__":
    main()
