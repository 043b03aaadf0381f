"""Convolution, pooling and layout kernels, one by one: GFLOP/s (GB/s where nothing is multiplied) on one thread.

    python benchmarks/kernels.py [--rounds 10] [--only conv_direct]

Measured as the search measures (search/measure.py): in rounds beside a probe of nothing but multiply-adds, so that a
busy or throttled machine slows both, and with weights that have left the cache. `peak` is the share of the probe's
rate, the median over the rounds. `benchmarks/latency.py` measures whole models.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

import numpy as np

from meta_infer.hardware.load import load_profile
from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Node, Value
from meta_infer.ir.group import PLAIN, Group, Layout, blocked
from meta_infer.ir.shapes import product
from meta_infer.kernels.registry import KERNELS
from meta_infer.kernels.reorder import reorder
from meta_infer.search.candidate import MeasuredBuffer, Uncompiled, compile_candidates, lowered_group
from meta_infer.search.measure import measure
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


def group_of(op: str, shapes: Mapping[str, tuple[int, ...]], attrs: Mapping[str, object]) -> Group:
    """A group of one node whose last shape is its output's and whose inputs but the first are constants."""
    values = {name: Value(name, FLOAT32, shape) for name, shape in shapes.items()}
    *inputs, output = values
    constants = {n: np.random.default_rng(1).standard_normal(shapes[n]).astype(np.float32) for n in inputs[1:]}
    return Group(Node(op, tuple(inputs), (output,), dict(attrs)), tuple(inputs), (output,), values, constants)


def cases_of(group: Group, label: str, profile: Profile, work: int) -> list[Uncompiled]:
    """A case for every variant of every kernel that can do `group`."""
    cases = []
    for kernel in (k for k in KERNELS if group.anchor.op in k.anchors):
        for variant in kernel.variants(group, profile):
            layouts = {n: PLAIN for n in (*group.inputs, *group.outputs)} | {**variant.inputs, **variant.outputs}
            lowering = kernel.lower(group, variant, layouts, profile)
            name = kernel.name if variant.name == kernel.name else f"{kernel.name}:{variant.name}"
            cases.append(lowered_group(f"{name:24} {label:34}", group, lowering, layouts, {}, work))
    return cases


def conv_cases(profile: Profile) -> list[Uncompiled]:
    cases = []
    for channels, size, out, k, stride, groups in CONVOLUTIONS:
        pad = k // 2
        after = (size + 2 * pad - k) // stride + 1
        shapes = {"x": (1, channels, size, size), "w": (out, channels // groups, k, k), "b": (out,),
                  "y": (1, out, after, after)}
        attrs = {"kernel_shape": (k, k), "strides": (stride, stride), "pads": (pad,) * 4, "dilations": (1, 1),
                 "group": groups}
        kind = f"/{groups}" if groups > 1 else ""
        work = 2 * out * after * after * (channels // groups) * k * k
        cases += cases_of(group_of("Conv", shapes, attrs), f"{channels}x{size}x{size} -> {out}{kind} k{k} s{stride}",
                          profile, work)
    return cases


def pool_cases(profile: Profile) -> list[Uncompiled]:
    cases = []
    for op, channels, size, k, stride in POOLS:
        after = (size - k) // stride + 1
        shapes = {"x": (1, channels, size, size), "y": (1, channels, after, after)}
        attrs = {} if op.startswith("Global") else {"kernel_shape": (k, k), "strides": (stride, stride)}
        cases += cases_of(group_of(op, shapes, attrs), f"{op} {channels}x{size}x{size} k{k} s{stride}", profile,
                          channels * after * after * k * k)
    return cases


def reorder_cases(profile: Profile) -> list[Uncompiled]:
    value, block = Value("v", FLOAT32, (1, 64, 56, 56)), profile.lanes(FLOAT32)
    cases = []
    pairs: Sequence[tuple[Layout, Layout]] = ((PLAIN, blocked(block)), (blocked(block), PLAIN))
    for source, target in pairs:
        size = 4 * int(product(value.shape))
        buffers = {"source": MeasuredBuffer(size, "float32", "input"),
                   "target": MeasuredBuffer(size, "float32", "output")}
        label = f"64x56x56 {source} -> {target}"
        cases.append(Uncompiled(f"{'reorder':24} {label:34}", reorder(value, source, target, profile).calls, buffers))
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=30.0, help="for all kernels together")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    options = parser.parse_args()
    profile = load_profile("native")
    assert profile.isa is not None, "the probe names an instruction set for every CPU that kernels are made for"
    cases = [c for c in (*conv_cases(profile), *pool_cases(profile), *reorder_cases(profile))
             if options.only in c.name.split()[0]]
    found = measure(compile_candidates(cases, profile.isa), rounds=options.rounds, seconds=options.seconds,
                    threads=options.threads)
    print(f"{profile.isa}, {options.threads} thread{'s' if options.threads > 1 else ''}; copies: GB/s, else GFLOP/s")
    print(f"{'kernel':24} {'shape':34} {'us':>9} {'+-':>7} {'G/s':>7} {'peak':>6}")
    for case, m in zip(cases, found, strict=True):
        if not m.ok:
            print(f"{m.name} {m.status}")
            continue
        work = case.flops or sum(buffer.bytes for buffer in case.buffers.values())
        share = f"{m.share_of_peak:6.0%}" if case.flops else ""
        print(f"{m.name} {m.seconds * 1e6:9.1f} {m.spread * 1e6:7.1f} {work / m.seconds / 1e9:7.1f} {share}")


if __name__ == "__main__":
    main()
