# ruff: noqa: E402 (threads are chosen before numpy is loaded)
"""Matrix products with packed weights, side by side with numpy and ONNX Runtime: one thread, one interleaved run.

    python benchmarks/gemm.py [--rows 1 6 48 128] [--seconds 1]

Each line is one size: GFLOP/s of the quickest call of each, and the ratio to the better peer (above 1: meta-infer is
quicker). All are timed through Python calls of a few microseconds, which matters at one row only.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"                               # before numpy is loaded

import argparse
from collections.abc import Callable

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from meta_infer.backends.cpu.emit_c import emit_module
from meta_infer.backends.cpu.loaded import LoadedModule
from meta_infer.backends.cpu.toolchain import compile_module
from meta_infer.hardware.load import load_profile
from meta_infer.ir.graph import Node, Value
from meta_infer.ir.group import PLAIN, Group
from meta_infer.ir.shapes import Symbol, evaluate
from meta_infer.kernels.matmul.gemm import GEMM
from meta_infer.search.measure.interleave import interleave
from meta_infer.support.dtypes import FLOAT32

SIZES = ((384, 384), (384, 1536), (1536, 384))


def ours(x: np.ndarray, w: np.ndarray, out: np.ndarray) -> Callable[[], None]:
    """A call that writes x @ w to `out` by the kernel that packages for this machine use."""
    profile, m = load_profile("native"), Symbol("m").dim
    values = {"x": Value("x", FLOAT32, (m, x.shape[1])), "w": Value("w", FLOAT32, w.shape),
              "out": Value("out", FLOAT32, (m, w.shape[1]))}
    group = Group(Node("MatMul", ("x", "w"), ("out",)), ("x", "w"), ("out",), values, {"w": w})
    (variant,) = GEMM.variants(group, profile)
    lowering = GEMM.lower(group, variant, dict.fromkeys(values, PLAIN), profile)
    (call,) = lowering.calls
    isa = profile.isa
    assert isa is not None, "the probe names an instruction set for every CPU that kernels are made for"
    module = LoadedModule(compile_module(emit_module([call.func], (), (), isa), isa).path)
    arrays = {"x": x, "out": out, **{n: np.asarray(a) for n, a in lowering.packed.items()}}
    addresses = [arrays[name].ctypes.data for name in call.args]
    dims = [evaluate(d, {"m": x.shape[0]}) for d in call.dims]
    scratch = np.empty(module.scratch(call.func.name, dims) + 64, np.uint8)
    aligned = -(-scratch.ctypes.data // 64) * 64

    def run(_: object = (arrays, scratch)) -> None:       # the default keeps the memory alive
        module.run(call.func.name, addresses, dims, scratch=aligned)
    return run


def runtime(x: np.ndarray, w: np.ndarray) -> Callable[[], object]:
    """The same product by ONNX Runtime on one thread."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (x.shape[0], w.shape[1]))],
        [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return lambda: session.run(None, {"x": x})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 6, 16, 48, 128])
    parser.add_argument("--seconds", type=float, default=1.0, help="per size")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    print(f"{'M x K x N':>18} {'meta-infer':>11} {'numpy':>8} {'onnxrt':>8}   GFLOP/s     ratio")
    for depth, width in SIZES:
        w = rng.standard_normal((depth, width), np.float32)
        for rows in options.rows:
            x = rng.standard_normal((rows, depth), np.float32)
            out, other = np.empty((rows, width), np.float32), np.empty((rows, width), np.float32)
            calls = {"meta-infer": ours(x, w, out), "numpy": lambda x=x, w=w, o=other: np.matmul(x, w, out=o),
                     "onnxrt": runtime(x, w)}
            seconds = [found.min for found in interleave(calls, rounds=20, seconds=options.seconds).values()]
            np.testing.assert_allclose(out, other, 1e-3, 1e-3)
            rates = [2e-9 * rows * depth * width / s for s in seconds]
            print(f"{f'{rows} x {depth} x {width}':>18} {rates[0]:11.1f} {rates[1]:8.1f} {rates[2]:8.1f}"
                  f"             {rates[0] / max(rates[1:]):6.2f}")


if __name__ == "__main__":
    main()
