"""Kernels of users: the example of docs/custom-kernels.md as it stands there, and files that are wrong."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from meta_infer import load
from meta_infer.api import build
from meta_infer.backends.cpu.toolchain import find_compiler
from meta_infer.custom import load_custom
from meta_infer.hardware.load import load_profile
from meta_infer.package.format import LOCK
from meta_infer.runtime.reader import Package
from meta_infer.support.errors import InputError, ToolchainError, UsageError, VerificationError

PAGE = Path(__file__).parents[2] / "docs" / "custom-kernels.md"
HAS_AVX2 = load_profile("x86-64-v3").runs_on(load_profile("native"))
needs_avx2 = pytest.mark.skipif(not HAS_AVX2, reason="the example's text is for AVX2, which this machine lacks")

PLAIN = """
from meta_infer.custom import c_kernel

def rows(inputs, outputs, attrs):
    count = 1
    for size in outputs[0].shape[:-1]:
        count = count * size
    return count

def fits(group, profile):
    return len(group.in_value(1).shape) == 2

GOOD = '''
    for (int64_t r = begin; r < end; r++)
        for (int64_t c = 0; c < in1_d1; c++) {
            float sum = 0;
            for (int64_t k = 0; k < in1_d0; k++) sum += in0[r * in1_d0 + k] * in1[k * in1_d1 + c];
            out0[r * in1_d1 + c] = sum;
        }
'''
"""


@pytest.fixture(autouse=True)
def no_rivals_left() -> object:
    yield
    load_custom([])


def write(folder: Path, text: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(PLAIN + text)
    return path


def kernel(**changed: str) -> str:
    """A file with one kernel, `mine`, of these arguments beside the usual ones."""
    given = {"op": "'MatMul'", "source": "GOOD", "items": "rows", "fits": "fits", "grain": "5", "epilogue": "True"}
    return f"KERNELS = (c_kernel('mine', {', '.join(f'{k}={v}' for k, v in (given | changed).items())}),)\n"


def saved_model(folder: Path, rows: int | str = 23) -> Path:
    rng = np.random.default_rng(0)
    tensors = {"w": rng.standard_normal((19, 33)), "b": rng.standard_normal(33), "v": rng.standard_normal((33, 7))}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"], "fc1"), helper.make_node("Add", ["m", "b"], ["h"], "bias"),
             helper.make_node("Relu", ["h"], ["r"], "relu"), helper.make_node("MatMul", ["r", "v"], ["y"], "fc2")]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 19])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 7])],
                              [numpy_helper.from_array(a.astype(np.float32), n) for n, a in tensors.items()])
    path = folder / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def planned(folder: Path, text: str, **fields: object) -> str:
    """The plan of a build with this file, as text."""
    return build(saved_model(folder), custom=(write(folder, text),), stop_after="plan", **fields).text


@needs_avx2
def test_the_documented_example(tmp_path: Path) -> None:
    text = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)[0]
    file = tmp_path / "my_kernels.py"
    file.write_text(text)
    model = saved_model(tmp_path, "M")
    given = {"custom": (file,), "shape": ("x=1..300,19",)}
    result = build(model, output=tmp_path / "a.bin", pin=("fc*.algo=my_gemm", "fc2.rows=4"), **given)
    groups = [(row["ops"], row["kernel"], row["knobs"]) for row in result.report["groups"]]
    assert groups == [("MatMul+Add+Relu", "my_gemm", {"rows": 6}), ("MatMul", "my_gemm", {"rows": 4})]
    assert next(s for s in result.trace.steps if s.name == "check kernels").figures["kernels"] == 2
    lock = tmp_path / "build.lock.json"
    lock.write_bytes(bytes(Package(tmp_path / "a.bin").check(LOCK)))

    again = build(model, output=tmp_path / "b.bin", replay=lock, **given)
    assert again.report["groups"] == result.report["groups"]
    one, other = Package(tmp_path / "a.bin"), Package(tmp_path / "b.bin")
    isa = load_profile("native").isa
    for member in (f"targets/{isa}/code.so", f"targets/{isa}/plan.bin", "weights.bin", LOCK):
        assert bytes(one.check(member)) == bytes(other.check(member)), member
    with pytest.raises(InputError, match="takes kernel 'my_gemm' for MatMul") as caught:
        build(model, output=tmp_path / "c.bin", replay=lock, shape=given["shape"])
    assert "--custom" in caught.value.hint
    file.write_text(text + "\n# changed\n")
    changed = build(model, replay=lock, stop_after="plan", **given)
    assert any("the file that holds kernel my_gemm has changed since" in w for w in changed.trace.warnings)
    with load(tmp_path / "a.bin", threads=1) as alone, load(tmp_path / "a.bin", threads=2) as both:
        for rows in (1, 5, 24, 299):
            x = np.random.default_rng(rows).standard_normal((rows, 19)).astype(np.float32)
            assert alone.run(None, {"x": x})[0].tobytes() == both.run(None, {"x": x})[0].tobytes()


def test_by_rule_only_for_a_lesser_cost(tmp_path: Path) -> None:
    assert "mine" not in planned(tmp_path, kernel())
    assert "mine" not in planned(tmp_path, kernel(cost="1e12"))
    assert planned(tmp_path, kernel(cost="1.0")).count("mine.source") == 2
    assert planned(tmp_path, kernel(cost="1.0", epilogue="False")).count("mine.source") == 1
    assert planned(tmp_path, kernel(cost="lambda group, profile, knobs: 1.0")).count("mine.source") == 2
    assert "mine" not in planned(tmp_path, kernel(cost="1.0"), exclude=("mine",))
    assert "mine" not in planned(tmp_path, kernel(cost="1.0", needs="('avx512f', 'hvx')"))
    assert "mine" not in planned(tmp_path, kernel(cost="1.0", dtypes="('int8',)"))
    assert "mine" not in build(saved_model(tmp_path), stop_after="plan").text      # it was another build's


def test_one_that_fits_nothing_is_told_of(tmp_path: Path) -> None:
    model, path = saved_model(tmp_path), write(tmp_path, kernel(fits="lambda group, profile: False"))
    found = build(model, output=tmp_path / "net.bin", custom=(path,))
    assert any("kernel mine can compute no group of this model" in text for text in found.trace.warnings)
    found = build(model, output=tmp_path / "net.bin", custom=(write(tmp_path, kernel()),))
    assert not any("can compute no group" in text for text in found.trace.warnings)


def test_knobs(tmp_path: Path) -> None:
    tuned = kernel(knobs="{'width': (8, 4, 2)}",
                   allows="lambda g, p, knobs: 'too narrow' if knobs['width'] < 4 else True")
    assert planned(tmp_path, tuned, pin=("fc1.algo=mine",)).count("mine.source width=8") == 1
    assert planned(tmp_path, tuned, pin=("fc1.algo=mine", "fc1.width=4")).count("mine.source width=4") == 1
    for value, reason in (("2", "too narrow"), ("3", "width=3 is not among 8, 4, 2")):
        with pytest.raises(UsageError, match=reason):
            planned(tmp_path, tuned, pin=("fc1.algo=mine", f"fc1.width={value}"))


@pytest.mark.parametrize(("text", "problem"), [
    ("KERNELS = (3,)", "KERNELS holds a int"),
    ("KERNELS = 3", "KERNELS is a int"),
    (kernel(op="'MatMull'"), "there is no op 'MatMull'\n  try: did you mean 'MatMul'?"),
    (kernel(op="'Reshape'"), "op 'Reshape' has no kernel: it is a view"),
    (kernel().replace("'mine'", "'gemm'"), "a kernel of this name exists already, a part of meta-infer"),
    (kernel().replace("'mine'", "'My Gemm'"), "cannot be called so"),
    (kernel(link="('libnone.a',)"), "libnone.a, which cannot be read: No such file"),
    (kernel(layouts="{'x': 8}"), "knows no operand 'x'"),
    (kernel(pack="{'out0': None}"), "can pack inputs only"),
    (kernel(knobs="{'rows': ()}"), "knob 'rows' needs a tuple of whole numbers"),
    (kernel(needs="('avx9',)"), "needs 'avx9'"),
    (kernel(dtypes="('float',)"), "knows no dtype 'float'"),
    (kernel(math="('gamma',)"), "knows no function 'gamma'"),
    (kernel(grain="0"), "has chunks of 0 items"),
    (kernel(layouts="{'out0': 8}"), "takes an epilogue only where it makes a plain output"),
    ("KERNELS = (c_kernel('mine'),)", "missing 2 required keyword-only arguments"),
])
def test_a_description_that_is_wrong(text: str, problem: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        load_custom([path])
    assert problem in str(caught.value) and str(path) in str(caught.value)


def test_two_files_with_one_name(tmp_path: Path) -> None:
    one, other = write(tmp_path, kernel()), write(tmp_path, kernel(), "other.py")
    load_custom([one, one])
    load_custom([other])                              # the kernels of a build are its own
    with pytest.raises(UsageError, match="exists already, in .*mine.py"):
        load_custom([one, other])


@pytest.mark.parametrize(("argument", "what"), [
    ("fits", "`fits` failed for node 'fc1' .MatMul.: ZeroDivisionError"),
    ("cost", "`cost` failed for node 'fc1' .MatMul.: ZeroDivisionError"),
    ("scratch_bytes", "`scratch_bytes` failed"), ("allows", "`allows` failed"), ("flops", "`flops` failed"),
    ("items", "`items` failed"),
])
def test_a_function_that_fails(argument: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=what):
        planned(tmp_path, kernel(**{argument: "lambda *given: 1 // 0"}), pin=("fc1.algo=mine",))


@pytest.mark.parametrize(("source", "problem"), [
    ("GOOD.replace('sum +=', 'sum -=')", "differs from the definition in numpy by 2 "),
    ("GOOD.replace('r < end', 'r < end - 1')", "differs from the definition in numpy by"),
    ("'*(volatile int*)0 = 1;'", "does not run, alone on random inputs: .*SIGSEGV"),
])
def test_a_kernel_that_is_wrong(source: str, problem: str, tmp_path: Path) -> None:
    file = write(tmp_path, kernel(source=source))
    with pytest.raises(VerificationError, match=problem) as caught:
        build(saved_model(tmp_path), custom=(file,), pin=("fc2.algo=mine",), output=tmp_path / "a.bin")
    assert "kernel mine, node 'fc2' (MatMul)" in str(caught.value) and "--exclude mine" in caught.value.hint
    assert not (tmp_path / "a.bin").exists()


def test_text_that_does_not_compile(tmp_path: Path) -> None:
    file = write(tmp_path, kernel(source="'int64_t i = 0;\\nout0[i] = in_0[i];'"))
    with pytest.raises(ToolchainError, match=r"kernel mine:2:\d+: error: .*in_0") as caught:
        build(saved_model(tmp_path), custom=(file,), pin=("fc1.algo=mine",), output=tmp_path / "a.bin")
    assert str(file) in caught.value.hint


def test_a_library(tmp_path: Path) -> None:
    """An archive is linked into the package; one that is not whole is an error that names what is missing."""
    compiler = find_compiler()
    source = tmp_path / "vendor.c"
    source.write_text("""
        #ifdef BROKEN
        float vendor_scale(void);
        #else
        static float vendor_scale(void) { return 1.0f; }
        #endif
        void vendor_row(long k, long n, const float* a, const float* b, float* c) {
            for (long j = 0; j < n; j++) {
                c[j] = 0;
                for (long i = 0; i < k; i++) c[j] += vendor_scale() * a[i] * b[i * n + j];
            }
        }""")
    for name, flags in (("good", ()), ("bad", ("-DBROKEN",))):
        subprocess.run([*compiler.command, *flags, "-O1", "-fPIC", "-ffreestanding", "-fno-sanitize=all",
                        "-fno-stack-protector", "-c", str(source), "-o", str(tmp_path / f"{name}.o")], check=True)
    text = "for (int64_t r = begin; r < end; r++) vendor_row(in1_d0, in1_d1, in0 + r * in1_d0, in1, out0 + r * in1_d1);"
    head = "void vendor_row(long k, long n, const float* a, const float* b, float* c);"

    def built(name: str) -> None:
        file = write(tmp_path, kernel(source=repr(text), head=repr(head), link=f"('{name}.o',)"))
        build(saved_model(tmp_path), custom=(file,), pin=("fc*.algo=mine",), output=tmp_path / "a.bin")

    built("good")
    with pytest.raises(ToolchainError, match="vendor_scale"):
        built("bad")


def test_blocked_layouts_and_scratch(tmp_path: Path) -> None:
    """A depthwise convolution 1x1 on channels in blocks of eight, through memory of its own."""
    text = """
KERNELS = (c_kernel('scaled', op='Conv', layouts={'in0': 8, 'out0': 8}, pack={'in1': lambda w, knobs: w.reshape(-1)},
    items=lambda i, o, attrs: o[0].shape[0] * o[0].shape[1] // 8, scratch_bytes=64,
    fits=lambda g, p: g.anchor.attrs['group'] == g.in_value(0).shape[1] and g.in_value(1).shape[2:] == (1, 1)
                      and len(g.anchor.inputs) == 2,
    source='''
        float* const w = (float*)scratch;
        for (int64_t i = begin; i < end; i++) {
            const int64_t block = i % (in0_d1 / 8), plane = in0_d2 * in0_d3;
            for (int64_t c = 0; c < 8; c++) w[c] = in1[block * 8 + c];
            for (int64_t p = 0; p < plane; p++)
                for (int64_t c = 0; c < 8; c++) out0[(i * plane + p) * 8 + c] = in0[(i * plane + p) * 8 + c] * w[c];
        }'''),)
"""
    def model(channels: int) -> Path:
        w = np.random.default_rng(1).standard_normal((channels, 1, 1, 1)).astype(np.float32)
        graph = helper.make_graph(
            [helper.make_node("Conv", ["x", "w"], ["y"], "scale", group=channels)], "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, channels, 5, 3])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, channels, 5, 3])],
            [numpy_helper.from_array(w, "w")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
                  tmp_path / "conv.onnx")
        return tmp_path / "conv.onnx"

    file = write(tmp_path, text)
    result = build(model(16), custom=(file,), output=tmp_path / "a.bin", pin=("scale.algo=scaled",))
    assert [row["kernel"] for row in result.report["groups"]] == ["scaled"]
    assert [row["in"][0] for row in result.report["groups"]] == ["b8@1"]
    with pytest.raises(UsageError, match="scale.algo=scaled"):                             # no multiple of the block
        build(model(12), custom=(file,), stop_after="plan", pin=("scale.algo=scaled",))


def test_an_epilogue_of_several_operands(tmp_path: Path) -> None:
    """Rows of several axes, a residual, a vector and a number for each row; the last lanes of a row are partial."""
    rng = np.random.default_rng(3)
    tensors = {"w": rng.standard_normal((19, 13)), "s": rng.standard_normal(13), "t": rng.standard_normal((2, 1, 1))}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"], "fc"), helper.make_node("Add", ["m", "r"], ["a"], "add"),
             helper.make_node("Mul", ["a", "s"], ["b"], "scale"), helper.make_node("Add", ["b", "t"], ["c"], "shift"),
             helper.make_node("Tanh", ["c"], ["y"], "tanh")]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, "n", 19]),
                                             helper.make_tensor_value_info("r", TensorProto.FLOAT, [2, "n", 13])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, "n", 13])],
                              [numpy_helper.from_array(a.astype(np.float32), n) for n, a in tensors.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "n.onnx")
    result = build(tmp_path / "n.onnx", custom=(write(tmp_path, kernel(cost="1.0")),), output=tmp_path / "a.bin",
                   shape=("x=2,1..40,19", "r=2,1..40,13"))
    assert [(row["ops"], row["kernel"]) for row in result.report["groups"]] == [("MatMul+Add+Mul+Add+Tanh", "mine")]
    assert all(one.passed for one in result.comparisons)
